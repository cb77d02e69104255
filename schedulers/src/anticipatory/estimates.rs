//! Estimates of the behaviour of processes, and of the next request of the awaited one.

use traces::{Nanos, RequestId, Timestamp};

use super::{Anticipation, Anticipatory, Held, SYNC, TICK};

/// Think times count as at most so long (one tick less than `MAX_THINKTIME`).
const THINK_MAX: u64 = 19 * TICK;
/// The distance in sectors that counts as near at first; it doubles with every tick of anticipation.
const NEAR: u64 = 8192;
/// For how many ticks it does.
const NEAR_TICKS: u64 = 20;
/// Certainty, in the fixed point of the exit estimates.
pub(super) const CERTAIN: u64 = 256;

/// Why anticipation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// A request is as good as the anticipated one.
    AsGood,
    /// There is no use in it any longer.
    NoUse,
}

/// A mean of which each sample counts an eighth, and that begins at zero.
#[derive(Debug, Default)]
pub(super) struct DecayedTotal(u64);

impl DecayedTotal {
    fn add(&mut self, value: u64) {
        self.0 = self.0.saturating_mul(7).saturating_add(value.saturating_mul(256)) / 8;
    }

    fn mean(&self) -> u64 {
        self.0 / 256
    }
}

fn raised(probability: u64) -> u64 {
    (7 * probability + CERTAIN) / 8
}

fn lowered(probability: u64) -> u64 {
    7 * probability / 8
}

impl Anticipatory {
    pub(super) fn anticipated_in_vain(&mut self) {
        self.anticipation = Anticipation::Finished;
        self.was_in_vain = true;
        if let Some(process) = self.expected {
            if self.known[process].think.is_new() {
                self.exit_probability = raised(self.exit_probability);
            }
            if self.has_exited(process) {
                self.exit_alone = raised(self.exit_alone);
            }
        }
    }

    pub(super) fn has_exited(&self, process: usize) -> bool {
        let silent = self.now.saturating_since(self.known[process].last_heard_of);
        self.presumed_exit > Nanos::ZERO && silent >= self.presumed_exit
    }

    /// From a sync request follow the think time of its process and its seek distance (`as_update_iohist`).
    /// `process` need not be its own: one that goes on in place of another counts for that.
    pub(super) fn learn(&mut self, process: usize, id: RequestId) {
        let Held { class, sector, end, .. } = self.held[id];
        if class != SYNC {
            return;
        }
        let known = &mut self.known[process];
        if known.has_begun || known.last_completion.is_some() {
            let is_idle = known.waiting + known.decided == 0;
            let thought = known.last_completion.filter(|_| is_idle).map(|last| self.now.saturating_since(last).as_ns());
            let think = thought.unwrap_or(0).min(THINK_MAX);
            if known.think.is_new() {
                self.think_of_new.add(think);
                self.exit_probability = lowered(self.exit_probability);
            }
            known.think.add_time(think);
            let distance = known.last_end.abs_diff(sector);
            if known.seek.is_new() {
                self.seek_of_new.add(distance);
            }
            known.seek.add_distance(distance);
        }
        known.last_end = end;
        known.has_begun = true;
    }

    /// Whether a request of another process is as near as one of the expected process is likely to be
    /// (`as_close_req`).
    pub(super) fn is_near(&self, process: usize, sector: u64) -> bool {
        let head = self.classes[self.batch].last_sector;
        let waited = match self.expected_since {
            Some(since) if self.anticipation != Anticipation::Off => self.now.saturating_since(since),
            _ => Nanos::ZERO,
        };
        let ticks = waited.as_ns() / TICK;
        if ticks > 0 && (ticks > NEAR_TICKS || waited > self.antic_expire) {
            return true;
        }
        let near = NEAR << ticks;
        if head <= sector.saturating_add(near / 2) && sector <= head.saturating_add(near) {
            return true;
        }
        let seek = &self.known[process].seek;
        let expected = if seek.is_new() { self.seek_of_new.mean() } else { seek.mean() };
        expected > head.abs_diff(sector)
    }

    /// Why anticipation ends with this request, if it does (`as_can_break_anticipation`).
    pub(super) fn ends_anticipation(&mut self, expected: usize, candidate: Option<RequestId>) -> Option<End> {
        if candidate.is_some_and(|id| self.held[id].process == expected) {
            return Some(End::AsGood);
        }
        if self.expected_since.is_some_and(|since| self.now.saturating_since(since) >= self.antic_expire) {
            return Some(End::NoUse);
        }
        if self.known[expected].waiting + self.known[expected].decided > 0 {
            return Some(End::NoUse);
        }
        let has_exited = self.has_exited(expected);
        let is_new = self.known[expected].think.is_new();
        if has_exited && is_new {
            self.exit_probability = raised(self.exit_probability);
        }
        if let Some(id) = candidate.filter(|&id| self.held[id].class == SYNC)
            && self.is_near(expected, self.held[id].sector)
        {
            if has_exited {
                self.exit_alone = lowered(self.exit_alone);
            }
            self.learn(expected, id);
            return Some(End::AsGood);
        }
        let too_long = if has_exited && self.exit_alone > CERTAIN / 2 {
            true
        } else if is_new {
            self.think_of_new.mean() > self.antic_expire.as_ns()
                || self.exit_probability * self.exit_alone > CERTAIN / 2 * CERTAIN
        } else {
            self.known[expected].think.mean() > self.antic_expire.as_ns()
        };
        too_long.then_some(End::NoUse)
    }

    /// Whether to wait rather than send the candidate.
    pub(super) fn anticipates(&mut self, candidate: Option<RequestId>) -> bool {
        let Some(expected) = self.expected.filter(|_| self.anticipation != Anticipation::Finished) else {
            return false;
        };
        self.ends_anticipation(expected, candidate).is_none()
    }

    pub(super) fn anticipate_from(&mut self, completion: Timestamp) {
        self.anticipation = Anticipation::Until(completion.saturating_add(self.antic_expire));
    }
}
