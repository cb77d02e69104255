//! The promises of every scheduler in the registry under any calls: each request is given
//! back once, none is stranded, no wait ends before it begins, capacity is respected, and the same
//! calls have the same answers.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};

use iocast_schedulers::conformance::{Promise, Step, check, random_steps, run, shortened};
use iocast_schedulers::{AccessCost, Capacity, Dispatch, Entry, Registry, RuleInfo, SCHEDULERS, Scheduler, build};
use proptest::prelude::*;
use traces::spec::{Settings, Spec, Unit};
use traces::{Nanos, Operation, Request, RequestId, Timestamp};

/// The specs under test: every scheduler as it is, and with tunables at awkward values.
pub(crate) fn specs() -> Vec<String> {
    let awkward = [
        "deadline:read_expire=0ns,fifo_batch=0,writes_starved=0",
        "deadline:front_merges=off,fifo_batch=2",
        "mq-deadline:read_expire=0ns,write_expire=0ns,fifo_batch=0,writes_starved=0,prio_aging_expire=0ns",
        "mq-deadline:prio_aging_expire=15ms,fifo_batch=2,writes_starved=1,front_merges=off",
        "kyber:read_lat_nsec=0ns,write_lat_nsec=0ns",
        "kyber:read_lat_nsec=1ns,write_lat_nsec=100s",
        "cfq:quantum=1,slice_idle=0ns,slice_async_rq=1,back_seek_max=0,slice_sync=1ms,slice_async=1ms",
        "cfq:slice_idle=3s,rotational=off,noidle_writes=on,fifo_expire_sync=1ms,fifo_expire_async=1ms",
        "cfq-3.5:quantum=1,slice_idle=0ns,group_idle=0ns,low_latency=off,slice_sync=1ms,weights=10+1000",
        "cfq-3.5:target_latency=1ms,slice_idle=0ns,group_idle=100ms,rotational=off,noidle_writes=on",
        "cfq-3.5:slice_idle=3s,group_idle=5s,slice_async=1ms,weights=1000+10+500",
        "anticipatory:read_expire=0ns,write_expire=0ns,read_batch_expire=0ns,write_batch_expire=0ns,antic_expire=0ns",
        "anticipatory:read_batch_expire=1ms,write_batch_expire=1ms,antic_expire=5s,presumed_exit=1ns",
        "bfq:strict_guarantees=on",
        "bfq:slice_idle=0ns,low_latency=off,max_budget=1",
        "bfq:rotational=on,timeout_sync=1ms,back_seek_max=0,tick=1ms",
        "bfq:cgroups=on,weights=1+1000+100,wr_min_idle_time=0ns,fifo_expire_sync=1ms,fifo_expire_async=1ms",
        "bfq:rotational=on,cgroups=on,slice_idle=50ms,large_burst_thresh=2,wr_max_time=1ns,wr_rt_max_time=1ns",
        "vr:r=0",
        "vr:r=1",
        "satf:ageing=0",
        "satf:ageing=1000,queue_max=2",
        "batch-fcfs:batch_max=1",
        "batch-fcfs:batch_max=3,within=arrival",
        "sfq:weights=1+2+4,depth=1",
        "sfq:weights=3+1,depth=2,cost=requests",
        "mclock:weights=1+2+4,reservations=50+0+10,limits=100+200+0,depth=2",
        "mclock:reservations=1000000,limits=1",
        "mclock:limits=20+1+1000000,depth=1",
        "ba:B_threshold=0,S_quantum=1ms,turn_idle=0,depth=1,below=deadline",
        "ba:B_threshold=1m,S_quantum=3ms,M_reserved=64k,window=2ms,below=cscan,depth=3",
        "ba:B_threshold=100k,S_quantum=20ms,M_reserved=1,window=10ms,below=fifo",
        "token-bucket:rate=1,burst=1",
        "token-bucket:weights=1+10000,rate=64k,burst=4k",
        "table:table_max=1",
        "table:table_max=3",
        "gsw:busdriver_delay=0ns",
        "cats:busdriver_reading=before-table",
        "cats:busdriver_reading=after-completion",
        "cats:busdriver_reading=before-table,busdriver_delay=0ns,table_max=2",
        "cats:segments=1,segment_sectors=1,read_delay=0ns",
        "cats:segments=2,prefetch_sectors=500,read_delay=20ms",
    ];
    SCHEDULERS.iter().map(|entry| entry.name.to_owned()).chain(awkward.map(str::to_owned)).collect()
}

fn step() -> impl Strategy<Value = Step> {
    let operation = prop_oneof![3 => Just(Operation::Read), 2 => Just(Operation::Write), 1 => Just(Operation::Discard)];
    let lba = prop_oneof![0_u64..2000, (0_u64..20).prop_map(|n| n * 8), Just(999_999)];
    let pick = || 0_usize..1000;
    prop_oneof![
        8 => (lba, 0_u64..300, operation, 0_u32..4)
            .prop_map(|(lba, sectors, operation, stream)| Step::Insert { lba, sectors, operation, stream }),
        2 => (0_u64..20_000).prop_map(|us| Step::Pass { us }),
        1 => Just(Step::FollowWait),
        8 => (0_u32..3, 0_u32..3).prop_map(|(reads, writes)| Step::Dispatch { reads, writes }),
        4 => pick().prop_map(|pick| Step::Complete { pick }),
        1 => pick().prop_map(|pick| Step::Requeue { pick }),
        1 => pick().prop_map(|pick| Step::Remove { pick }),
        1 => pick().prop_map(|pick| Step::Follow { pick }),
        1 => (pick(), 1_u64..50).prop_map(|(pick, sectors)| Step::BackMerge { pick, sectors }),
        1 => (pick(), 1_u64..50).prop_map(|(pick, sectors)| Step::FrontMerge { pick, sectors }),
        1 => (pick(), pick()).prop_map(|(pick, with)| Step::Join { pick, with }),
    ]
}

/// Checks every promise.
fn keeps_its_promises(spec: &str, steps: &[Step]) {
    let make = || build(&spec.parse().unwrap()).unwrap();
    if let Err(violation) = check(&make, steps) {
        let (steps, violation) = shortened(&make, steps, violation);
        panic!("{spec}: {violation:?} after {steps:#?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn every_scheduler_gives_back_every_request_once(steps in prop::collection::vec(step(), 1..250)) {
        for spec in specs() {
            keeps_its_promises(&spec, &steps);
        }
    }
}

#[test]
fn names_are_unique_and_told_with_an_origin() {
    let names: BTreeSet<&str> = SCHEDULERS.iter().map(|entry| entry.name).collect();
    assert_eq!(names.len(), SCHEDULERS.len());
    for entry in SCHEDULERS {
        assert!(!entry.summary.is_empty() && !entry.origin.is_empty(), "{}", entry.name);
    }
}

#[test]
fn rules_have_names_and_summaries_and_there_is_more_than_one_or_none() {
    for entry in SCHEDULERS {
        let names: BTreeSet<&str> = entry.rules.iter().map(|rule| rule.name).collect();
        assert_eq!(names.len(), entry.rules.len(), "{}", entry.name);
        assert_ne!(names.len(), 1, "{}", entry.name);
        assert!(entry.rules.iter().all(|rule| !rule.summary.is_empty()), "{}", entry.name);
    }
}

#[test]
fn every_default_is_accepted_by_its_own_unit_and_range() {
    for entry in SCHEDULERS {
        let given =
            entry.tunables.iter().map(|tunable| (tunable.name.to_owned(), tunable.default.to_owned())).collect();
        let spec = Spec { name: entry.name.to_owned(), given };
        Settings::resolve(&spec, entry.tunables).unwrap();
        let names: BTreeSet<&str> = entry.tunables.iter().map(|tunable| tunable.name).collect();
        assert_eq!(names.len(), entry.tunables.len(), "{}", entry.name);
        build(&spec).unwrap();
    }
}

#[test]
fn the_ends_of_every_range_can_be_built_and_asked() {
    for entry in SCHEDULERS {
        for tunable in entry.tunables {
            let values: Vec<String> = match tunable.unit {
                Unit::Switch => vec!["on".to_owned(), "off".to_owned()],
                Unit::Choice(words) => words.iter().map(|&word| word.to_owned()).collect(),
                Unit::Time => [tunable.range.0, tunable.range.1].map(|ns| format!("{ns}ns")).to_vec(),
                Unit::Decimal => [tunable.range.0, tunable.range.1]
                    .map(|thousandths| format!("{}.{:03}", thousandths / 1000, thousandths % 1000))
                    .to_vec(),
                _ => [tunable.range.0, tunable.range.1].map(|number| number.to_string()).to_vec(),
            };
            for value in values {
                let spec = format!("{}:{}={value}", entry.name, tunable.name);
                let arrivals = [500, 100, 900].into_iter().flat_map(|lba| {
                    let of = |operation| Step::Insert { lba, sectors: 8, operation, stream: 0 };
                    [of(Operation::Read), of(Operation::Write)]
                });
                let then = [Step::Dispatch { reads: 1, writes: 1 }, Step::Complete { pick: 0 }];
                keeps_its_promises(&spec, &arrivals.chain(then).collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn an_unknown_name_is_told_the_near_ones() {
    let Err(error) = build(&"cat".parse().unwrap()) else { panic!("there is no such scheduler") };
    assert!(error.to_string().starts_with("unknown scheduler `cat`; did you mean cats"), "{error}");
}

#[test]
fn a_backlog_of_a_hundred_thousand_goes_in_reasonable_time() {
    for entry in SCHEDULERS {
        let arrival = |n: u64| {
            let operation = if n.is_multiple_of(4) { Operation::Write } else { Operation::Read };
            Step::Insert { lba: n * 7919 % 999_983, sectors: 8, operation, stream: (n % 3) as u32 }
        };
        let arrivals: Vec<Step> = (0..100_000).map(arrival).collect();
        let answers = run(build(&entry.name.parse().unwrap()).unwrap(), &arrivals);
        assert!(answers.is_ok_and(|answers| answers.len() >= 100_000), "{}", entry.name);
    }
}

/// First in, first out, but for one promise that it breaks once it has sent three requests.
struct Broken {
    sound: Box<dyn Scheduler>,
    breaks: Promise,
    sent: Vec<u64>,
    last: Option<RequestId>,
    has_waited: bool,
}

/// How many have been made, by which one is not as the one before.
static MADE: AtomicU32 = AtomicU32::new(0);

impl Broken {
    fn entry(breaks: Promise) -> &'static Entry {
        let build = move |_: &Settings| -> Box<dyn Scheduler> {
            MADE.fetch_add(1, Ordering::Relaxed);
            let sound = build(&"fifo".parse().unwrap()).unwrap().scheduler;
            Box::new(Broken { sound, breaks, sent: vec![0], last: None, has_waited: false })
        };
        const RULES: &[RuleInfo] = &[RuleInfo::new("only", "the oldest")];
        let build = Box::leak(Box::new(build));
        Box::leak(Box::new(Entry { name: "broken", rules: RULES, build, ..iocast_schedulers::fifo::ENTRY }))
    }
}

impl Scheduler for Broken {
    fn insert(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.sound.insert(now, id, request);
    }

    fn dispatch(&mut self, now: Timestamp, capacity: Capacity, cost: &dyn AccessCost) -> Dispatch {
        let may_break = self.sent[0] >= 3 && self.sound.waiting() > 0;
        match self.breaks {
            Promise::SendsWhatWaits if may_break => return Dispatch::Send(self.last.unwrap()),
            Promise::WaitsForTheFuture if may_break => return Dispatch::WaitUntil(now),
            Promise::StrandsNothing if may_break => return Dispatch::Idle,
            Promise::DoesNotPanic if may_break => panic!("it has lost count"),
            Promise::RepeatsItself
                if may_break && MADE.load(Ordering::Relaxed).is_multiple_of(2) && !self.has_waited =>
            {
                self.has_waited = true;
                return Dispatch::WaitUntil(now + Nanos::from_us(1));
            }
            _ => {}
        }
        let capacity = if self.breaks == Promise::RespectsCapacity { Capacity::UNLIMITED } else { capacity };
        let answer = self.sound.dispatch(now, capacity, cost);
        if let Dispatch::Send(id) = answer {
            self.sent[0] += if self.breaks == Promise::CountsRules && may_break { 2 } else { 1 };
            self.last = Some(id);
        }
        answer
    }

    fn remove(&mut self, id: RequestId) {
        self.sound.remove(id);
    }

    fn merged(&mut self, now: Timestamp, into: RequestId, request: &Request) {
        self.sound.merged(now, into, request);
    }

    fn waiting(&self) -> usize {
        self.sound.waiting() + usize::from(self.breaks == Promise::CountsWhatWaits && self.sent[0] >= 3)
    }

    fn sent_by_rule(&self) -> &[u64] {
        &self.sent
    }

    fn fork(&self) -> Option<Box<dyn Scheduler>> {
        // A copy that has sent nothing so far.
        let copied =
            Broken { sound: self.sound.fork()?, breaks: self.breaks, sent: vec![0], last: None, has_waited: false };
        (self.breaks == Promise::CopiesAlike).then(|| Box::new(copied) as Box<dyn Scheduler>)
    }

    fn fault(&self) -> Option<&str> {
        (self.breaks == Promise::IsSound && self.sent[0] >= 3).then_some("it sent what it should not")
    }
}

#[test]
fn each_broken_promise_is_found_with_few_calls() {
    std::panic::set_hook(Box::new(|_| {}));
    let found = Promise::ALL.map(|promise| {
        let registry = Registry::builtin().with(Broken::entry(promise));
        let make = || registry.build(&"broken".parse().unwrap()).unwrap();
        let broken = (0..200).find_map(|seed| Some((seed, check(&make, &random_steps(seed)).err()?)));
        let (seed, violation) = broken?;
        let (steps, violation) = shortened(&make, &random_steps(seed), violation);
        Some((violation.promise, steps.len(), check(&make, &steps).err()? == violation))
    });
    let _ = std::panic::take_hook();
    for (promise, found) in Promise::ALL.into_iter().zip(found) {
        let Some((broken, steps, again)) = found else { panic!("{promise:?} was not found") };
        // Four requests arrive, and three of them go.
        assert!(broken == promise && again && steps <= 8, "{promise:?}: {broken:?} with {steps} steps");
    }
}
