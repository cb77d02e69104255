//! Runs of events, taken in one after another.

use super::Pairing;
use crate::events::Placed;
use crate::events::watch::Watch;
use crate::trace::Losses;
use crate::units::Timestamp;

/// The events taken of a run.
pub(in crate::events) struct Taken {
    /// How many events; the last of them is the one that was refused, if any was.
    pub(in crate::events) events: usize,
    /// The fault in the last one.
    pub(in crate::events) refused: Option<String>,
}

impl Pairing {
    /// Takes in events, of a trace whose zero is at that time, until a record may leave or one is
    /// refused.
    #[inline(always)]
    pub(in crate::events) fn take<W: Watch + ?Sized>(
        &mut self,
        run: &[Placed],
        zero: u64,
        losses: &mut Losses,
        watch: &mut W,
    ) -> Taken {
        let mut left = run.iter();
        while let Some(placed) = left.next() {
            let now = placed.event.time.saturating_sub(zero);
            watch.event(Timestamp::from_ns(now), &placed.event);
            let taken = self.event(&placed.event, now, losses, watch);
            if taken.is_err() || self.may_give() {
                self.now = now;
                // Counted here and not for each event.
                return Taken { events: run.len() - left.len(), refused: taken.err() };
            }
        }
        if let Some(last) = run.last() {
            self.now = last.event.time.saturating_sub(zero);
        }
        Taken { events: run.len(), refused: None }
    }

    /// Takes in events until one is refused, and lets every record go that may leave: shown to
    /// `watch` and counted in `records`.
    // Compiled once and not for every source of events, which would all be as large.
    #[inline(never)]
    pub(in crate::events) fn pass<W: Watch + ?Sized>(
        &mut self,
        run: &[Placed],
        zero: u64,
        losses: &mut Losses,
        watch: &mut W,
        records: &mut u64,
    ) -> Taken {
        let mut left = run;
        while !left.is_empty() {
            let taken = self.take(left, zero, losses, watch);
            left = left.get(taken.events..).unwrap_or_default();
            if taken.refused.is_some() {
                return Taken { events: run.len() - left.len(), ..taken };
            }
            if self.may_give() {
                *records += self.leave(false, losses, watch);
            }
        }
        Taken { events: run.len(), refused: None }
    }

    /// Lets the oldest records go that are complete, or when `ended` all, and counts them.
    pub(in crate::events) fn leave<W: Watch + ?Sized>(
        &mut self,
        ended: bool,
        losses: &mut Losses,
        watch: &mut W,
    ) -> u64 {
        let mut records = 0;
        while let Some(passage) = self.next(ended, losses, watch) {
            watch.passed(&passage);
            records += 1;
        }
        records
    }
}
