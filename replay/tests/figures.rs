//! The figures of a run against values worked out by hand, and the ratios of runs against their definition.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod listed;

use iocast_replay::metrics::Class;
use iocast_replay::{ActiveTime, DecisionLog, Engine, Limits, Metrics, Overload, Stage, figures};
use listed::Listed;
use schedulers::Scheduler;
use traces::results::{Part, Run, Status};
use traces::{Flags, Lba, Operation, Request, Sectors, StreamId, Timestamp, VmId};

fn request(ms: u64, operation: Operation, lba: u64, sectors: u64, vm: u16) -> Request {
    let mut request = Request::new(Timestamp::from_ns(ms * 1_000_000), operation, Lba::new(lba), Sectors::new(sectors));
    request.vm = VmId(vm);
    request.stream = StreamId(u32::from(vm) + 7);
    request
}

/// At 10 ms a read goes to the drive (service time 1 ms). At 10 ms also arrive two reads that merge and then a write.
/// Two VMs.
fn load() -> Vec<Request> {
    vec![
        request(10, Operation::Read, 0, 8, 0),
        request(10, Operation::Read, 100, 8, 0),
        request(10, Operation::Read, 108, 8, 0),
        request(10, Operation::Write, 1000, 16, 1),
    ]
}

fn replay(requests: &[Request], limits: Limits, drive: &str) -> Metrics {
    let scheduler = schedulers::build(&"fifo".parse().unwrap()).unwrap().scheduler;
    let drive = drive_models::build(&drive.parse().unwrap()).unwrap().drive;
    Engine::new(Listed::new(requests), Stage::new(scheduler, limits), drive, Metrics::per_vm(ActiveTime::of_any()))
        .run()
        .unwrap()
        .observer
}

fn part() -> Part {
    Part { name: "fifo".to_owned(), model: "fifo".to_owned(), settings: Default::default() }
}

fn run(metrics: &Metrics) -> Run {
    metrics.run(part(), Status::Comparable, &["a".to_owned(), "b".to_owned()])
}

#[test]
fn host_gives_the_requests_that_each_rule_of_its_scheduler_has_sent() {
    let built = schedulers::build(&"deadline".parse().unwrap()).unwrap();
    let drive = drive_models::build(&"fixed".parse().unwrap()).unwrap().drive;
    let stage = Stage::new(built.scheduler, Limits::default());
    let ended = Engine::new(Listed::new(&load()), stage, drive, ()).run().unwrap();
    let sent = ended.host.stage().scheduler().sent_by_rule();
    // The read, which begins a batch, the pair behind it, and the write, which begins the next.
    let by_rule = |counts: &[&[u64]]| {
        let rules = figures::rules(built.entry.rules, counts.iter().copied());
        rules.into_iter().map(|rule| (rule.name, rule.requests, rule.share)).collect::<Vec<_>>()
    };
    let named = |counts: [u64; 5], shares: [Option<f64>; 5]| {
        let names = ["alias", "batch", "starved", "expired", "new batch"].map(str::to_owned);
        names.into_iter().zip(counts).zip(shares).map(|((name, count), share)| (name, count, share)).collect::<Vec<_>>()
    };
    let shares = [0.0, 1.0 / 3.0, 0.0, 0.0, 2.0 / 3.0].map(Some);
    assert_eq!(by_rule(&[sent]), named([0, 1, 0, 0, 2], shares));
    assert_eq!(by_rule(&[sent, sent]), named([0, 2, 0, 0, 4], shares), "the stages of a layer are added up");
    assert_eq!(by_rule(&[]), named([0; 5], [None; 5]));
}

#[test]
fn figures_of_a_run_equal_those_worked_out_by_hand() {
    // 10-11 ms the first read, 11-12 the merged pair, 12-13 the write.
    let run = run(&replay(&load(), Limits::default(), "fixed"));
    assert_eq!(run.span_ns.as_ns(), 3_000_000);
    assert_eq!((run.read.requests, run.read.device_requests, run.read.bytes), (3, 2, 24 * 512));
    assert_eq!((run.write.requests, run.write.device_requests, run.write.bytes), (1, 1, 16 * 512));
    assert_eq!((run.all.requests, run.all.device_requests, run.all.bytes), (4, 3, 40 * 512));
    let ms = |mean: Option<f64>| mean.unwrap() / 1e6;
    assert!((ms(run.read.response_time.mean_ns) - 5.0 / 3.0).abs() < 1e-9);
    assert_eq!(ms(run.write.response_time.mean_ns), 3.0);
    assert_eq!(ms(run.all.response_time.mean_ns), 2.0);
    assert_eq!(ms(run.all.device_time.mean_ns), 1.0);
    assert!((run.all.iops - 4.0 / 0.003).abs() < 1e-6);
    assert!((run.all.bytes_per_s - 40.0 * 512.0 / 0.003).abs() < 1e-6);
    assert!((run.all.sectors_per_ms - 40.0 / 3.0).abs() < 1e-9);
    // From 0; then 8 to 100, and 116 to 1000.
    assert_eq!(run.all.seek_distance_mean_sectors, Some((92 + 884) as f64 / 3.0));
    assert_eq!(run.all.cache_hit_share, Some(0.0));
    // Four outstanding for 1 ms, three for 1 ms, one for 1 ms; waiting: 2, 1, 0 after merging.
    assert!((run.queue.outstanding_mean - 8.0 / 3.0).abs() < 1e-9);
    assert!((run.queue.waiting_mean - 1.0).abs() < 1e-9);
    // All four arrive before anything is dispatched; the merge leaves three waiting.
    assert_eq!((run.queue.outstanding_max, run.queue.waiting_max, run.queue.merged), (4, 3, 1));
    // Of the three, the last one to leave leaves nothing behind.
    assert_eq!((run.queue.dispatches, run.queue.choices), (3, 2));
    assert_eq!(run.queue.drive_utilisation, 1.0);
    assert_eq!(run.vms.len(), 2);
    assert_eq!((run.vms[0].all.requests, run.vms[1].all.requests), (3, 1));
    assert_eq!(run.vms[1].write.response_time.max_ns, Some(3_000_000));
}

#[test]
fn joined_requests_count_as_one_waiting_request() {
    // Three wait separately, then an arrival joins two of them: two wait for 1 ms, one for another 1 ms.
    let read = |lba| request(10, Operation::Read, lba, 8, 0);
    let load = vec![read(0), read(100), read(116), read(500), read(108)];
    let run = run(&replay(&load, Limits::default(), "fixed"));
    assert_eq!((run.queue.waiting_max, run.queue.merged), (4, 1));
    assert_eq!((run.span_ns.as_ns(), run.queue.waiting_mean), (3_000_000, 1.0));
}

#[test]
fn pauses_do_not_count_as_busy_and_percentiles_do_not_exceed_the_maximum() {
    let run = run(&replay(
        &[request(5, Operation::Read, 0, 8, 0), request(9, Operation::Read, 8, 8, 0)],
        Limits::default(),
        "fixed",
    ));
    assert_eq!((run.span_ns.as_ns(), run.queue.drive_utilisation), (5_000_000, 0.4));
    assert_eq!(run.all.response_percentiles_ns["p99.99"], 1_000_000);
}

#[test]
fn look_ahead_adds_to_dispatch_to_completion_only() {
    let limits = Limits { look_ahead: true, merge: false, ..Limits::default() };
    let run = run(&replay(&load(), limits, "fixed"));
    assert_eq!(run.all.device_time.mean_ns, Some(1e6));
    // The first two leave at 10 ms, the third at 11, the fourth at 12; done at 11, 12, 13, 14.
    assert_eq!(run.all.dispatch_to_completion.mean_ns, Some(7e6 / 4.0));
}

#[test]
fn device_time_includes_waiting_at_the_drive() {
    let limits = Limits { depth: 3, merge: false, ..Limits::default() };
    let run = run(&replay(&load()[..3], limits, "fixed"));
    assert_eq!(run.all.device_time.mean_ns, Some(2e6));
}

#[test]
fn flushes_and_discards_are_a_separate_class_of_their_vm() {
    let mut write = request(0, Operation::Write, 0, 8, 1);
    write.flags = Flags::PREFLUSH;
    let load = vec![write, request(0, Operation::Discard, 8, 8, 1), request(0, Operation::Flush, 0, 0, 1)];
    let metrics = replay(&load, Limits::default(), "fixed:write_cache=volatile");
    let run = run(&metrics);
    assert_eq!((run.write.requests, run.other.requests, run.other.bytes), (1, 2, 8 * 512));
    assert_eq!((run.vms[0].other.device_requests, run.vms[1].other.device_requests), (0, 3));
    assert_eq!(metrics.total(Class::Other).device.count, 3);
}

#[test]
fn ratio_is_run_over_baseline_for_comparable_runs_only() {
    let base = run(&replay(&load(), Limits::default(), "fixed:service=1ms"));
    let slow = run(&replay(&load(), Limits::default(), "fixed:service=4ms"));
    let ratio = iocast_replay::figures::ratio(&slow, &base).unwrap();
    assert!((ratio.response_time_mean.unwrap() - 4.0).abs() < 1e-9);
    assert!((ratio.response_time_p99.unwrap() - 4.0).abs() < 0.01);
    assert!((ratio.throughput.unwrap() - 0.25).abs() < 1e-9);
    let overloaded = Status::Overloaded { reason: String::new(), remedy: String::new() };
    let marked = Run { status: overloaded, ..slow };
    assert_eq!(iocast_replay::figures::ratio(&marked, &base), None);
    assert_eq!(iocast_replay::figures::ratio(&base, &marked), None);
}

#[test]
fn decision_log_has_one_line_per_dispatch() {
    let scheduler = schedulers::build(&"fifo".parse().unwrap()).unwrap().scheduler;
    let drive = drive_models::build(&"fixed".parse().unwrap()).unwrap().drive;
    let mut out = Vec::new();
    let mut requests = load();
    requests.insert(3, request(10, Operation::Read, 124, 8, 0));
    requests.insert(4, request(10, Operation::Read, 116, 8, 0));
    let log = DecisionLog::new(&mut out);
    Engine::new(Listed::new(&requests), Stage::new(scheduler, Limits::default()), drive, log)
        .run()
        .unwrap()
        .observer
        .finish()
        .unwrap();
    let expected = "time_ns\tarrival_ns\toperation\tlba_sectors\tsectors\tvm\tstream\twaiting\n\
                    10000000\t10000000\tread\t0\t8\t0\t7\t3\n\
                    11000000\t10000000\tread\t100\t32\t0\t7\t2\n\
                    12000000\t10000000\twrite\t1000\t16\t1\t8\t1\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn log_reports_its_first_write_error() {
    #[derive(Debug)]
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("full"))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    assert_eq!(DecisionLog::new(Full).finish().unwrap_err().to_string(), "full");
}

/// Reads of 1 ms, one every `gap` us.
fn verdict(requests: u64, gap_us: u64, drive: &str) -> iocast_replay::overload::Verdict {
    let requests: Vec<Request> = (0..requests)
        .map(|index| {
            let arrival = Timestamp::from_ns(index * gap_us * 1000);
            Request::new(arrival, Operation::Read, Lba::new(index * 64), Sectors::new(8))
        })
        .collect();
    let scheduler = schedulers::build(&"fifo".parse().unwrap()).unwrap().scheduler;
    let drive = drive_models::build(&drive.parse().unwrap()).unwrap().drive;
    let stage = Stage::new(scheduler, Limits { depth: 4, ..Limits::default() });
    Engine::new(Listed::new(&requests), stage, drive, Overload::default()).run().unwrap().observer.verdict()
}

#[test]
fn offered_load_is_service_time_over_span_at_any_depth() {
    let sustained = verdict(1001, 2000, "fixed");
    assert_eq!(sustained.offered_load, Some(1001.0 / 2000.0));
    assert!(!sustained.overloaded());
    let exactly_full = verdict(1001, 1001, "fixed:service=1ms");
    assert!(exactly_full.overloaded() && exactly_full.offered_load == Some(1.0), "{exactly_full:?}");
}
