//! A scheduler of your own: requests that a process waits for go first, in sweeps over the disk. Background writes go
//! when none of those waits, or when the oldest of them has waited for `max_wait`.

use std::collections::{BTreeMap, BTreeSet};

use iocast_schedulers::{AccessCost, Capacity, Dispatch, Entry, RuleInfo, Scheduler};
use iocast_traces::spec::{Settings, Tunable, Unit};
use iocast_traces::{Nanos, Request, RequestId, Timestamp};

const AGED: usize = 0;
const FOREGROUND: usize = 1;
const BACKGROUND: usize = 2;

/// What scenarios and `--schedulers` know it by.
pub const ENTRY: Entry = Entry {
    name: "my-scheduler",
    summary: "what a process waits for first, in sweeps; a background write goes after a while",
    origin: "you",
    tunables: &[Tunable::new("max_wait", Unit::Time, "500ms", "longest wait of a background write")],
    rules: &[
        RuleInfo::new("aged", "the oldest background write, which has waited for max_wait"),
        RuleInfo::new("foreground", "the next of the sweep that a process waits for"),
        RuleInfo::new("background", "the next background write of the sweep"),
    ],
    build: &build,
};

fn build(settings: &Settings) -> Box<dyn Scheduler> {
    Box::new(MyScheduler { max_wait: settings.nanos("max_wait"), ..MyScheduler::default() })
}

#[derive(Debug, Default)]
struct MyScheduler {
    max_wait: Nanos,
    /// Every waiting request, and since when it waits.
    waiting: BTreeMap<RequestId, (Request, Timestamp)>,
    /// By address: what a process waits for, and the rest.
    sweeps: [BTreeSet<(u64, RequestId)>; 2],
    /// The rest by age.
    ages: BTreeSet<(Timestamp, RequestId)>,
    sent: [u64; 3],
}

impl MyScheduler {
    fn add(&mut self, since: Timestamp, id: RequestId, request: &Request) {
        let is_background = !request.is_sync();
        self.waiting.insert(id, (*request, since));
        self.sweeps[usize::from(is_background)].insert((request.lba.sector(), id));
        if is_background {
            self.ages.insert((since, id));
        }
    }

    /// Forgets a request, and says since when it has waited.
    fn take(&mut self, id: RequestId) -> Option<Timestamp> {
        let (request, since) = self.waiting.remove(&id)?;
        self.sweeps.iter_mut().for_each(|sweep| _ = sweep.remove(&(request.lba.sector(), id)));
        self.ages.remove(&(since, id));
        Some(since)
    }

    fn fits(&self, id: RequestId, capacity: Capacity) -> bool {
        self.waiting.get(&id).is_some_and(|(request, _)| capacity.admits(request.operation))
    }

    /// The next of a sweep from the head upwards; behind the last one, the sweep begins anew.
    fn next(&self, sweep: usize, head: u64, capacity: Capacity) -> Option<RequestId> {
        let from = (head, RequestId(0));
        let mut upwards = self.sweeps[sweep].range(from..).chain(self.sweeps[sweep].range(..from));
        upwards.find(|(_, id)| self.fits(*id, capacity)).map(|(_, id)| *id)
    }
}

impl Scheduler for MyScheduler {
    fn insert(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.add(now, id, request);
    }

    fn dispatch(&mut self, now: Timestamp, capacity: Capacity, cost: &dyn AccessCost) -> Dispatch {
        let oldest = self.ages.first().filter(|(since, _)| since.saturating_add(self.max_wait) <= now);
        let aged = oldest.map(|(_, id)| *id).filter(|id| self.fits(*id, capacity));
        let head = cost.position().sector();
        let of_sweep = |sweep: usize, rule: usize| self.next(sweep, head, capacity).map(|id| (id, rule));
        let chosen = aged.map(|id| (id, AGED)).or_else(|| of_sweep(0, FOREGROUND)).or_else(|| of_sweep(1, BACKGROUND));
        let Some((id, rule)) = chosen else { return Dispatch::Idle };
        self.take(id);
        self.sent[rule] += 1;
        Dispatch::Send(id)
    }

    fn remove(&mut self, id: RequestId) {
        self.take(id);
    }

    fn merged(&mut self, now: Timestamp, into: RequestId, request: &Request) {
        let since = self.take(into).unwrap_or(now);
        self.add(since, into, request);
    }

    fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn sent_by_rule(&self) -> &[u64] {
        &self.sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocast_schedulers::conformance::{check, random_steps};
    use iocast_schedulers::{DistanceCost, Registry};
    use iocast_traces::{Lba, Operation, Sectors};

    #[test]
    fn it_keeps_what_every_scheduler_promises() {
        let registry = Registry::builtin().with(&ENTRY);
        let make = || registry.build(&"my-scheduler:max_wait=1ms".parse().unwrap()).unwrap();
        for seed in 0..200 {
            assert_eq!(check(&make, &random_steps(seed)), Ok(()), "seed {seed}");
        }
    }

    #[test]
    fn a_background_write_goes_first_once_it_has_waited_for_max_wait() {
        let mut scheduler = MyScheduler { max_wait: Nanos::from_ms(500), ..MyScheduler::default() };
        let request = |operation, lba| Request::new(Timestamp::ZERO, operation, Lba::new(lba), Sectors::new(8));
        for (id, operation, lba) in [(0, Operation::Write, 0), (1, Operation::Read, 800), (2, Operation::Read, 400)] {
            scheduler.insert(Timestamp::ZERO, RequestId(id), &request(operation, lba));
        }
        let cost = DistanceCost { position: Lba::new(500), capacity: Sectors::new(1000) };
        let mut next = |ms| scheduler.dispatch(Timestamp::ZERO + Nanos::from_ms(ms), Capacity::UNLIMITED, &cost);
        assert_eq!(next(499), Dispatch::Send(RequestId(1)));
        assert_eq!(next(500), Dispatch::Send(RequestId(0)));
        assert_eq!(next(501), Dispatch::Send(RequestId(2)));
        assert_eq!(next(502), Dispatch::Idle);
        assert_eq!(scheduler.sent_by_rule(), [1, 2, 0]);
    }
}
