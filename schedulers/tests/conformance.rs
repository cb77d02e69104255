//! The promises of every scheduler in the registry under any calls: each request is given
//! back once, none is stranded, no wait ends before it begins, capacity is respected, and the same
//! calls have the same answers.

use std::collections::{BTreeMap, BTreeSet};

use iocast_schedulers::{Capacity, Dispatch, DistanceCost, RuleInfo, SCHEDULERS, Scheduler, build};
use proptest::prelude::*;
use traces::spec::{Settings, Spec, Unit};
use traces::{Flags, Lba, Nanos, Operation, Priority, Request, RequestId, Sectors, StreamId, Timestamp, VmId};

/// The specs under test: every scheduler as it is, and with tunables at awkward values.
fn specs() -> Vec<String> {
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

/// One call of a scheduler; picks are taken modulo the number of candidates.
#[derive(Clone, Debug)]
enum Step {
    Insert { lba: u64, sectors: u64, operation: Operation, stream: u32 },
    Pass { us: u64 },
    FollowWait,
    Dispatch { reads: u32, writes: u32 },
    Complete { pick: usize },
    Requeue { pick: usize },
    Remove { pick: usize },
    Follow { pick: usize },
    BackMerge { pick: usize, sectors: u64 },
    FrontMerge { pick: usize, sectors: u64 },
    Join { pick: usize, with: usize },
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

/// Owns a scheduler as a stage does, and checks every answer against the waiting requests.
struct Owner {
    spec: String,
    scheduler: Box<dyn Scheduler>,
    rules: &'static [RuleInfo],
    /// Requests sent or followed, each time anew.
    times_sent: u64,
    cost: DistanceCost,
    now: Timestamp,
    wait: Option<Timestamp>,
    waiting: BTreeMap<u32, Request>,
    sent: BTreeMap<u32, Request>,
    free: BTreeSet<u32>,
    log: Vec<(Timestamp, Dispatch)>,
}

/// Names the scheduler of a failed check.
impl Drop for Owner {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the scheduler is {}", self.spec);
        }
    }
}

impl Owner {
    fn new(spec: &str) -> Owner {
        let built = build(&spec.parse().expect("a spec")).expect("a scheduler");
        Owner {
            spec: spec.to_owned(),
            scheduler: built.scheduler,
            rules: built.entry.rules,
            times_sent: 0,
            cost: DistanceCost { position: Lba::ZERO, capacity: Sectors::new(1_000_000) },
            now: Timestamp::ZERO,
            wait: None,
            waiting: BTreeMap::new(),
            sent: BTreeMap::new(),
            free: (0..400).collect(),
            log: Vec::new(),
        }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Insert { lba, sectors, operation, stream } => self.insert(lba, sectors, operation, stream),
            Step::Pass { us } => self.now += Nanos::from_us(us),
            Step::FollowWait => self.now = self.wait.map_or(self.now, |wait| wait.max(self.now)),
            Step::Dispatch { reads, writes } => self.dispatch(Capacity { reads, writes }),
            Step::Complete { pick } => self.complete(pick),
            Step::Requeue { pick } => self.requeue(pick),
            Step::Remove { pick } => {
                if let Some(id) = nth(&self.waiting, pick) {
                    self.waiting.remove(&id);
                    self.free.insert(id);
                    self.scheduler.remove(RequestId(id));
                }
            }
            Step::Follow { pick } => self.follow(pick),
            Step::BackMerge { pick, sectors } => self.merge(pick, 0, sectors),
            Step::FrontMerge { pick, sectors } if self.scheduler.front_merges() => self.merge(pick, sectors, sectors),
            Step::FrontMerge { .. } => {}
            Step::Join { pick, with } => self.join(pick, with),
        }
        assert_eq!(self.scheduler.waiting(), self.waiting.len(), "after {step:?}");
        self.check_rules();
    }

    /// Every request that has been sent counts for one rule.
    fn check_rules(&self) {
        let by_rule = self.scheduler.sent_by_rule();
        assert_eq!(by_rule.len(), self.rules.len());
        if !by_rule.is_empty() {
            assert_eq!(by_rule.iter().sum::<u64>(), self.times_sent, "{by_rule:?}");
        }
    }

    fn insert(&mut self, lba: u64, sectors: u64, operation: Operation, stream: u32) {
        let id = self.free.pop_first().expect("fewer steps than ids");
        let mut request = Request::new(self.now, operation, Lba::new(lba), Sectors::new(sectors));
        request.stream = StreamId(stream);
        request.vm = VmId(stream as u16);
        request.cpu = (stream % 3) as u16;
        request.priority = Priority::new((stream % 4) as u8, 4).expect("a class of Linux");
        if stream == 1 {
            request.flags = Flags::SYNC;
        }
        self.waiting.insert(id, request);
        self.scheduler.insert(self.now, RequestId(id), &request);
    }

    /// Asks until the answer is not to send, or no capacity is left.
    fn dispatch(&mut self, mut capacity: Capacity) {
        loop {
            let copy = if self.waiting.len() < 300 { self.scheduler.fork() } else { None };
            // While they look for the next request, these two may begin a batch or a turn, which a follower does not.
            let follows_alike = !["mq-deadline", "bfq"].iter().any(|name| self.spec.starts_with(name));
            let follower =
                copy.as_ref().filter(|_| follows_alike && capacity == Capacity::UNLIMITED).and_then(|copy| copy.fork());
            let choice = self.scheduler.dispatch(self.now, capacity, &self.cost);
            if let Some(mut copy) = copy {
                assert_eq!(copy.dispatch(self.now, capacity, &self.cost), choice, "a copy differs");
                assert_eq!(copy.sent_by_rule(), self.scheduler.sent_by_rule(), "a copy counts otherwise");
            }
            self.log.push((self.now, choice));
            match choice {
                Dispatch::Send(id) => {
                    if let Some(mut follower) = follower
                        && follower.follow(self.now, id)
                    {
                        assert_eq!(
                            follower.sent_by_rule(),
                            self.scheduler.sent_by_rule(),
                            "a follower counts otherwise"
                        );
                    }
                    let request = self.waiting.remove(&id.0).expect("only what waits is sent");
                    assert!(capacity.admits(request.operation), "{request:?} was sent against {capacity:?}");
                    let left =
                        if request.operation == Operation::Read { &mut capacity.reads } else { &mut capacity.writes };
                    *left -= 1;
                    self.cost.position = request.end();
                    self.sent.insert(id.0, request);
                    self.times_sent += 1;
                }
                Dispatch::WaitUntil(wait) => {
                    assert!(wait > self.now, "waits until {wait} at {}", self.now);
                    self.wait = Some(wait);
                    return;
                }
                Dispatch::Idle => {
                    let stranded = self.waiting.values().any(|request| capacity.admits(request.operation));
                    // A fifo may hold up requests with capacity behind one without.
                    // And a depth of its own may let nothing go before something completes.
                    let is_full = capacity.reads == 0 || capacity.writes == 0 || !self.sent.is_empty();
                    assert!(!stranded || is_full, "idle with capacity and requests");
                    return;
                }
            }
        }
    }

    fn complete(&mut self, pick: usize) {
        if let Some(id) = nth(&self.sent, pick) {
            let request = self.sent.remove(&id).expect("just picked");
            self.free.insert(id);
            self.scheduler.completed(self.now, RequestId(id), &request);
        }
    }

    fn follow(&mut self, pick: usize) {
        if let Some(id) = nth(&self.waiting, pick) {
            let request = self.waiting.remove(&id).expect("just picked");
            if self.scheduler.follow(self.now, RequestId(id)) {
                self.sent.insert(id, request);
                self.times_sent += 1;
            } else {
                self.free.insert(id);
            }
        }
    }

    fn requeue(&mut self, pick: usize) {
        if let Some(id) = nth(&self.sent, pick) {
            let request = self.sent.remove(&id).expect("just picked");
            self.waiting.insert(id, request);
            self.scheduler.requeue(self.now, RequestId(id), &request);
        }
    }

    /// Adds `sectors` to a waiting request, `before` of them in front.
    fn merge(&mut self, pick: usize, before: u64, sectors: u64) {
        let Some(id) = nth(&self.waiting, pick) else { return };
        let request = self.waiting.get_mut(&id).expect("just picked");
        if request.lba.sector() < before || !self.scheduler.may_merge(RequestId(id), request) {
            return;
        }
        request.lba = Lba::new(request.lba.sector() - before);
        request.set_sectors(request.sectors() + Sectors::new(sectors));
        self.scheduler.merged(self.now, RequestId(id), request);
    }

    fn join(&mut self, pick: usize, with: usize) {
        let (Some(into), Some(from)) = (nth(&self.waiting, pick), nth(&self.waiting, with)) else { return };
        let joined = self.waiting[&from];
        if into == from
            || self.waiting[&into].operation != joined.operation
            || self.waiting[&into].vm != joined.vm
            || !self.scheduler.may_merge(RequestId(into), &joined)
        {
            return;
        }
        self.waiting.remove(&from);
        self.free.insert(from);
        let request = self.waiting.get_mut(&into).expect("just picked");
        request.set_sectors(request.sectors() + joined.sectors());
        self.scheduler.merged_requests(self.now, RequestId(into), RequestId(from), request);
    }

    /// Nothing more arrives: everything goes, in bounded time and with a bounded number of waits.
    fn drain(&mut self) {
        let waits_max = 4 * (self.waiting.len() + 2);
        for _ in 0..waits_max {
            self.dispatch(Capacity::UNLIMITED);
            let has_completed = !self.sent.is_empty();
            while !self.sent.is_empty() {
                self.complete(0);
            }
            if has_completed && !self.waiting.is_empty() {
                continue;
            }
            if self.waiting.is_empty() {
                assert_eq!(self.scheduler.dispatch(self.now, Capacity::UNLIMITED, &self.cost), Dispatch::Idle);
                self.check_rules();
                return;
            }
            self.now = self.wait.take().expect("idle with requests").max(self.now);
        }
        panic!("{} requests are stranded", self.waiting.len());
    }
}

fn nth(requests: &BTreeMap<u32, Request>, pick: usize) -> Option<u32> {
    requests.keys().nth(pick % requests.len().max(1)).copied()
}

fn run(spec: &str, steps: &[Step]) -> Vec<(Timestamp, Dispatch)> {
    let mut owner = Owner::new(spec);
    for step in steps {
        owner.take(step);
    }
    owner.drain();
    std::mem::take(&mut owner.log)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn every_scheduler_gives_back_every_request_once(steps in prop::collection::vec(step(), 1..250)) {
        for spec in specs() {
            prop_assert_eq!(run(&spec, &steps), run(&spec, &steps), "{} does not repeat itself", spec);
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
                let mut owner = Owner::new(&spec);
                for start in [500, 100, 900] {
                    owner.insert(start, 8, Operation::Read, 0);
                    owner.insert(start, 8, Operation::Write, 0);
                }
                owner.dispatch(Capacity { reads: 1, writes: 1 });
                owner.complete(0);
                owner.drain();
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
        let mut owner = Owner::new(entry.name);
        owner.free = (0..100_000).collect();
        for n in 0..100_000 {
            let operation = if n % 4 == 0 { Operation::Write } else { Operation::Read };
            owner.insert(n * 7919 % 999_983, 8, operation, (n % 3) as u32);
        }
        owner.log = Vec::with_capacity(300_000);
        owner.drain();
    }
}
