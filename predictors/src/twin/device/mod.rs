//! The device that VMs share, as isolated traces show it.

pub(crate) mod array;
pub(crate) mod concurrent;
pub(crate) mod controller_cache;
pub(crate) mod disk;
pub(crate) mod durable_first;
pub(crate) mod empirical;
pub(crate) mod evidence;
pub(crate) mod latest_reads;
pub(crate) mod policy;

use std::ops::Range;

use drive_models::array::Contents;
use drive_models::{DriveModel, SingleServer};
use traces::{Nanos, Timestamp};

use self::array::FittedArray;
use self::array::read_cache::Filling;
use self::concurrent::{ConcurrentModel, FittedConcurrent};
use self::controller_cache::{ControllerCache, WithControllerCache};
use self::disk::{DiskModel, FittedDisk};
use crate::isolated_trace::IsolatedTrace;

/// The device as the recordings show it.
pub(crate) enum FittedDevice {
    /// It serves one request after another.
    Disk(FittedDisk),
    /// It has members by address.
    Array(FittedArray),
    /// Several at once, or in no order that is known.
    Concurrent(FittedConcurrent),
}

impl FittedDevice {
    /// Between the place of the recording and the device, as far as it is not in its times.
    pub(crate) fn delay(&self) -> Nanos {
        match self {
            FittedDevice::Disk(fitted) => fitted.delay,
            FittedDevice::Array(_) | FittedDevice::Concurrent(_) => Nanos::ZERO,
        }
    }

    /// How many requests it takes at once.
    pub(crate) fn depth(&self) -> u32 {
        match self {
            FittedDevice::Disk(_) => 1,
            FittedDevice::Array(fitted) => fitted.depth,
            FittedDevice::Concurrent(lines) => lines.depth,
        }
    }

    /// Whether it serves one request after another; then it has no cache before it.
    pub(crate) fn is_disk(&self) -> bool {
        matches!(self, FittedDevice::Disk(_))
    }

    /// What its read cache holds as machines go on from the beginning of their `traces`, if that is known.
    pub(crate) fn filling<'a>(&self, traces: &'a [IsolatedTrace]) -> Option<Filling<'a>> {
        match self {
            FittedDevice::Array(fitted) => fitted.filling(traces),
            FittedDevice::Disk(_) | FittedDevice::Concurrent(_) => None,
        }
    }

    /// Serving `vms`, of the recordings it was fitted to, its cache as full of each as at a time of its recording, and with those `contents`.
    pub(crate) fn drive(
        &self,
        vms: Range<usize>,
        full_as: &[Timestamp],
        contents: Option<Contents>,
        seed: u64,
    ) -> Box<dyn DriveModel> {
        let full = |caches: &[ControllerCache]| caches.iter().zip(full_as).map(|(cache, at)| cache.at(*at)).collect();
        match self {
            FittedDevice::Disk(fitted) => Box::new(SingleServer::new(DiskModel::new(fitted.clone(), vms, seed))),
            FittedDevice::Array(fitted) => {
                let array = fitted.array(vms.len(), contents, seed);
                Box::new(WithControllerCache::new(
                    array,
                    full(&fitted.controller_caches[vms]),
                    fitted.has_read_cache(),
                    seed,
                ))
            }
            FittedDevice::Concurrent(lines) => {
                let controller_caches = full(&lines.controller_caches[vms.clone()]);
                Box::new(WithControllerCache::new(
                    ConcurrentModel::new(lines, vms, seed),
                    controller_caches,
                    false,
                    seed,
                ))
            }
        }
    }
}

/// The device as one that serves one request after another, if times follow a line.
pub(crate) fn fit_disk(traces: &[IsolatedTrace]) -> Option<FittedDisk> {
    disk::fit(traces, disk::capacity(traces)?)
}
