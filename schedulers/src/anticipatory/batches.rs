//! Batches: when one ends, which is next and how many requests it has.

use traces::{Nanos, RequestId};

use super::rules::EXPIRED;
use super::{ASYNC, Anticipation, Anticipatory, SYNC};

impl Anticipatory {
    /// The head of a fifo if it has expired; looked for once in its class's expiry time, because to
    /// serve many that have expired would be nothing but seeks (`as_fifo_expired`).
    pub(super) fn expired(&mut self, class: usize) -> Option<RequestId> {
        let waiting = &mut self.classes[class];
        if self.now.saturating_since(waiting.fifo_checked) < self.fifo_expire[class] {
            return None;
        }
        waiting.fifo_checked = self.now;
        waiting.fifo.first().filter(|&oldest| self.now > self.held[oldest].expires)
    }

    pub(super) fn batch_is_over(&self) -> bool {
        let is_over = self.now > self.batch_expires || (self.batch == ASYNC && self.writes_left == 0);
        is_over && !self.old_batch_ends && !self.awaits_first_sync
    }

    /// The write batch before took longer or shorter than it should (`update_write_batch`).
    pub(super) fn tune_write_batch(&mut self) {
        let aim = i128::from(self.batch_expire[ASYNC].as_ns());
        let took = (i128::from(self.now.as_ns()) - i128::from(self.batch_expires.as_ns()) + aim).max(0);
        if took > aim && !self.write_batch_idled {
            self.write_batch = if took > 3 * aim { self.write_batch / 2 } else { self.write_batch - 1 };
        } else if took < aim && self.writes_left == 0 {
            self.write_batch = if aim > 3 * took { self.write_batch.saturating_mul(2) } else { self.write_batch + 1 };
        }
        self.write_batch = self.write_batch.max(1);
    }

    /// The next request to go, decided on (`as_dispatch_request`).
    pub(super) fn choose(&mut self) -> Option<RequestId> {
        let [writes, reads] = [ASYNC, SYNC].map(|class| !self.classes[class].fifo.is_empty());
        if self.batch == ASYNC && !reads && (self.writes_left == 0 || !writes) {
            self.write_batch_idled = true;
        }
        if !(reads || writes) || self.is_anticipating() || self.old_batch_ends {
            return None;
        }
        let mut chosen = None;
        if !(reads && writes && self.batch_is_over()) {
            chosen = self.classes[self.batch].next;
            if self.batch == SYNC && self.antic_expire > Nanos::ZERO {
                if let Some(expired) = self.expired(SYNC) {
                    self.decide(expired, EXPIRED);
                    return Some(expired);
                }
                if self.anticipates(chosen) {
                    match self.expected_since {
                        Some(since) => self.anticipate_from(since),
                        None => self.anticipation = Anticipation::AwaitsCompletion,
                    }
                    return None;
                }
            }
            if chosen.is_some() && reads && !writes {
                self.batch_expires = self.now.saturating_add(self.batch_expire[SYNC]);
            }
        }
        let chosen = chosen.or_else(|| self.change_batch(reads, writes))?;
        let expired = self.expired(self.batch);
        let chosen = expired.unwrap_or(chosen);
        if self.old_batch_ends {
            if self.in_flight > 0 {
                return None;
            }
            self.old_batch_ends = false;
            match self.batch {
                SYNC => self.awaits_first_sync = true,
                _ => self.batch_expires = self.now.saturating_add(self.batch_expire[ASYNC]),
            }
        }
        self.decide(chosen, if expired.is_some() { EXPIRED } else { self.rule_of(chosen) });
        Some(chosen)
    }

    /// A new batch: of the other class if that has requests. It begins with the oldest.
    pub(super) fn change_batch(&mut self, reads: bool, writes: bool) -> Option<RequestId> {
        let class = if reads && !(writes && self.batch == SYNC) { SYNC } else { ASYNC };
        self.old_batch_ends |= class != self.batch;
        if class == ASYNC {
            self.awaits_first_sync &= self.batch == ASYNC;
            self.writes_left = self.write_batch;
            self.write_batch_idled = false;
        }
        self.batch = class;
        self.begins_batch = true;
        self.classes[class].fifo_checked = self.now;
        self.classes[class].fifo.first()
    }

    /// A request that was decided on has completed or is gone. If it was the last of the old batch, the
    /// new one begins.
    pub(super) fn left_flight(&mut self) {
        self.in_flight -= 1;
        if self.old_batch_ends && self.in_flight == 0 {
            self.old_batch_ends = false;
            self.batch_expires = self.now.saturating_add(self.batch_expire[self.batch]);
            self.awaits_first_sync |= self.batch == SYNC;
        }
    }
}
