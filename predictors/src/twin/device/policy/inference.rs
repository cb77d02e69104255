//! Finds the policy that explains the most decisive choices.
//!
//! Candidates are first come first served, reads first, the best drain of writes and the best weighted turns. Two
//! candidates are compared by the choices that only one of them explains: a sign test against a fair coin.

use super::Policy;
use super::choices::{Choice, Choices, EXPLAINED_SHARE_SURE_MIN, OBSERVATIONS_MIN};

/// If the best policy explains a smaller share of the decisive choices, the order is unknown. Set by judgement; not
/// varied.
const EXPLAINED_SHARE_KNOWN_MIN: f64 = 0.8;
/// One policy is clearly better than another if the sign test differs from a fair coin by more standard deviations. Set
/// by judgement; not varied.
const CLEAR_STANDARD_DEVIATIONS: f64 = 4.0;
/// Candidate drains begin at no more waiting writes than this. Set by judgement; not varied.
const DRAIN_WRITES_MAX: u32 = 64;
/// Candidate turns are no longer than this many requests. Set by judgement; not varied.
const TURN_REQUESTS_MAX: u32 = 16;

/// A policy that is followed through the choices.
struct PolicyState {
    policy: Policy,
    draining: bool,
    /// Whether the current turn is one of writes.
    of_writes: bool,
    /// Requests served in the current turn.
    served: u32,
}

impl PolicyState {
    fn new(policy: Policy) -> PolicyState {
        PolicyState { policy, draining: false, of_writes: false, served: 0 }
    }

    /// Whether the policy would dispatch a read if both kinds wait. Afterwards its state follows the real `choice`.
    fn follow(&mut self, choice: &Choice) -> bool {
        let Choice { writes, read, oldest_read, .. } = *choice;
        match self.policy {
            Policy::Fcfs => oldest_read.unwrap_or(read),
            Policy::ReadPriority | Policy::Unknown => true,
            Policy::Drain { at, to } => {
                self.draining = writes >= at || (self.draining && writes > to);
                !self.draining
            }
            Policy::Weighted { reads: turn_reads, writes: turn_writes } => {
                let length = |of_writes: bool| if of_writes { turn_writes } else { turn_reads };
                let over = self.served >= length(self.of_writes);
                let would_read = self.of_writes == over;
                let served = if read != self.of_writes { self.served } else { 0 };
                self.of_writes = !read;
                self.served = (served + 1).min(length(!read));
                would_read
            }
        }
    }
}

impl Choices {
    /// For every decisive choice, whether `policy` would have made it.
    fn explains(&self, policy: Policy) -> Vec<bool> {
        let mut state = PolicyState::new(policy);
        let followed = self.followed().iter().map(|choice| (choice, state.follow(choice)));
        followed.filter(|(choice, _)| choice.is_decisive()).map(|(choice, read)| read == choice.read).collect()
    }

    /// How many decisive choices `policy` would have made otherwise.
    fn missed(&self, policy: Policy) -> usize {
        let mut state = PolicyState::new(policy);
        self.followed().iter().filter(|choice| state.follow(choice) != choice.read && choice.is_decisive()).count()
    }

    /// The policy with the fewest misses, the first of equals.
    fn best(&self, policies: impl Iterator<Item = Policy>) -> Option<Policy> {
        policies.min_by_key(|&policy| self.missed(policy))
    }

    /// The drain with the fewest misses, with levels from 1 to `most` waiting writes. Queue lengths between the longest
    /// that did not begin a drain and the shortest that did may never have occurred. Then several levels miss equally
    /// few choices, and the middle one is used; likewise for the end of the drain.
    fn drain(&self, most: u32) -> Option<Policy> {
        let all = (2..=most).flat_map(|at| (0..at).map(move |to| (at, to)));
        let missed: Vec<((u32, u32), usize)> =
            all.map(|(at, to)| ((at, to), self.missed(Policy::Drain { at, to }))).collect();
        let least = missed.iter().map(|(_, missed)| *missed).min()?;
        let equals = || missed.iter().filter(|(_, missed)| *missed == least).map(|(levels, _)| *levels);
        let at = middle(equals().map(|(at, _)| at).collect())?;
        let to = middle(equals().filter(|levels| levels.0 == at).map(|(_, to)| to).collect())?;
        Some(Policy::Drain { at, to })
    }

    /// The policy that explains the choices, and whether it is sure. Too few decisive choices give first come, first
    /// served, and not sure.
    pub(crate) fn policy(&self) -> (Policy, bool) {
        let share = |count: usize, of: usize| count as f64 / of.max(1) as f64;
        if self.is_concurrent_or_reordering() {
            return (Policy::Unknown, false);
        }
        let decisive = self.followed().iter().filter(|choice| choice.is_decisive()).count();
        if decisive < OBSERVATIONS_MIN {
            return (Policy::Fcfs, false);
        }
        let most_writes = self.followed().iter().map(|choice| choice.writes).max().unwrap_or_default();
        let turns = (1..=TURN_REQUESTS_MAX)
            .flat_map(|reads| (1..=TURN_REQUESTS_MAX).map(move |writes| Policy::Weighted { reads, writes }));
        let simple = [Policy::Fcfs, Policy::ReadPriority];
        let fitted = [self.drain(most_writes.min(DRAIN_WRITES_MAX)), self.best(turns)].into_iter().flatten();
        let rivals: Vec<(Policy, Vec<bool>)> =
            simple.into_iter().chain(fitted).map(|policy| (policy, self.explains(policy))).collect();
        let Some(chosen) =
            rivals.iter().reduce(|best, next| if clearly_better(&next.1, &best.1) { next } else { best })
        else {
            return (Policy::Fcfs, false);
        };
        let explained = share(chosen.1.iter().filter(|explained| **explained).count(), decisive);
        if explained < EXPLAINED_SHARE_KNOWN_MIN {
            return (Policy::Unknown, false);
        }
        // A drain that hardly ever began explains the same choices as reads first. It neither rivals reads first nor
        // confirms it.
        let rules_out = |rival: &(Policy, Vec<bool>)| {
            let same = rival.0 == chosen.0;
            let hidden = chosen.0 == Policy::ReadPriority && matches!(rival.0, Policy::Drain { .. });
            same || hidden || clearly_better(&chosen.1, &rival.1)
        };
        let alone = rivals.iter().all(rules_out);
        (chosen.0, explained >= EXPLAINED_SHARE_SURE_MIN && alone && !self.may_drain(chosen.0, most_writes))
    }

    /// Whether a drain may exist that never began because too few writes waited.
    fn may_drain(&self, policy: Policy, most_writes: u32) -> bool {
        policy == Policy::ReadPriority && most_writes < DRAIN_WRITES_MAX
    }
}

/// The level nearest to the geometric mean of the first and the last of the ordered `levels`.
fn middle(levels: Vec<u32>) -> Option<u32> {
    let wanted = (f64::from(levels.first()? + 1) * f64::from(levels.last()? + 1)).sqrt() - 1.0;
    levels.into_iter().min_by(|a, b| (f64::from(*a) - wanted).abs().total_cmp(&(f64::from(*b) - wanted).abs()))
}

/// Whether one policy clearly explains more than the other of the choices that only one of them explains.
fn clearly_better(one: &[bool], other: &[bool]) -> bool {
    let only = |a: &[bool], b: &[bool]| a.iter().zip(b).filter(|(a, b)| **a && !**b).count() as f64;
    let (one, other) = (only(one, other), only(other, one));
    one - other > CLEAR_STANDARD_DEVIATIONS * (one + other).sqrt()
}

#[cfg(test)]
mod tests {
    use traces::{Nanos, Operation, Timestamp};

    use super::*;
    use crate::isolated_trace::{IsolatedTrace, TracedRequest};
    use crate::twin::device::policy::choices::CHOICES_FOLLOWED_MAX;
    use crate::twin::device::policy::{at_device, in_vm};

    /// Bursts of 24 requests that come faster than they are served; `pick` chooses among the waiting requests.
    fn served(mut pick: impl FnMut(&[(u64, Operation)]) -> usize) -> IsolatedTrace {
        let kind = |n: u64| if n * 7 % 5 < 2 { Operation::Write } else { Operation::Read };
        let mut coming: Vec<(u64, Operation)> = (0..960).map(|n| (n / 24 * 54_000 + n % 24 * 1100, kind(n))).collect();
        coming.reverse();
        let (mut waiting, mut now) = (Vec::new(), 0);
        let mut trace = IsolatedTrace::default();
        while !coming.is_empty() || !waiting.is_empty() {
            if waiting.is_empty() {
                now = now.max(coming.last().unwrap().0);
            }
            while let Some(next) = coming.pop_if(|next| next.0 <= now) {
                waiting.push(next);
            }
            let (at, operation) = waiting.remove(pick(&waiting));
            now = now.max(at) + 2000;
            trace.requests.push(request(at, operation, now));
        }
        trace
    }

    fn request(at_us: u64, operation: Operation, completed_us: u64) -> TracedRequest {
        TracedRequest::sent(operation, 0, at_us, completed_us - at_us)
    }

    fn first(waiting: &[(u64, Operation)], wanted: Operation) -> usize {
        waiting.iter().position(|(_, operation)| *operation == wanted).unwrap_or(0)
    }

    fn first_read(waiting: &[(u64, Operation)]) -> usize {
        first(waiting, Operation::Read)
    }

    fn inferred(trace: &IsolatedTrace) -> (Policy, bool) {
        at_device(trace, Nanos::ZERO).policy()
    }

    #[test]
    fn fcfs_is_sure_reads_first_is_not_and_last_first_is_unknown() {
        assert_eq!(inferred(&served(|_| 0)), (Policy::Fcfs, true));
        // A drain may begin at more writes than ever waited here.
        assert_eq!(inferred(&served(first_read)), (Policy::ReadPriority, false));
        assert_eq!(inferred(&served(|waiting| waiting.len() - 1)), (Policy::Unknown, false));
        let prefers = |trace: &IsolatedTrace| at_device(trace, Nanos::ZERO).prefers_reads();
        assert!(prefers(&served(first_read)) && !prefers(&served(|_| 0)));
    }

    #[test]
    fn reads_first_is_sure_if_enough_writes_waited_to_begin_any_drain() {
        // `writes` writes at once, and reads that overtake them.
        let of = |writes: u64| {
            let mut trace = IsolatedTrace::default();
            for n in 0..writes {
                trace.requests.push(request(n, Operation::Write, 400_000 + n * 2000));
            }
            for n in 0..100 {
                trace.requests.push(request(4000 + n * 1900, Operation::Read, 6000 + n * 2000));
            }
            trace.requests.sort_by_key(|request| request.arrival);
            inferred(&trace)
        };
        assert_eq!(of(100), (Policy::ReadPriority, true));
        assert_eq!(of(40), (Policy::ReadPriority, false));
    }

    #[test]
    fn drains_and_turns_are_inferred_with_their_lengths() {
        let mut draining = false;
        let drained = served(|waiting| {
            let writes = waiting.iter().filter(|(_, operation)| *operation == Operation::Write).count();
            draining = writes >= 4 || (draining && writes > 1);
            first(waiting, if draining { Operation::Write } else { Operation::Read })
        });
        assert_eq!(inferred(&drained), (Policy::Drain { at: 4, to: 1 }, true));
        let (mut of_writes, mut served) = (false, 0);
        let in_turn = self::served(|waiting| {
            let both = [Operation::Read, Operation::Write].map(|kind| waiting.iter().any(|(_, other)| *other == kind));
            let over = served >= if of_writes { 1 } else { 2 };
            let write = if both == [true, true] { of_writes != over } else { both[1] };
            served = if write == of_writes { served + 1 } else { 1 };
            of_writes = write;
            first(waiting, if write { Operation::Write } else { Operation::Read })
        });
        assert_eq!(inferred(&in_turn), (Policy::Weighted { reads: 2, writes: 1 }, true));
    }

    #[test]
    fn middle_level_is_used_among_drains_that_explain_equally_many_choices() {
        let choice =
            |writes: u32, read: bool| Choice { reads: 1, writes, read, oldest_read: Some(!read), in_order: true };
        // Up to three writes wait for reads, and twenty are drained until two are left. No queue length in between
        // occurs before a drain.
        let waited = (0..30).map(|n| choice(1 + n % 3, true));
        let drained = (3..=20).rev().map(|writes| choice(writes, false)).chain([choice(2, true)]);
        let seen = Choices { dispatches: waited.chain(drained.cycle().take(190)).collect(), ..Choices::default() };
        assert_eq!(seen.policy(), (Policy::Drain { at: 9, to: 2 }, true));
        assert_eq!((middle(vec![4]), middle((4..=64).collect()), middle(Vec::new())), (Some(4), Some(17), None));
    }

    #[test]
    fn equally_many_choices_of_each_trace_are_followed() {
        let of = |read: bool| {
            let choice = Choice { reads: 1, writes: 1, read, oldest_read: Some(true), in_order: true };
            Choices {
                dispatches: vec![choice; CHOICES_FOLLOWED_MAX],
                joined: 3,
                overtaken: 1,
                joined_reads: 2,
                overtaken_reads: 1,
            }
        };
        let all = Choices::of_all(&[of(true), of(false)]);
        let reads = all.followed().iter().filter(|choice| choice.read).count();
        assert_eq!(
            (all.followed().len(), reads, all.joined, all.overtaken),
            (CHOICES_FOLLOWED_MAX, CHOICES_FOLLOWED_MAX / 2, 6, 2)
        );
        assert_eq!(all.dispatches.len(), 2 * CHOICES_FOLLOWED_MAX);
    }

    #[test]
    fn device_is_concurrent_if_later_requests_overtake_one_in_service() {
        // Each read takes 5 ms, and a write comes and completes meanwhile.
        let mut trace = IsolatedTrace::default();
        for n in 0..100 {
            trace.requests.push(request(n * 10_000, Operation::Read, n * 10_000 + 5000));
            trace.requests.push(request(n * 10_000 + 2000, Operation::Write, n * 10_000 + 2200));
        }
        assert!(at_device(&trace, Nanos::ZERO).is_concurrent_or_reordering());
        assert_eq!(inferred(&trace), (Policy::Unknown, false));
        // A cache may have taken the writes.
        assert!(!at_device(&trace, Nanos::ZERO).serves_reads_at_once());
        assert!(!at_device(&served(|_| 0), Nanos::ZERO).is_concurrent_or_reordering());
        assert!(at_device(&served(|waiting| waiting.len() - 1), Nanos::ZERO).is_concurrent_or_reordering());
    }

    #[test]
    fn device_serves_reads_at_once_if_more_than_one_in_ten_reads_is_overtaken_by_another() {
        let of = |overtaken: u64, by: Operation| {
            let mut trace = IsolatedTrace::default();
            for n in 0..100 {
                trace.requests.push(request(n * 10_000, Operation::Read, n * 10_000 + 5000));
                let done = if n < overtaken { 3500 } else { 8000 };
                trace.requests.push(request(n * 10_000 + 2000, by, n * 10_000 + done));
            }
            trace
        };
        let at_once = |trace: &IsolatedTrace| at_device(trace, Nanos::ZERO).serves_reads_at_once();
        assert!(at_once(&of(11, Operation::Read)) && !at_once(&of(10, Operation::Read)));
        assert!(!at_once(&of(100, Operation::Write)));
        assert_eq!(inferred(&of(11, Operation::Read)), (Policy::Unknown, false));
        // Too few reads are joined by others.
        let mut few = of(19, Operation::Read);
        few.requests.truncate(38);
        assert!(!at_once(&few));
    }

    #[test]
    fn writes_that_never_complete_show_reads_first_at_the_device_but_not_in_the_vm() {
        let mut trace = IsolatedTrace::default();
        for n in 0..100 {
            trace.requests.push(request(n * 5000, Operation::Read, n * 5000 + 4000));
            trace.requests.push(request(n * 5000 + 3000, Operation::Read, n * 5000 + 5000));
        }
        assert_eq!(inferred(&trace), (Policy::Fcfs, false));
        trace.unfinished = (0..3).map(|n| request(n * 10, Operation::Write, 10_000_000)).collect();
        assert_eq!(inferred(&trace), (Policy::ReadPriority, false));
        // Unfinished writes count at the device only; the VM's own choices leave them out.
        assert!(!in_vm(&trace).prefers_reads());
    }

    #[test]
    fn order_is_fcfs_and_not_sure_if_no_request_ever_waits() {
        let mut lone = served(|_| 0);
        for (nth, request) in lone.requests.iter_mut().enumerate() {
            let at = Timestamp::from_ns(nth as u64 * 10_000_000);
            (request.arrival, request.issued, request.completed) = (at, at, at + traces::Nanos::from_ms(2));
        }
        assert!(!at_device(&lone, Nanos::ZERO).any());
        assert_eq!(at_device(&lone, Nanos::ZERO).policy(), (Policy::Fcfs, false));
    }
}
