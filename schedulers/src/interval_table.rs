//! The table of Geist and Ross 1997: the order of service that minimises the sum of completion times of requests on a
//! line. It is found by dynamic programming over the requests served so far.
//!
//! A request stands at its first sector. A leg costs what the drive gives from one starting sector to the next, without
//! transfer. Table 1 of Geist et al. 2010 and their sector-to-sector model do the same. The requests served so far are
//! then the `i` nearest below the head and the `j` nearest above it. The head is at the outermost of one side or the
//! other. There are (m + 1)(n + 1) states of two sides for m requests below and n above. A leg delays all requests that
//! are not yet served, its own among them, and is weighted with their number. The least sum of weighted legs from a
//! state on is the least sum of completion times. [`crate::table`] states when the result is exactly optimal.

use traces::{Lba, Nanos, Sectors};

use crate::cost::AccessCost;

/// Which side of the head a request lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// It starts below the head.
    Below,
    /// It starts at the head or above.
    Above,
}

const FROM_BELOW_GO_UP: u8 = 1;
const FROM_ABOVE_GO_UP: u8 = 2;

/// The table. All of it is reused from one solution to the next.
#[derive(Debug, Default)]
pub(crate) struct IntervalTable {
    /// Starts below the head, nearest first.
    pub(crate) below: Vec<Lba>,
    /// Starts at the head and above, nearest first.
    pub(crate) above: Vec<Lba>,
    /// Where to go on to from either side of state (i, j), row by row of i.
    choices: Vec<u8>,
    /// The least sums from the states (i, j, below) on, for the row of the largest i filled so far.
    values: Vec<u64>,
    /// Leg costs from the head to the first above, and from each above to the next.
    upwards: Vec<Nanos>,
    /// For one row: leg costs from the outermost below to every one above.
    across: Vec<Nanos>,
    /// For one row: leg costs from every one above (from the second place on) to the next below.
    downwards: Vec<Nanos>,
}

impl IntervalTable {
    /// Fills the table for the head at `head` and writes the best sequence of sides to `steps`.
    /// Of equally good ones it goes below first.
    pub(crate) fn solve(&mut self, head: Lba, cost: &dyn AccessCost, steps: &mut Vec<Side>) {
        self.fill(head, cost);
        let (mut below, mut above, mut side) = (0, 0, Side::Below);
        steps.clear();
        for _ in 0..self.below.len() + self.above.len() {
            let choice = self.choices[below * (self.above.len() + 1) + above];
            let up = if side == Side::Below { FROM_BELOW_GO_UP } else { FROM_ABOVE_GO_UP };
            if choice & up != 0 {
                (side, above) = (Side::Above, above + 1);
            } else {
                (side, below) = (Side::Below, below + 1);
            }
            steps.push(side);
        }
    }

    /// Row by row, from everything below served to nothing. The head counts as the zeroth on the
    /// side below; values of states that cannot be reached are never read.
    fn fill(&mut self, head: Lba, cost: &dyn AccessCost) {
        let (below, above) = (self.below.len(), self.above.len());
        self.choices.clear();
        self.choices.resize((below + 1) * (above + 1), 0);
        self.upwards.clear();
        let mut from = head;
        for &to in &self.above {
            self.upwards.push(cost.between(from, to, Sectors::ZERO));
            from = to;
        }
        let limit = leg_limit(below + above);
        for served in (0..=below).rev() {
            let outermost = if served == 0 { head } else { self.below[served - 1] };
            let reachable = if served == 0 { &self.above[..above.min(1)] } else { &self.above[..] };
            self.across.clear();
            cost.between_all(&[outermost], reachable, Sectors::ZERO, &mut self.across);
            self.across.resize(above, Nanos::ZERO);
            let Some(&next) = self.below.get(served) else {
                self.fill_last_row(limit);
                continue;
            };
            self.downwards.clear();
            self.downwards.push(Nanos::ZERO);
            cost.between_all(&self.above, &[next], Sectors::ZERO, &mut self.downwards);
            self.fill_row(served, cost.between(outermost, next, Sectors::ZERO).as_ns().min(limit), limit);
        }
    }

    /// Everything below is served: one sweep up is left.
    fn fill_last_row(&mut self, limit: u64) {
        let above = self.above.len();
        self.values.clear();
        self.values.resize(above + 1, 0);
        let mut from_above = 0;
        for served in (0..above).rev() {
            let weight = (above - served) as u64;
            self.values[served] = self.across[served].as_ns().min(limit) * weight + from_above;
            from_above += self.upwards[served].as_ns().min(limit) * weight;
        }
        let row = self.below.len() * (above + 1);
        self.choices[row..row + above].fill(FROM_BELOW_GO_UP | FROM_ABOVE_GO_UP);
    }

    /// The row of `served` below, whose next below is `down` away from the outermost.
    fn fill_row(&mut self, served: usize, down: u64, limit: u64) {
        let above = self.above.len();
        let row = served * (above + 1);
        let mut weight = (self.below.len() - served) as u64;
        let mut from_above = self.downwards[above].as_ns().min(limit) * weight + self.values[above];
        self.values[above] += down * weight;
        let legs = self.across.iter().zip(&self.upwards).zip(&self.downwards[..above]);
        let states = self.values[..above].iter_mut().zip(&mut self.choices[row..row + above]);
        for (((across, upwards), downwards), (value, choice)) in legs.zip(states).rev() {
            weight += 1;
            let below_up = across.as_ns().min(limit) * weight + from_above;
            let above_up = upwards.as_ns().min(limit) * weight + from_above;
            let below_down = down * weight + *value;
            let above_down = downwards.as_ns().min(limit) * weight + *value;
            *choice = (u8::from(below_up < below_down) * FROM_BELOW_GO_UP)
                | (u8::from(above_up < above_down) * FROM_ABOVE_GO_UP);
            *value = below_up.min(below_down);
            from_above = above_up.min(above_down);
        }
    }
}

/// The largest cost of a leg with which no weighted sum overflows: the weights of a sequence add up
/// to n(n + 1)/2. With 1,024 requests that is over nine hours, which no seek takes.
fn leg_limit(requests: usize) -> u64 {
    let requests = requests as u64;
    u64::MAX / (requests * (requests + 1) / 2).max(1)
}
