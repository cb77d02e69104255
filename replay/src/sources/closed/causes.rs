//! What an arrival waited for, inferred from the recorded times of its stream in one pass.
//!
//! A stream goes on when requests that it waits for complete. How far it had got is told by how many of these
//! had completed, not by which: a process that keeps four requests at the drive sends the next one at any completion,
//! and one that waited for a batch waited for all of it, in whatever order another drive serves them.
//!
//! 1. *Waited for* are synchronous requests ([`Request::is_sync`]) and flushes. Other writes are the kernel's write-back:
//!    nobody's later request waits for their completion. A trace that has shown no flag yet does not tell, and
//!    everything in it counts as waited for.
//! 2. An arrival came after the latest completion that was waited for, if there is one since its stream's arrival
//!    before; the time between is its think time. So whatever process or kernel sends, it sends later if the read before it takes longer.
//!    A flusher that sends nothing else keeps its recorded distances.
//! 3. With others outstanding that completion may have come by chance between two arrivals of a batch. It then
//!    lies anywhere between them, on average in the middle. If it lies nearer to the arrival in the mean of the
//!    last arrivals (a quarter of the distance, [`CHANCE_ABOVE`]), the stream keeps a depth, and the
//!    completion is the cause; if not, batches are kept together and the recorded distance holds.
//! 4. Several processes that each send and think within one stream (a VM seen from outside) take turns: each completion lets one
//!    of them go on. Think times then are steady from the completion that is as many arrivals back as the
//!    stream is deep, and not from the latest. Where they are twice as steady ([`Steadiness`]), the former is the cause.
//!    Processes whose think times are spread widely do not show.
//! 5. A stream never has more outstanding than it had in the record until then, of either kind: what it would have done
//!    beyond is not in the trace, and a slower drive is not flooded by it. So a flusher is slowed by congestion.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use traces::{Nanos, Timestamp};

/// Requests that are waited for and requests that are not, as indexes.
pub(super) const WAITED_FOR: usize = 0;
/// See [`WAITED_FOR`].
pub(super) const UNAWAITED: usize = 1;

/// Means of the last arrivals weigh each new one by 1 / 2^4.
const DECAY_BITS: u32 = 4;

/// The whole distance between two arrivals.
const WHOLE: i64 = 1 << 16;

/// Completions nearer to the arrival behind them than this share of the distance, in the mean, are causes. Chance makes
/// it 1/2 with a standard deviation of 0.05.
const CHANCE_ABOVE: i64 = WHOLE / 4;

/// So many think times are needed before they count as steady.
const STEADY_AFTER: u32 = 32;

/// What an arrival's span is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Since {
    /// The start of the replay.
    Start,
    /// The stream's arrival before.
    Arrival,
    /// The completion of the last of those that were waited for.
    Completion,
}

/// When an arrival comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    pub(super) since: Since,
    pub(super) span: Nanos,
    /// How many of the stream's requests of either kind have completed by then at least.
    pub(super) completed: [u64; 2],
}

/// The requests of one kind of a stream, as recorded. Those without a completion are not among them.
#[derive(Debug, Default)]
struct Kind {
    sent: u64,
    outstanding: BinaryHeap<Reverse<Timestamp>>,
    deepest: u64,
}

impl Kind {
    fn completed(&self) -> u64 {
        self.sent - self.outstanding.len() as u64
    }

    /// Counts an arrival, unless it never completed; how many have completed before it at least, for the
    /// stream not to be deeper than it ever was.
    fn send(&mut self, completed: Option<Timestamp>) -> u64 {
        if let Some(completed) = completed {
            self.sent += 1;
            self.outstanding.push(Reverse(completed));
            self.deepest = self.deepest.max(self.outstanding.len() as u64);
        }
        self.sent.saturating_sub(self.deepest)
    }
}

/// Mean and mean deviation of spans of time, both decaying.
#[derive(Clone, Copy, Debug, Default)]
struct Steadiness {
    seen: u32,
    mean: i64,
    deviation: i64,
}

impl Steadiness {
    fn add(&mut self, span: Nanos) {
        let span = span.as_ns().min(1 << 60) as i64;
        if self.seen == 0 {
            self.mean = span;
        }
        self.seen = self.seen.saturating_add(1);
        self.deviation += ((span - self.mean).abs() - self.deviation) >> DECAY_BITS;
        self.mean += (span - self.mean) >> DECAY_BITS;
    }
}

/// A stream as far as it was read.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    arrival: Option<Timestamp>,
    kinds: [Kind; 2],
    /// When those that were waited for completed, but for the first so many; no more than the stream is deep.
    completions: VecDeque<Timestamp>,
    forgotten: u64,
    /// What arrivals have asked for until now; later ones ask for no less.
    asked: [u64; 2],
    since_latest: Steadiness,
    since_turn: Steadiness,
    /// Where completions lay between two arrivals, as a share of [`WHOLE`] from the later one.
    lag: i64,
}

impl Recorded {
    /// What the stream's next arrival, of a kind, had waited for.
    pub(super) fn infer(&mut self, arrival: Timestamp, completed: Option<Timestamp>, kind: usize) -> Cause {
        let latest = self.pass(arrival);
        let others = !self.kinds[WAITED_FOR].outstanding.is_empty();
        let done = self.kinds[WAITED_FOR].completed();
        let bound = self.kinds[kind].send(completed);
        let Some(before) = self.arrival.replace(arrival) else {
            let span = arrival.since(Timestamp::ZERO);
            return Cause { since: Since::Start, span, completed: self.asked };
        };
        let turn = if kind == WAITED_FOR { self.turn(bound) } else { None };
        let since_latest = arrival.since(latest.unwrap_or(before));
        if let Some(turn) = turn {
            self.since_latest.add(since_latest);
            self.since_turn.add(arrival.saturating_since(turn));
        }
        if others && latest.is_some() {
            self.learn_lag(since_latest, arrival.since(before));
        }
        let by_turns = kind == WAITED_FOR && self.goes_by_turns();
        let by_chance = others && self.lag > CHANCE_ABOVE;
        let (since, span, waited_for) = match (turn, latest) {
            (Some(turn), _) if by_turns && bound > self.asked[WAITED_FOR] => {
                (Since::Completion, arrival.saturating_since(turn), bound)
            }
            (_, Some(_)) if !by_turns && !by_chance => (Since::Completion, since_latest, done),
            _ => (Since::Arrival, arrival.since(before), 0),
        };
        self.ask(WAITED_FOR, waited_for);
        self.ask(kind, bound);
        Cause { since, span, completed: self.asked }
    }

    /// How many recorded times are kept.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.completions.len() + self.kinds.iter().map(|kind| kind.outstanding.len()).sum::<usize>()
    }

    fn ask(&mut self, kind: usize, completed: u64) {
        self.asked[kind] = self.asked[kind].max(completed);
    }

    /// Lets everything complete that had completed when a request arrived; the latest of what was waited for.
    fn pass(&mut self, arrival: Timestamp) -> Option<Timestamp> {
        let [waited_for, unawaited] = &mut self.kinds;
        let mut latest = None;
        while let Some(&Reverse(completed)) = waited_for.outstanding.peek().filter(|next| next.0 <= arrival) {
            waited_for.outstanding.pop();
            self.completions.push_back(completed);
            latest = Some(completed);
        }
        while unawaited.outstanding.peek().is_some_and(|next| next.0 <= arrival) {
            unawaited.outstanding.pop();
        }
        latest
    }

    /// When so many had completed that were waited for; earlier ones nobody asks for again.
    fn turn(&mut self, completed: u64) -> Option<Timestamp> {
        while self.forgotten + 1 < completed {
            self.completions.pop_front();
            self.forgotten += 1;
        }
        if completed == 0 { None } else { self.completions.front().copied() }
    }

    fn learn_lag(&mut self, lag: Nanos, distance: Nanos) {
        let (lag, distance) = (lag.as_ns().min(distance.as_ns()), distance.as_ns().max(1));
        let share = (u128::from(lag) * WHOLE as u128 / u128::from(distance)) as i64;
        self.lag += (share - self.lag) >> DECAY_BITS;
    }

    fn goes_by_turns(&self) -> bool {
        self.since_turn.seen >= STEADY_AFTER && self.since_turn.deviation < self.since_latest.deviation / 2
    }
}
