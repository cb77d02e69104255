//! The deterministic part of a disk's service time: a line over sectors and seeks, fitted by
//! [`super::regression`].
//!
//! A request of n sectors at distance d takes a + b n + seek(d), with a and b by operation. The seek is a sum of
//! measured drives' curves ([`super::seek_curves`]), each with a factor of its own. The rotation of the platter is not
//! in the line; it is in the residuals.

use traces::{Operation, Sectors};

use crate::twin::device::disk::seek_curves::{Distance, SeekCurve};

/// The number of operations that move data.
pub(crate) const OPERATIONS: usize = Operation::MOVING_DATA;
/// Below this seek distance in sectors (1 MiB) the platter decides the time more than the arm. Set by judgement; not
/// varied.
pub(crate) const NEAR_SECTORS_BOUND: u64 = 2048;
/// At most this many destaged runs are separated from the time of the read behind them. Set by judgement; not varied.
pub(crate) const DESTAGED_RUNS_MAX: usize = 2;

/// A measured service time with the values that it depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) operation: usize,
    pub(crate) sectors: f64,
    /// The seek distance: sectors from the end of the request served before.
    pub(crate) distance: u64,
    /// Whether the device was idle before the request.
    pub(crate) idle: bool,
    /// Whether the request is a read that continues one of the VM's latest reads.
    pub(crate) sequential: bool,
    /// Whether the request is a durable write.
    pub(crate) durable: bool,
    /// The service time; seconds.
    pub(crate) time: f64,
    /// The runs that the write cache destaged within this time, before the request: sectors and seek distance of each.
    pub(crate) destaged: [Option<(f64, u64)>; DESTAGED_RUNS_MAX],
}

#[cfg(test)]
impl Sample {
    /// A random read of 8 sectors at this seek distance, by a busy device.
    pub(crate) fn read(distance: u64, ms: f64) -> Sample {
        Sample {
            operation: 0,
            sectors: 8.0,
            distance,
            idle: false,
            sequential: false,
            durable: false,
            time: ms * 1e-3,
            destaged: [None; DESTAGED_RUNS_MAX],
        }
    }
}

/// The fitted line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) capacity: Sectors,
    /// Seconds, and seconds for each sector, by operation.
    pub(crate) base: [[f64; 2]; OPERATIONS],
    /// Seek curves with the factors of their near and their far part.
    pub(super) seeks: Vec<(SeekCurve, [f64; 2])>,
    /// The distance at which the far part begins; a share of the capacity.
    pub(super) reach: f64,
    /// Whether the arm moves, by operation.
    pub(super) moves: [bool; OPERATIONS],
    /// The time of a revolution of the platter; seconds.
    pub(crate) turn: Option<f64>,
    /// The extra time of a request to an idle device: the round trip between the tracing point and the device; seconds.
    pub(crate) delay: f64,
    /// The extra time of a destaged run over a read, both without their sectors; seconds.
    pub(crate) settle: f64,
    /// The time for each sector of a destaged run; seconds.
    pub(super) destage_sector_s: f64,
}

impl Line {
    /// The service time in seconds of a request at this seek distance.
    pub(crate) fn time(&self, operation: usize, sectors: f64, distance: u64) -> f64 {
        let [fixed, per_sector] = self.base[operation];
        let seek = if self.moves[operation] { self.seek(distance) } else { 0.0 };
        fixed + per_sector * sectors + seek
    }

    /// The seek time in seconds.
    pub(crate) fn seek(&self, distance: u64) -> f64 {
        let distance = Distance::of(distance as f64 / self.capacity.count() as f64, self.reach);
        let of = |(curve, factors): &(SeekCurve, [f64; 2])| {
            let [near, far] = curve.parts(&distance);
            near * factors[0] + far * factors[1]
        };
        self.seeks.iter().map(of).sum()
    }

    /// The time in seconds in which a run of sectors is destaged from the write cache to the platter.
    pub(crate) fn destage(&self, sectors: f64, distance: u64) -> f64 {
        self.time(0, 0.0, distance) + self.settle + self.destage_sector_s * sectors
    }

    /// Whether a write cache acknowledges writes.
    pub(crate) fn caches(&self) -> bool {
        !self.moves[1]
    }

    /// The excess of a sample over the line; seconds. If runs were destaged within its time, the excess is divided by
    /// the root of the number of accesses, as for independent accesses of equal variance.
    pub(crate) fn residual(&self, sample: &Sample) -> f64 {
        let delay = if sample.idle { self.delay } else { 0.0 };
        let destaged = || sample.destaged.iter().flatten();
        let before: f64 = destaged().map(|&(sectors, distance)| self.destage(sectors, distance)).sum();
        let longer = sample.time - delay - before - self.time(sample.operation, sample.sectors, sample.distance);
        longer / ((1 + destaged().count()) as f64).sqrt()
    }
}
