//! The rules of a stage around its scheduler, on a drive with a service time of 1 ms.
//!
//! The expected lines are as in blktrace: time in us, letter, operation, first sector, sectors. The letters are Q
//! (arrived), I (inserted), M (merged into a waiting request), J (two waiting requests joined), S (left the scheduler),
//! D (issued to the drive), C (completed by the drive) and F (all parts of an arrival completed).
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod listed;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use iocast_replay::{Engine, Limits, Observer, Served, Stage};
use listed::Listed;
use schedulers::{AccessCost, Capacity, Dispatch, Scheduler};
use traces::{Flags, Lba, Operation, Priority, Request, RequestId, Sectors, Timestamp, VmId};

#[derive(Default)]
struct Log(Vec<String>);

impl Log {
    fn line(&mut self, now: Timestamp, letter: char, request: &Request) {
        let operation = &request.operation.name()[..1].to_uppercase();
        let fua = if request.flags.contains(Flags::FUA) { "F" } else { "" };
        let (time, lba, sectors) = (now.as_ns() / 1000, request.lba, request.sectors());
        self.0.push(format!("{time} {letter} {operation}{fua} {lba}+{sectors}"));
    }
}

impl Observer for Log {
    fn arrived(&mut self, now: Timestamp, _: RequestId, request: &Request) {
        self.line(now, 'Q', request);
    }
    fn inserted(&mut self, now: Timestamp, _: RequestId, request: &Request) {
        self.line(now, 'I', request);
    }
    fn merged(&mut self, now: Timestamp, _: RequestId, _: RequestId, request: &Request, was_waiting: bool) {
        self.line(now, if was_waiting { 'J' } else { 'M' }, request);
    }
    fn dispatched(&mut self, now: Timestamp, _: RequestId, request: &Request) {
        self.line(now, 'S', request);
    }
    fn issued(&mut self, now: Timestamp, _: RequestId, request: &Request) {
        self.line(now, 'D', request);
    }
    fn served(&mut self, served: &Served) {
        self.line(served.finished, 'C', &served.request);
    }
    fn completed(&mut self, now: Timestamp, _: RequestId, request: &Request) {
        self.line(now, 'F', request);
    }
}

fn at(us: u64, operation: Operation, lba: u64, sectors: u64) -> Request {
    Request::new(Timestamp::from_ns(us * 1000), operation, Lba::new(lba), Sectors::new(sectors))
}

fn read(us: u64, lba: u64, sectors: u64) -> Request {
    at(us, Operation::Read, lba, sectors)
}

fn write(us: u64, lba: u64, sectors: u64, flags: Flags) -> Request {
    let mut request = at(us, Operation::Write, lba, sectors);
    request.flags = flags;
    request
}

fn run_with(scheduler: &str, drive: &str, limits: Limits, requests: &[Request]) -> Vec<String> {
    let scheduler = schedulers::build(&scheduler.parse().unwrap()).unwrap().scheduler;
    let drive = drive_models::build(&drive.parse().unwrap()).unwrap().drive;
    let source = Listed::new(requests);
    Engine::new(source, Stage::new(scheduler, limits), drive, Log::default()).run().unwrap().observer.0
}

fn run(limits: Limits, requests: &[Request]) -> Vec<String> {
    run_with("fifo", "fixed", limits, requests)
}

/// The lines with one of these letters.
fn only(log: &[String], letters: &str) -> Vec<String> {
    log.iter().filter(|line| letters.contains(line.split(' ').nth(1).unwrap())).cloned().collect()
}

/// A first request keeps the drive busy until 1,000 us; the following ones wait and may merge.
fn merged(limits: Limits, waiting: &[Request]) -> Vec<String> {
    let mut requests = vec![read(0, 100_000, 8)];
    requests.extend_from_slice(waiting);
    only(&run(limits, &requests), "MJD")[1..].to_vec()
}

#[test]
fn one_request_causes_every_event_in_order() {
    let log = run(Limits::default(), &[read(5, 16, 8)]);
    let points = ["Q", "I", "S", "D"].map(|letter| format!("5 {letter} R 16+8"));
    assert_eq!(log[..4], points);
    assert_eq!(log[4..], ["1005 C R 16+8", "1005 F R 16+8"]);
}

#[test]
fn arrival_merges_behind_before_or_between_adjacent_waiting_requests() {
    let limits = Limits::default();
    assert_eq!(merged(limits, &[read(1, 16, 8), read(2, 24, 8)]), ["2 M R 16+16", "1000 D R 16+16"]);
    assert_eq!(merged(limits, &[read(1, 16, 8), read(2, 8, 8)]), ["2 M R 8+16", "1000 D R 8+16"]);
    let joined = merged(limits, &[read(1, 16, 8), read(2, 32, 8), read(3, 24, 8)]);
    assert_eq!(joined, ["3 M R 16+16", "3 J R 16+24", "1000 D R 16+24"]);
}

#[test]
fn all_arrivals_of_a_merged_request_complete_with_it() {
    let log = run(Limits::default(), &[read(0, 1000, 8), read(1, 16, 8), read(2, 32, 8), read(3, 24, 8)]);
    assert_eq!(only(&log, "F"), ["1000 F R 1000+8", "2000 F R 16+8", "2000 F R 24+8", "2000 F R 32+8"]);
}

/// The number of requests that reach the drive of those that wait together.
fn devices(limits: Limits, waiting: &[Request]) -> usize {
    only(&merged(limits, waiting), "D").len()
}

#[test]
fn requests_that_must_not_merge_stay_separate() {
    let limits = Limits::default();
    assert_eq!(devices(limits, &[read(1, 16, 8), read(2, 24, 8)]), 1, "the plain case merges");
    let mut other_vm = read(2, 24, 8);
    other_vm.vm = VmId(1);
    let mut other_priority = read(2, 24, 8);
    other_priority.priority = Priority::new(1, 0).unwrap();
    for second in [at(2, Operation::Write, 24, 8), other_vm, other_priority, read(2, 25, 8), read(2, 16, 8)] {
        assert_eq!(devices(limits, &[read(1, 16, 8), second]), 2, "{second:?}");
    }
    let off = Limits { merge: false, ..limits };
    assert_eq!(devices(off, &[read(1, 16, 8), read(2, 24, 8)]), 2);
    let discards = [at(1, Operation::Discard, 16, 8), at(2, Operation::Discard, 24, 8)];
    assert_eq!(devices(limits, &discards), 2);
}

#[test]
fn merges_reach_the_limits_and_do_not_exceed_them() {
    let limits = Limits::default();
    let pair = [read(1, 16, 8), read(2, 24, 8)];
    assert_eq!(devices(Limits { max_sectors: Sectors::new(16), ..limits }, &pair), 1);
    assert_eq!(devices(Limits { max_sectors: Sectors::new(15), ..limits }, &pair), 2);
    let three = [read(1, 16, 8), read(2, 24, 8), read(3, 32, 8)];
    assert_eq!(devices(Limits { max_segments: 3, ..limits }, &three), 1);
    assert_eq!(devices(Limits { max_segments: 2, ..limits }, &three), 2);
}

#[test]
fn joins_keep_the_limits_and_count_all_arrivals() {
    let limits = Limits::default();
    // Two pairs, then the arrival between them: five arrivals in one request.
    let pairs = [read(1, 16, 8), read(2, 24, 8), read(3, 40, 8), read(4, 48, 8), read(5, 32, 8)];
    let log = merged(limits, &pairs);
    assert_eq!(only(&log, "JD"), ["5 J R 16+40", "1000 D R 16+40"]);
    // The arrival fits the first pair; the join with the second would exceed the limit.
    assert_eq!(devices(Limits { max_sectors: Sectors::new(39), ..limits }, &pairs), 2);
    assert_eq!(devices(Limits { max_segments: 4, ..limits }, &pairs), 2);
    assert_eq!(devices(Limits { max_segments: 5, ..limits }, &pairs), 1);
    // After the join one more would be the sixth arrival.
    let six = [&pairs[..], &[read(6, 56, 8)]].concat();
    assert_eq!(devices(Limits { max_segments: 5, ..limits }, &six), 2);
    assert_eq!(devices(Limits { max_segments: 6, ..limits }, &six), 1);
}

#[test]
fn front_merge_joins_with_the_request_before() {
    // 8 sectors at the front of 16. No request ends at 8; the request before does after the front merge.
    let waiting = [read(1, 32, 8), read(2, 0, 8), read(3, 16, 16), read(4, 8, 8)];
    let log = merged(Limits::default(), &waiting);
    assert_eq!(only(&log, "D"), ["1000 D R 0+40"]);
    // Back merges come first; without one to make, the front merge joins backwards.
    let short = Limits { max_sectors: Sectors::new(24), ..Limits::default() };
    let log = merged(short, &[read(1, 0, 20), read(2, 32, 8), read(3, 24, 8), read(4, 20, 4)]);
    assert_eq!(only(&log, "MJ"), ["3 M R 24+16", "4 M R 0+24"]);
}

#[test]
fn all_arrivals_of_joined_requests_complete() {
    let waiting = [read(1, 16, 8), read(2, 24, 8), read(3, 40, 8), read(4, 48, 8), read(5, 32, 8)];
    let log = run(Limits::default(), &[&[read(0, 100_000, 8)][..], &waiting].concat());
    assert_eq!(only(&log, "F").len(), 6);
    assert_eq!(only(&log, "F")[1..].iter().filter(|line| line.starts_with("2000 ")).count(), 5);
}

#[test]
fn a_scheduler_may_refuse_a_merge() {
    // deadline refuses a merge into a request that a later one at its sector has displaced.
    let waiting = [read(0, 100_000, 8), read(1, 16, 8), read(2, 16, 16), read(3, 24, 8)];
    let devices = |scheduler: &str| only(&run_with(scheduler, "fixed", Limits::default(), &waiting), "D").len();
    assert_eq!((devices("fifo"), devices("deadline")), (3, 4));
}

#[test]
fn a_scheduler_may_refuse_joins() {
    // The third waiting request closes the gap between the other two. fifo has them joined, kyber has not.
    let waiting = [read(0, 100_000, 8), read(1, 16, 8), read(2, 32, 8), read(3, 24, 8)];
    let log = |scheduler: &str| only(&run_with(scheduler, "fixed", Limits::default(), &waiting), "MJ");
    assert_eq!(log("fifo"), ["3 M R 16+16", "3 J R 16+24"]);
    assert_eq!(log("kyber"), ["3 M R 16+16"]);
}

#[test]
fn discard_is_not_split_and_a_long_write_of_a_sequence_is() {
    let limits = Limits { max_sectors: Sectors::new(16), ..Limits::default() };
    let log = run(limits, &[at(0, Operation::Discard, 0, 1_000_000)]);
    assert_eq!(only(&log, "D"), ["0 D D 0+1000000"]);
    let write = [write(0, 8, 40, Flags::PREFLUSH), read(1, 5000, 8)];
    let log = run_with("fifo", "fixed:write_cache=volatile", limits, &write);
    // The parts of the sequence go before the requests in the scheduler.
    let order = ["0 D F 0+0", "1000 D W 8+16", "2000 D W 24+16", "3000 D W 40+8", "4000 D R 5000+8"];
    assert_eq!(only(&log, "D"), order);
}

/// FIFO that checks that it receives the completion of each request that it sent, once, and of no other.
#[derive(Default)]
struct Strict {
    fifo: schedulers::fifo::Fifo,
    sent: BTreeSet<RequestId>,
    completed: u32,
}

impl Scheduler for Strict {
    fn insert(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.fifo.insert(now, id, request);
    }
    fn dispatch(&mut self, now: Timestamp, capacity: Capacity, cost: &dyn AccessCost) -> Dispatch {
        assert!(
            self.completed > 0 || self.sent.is_empty(),
            "the one before has completed and the scheduler knows of it"
        );
        let dispatch = self.fifo.dispatch(now, capacity, cost);
        if let Dispatch::Send(id) = dispatch {
            self.completed = 0;
            assert!(self.sent.insert(id), "sent once");
        }
        dispatch
    }
    fn completed(&mut self, _now: Timestamp, id: RequestId, _request: &Request) {
        assert!(self.sent.remove(&id), "completion of a request that this scheduler did not send");
        self.completed += 1;
    }
    fn remove(&mut self, id: RequestId) {
        self.fifo.remove(id);
    }
    fn merged(&mut self, now: Timestamp, into: RequestId, request: &Request) {
        self.fifo.merged(now, into, request);
    }
    fn waiting(&self) -> usize {
        self.fifo.waiting()
    }
}

#[test]
fn scheduler_receives_completions_of_its_own_requests_only() {
    let requests = [write(0, 8, 8, Flags::PREFLUSH | Flags::FUA), read(1, 500, 8), read(2, 700, 8), read(9000, 1, 1)];
    let drive = drive_models::build(&"fixed:write_cache=volatile".parse().unwrap()).unwrap().drive;
    let stage = Stage::new(Strict::default(), Limits::default());
    let source = Listed::new(&requests);
    let log = Engine::new(source, stage, drive, Log::default()).run().unwrap().observer.0;
    assert_eq!(only(&log, "F").len(), 4);
}

/// Counts how often it is asked. It waits until 5,000 us for its first request, and sends nothing else.
struct Patient {
    asked: Arc<AtomicU32>,
    waiting: Vec<RequestId>,
}

impl Scheduler for Patient {
    fn insert(&mut self, _now: Timestamp, id: RequestId, _request: &Request) {
        self.waiting.push(id);
    }
    fn dispatch(&mut self, now: Timestamp, _capacity: Capacity, _cost: &dyn AccessCost) -> Dispatch {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let until = Timestamp::from_ns(5_000_000);
        match self.waiting.first() {
            Some(_) if now < until => Dispatch::WaitUntil(until),
            Some(_) if now == until => Dispatch::Send(self.waiting.remove(0)),
            _ => Dispatch::Idle,
        }
    }
    fn remove(&mut self, _id: RequestId) {}
    fn merged(&mut self, _now: Timestamp, _into: RequestId, _request: &Request) {}
    fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

#[test]
fn scheduler_is_asked_after_arrivals_and_completions_and_at_its_time_and_not_in_between() {
    let mut drive = drive_models::build(&"fixed".parse().unwrap()).unwrap().drive;
    let asked = Arc::new(AtomicU32::new(0));
    let mut stage = Stage::new(Patient { asked: Arc::clone(&asked), waiting: Vec::new() }, Limits::default());
    let (mut done, mut completions) = (Vec::new(), Vec::new());
    let mut opportunity = |us: u64, arrival: Option<Request>| {
        let now = Timestamp::from_ns(us * 1000);
        drive.advance(now, &mut completions);
        for completion in completions.drain(..) {
            stage.complete(now, &completion, &mut (), &mut done);
        }
        if let Some(request) = arrival {
            stage.arrive(now, request, &drive, &mut (), &mut done);
        }
        let before = asked.load(Ordering::Relaxed);
        stage.dispatch(now, &mut drive, &mut ());
        (asked.load(Ordering::Relaxed) - before, stage.wake().map(|wake| wake.as_ns() / 1000))
    };
    assert_eq!(opportunity(0, Some(read(0, 8, 8))), (1, Some(5000)));
    assert_eq!(opportunity(1000, None), (0, Some(5000)));
    assert_eq!(opportunity(2000, Some(read(2000, 100, 8))), (1, Some(5000)));
    // It sends its first request, is asked once more, and has no capacity left for the second.
    assert_eq!(opportunity(5000, None), (1, None));
    assert_eq!(opportunity(5500, None), (0, None));
    // The completion at 6,000 us is news, after which it answers that it is idle.
    assert_eq!([opportunity(6000, None), opportunity(6500, None)], [(1, None), (0, None)]);
    assert_eq!(opportunity(7000, Some(read(7000, 200, 8))), (1, None));
}

#[test]
fn only_writes_begin_flush_sequences() {
    let mut marked = read(0, 8, 8);
    marked.flags = Flags::PREFLUSH | Flags::FUA;
    let log = run_with("fifo", "fixed:write_cache=volatile", Limits::default(), &[marked]);
    assert_eq!(only(&log, "D"), ["0 D RF 8+8"]);
}

#[test]
fn with_a_look_ahead_a_write_without_capacity_does_not_delay_reads() {
    let limits = Limits { depth: 2, write_depth: 1, look_ahead: true, ..Limits::default() };
    let requests = [write(0, 0, 8, Flags::empty()), write(1, 1000, 8, Flags::empty()), read(2, 2000, 8)];
    let log = run_with("sstf", "fixed", limits, &requests);
    assert_eq!(only(&log, "D")[..2], ["0 D W 0+8", "2 D R 2000+8"]);
    // Reads do not count against the write depth.
    let limits = Limits { depth: 4, write_depth: 1, ..Limits::default() };
    let log = run_with("sstf", "fixed", limits, &[read(0, 0, 8), read(1, 64, 8), write(2, 128, 8, Flags::empty())]);
    assert_eq!(only(&log, "D").len(), 3);
    assert!(only(&log, "D")[2].starts_with("2 D W"));
}

#[test]
fn fua_prevents_merging_only_on_a_volatile_cache() {
    let writes = [read(0, 100_000, 8), write(1, 16, 8, Flags::FUA), write(2, 24, 8, Flags::empty())];
    let devices = |drive| only(&run_with("fifo", drive, Limits::default(), &writes), "D");
    assert_eq!(devices("fixed"), ["0 D R 100000+8", "1000 D W 16+16"]);
    assert_eq!(devices("fixed:write_cache=volatile-fua").len(), 3);
    let writes = [read(0, 100_000, 8), write(1, 16, 8, Flags::empty()), write(2, 24, 8, Flags::FUA)];
    let log = run_with("fifo", "fixed:write_cache=volatile-fua", Limits::default(), &writes);
    assert_eq!(only(&log, "D").len(), 3, "nor may a durable write join one that is not");
}

#[test]
fn deadline_with_front_merges_off_refuses_them() {
    let requests = [read(0, 100_000, 8), read(1, 16, 8), read(2, 8, 8)];
    let devices = |scheduler| only(&run_with(scheduler, "fixed", Limits::default(), &requests), "D").len();
    assert_eq!((devices("deadline"), devices("deadline:front_merges=off")), (2, 3));
}

#[test]
fn long_arrival_is_split_and_completes_with_its_last_part() {
    let limits = Limits { max_sectors: Sectors::new(16), ..Limits::default() };
    let log = run(limits, &[read(0, 8, 40)]);
    assert_eq!(only(&log, "QDF"), ["0 Q R 8+40", "0 D R 8+16", "1000 D R 24+16", "2000 D R 40+8", "3000 F R 8+40"]);
}

#[test]
fn depth_and_write_depth_limit_requests_in_flight() {
    let requests: Vec<Request> =
        (0..4).map(|i| write(i, 1000 * i, 8, Flags::empty())).chain([read(4, 9000, 8)]).collect();
    let issued = |depth, write_depth| {
        let limits = Limits { depth, write_depth, ..Limits::default() };
        only(&run_with("sstf", "fixed", limits, &requests), "D")
    };
    assert_eq!(issued(5, 5).iter().filter(|line| line.starts_with(|c| ('0'..='4').contains(&c))).count(), 5);
    // The second write finds the write depth used up; the read passes it.
    assert_eq!(issued(5, 1)[..2], ["0 D W 0+8", "4 D R 9000+8"]);
    // With depth 1 the second is issued when the first has completed.
    assert!(issued(1, 1)[1].starts_with("1000 D"));
}

#[test]
fn look_ahead_takes_the_next_request_before_the_drive_has_capacity() {
    // At 0 the first goes to the drive; no other has arrived. At 10 the second leaves the scheduler at once and waits
    // in the stage. The third, nearer to the head, comes too late.
    let requests = [read(0, 0, 8), read(10, 5000, 8), read(20, 16, 8)];
    let order = |look_ahead| {
        let limits = Limits { look_ahead, ..Limits::default() };
        only(&run_with("sstf", "fixed", limits, &requests), "SD")
    };
    assert_eq!(
        order(false),
        ["0 S R 0+8", "0 D R 0+8", "1000 S R 16+8", "1000 D R 16+8", "2000 S R 5000+8", "2000 D R 5000+8"]
    );
    assert_eq!(
        order(true),
        ["0 S R 0+8", "0 D R 0+8", "10 S R 5000+8", "1000 D R 5000+8", "1000 S R 16+8", "2000 D R 16+8"]
    );
}

#[test]
fn flush_without_a_volatile_cache_completes_at_once() {
    let log = run(Limits::default(), &[at(7, Operation::Flush, 0, 0)]);
    assert_eq!(log, ["7 Q F 0+0", "7 F F 0+0"]);
}

#[test]
fn discard_on_a_drive_without_discards_completes_at_once() {
    let log = run_with("fifo", "linear", Limits::default(), &[at(7, Operation::Discard, 0, 8)]);
    assert_eq!(log, ["7 Q D 0+8", "7 F D 0+8"]);
}

#[test]
fn flush_sequences_on_a_volatile_cache() {
    let both = Flags::PREFLUSH | Flags::FUA;
    let points = |drive, flags| only(&run_with("fifo", drive, Limits::default(), &[write(0, 16, 8, flags)]), "DF");
    let volatile = "fixed:write_cache=volatile,flush=2ms";
    assert_eq!(points(volatile, both), ["0 D F 0+0", "2000 D W 16+8", "3000 D F 0+0", "5000 F WF 16+8"]);
    assert_eq!(points(volatile, Flags::PREFLUSH), ["0 D F 0+0", "2000 D W 16+8", "3000 F W 16+8"]);
    assert_eq!(points(volatile, Flags::FUA), ["0 D W 16+8", "1000 D F 0+0", "3000 F WF 16+8"]);
    let fua = "fixed:write_cache=volatile-fua,flush=2ms";
    assert_eq!(points(fua, both), ["0 D F 0+0", "2000 D WF 16+8", "3000 F WF 16+8"]);
    assert_eq!(points(fua, Flags::FUA), ["0 D WF 16+8", "1000 F WF 16+8"]);
}

#[test]
fn flush_waits_for_data_of_flushed_writes_but_not_for_ever() {
    // blk-flush.c, C2 and C3. The write with a flush before it is flushed at 0 and written for 1 ms. A flush that comes
    // meanwhile begins when these data are written; without a postflush the write is complete then.
    let flush = |us| at(us, Operation::Flush, 0, 0);
    let with = |flags: Flags, lba| {
        let mut request = at(0, Operation::Write, lba, 8);
        request.flags = flags;
        request
    };
    let drive = "fixed:write_cache=volatile-fua,flush=0s";
    let requests = [with(Flags::PREFLUSH, 40), flush(300)];
    let expected = ["0 D F 0+0", "0 C F 0+0", "0 D W 40+8", "1000 C W 40+8", "1000 D F 0+0", "1000 C F 0+0"];
    let of_drive = |log: Vec<String>| {
        let of_drive = |line: &String| line.contains(" D ") || line.contains(" C ");
        log.into_iter().filter(of_drive).collect::<Vec<String>>()
    };
    assert_eq!(of_drive(run_with("fifo", drive, Limits::default(), &requests)), expected);
    // A plain write keeps no flush waiting.
    let requests = [at(0, Operation::Write, 40, 8), flush(300)];
    let log = of_drive(run_with("fifo", drive, Limits { depth: 2, ..Limits::default() }, &requests));
    assert_eq!(log[1], "300 D F 0+0", "{log:?}");
    // After 5 s the flush no longer waits; it begins with the next request that joins it.
    let slow = "fixed:write_cache=volatile-fua,flush=0s,service=9s";
    let requests = [with(Flags::PREFLUSH, 40), flush(300), flush(4_000_000), flush(5_000_300)];
    let log = of_drive(run_with("fifo", slow, Limits { depth: 2, ..Limits::default() }, &requests));
    assert_eq!(log[3], "5000300 D F 0+0", "{log:?}");
}

#[test]
fn guest_sequences_flushes_on_a_drive_whose_writes_are_durable() {
    let limits = Limits { always_flushes: true, ..Limits::default() };
    let mut commit = at(0, Operation::Write, 40, 8);
    commit.flags = Flags::PREFLUSH | Flags::FUA;
    let log = run_with("fifo", "fixed:flush=0s", limits, &[commit, at(300, Operation::Flush, 0, 0)]);
    // Both flushes after the write are one, and take no time there.
    assert_eq!(log.iter().filter(|line| line.contains(" D F ")).count(), 2, "{log:?}");
    assert_eq!(log.iter().filter(|line| line.starts_with("1000 F ")).count(), 2, "{log:?}");
    let below = run_with("fifo", "fixed", Limits::default(), &[commit, at(300, Operation::Flush, 0, 0)]);
    assert_eq!(below.iter().filter(|line| line.contains(" D F ")).count(), 0, "{below:?}");
}

#[test]
fn waiting_flushes_share_the_next_one() {
    let flush = |us| at(us, Operation::Flush, 0, 0);
    let log = run_with("fifo", "fixed:write_cache=volatile", Limits::default(), &[flush(0), flush(10), flush(20)]);
    assert_eq!(only(&log, "D"), ["0 D F 0+0", "1000 D F 0+0"]);
    assert_eq!(only(&log, "F"), ["1000 F F 0+0", "2000 F F 0+0", "2000 F F 0+0"]);
}

#[test]
fn at_equal_times_completions_come_first_then_arrivals_then_dispatches() {
    let log = run_with("sstf", "fixed", Limits::default(), &[read(0, 0, 8), read(1, 500, 8), read(1000, 16, 8)]);
    let at_1000: Vec<&String> = log.iter().filter(|line| line.starts_with("1000 ")).collect();
    // The arrival at 1,000 us is nearer and is dispatched at once.
    assert_eq!(
        at_1000,
        ["1000 C R 0+8", "1000 F R 0+8", "1000 Q R 16+8", "1000 I R 16+8", "1000 S R 16+8", "1000 D R 16+8"]
    );
}

#[test]
fn bound_on_outstanding_arrivals_holds_arrivals_back_and_reports_it() {
    let requests: Vec<Request> = (0..10).map(|i| read(i, 1000 * i, 8)).collect();
    let scheduler = schedulers::build(&"fifo".parse().unwrap()).unwrap().scheduler;
    let drive = drive_models::build(&"fixed".parse().unwrap()).unwrap().drive;
    let stage = Stage::new(scheduler, Limits::default());
    let source = Listed { is_held_back: true, ..Listed::new(&requests) };
    let ended = Engine::new(source, stage, drive, Log::default()).max_outstanding(2).run().unwrap();
    assert!(ended.outcome.held_back);
    assert_eq!(only(&ended.observer.0, "F").len(), 10);
    assert_eq!(only(&ended.observer.0, "Q")[2], "1000 Q R 2000+8");
}
