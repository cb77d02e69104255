//! The clock that a scheduler is given.

use traces::events::Event;
use traces::{Nanos, Timestamp};

/// A multiple of the ticks of all usual kernels (100, 250 and 1000 Hz).
const SECOND_NS: u64 = 1_000_000_000;

/// A tick of the kernel's clock at 250 Hz, the usual.
pub(super) const TICK: Nanos = Nanos::from_ms(4);

/// Times since the last whole second of the capture's own clock before its first event. The kernel
/// counts many expiries in ticks, and those fall on multiples of a tick of that clock: a scheduler whose
/// clock begins at the first event would take each of them up to a tick late.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    offset: Option<Nanos>,
}

impl Clock {
    /// The time of an event that is `since_first` after the first; ns.
    pub(super) fn at(&mut self, since_first: Timestamp, event: &Event) -> Timestamp {
        let offset = self.offset.get_or_insert_with(|| {
            Nanos::from_ns((event.time % SECOND_NS + SECOND_NS - since_first.as_ns() % SECOND_NS) % SECOND_NS)
        });
        since_first.saturating_add(*offset)
    }

    /// How long after the first event such a time is.
    pub(super) fn since_first(self, time: Timestamp) -> Timestamp {
        let offset = self.offset.unwrap_or(Nanos::ZERO);
        Timestamp::ZERO + time.saturating_since(Timestamp::ZERO.saturating_add(offset))
    }
}
