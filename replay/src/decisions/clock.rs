//! The clock that a scheduler sees when it is compared with a capture.

use traces::events::Event;
use traces::{Nanos, Timestamp};

/// A multiple of the tick length of all usual kernels (100, 250 and 1000 Hz), in ns.
const SECOND_NS: u64 = 1_000_000_000;

/// A tick of the kernel at 250 Hz, the usual rate.
pub(super) const TICK: Nanos = Nanos::from_ms(4);

/// Times since the last whole second, on the clock of the capture, before its first event. The kernel counts many
/// expiries in ticks, and these fall on multiples of a tick of that clock. On a clock that begins at the first event,
/// each of them would come up to one tick late.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    offset: Option<Nanos>,
}

impl Clock {
    /// The time of an event that is `since_first` after the first one.
    pub(super) fn at(&mut self, since_first: Timestamp, event: &Event) -> Timestamp {
        let offset = self.offset.get_or_insert_with(|| {
            Nanos::from_ns((event.time % SECOND_NS + SECOND_NS - since_first.as_ns() % SECOND_NS) % SECOND_NS)
        });
        since_first.saturating_add(*offset)
    }

    /// The time since the first event.
    pub(super) fn since_first(self, time: Timestamp) -> Timestamp {
        let offset = self.offset.unwrap_or(Nanos::ZERO);
        Timestamp::ZERO + time.saturating_since(Timestamp::ZERO.saturating_add(offset))
    }
}
