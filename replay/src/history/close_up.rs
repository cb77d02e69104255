//! A short part of a replay or trace, request by request. Which part it is does not depend on what happens there.

use traces::results::history::{CloseUp, ShownRequest};
use traces::{Lba, Nanos, Sectors, Timestamp, VmId};

/// The first window that does not begin at once begins so late; each later one begins twice as late.
const SECOND_BEGIN: Nanos = Nanos::from_ms(125);
/// The length of a window.
const LENGTH: Nanos = Nanos::from_s(1);
/// The most requests of a window.
const REQUESTS_MAX: usize = 300;

/// A request that the device served.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub vm: VmId,
    pub is_write: bool,
    pub lba: Lba,
    pub sectors: Sectors,
    pub arrived: Timestamp,
    pub started: Timestamp,
    pub finished: Timestamp,
}

/// The requests of the last two windows. The last one but one begins in the second quarter of all time, or at the
/// beginning.
#[derive(Clone, Debug, Default)]
pub(super) struct Windows {
    begin: Nanos,
    requests: Vec<Seen>,
    before: Option<(Nanos, Vec<Seen>)>,
}

impl Windows {
    /// A request, in the order of the service's beginning; `first` is the first arrival.
    pub(super) fn served(&mut self, first: Timestamp, seen: Seen) {
        let at = seen.started.saturating_since(first);
        let next = if self.begin == Nanos::ZERO { SECOND_BEGIN } else { self.begin + self.begin };
        if at >= next {
            let mut begin = next;
            while at >= begin + begin {
                begin = begin + begin;
            }
            self.before = Some((self.begin, std::mem::take(&mut self.requests)));
            self.begin = begin;
        }
        if at < self.begin + LENGTH && self.requests.len() < REQUESTS_MAX {
            self.requests.push(seen);
        }
    }

    /// The window to show.
    pub(super) fn shown(self, first: Timestamp) -> CloseUp {
        let (begin, requests) = match self.before {
            Some((begin, requests)) if !requests.is_empty() => (begin, requests),
            _ => (self.begin, self.requests),
        };
        let since = |at: Timestamp| at.saturating_since(first);
        let shown = |seen: &Seen| ShownRequest {
            vm: usize::from(seen.vm.0),
            is_write: seen.is_write,
            lba: seen.lba,
            sectors: seen.sectors,
            arrived_ns: since(seen.arrived),
            started_ns: since(seen.started),
            finished_ns: since(seen.finished),
        };
        CloseUp { begin_ns: begin, requests: requests.iter().map(shown).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(starts_ms: &[u64]) -> (u64, Vec<u64>) {
        let first = Timestamp::from_ns(7);
        let mut windows = Windows::default();
        for &ms in starts_ms {
            let at = first + Nanos::from_ms(ms);
            let (lba, sectors) = (Lba::new(ms), Sectors::new(8));
            let seen = Seen { vm: VmId(0), is_write: false, lba, sectors, arrived: at, started: at, finished: at };
            windows.served(first, seen);
        }
        let CloseUp { begin_ns, requests } = windows.shown(first);
        (begin_ns.as_ns() / 1_000_000, requests.iter().map(|request| request.lba.sector()).collect())
    }

    #[test]
    fn the_window_begins_in_the_second_quarter_and_holds_a_second() {
        let each_100_ms: Vec<u64> = (0..=70).map(|at| at * 100).collect();
        assert_eq!(shown(&each_100_ms), (2000, (20..30).map(|at| at * 100).collect()));
        // A short one begins at once, and what follows a pause is not in the window of before.
        assert_eq!(shown(&[0, 10, 20]), (0, vec![0, 10, 20]));
        assert_eq!(shown(&[0, 10, 5000]), (0, vec![0, 10]));
        assert_eq!(shown(&[]), (0, vec![]));
    }

    #[test]
    fn a_window_holds_so_many_requests_only() {
        let (begin, requests) = shown(&(0..2000).collect::<Vec<u64>>());
        assert_eq!((begin, requests.len(), requests[0]), (500, REQUESTS_MAX, 500));
    }
}
