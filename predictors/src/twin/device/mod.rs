//! Infers the device that VMs share from their isolated traces, and builds a drive model of it.
//!
//! ```text
//!               isolated traces of VMs that ran alone on the device
//!                                    |
//!                    evidence        selects the traces to infer from
//!                                    |
//!           +------------------------+------------------------+
//!         disk/                    policy/              durable_first
//!   one request at a time     dispatch order:        do durable writes
//!                             reads or writes        bypass the queue?
//!           |
//!           |  if the order is unknown, or no disk fits
//!           +---> array/        members by address; each is a disk
//!           +---> concurrent    device time as a line over the requests in flight
//!                    |
//!         controller_cache/     stands before array and concurrent, never before a disk
//!
//!   shared parts: latest_reads (sequential streams), empirical (measured times to draw from)
//! ```
//!
//! The order of inference:
//!
//! 1. `evidence` fits a `disk` to all traces, infers the dispatch order with `policy`, and leaves out traces that
//!    contradict the VMs' own.
//! 2. `durable_first` decides whether durable writes bypass the queue.
//! 3. The caller (`twin/calibration.rs`) chooses the device. If the order is known, it is the disk, with a write cache
//!    or without. If the order is unknown or no disk could be fitted, it is an `array` if the traces show its members.
//!    Otherwise it is the disk or a `concurrent` device, whichever simulates the VMs alone closer to their traces. A
//!    device that serves several reads at once is no disk.
//!
//! Each fit yields a variant of [`FittedDevice`], and [`FittedDevice::drive`] makes the drive model for the simulation.
//! Flushes and discards are not modelled here: in the simulation they take the time that they took in the trace.

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

/// The device that was fitted to the isolated traces.
pub(crate) enum FittedDevice {
    /// The device serves one request after another.
    Disk(FittedDisk),
    /// The device is an array whose members are chosen by address.
    Array(FittedArray),
    /// The device serves several requests at once, or in an unknown order.
    Concurrent(FittedConcurrent),
}

impl FittedDevice {
    /// The round trip between the tracing point and the device, where the fitted times do not already include it.
    pub(crate) fn delay(&self) -> Nanos {
        match self {
            FittedDevice::Disk(fitted) => fitted.delay,
            FittedDevice::Array(_) | FittedDevice::Concurrent(_) => Nanos::ZERO,
        }
    }

    /// The most requests that the device accepts at once.
    pub(crate) fn depth(&self) -> u32 {
        match self {
            FittedDevice::Disk(_) => 1,
            FittedDevice::Array(fitted) => fitted.depth,
            FittedDevice::Concurrent(fitted) => fitted.depth,
        }
    }

    /// Whether the device serves one request after another. Then no controller cache stands before it.
    pub(crate) fn is_disk(&self) -> bool {
        matches!(self, FittedDevice::Disk(_))
    }

    /// Follows the contents of the device's read cache from the beginning of the VMs' `traces`; `None` if it has no
    /// such cache.
    pub(crate) fn filling<'a>(&self, traces: &'a [IsolatedTrace]) -> Option<Filling<'a>> {
        match self {
            FittedDevice::Array(fitted) => fitted.filling(traces),
            FittedDevice::Disk(_) | FittedDevice::Concurrent(_) => None,
        }
    }

    /// The drive model that serves `vms`, given as the numbers of their traces among those fitted. For each VM the
    /// controller cache answers as it did at the time `full_as` of the VM's trace. The read cache starts with
    /// `contents`.
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
            FittedDevice::Concurrent(fitted) => {
                let controller_caches = full(&fitted.controller_caches[vms.clone()]);
                Box::new(WithControllerCache::new(
                    ConcurrentModel::new(fitted, vms, seed),
                    controller_caches,
                    false,
                    seed,
                ))
            }
        }
    }
}

/// Fits the device as a disk without a write cache; `None` if the traces are too few or too short for the fit.
pub(crate) fn fit_disk(traces: &[IsolatedTrace]) -> Option<FittedDisk> {
    disk::fit(traces, disk::capacity(traces)?)
}
