//! The policy that explains choices best.

use super::Policy;
use super::choices::{Choice, Choices, EXPLAINED, TELLING_MIN};

/// What explains fewer than so many is none.
const UNDERSTOOD: f64 = 0.8;
/// So many standard deviations of a fair coin are clear.
const CLEAR: f64 = 4.0;
/// The longest queue of writes and the longest turn that are thought of.
const LONGEST_QUEUE: u32 = 64;
const LONGEST_TURN: u32 = 16;

/// A policy in the course of choices.
struct PolicyState {
    policy: Policy,
    draining: bool,
    of_writes: bool,
    served: u32,
}

impl PolicyState {
    fn new(policy: Policy) -> PolicyState {
        PolicyState { policy, draining: false, of_writes: false, served: 0 }
    }

    /// Whether it would take a read, both kinds waiting; then `choice` is what was taken.
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
    /// Whether `policy` would have chosen as was chosen, for every telling choice.
    fn explains(&self, policy: Policy) -> Vec<bool> {
        let mut state = PolicyState::new(policy);
        let followed = self.looked_at().iter().map(|choice| (choice, state.follow(choice)));
        followed.filter(|(choice, _)| choice.tells()).map(|(choice, read)| read == choice.read).collect()
    }

    fn missed(&self, policy: Policy) -> usize {
        let mut state = PolicyState::new(policy);
        self.looked_at().iter().filter(|choice| state.follow(choice) != choice.read && choice.tells()).count()
    }

    /// The one of `policies` that misses least, the first of equals.
    fn best(&self, policies: impl Iterator<Item = Policy>) -> Option<Policy> {
        policies.min_by_key(|&policy| self.missed(policy))
    }

    /// The drain that misses least. Of equals it is the one in the middle: if no queue was ever between the longest that was left alone and
    /// the shortest that was drained, any of them may be where it begins, and so it is with its end.
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

    /// The policy that explains the choices, and whether that is sure. Where nothing tells, requests are taken as they come.
    pub(crate) fn policy(&self) -> (Policy, bool) {
        let share = |count: usize, of: usize| count as f64 / of.max(1) as f64;
        if self.is_no_queue() {
            return (Policy::Unknown, false);
        }
        let telling = self.looked_at().iter().filter(|choice| choice.tells()).count();
        if telling < TELLING_MIN {
            return (Policy::Fcfs, false);
        }
        let most_writes = self.looked_at().iter().map(|choice| choice.writes).max().unwrap_or_default();
        let turns = (1..=LONGEST_TURN)
            .flat_map(|reads| (1..=LONGEST_TURN).map(move |writes| Policy::Weighted { reads, writes }));
        let simple = [Policy::Fcfs, Policy::ReadPriority];
        let fitted = [self.drain(most_writes.min(LONGEST_QUEUE)), self.best(turns)].into_iter().flatten();
        let rivals: Vec<(Policy, Vec<bool>)> =
            simple.into_iter().chain(fitted).map(|policy| (policy, self.explains(policy))).collect();
        let Some(chosen) =
            rivals.iter().reduce(|best, next| if clearly_better(&next.1, &best.1) { next } else { best })
        else {
            return (Policy::Fcfs, false);
        };
        let explained = share(chosen.1.iter().filter(|explained| **explained).count(), telling);
        if explained < UNDERSTOOD {
            return (Policy::Unknown, false);
        }
        // A drain that hardly ever began is no rival of reads first, and no proof of it either.
        let rules_out = |rival: &(Policy, Vec<bool>)| {
            let same = rival.0 == chosen.0;
            let hidden = chosen.0 == Policy::ReadPriority && matches!(rival.0, Policy::Drain { .. });
            same || hidden || clearly_better(&chosen.1, &rival.1)
        };
        let alone = rivals.iter().all(rules_out);
        (chosen.0, explained >= EXPLAINED && alone && !self.may_drain(chosen.0, most_writes))
    }

    /// Whether reads may go first only because there never were enough writes.
    fn may_drain(&self, policy: Policy, most_writes: u32) -> bool {
        policy == Policy::ReadPriority && most_writes < LONGEST_QUEUE
    }
}

/// Of levels in order the one nearest to the middle of the first and the last, as their ratios go.
fn middle(levels: Vec<u32>) -> Option<u32> {
    let wanted = (f64::from(levels.first()? + 1) * f64::from(levels.last()? + 1)).sqrt() - 1.0;
    levels.into_iter().min_by(|a, b| (f64::from(*a) - wanted).abs().total_cmp(&(f64::from(*b) - wanted).abs()))
}

/// Whether one policy explains clearly more than the other of what the two would choose differently.
fn clearly_better(one: &[bool], other: &[bool]) -> bool {
    let only = |a: &[bool], b: &[bool]| a.iter().zip(b).filter(|(a, b)| **a && !**b).count() as f64;
    let (one, other) = (only(one, other), only(other, one));
    one - other > CLEAR * (one + other).sqrt()
}

#[cfg(test)]
mod tests {
    use traces::{Nanos, Operation, Timestamp};

    use super::*;
    use crate::isolated_trace::{IsolatedTrace, TracedRequest};
    use crate::twin::device::policy::choices::LOOKED_AT;
    use crate::twin::device::policy::{at_device, in_vm};

    /// Requests that come faster than they are served in bursts of 24, taken as `pick` says from the kinds that wait.
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

    fn told(trace: &IsolatedTrace) -> (Policy, bool) {
        at_device(trace, Nanos::ZERO).policy()
    }

    #[test]
    fn orders_are_told_from_what_was_taken() {
        assert_eq!(told(&served(|_| 0)), (Policy::Fcfs, true));
        // Nobody has seen what happens to more writes than ever waited.
        assert_eq!(told(&served(first_read)), (Policy::ReadPriority, false));
        assert_eq!(told(&served(|waiting| waiting.len() - 1)), (Policy::Unknown, false));
        let prefers = |trace: &IsolatedTrace| at_device(trace, Nanos::ZERO).prefers_reads();
        assert!(prefers(&served(first_read)) && !prefers(&served(|_| 0)));
    }

    #[test]
    fn reads_first_is_sure_where_so_many_writes_waited_that_any_drain_would_have_begun() {
        // So many writes at once, and reads that go before them.
        let of = |writes: u64| {
            let mut trace = IsolatedTrace::default();
            for n in 0..writes {
                trace.requests.push(request(n, Operation::Write, 400_000 + n * 2000));
            }
            for n in 0..100 {
                trace.requests.push(request(4000 + n * 1900, Operation::Read, 6000 + n * 2000));
            }
            trace.requests.sort_by_key(|request| request.arrival);
            told(&trace)
        };
        assert_eq!(of(100), (Policy::ReadPriority, true));
        assert_eq!(of(40), (Policy::ReadPriority, false));
    }

    #[test]
    fn drains_and_turns_are_told_with_their_lengths() {
        let mut draining = false;
        let drained = served(|waiting| {
            let writes = waiting.iter().filter(|(_, operation)| *operation == Operation::Write).count();
            draining = writes >= 4 || (draining && writes > 1);
            first(waiting, if draining { Operation::Write } else { Operation::Read })
        });
        assert_eq!(told(&drained), (Policy::Drain { at: 4, to: 1 }, true));
        let (mut of_writes, mut taken) = (false, 0);
        let in_turn = served(|waiting| {
            let both = [Operation::Read, Operation::Write].map(|kind| waiting.iter().any(|(_, other)| *other == kind));
            let over = taken >= if of_writes { 1 } else { 2 };
            let write = if both == [true, true] { of_writes != over } else { both[1] };
            taken = if write == of_writes { taken + 1 } else { 1 };
            of_writes = write;
            first(waiting, if write { Operation::Write } else { Operation::Read })
        });
        assert_eq!(told(&in_turn), (Policy::Weighted { reads: 2, writes: 1 }, true));
    }

    #[test]
    fn of_drains_that_explain_as_much_the_one_in_the_middle_is_taken() {
        let choice =
            |writes: u32, read: bool| Choice { reads: 1, writes, read, oldest_read: Some(!read), in_order: true };
        // Up to three writes wait for reads, twenty do not until two are left; what between them begins a drain was never seen.
        let waited = (0..30).map(|n| choice(1 + n % 3, true));
        let drained = (3..=20).rev().map(|writes| choice(writes, false)).chain([choice(2, true)]);
        let seen = Choices { taken: waited.chain(drained.cycle().take(190)).collect(), ..Choices::default() };
        assert_eq!(seen.policy(), (Policy::Drain { at: 9, to: 2 }, true));
        assert_eq!((middle(vec![4]), middle((4..=64).collect()), middle(Vec::new())), (Some(4), Some(17), None));
    }

    #[test]
    fn as_much_is_looked_at_of_each_recording() {
        let of = |read: bool| {
            let choice = Choice { reads: 1, writes: 1, read, oldest_read: Some(true), in_order: true };
            Choices { taken: vec![choice; LOOKED_AT], first: 3, overtaken: 1 }
        };
        let all = Choices::of_all(&[of(true), of(false)]);
        let reads = all.looked_at().iter().filter(|choice| choice.read).count();
        assert_eq!((all.looked_at().len(), reads, all.first, all.overtaken), (LOOKED_AT, LOOKED_AT / 2, 6, 2));
        assert_eq!(all.taken.len(), 2 * LOOKED_AT);
    }

    #[test]
    fn who_overtakes_what_is_served_is_not_served_after_it() {
        // Each read has 5 ms to itself, but for a write that comes and goes meanwhile.
        let mut trace = IsolatedTrace::default();
        for n in 0..100 {
            trace.requests.push(request(n * 10_000, Operation::Read, n * 10_000 + 5000));
            trace.requests.push(request(n * 10_000 + 2000, Operation::Write, n * 10_000 + 2200));
        }
        assert!(at_device(&trace, Nanos::ZERO).is_no_queue());
        assert_eq!(told(&trace), (Policy::Unknown, false));
        assert!(!at_device(&served(|_| 0), Nanos::ZERO).is_no_queue());
        assert!(at_device(&served(|waiting| waiting.len() - 1), Nanos::ZERO).is_no_queue());
    }

    #[test]
    fn writes_that_are_never_taken_tell_that_reads_go_first() {
        let mut trace = IsolatedTrace::default();
        for n in 0..100 {
            trace.requests.push(request(n * 5000, Operation::Read, n * 5000 + 4000));
            trace.requests.push(request(n * 5000 + 3000, Operation::Read, n * 5000 + 5000));
        }
        assert_eq!(told(&trace), (Policy::Fcfs, false));
        trace.unfinished = (0..3).map(|n| request(n * 10, Operation::Write, 10_000_000)).collect();
        assert_eq!(told(&trace), (Policy::ReadPriority, false));
        // Which is what the machine does that has not issued them, and not its device's order.
        assert!(!in_vm(&trace).prefers_reads());
    }

    #[test]
    fn what_never_waits_tells_nothing() {
        let mut lone = served(|_| 0);
        for (nth, request) in lone.requests.iter_mut().enumerate() {
            let at = Timestamp::from_ns(nth as u64 * 10_000_000);
            (request.arrival, request.issued, request.completed) = (at, at, at + traces::Nanos::from_ms(2));
        }
        assert!(!at_device(&lone, Nanos::ZERO).any());
        assert_eq!(at_device(&lone, Nanos::ZERO).policy(), (Policy::Fcfs, false));
    }
}
