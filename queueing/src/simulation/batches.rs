//! What a replication measured, in batches of equal numbers of events, and where its warm-up ends.
//!
//! When the batches are too many, neighbours are joined, so that memory stays the same and batches grow with the run.

use super::engine::Engine;

/// The most batches kept. The warm-up is found to one part in some hundreds of the run.
const BATCHES_MAX: usize = 600;

/// Events of the first batches.
const FIRST_EVENTS: u64 = 64;

/// Batches that the rule for the warm-up takes as one (MSER-5).
const MSER_GROUP: usize = 5;

/// Columns of a row: the length, then four for each slot, then one for each queue.
pub(super) const LENGTH: usize = 0;

/// Services ended, tokens that left, and the integrals of the tokens in queue and depository.
#[derive(Clone, Copy, Debug)]
pub(super) enum Column {
    Completions,
    Departures,
    InQueue,
    InDepository,
}

/// The column of a row.
pub(super) fn column(slot: usize, column: Column) -> usize {
    1 + 4 * slot + column as usize
}

/// The column of the busy servers of a queue.
pub(super) fn busy_column(slots: usize, queue: usize) -> usize {
    1 + 4 * slots + queue
}

/// The batches of a replication.
#[derive(Clone, Debug)]
pub(super) struct Batches {
    width: usize,
    rows: Vec<f64>,
    /// Events of a batch.
    pub(super) events: u64,
}

impl Batches {
    pub(super) fn new(slots: usize, queues: usize) -> Batches {
        Batches { width: 1 + 4 * slots + queues, rows: Vec::new(), events: FIRST_EVENTS }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len() / self.width
    }

    pub(super) fn row(&self, index: usize) -> &[f64] {
        &self.rows[index * self.width..][..self.width]
    }

    /// Ends a batch now and begins the next.
    pub(super) fn close(&mut self, engine: &mut Engine) {
        if self.len() == BATCHES_MAX {
            self.join();
        }
        let length = engine.now - engine.batch_start;
        self.rows.push(length);
        for slot in &mut engine.slots {
            self.rows.push(std::mem::take(&mut slot.completions) as f64);
            self.rows.push(std::mem::take(&mut slot.departures) as f64);
            self.rows.push(f64::from(slot.in_queue) * length - std::mem::take(&mut slot.queue_sum));
            self.rows.push(f64::from(slot.in_depository) * length - std::mem::take(&mut slot.depository_sum));
        }
        for (queue, compiled) in engine.queues.iter_mut().zip(&engine.net.queues) {
            self.rows.push(f64::from(queue.busy.min(compiled.servers)) * length - std::mem::take(&mut queue.busy_sum));
        }
        engine.batch_start = engine.now;
    }

    /// Joins neighbours, so that each batch has twice as many events.
    fn join(&mut self) {
        let half = self.len() / 2;
        for index in 0..half {
            for at in 0..self.width {
                let sum = self.rows[2 * index * self.width + at] + self.rows[(2 * index + 1) * self.width + at];
                self.rows[index * self.width + at] = sum;
            }
        }
        self.rows.truncate(half * self.width);
        self.events *= 2;
    }

    /// The number of batches to drop as warm-up, by the rule MSER-5 (White 1997) on a ratio of two columns.
    ///
    /// The rule takes five batches as one and drops as many of them as gives the least squared standard error of the
    /// mean of the rest. At most half is dropped; the rule is not sound beyond.
    pub(super) fn warm_up(&self, of: &Ratio) -> usize {
        let groups = self.len() / MSER_GROUP;
        let (mut sum, mut squares) = (0.0, 0.0);
        let (mut best, mut least) = (0, f64::INFINITY);
        // A ratio without a denominator, such as a residence without a visit, says nothing.
        let mut seen = 0.0;
        let origin = self.total(0..self.len(), of).0;
        for group in (0..groups).rev() {
            let (ratio, denominator) = self.total(group * MSER_GROUP..(group + 1) * MSER_GROUP, of);
            if denominator > 0.0 {
                let apart = ratio - origin;
                seen += 1.0;
                sum += apart;
                squares += apart * apart;
            }
            if group <= groups / 2 && seen > 1.0 {
                let error = (squares - sum * sum / seen) / (seen * seen);
                if error < least {
                    (best, least) = (group, error);
                }
            }
        }
        best * MSER_GROUP
    }

    /// The ratio over some batches, and its denominator.
    pub(super) fn total(&self, range: std::ops::Range<usize>, of: &Ratio) -> (f64, f64) {
        let (mut above, mut below) = (0.0, 0.0);
        for index in range {
            let (one, other) = of.parts(self.row(index));
            above += one;
            below += other;
        }
        (if below > 0.0 { above / below } else { 0.0 }, below)
    }
}

/// A figure as the ratio of sums of columns.
#[derive(Clone, Debug)]
pub(super) struct Ratio {
    pub(super) above: Vec<usize>,
    pub(super) below: usize,
    /// What the ratio is divided by.
    pub(super) scale: f64,
}

impl Ratio {
    pub(super) fn parts(&self, row: &[f64]) -> (f64, f64) {
        (self.above.iter().map(|&at| row[at]).sum::<f64>() / self.scale, row[self.below])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Batches of length 1 with these values in the only other column.
    fn batches(values: impl Iterator<Item = f64>) -> Batches {
        let mut batches = Batches::new(0, 1);
        values.for_each(|value| batches.rows.extend([1.0, value]));
        batches
    }

    #[test]
    fn warm_up_is_what_differs_from_the_rest_but_at_most_half() {
        let of = Ratio { above: vec![1], below: 0, scale: 1.0 };
        for (differ, dropped) in [(0, 0), (5, 5), (10, 10), (12, 15), (30, 30)] {
            let batches =
                batches((0..60).map(|index| if index < differ { 9.0 } else { 1.0 + 0.1 * f64::from(index / 5 % 2) }));
            assert_eq!(batches.warm_up(&of), dropped, "{differ}");
        }
    }
}
