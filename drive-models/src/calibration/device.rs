//! The device that is calibrated: it reads where and when it is asked to, and returns how long the read took.

use traces::{Lba, Operation, Request, RequestId, Sectors, Timestamp};

use super::Measurement;
use crate::drive::DriveModel;

/// Why a device could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// A read failed.
    #[error("reading {sectors} sectors at sector {lba}: {problem}")]
    Read {
        /// The first sector.
        lba: u64,
        /// How many.
        sectors: u64,
        /// What the operating system says.
        problem: String,
    },
    /// The user stopped it.
    #[error("interrupted")]
    Interrupted,
}

/// A device that serves one read at a time.
pub trait MeasuredDevice {
    /// Its capacity.
    fn capacity(&self) -> Sectors;

    /// The shortest read that it allows; addresses and lengths are multiples of it.
    fn granule(&self) -> Sectors;

    /// Its clock, which runs on by itself or with each read.
    fn now(&self) -> Timestamp;

    /// Waits until `at` (not at all if that has passed), reads, and says when it was issued and how long it took.
    ///
    /// # Errors
    /// What the device or the user says.
    fn read(&mut self, at: Timestamp, lba: Lba, sectors: Sectors) -> Result<Measurement, DeviceError>;
}

/// A drive model on a simulated clock.
pub struct SimulatedDevice {
    drive: Box<dyn DriveModel>,
    now: Timestamp,
}

impl SimulatedDevice {
    /// The drive, idle at time zero.
    pub fn new(drive: Box<dyn DriveModel>) -> SimulatedDevice {
        SimulatedDevice { drive, now: Timestamp::ZERO }
    }
}

impl MeasuredDevice for SimulatedDevice {
    fn capacity(&self) -> Sectors {
        self.drive.capacity()
    }

    fn granule(&self) -> Sectors {
        Sectors::new(1)
    }

    fn now(&self) -> Timestamp {
        self.now
    }

    fn read(&mut self, at: Timestamp, lba: Lba, sectors: Sectors) -> Result<Measurement, DeviceError> {
        let issued = self.now.max(at);
        let request = Request::new(issued, Operation::Read, lba, sectors);
        let failed = |problem: &str| DeviceError::Read {
            lba: lba.sector(),
            sectors: sectors.count(),
            problem: problem.to_owned(),
        };
        if request.end().sector() > self.capacity().count() {
            return Err(failed("it ends beyond the drive"));
        }
        self.drive.submit(issued, RequestId(0), &request);
        let mut completions = Vec::new();
        while completions.is_empty() {
            let next = self.drive.next_event().ok_or_else(|| failed("the model never completes it"))?;
            self.drive.advance(next, &mut completions);
        }
        self.now = completions.iter().map(|completion| completion.finished).max().unwrap_or(issued);
        Ok(Measurement { request, issued, service: self.now.saturating_since(issued) })
    }
}
