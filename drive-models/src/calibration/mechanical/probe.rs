//! The measurements that all others are made of. They are how far the platter turns between the ends of two sectors,
//! how long the heads need from one to another, and the time after the last sector.

use traces::{Lba, Nanos, Sectors, Timestamp};

use crate::calibration::{DeviceError, MeasuredDevice};

/// Halvings of a turn until the latest moment is known: to 1/2¹⁶ turn, 61 ns of 4 ms.
const HALVINGS: u32 = 16;
/// Answers of which the middle one counts, so that one disturbance does not.
const REPEATS: usize = 3;

/// A device whose period is known.
pub(super) struct Prober<'d> {
    device: &'d mut dyn MeasuredDevice,
    /// One turn in ns.
    pub period_ns: f64,
    /// Sectors of a read.
    pub granule: u64,
    /// Sectors of the device.
    pub capacity: u64,
}

impl<'d> Prober<'d> {
    /// A prober for `device`.
    pub fn new(device: &'d mut dyn MeasuredDevice, period_ns: f64) -> Prober<'d> {
        let (granule, capacity) = (device.granule().count().max(1), device.capacity().count());
        Prober { device, period_ns, granule, capacity: capacity / granule * granule }
    }

    /// The last address that can be read.
    pub fn last(&self) -> u64 {
        self.capacity.saturating_sub(self.granule)
    }

    /// `lbn` moved up to where a read may begin.
    pub fn aligned(&self, lbn: u64) -> u64 {
        lbn.next_multiple_of(self.granule).min(self.last())
    }

    /// Reads at `lbn`: when it was issued and when it completed.
    fn read(&mut self, at: Timestamp, lbn: u64) -> Result<(Timestamp, Timestamp), DeviceError> {
        self.read_of(at, lbn.min(self.last()), self.granule)
    }

    /// The same with a length.
    fn read_of(&mut self, at: Timestamp, lbn: u64, sectors: u64) -> Result<(Timestamp, Timestamp), DeviceError> {
        let measured = self.device.read(at, Lba::new(lbn), Sectors::new(sectors))?;
        Ok((measured.issued, measured.issued.saturating_add(measured.service)))
    }

    /// The times of completion of reads one after another.
    pub fn sequence(&mut self, lbns: impl Iterator<Item = u64>) -> Result<Vec<Timestamp>, DeviceError> {
        lbns.map(|lbn| Ok(self.read(Timestamp::ZERO, lbn)?.1)).collect()
    }

    /// A span as a part of a turn, from 0 to below 1.
    pub fn phase_of(&self, earlier: Timestamp, later: Timestamp) -> f64 {
        let turns = later.saturating_since(earlier).as_ns() as f64 / self.period_ns;
        turns - turns.floor()
    }

    /// How far the platter turns from the end of the read at `from` to that of the one at `to`, from 0 to below 1 turn.
    /// The result is the middle of three answers, counted around the first.
    pub fn turned(&mut self, from: u64, to: u64) -> Result<f64, DeviceError> {
        let mut answers = [0.0; REPEATS];
        for answer in &mut answers {
            let ends = self.sequence([from, to].into_iter())?;
            *answer = self.phase_of(ends[0], ends[1]);
        }
        let first = answers[0];
        let mut around = answers.map(|answer| signed(answer - first));
        around.sort_unstable_by(f64::total_cmp);
        Ok(wrapped(first + around[REPEATS / 2]))
    }

    /// How much later in ns a read of `sectors` from `lbn` on completes than one of its last granule alone. Both end on
    /// the same sector, so the difference passes over the bus behind it. The middle of three answers.
    pub fn trailing(&mut self, lbn: u64, sectors: u64) -> Result<f64, DeviceError> {
        let mut answers = [0.0; REPEATS];
        for answer in &mut answers {
            let (_, short) = self.read(Timestamp::ZERO, lbn + sectors - self.granule)?;
            let (_, long) = self.read_of(Timestamp::ZERO, lbn, sectors)?;
            *answer = signed(self.phase_of(short, long)) * self.period_ns;
        }
        answers.sort_unstable_by(f64::total_cmp);
        Ok(answers[REPEATS / 2])
    }

    /// The least time in ns that a read at `to` takes when the one before was at `from`: overhead, positioning and
    /// transfer, without any wait for the platter. The middle of three answers.
    pub fn reach(&mut self, from: u64, to: u64) -> Result<f64, DeviceError> {
        let mut answers = [0.0; REPEATS];
        for answer in &mut answers {
            *answer = self.reach_once(from, to)?;
        }
        answers.sort_unstable_by(f64::total_cmp);
        Ok(answers[REPEATS / 2])
    }

    /// The end of `to` comes at one phase, so the pause before its read changes nothing until it is too long, and then
    /// costs a whole turn. The longest pause that costs nothing is found by halving.
    fn reach_once(&mut self, from: u64, to: u64) -> Result<f64, DeviceError> {
        let (_, earliest) = self.after(from, to, 0.0)?;
        let (mut low, mut high) = (0.0, self.period_ns);
        let mut end = earliest;
        for _ in 0..HALVINGS {
            let (paused, ended) = self.after(from, to, (low + high) / 2.0)?;
            if ended < end - self.period_ns / 2.0 {
                // The first read had been disturbed and came a turn late.
                end = ended;
                high = self.period_ns;
                low = paused;
            } else if ended > end + self.period_ns / 2.0 {
                high = paused.min(high);
            } else {
                low = paused.max(low);
            }
            if high <= low {
                break;
            }
        }
        Ok(end - (low + high) / 2.0)
    }

    /// Reads `from`, pauses, reads `to`: how long the pause really was, and how long after the first completion the
    /// second came, in ns.
    fn after(&mut self, from: u64, to: u64, pause_ns: f64) -> Result<(f64, f64), DeviceError> {
        let (_, begin) = self.read(Timestamp::ZERO, from)?;
        let (issued, ended) = self.read(begin.saturating_add(Nanos::from_ns(pause_ns.round() as u64)), to)?;
        Ok((issued.saturating_since(begin).as_ns() as f64, ended.saturating_since(begin).as_ns() as f64))
    }
}

/// A number of turns as the same angle from 0 to below 1.
pub(super) fn wrapped(turns: f64) -> f64 {
    let part = turns - turns.floor();
    if part < 1.0 { part } else { 0.0 }
}

/// A number of turns as the same angle from −0.5 to 0.5.
pub(super) fn signed(turns: f64) -> f64 {
    turns - turns.round()
}
