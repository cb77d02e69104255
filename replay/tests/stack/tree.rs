//! Stacks of several layers: the effect of each layer on requests, and the conservation of requests.

use iocast_replay::stack::{Counts, LayerConfig};
use iocast_replay::{Engine, Limits, Metrics, Stack};
use proptest::prelude::*;
use traces::spec::Spec;
use traces::{Flags, Lba, Nanos, Operation, Request, Sectors, StreamId, Timestamp, VmId};

use crate::listed::Listed;
use crate::loads::{arriving, limits};
use crate::requests::request;
use crate::support::{Log, drive, layer, pass_through, replay, run_stack, schedulers};

fn fifo() -> Spec {
    "fifo".parse().unwrap()
}

fn at(us: u64, vm: u16, operation: Operation, lba: u64, sectors: u64) -> Request {
    let mut request = Request::new(Timestamp::from_ns(us * 1000), operation, Lba::new(lba), Sectors::new(sectors));
    request.vm = VmId(vm);
    request
}

fn read(us: u64, vm: u16, lba: u64) -> Request {
    at(us, vm, Operation::Read, lba, 8)
}

/// Letter, VM and first sector of the events with one of these letters, as `time letter vm:lba`, in us.
fn only(log: &Log, letters: &str) -> Vec<String> {
    let events = log.events.iter().filter(|(_, letter, _)| letters.contains(*letter));
    events.map(|(now, letter, r)| format!("{} {letter} {}:{}", now.as_ns() / 1000, r.vm.0, r.lba)).collect()
}

fn depth(depth: u32) -> Limits {
    Limits { depth, merge: false, ..Limits::default() }
}

fn guests(limits: Limits) -> LayerConfig {
    LayerConfig { limits, per_vm: true, ..LayerConfig::default() }
}

fn shared(limits: Limits) -> LayerConfig {
    LayerConfig { limits, ..LayerConfig::default() }
}

#[test]
fn delays_add_to_the_times_of_requests_and_completions() {
    let far = LayerConfig { delay_down: Nanos::from_us(30), delay_up: Nanos::from_us(500), ..pass_through() };
    let log = run_stack(
        vec![layer(&fifo(), far), layer(&fifo(), pass_through()), layer(&fifo(), far)],
        "fixed",
        &[read(0, 0, 0), read(10, 0, 8)],
    );
    assert_eq!(only(&log, "DF"), ["30 D 0:0", "40 D 0:8", "2060 F 0:0", "3060 F 0:8"]);
    // The service of the drive has the times of the drive, without the delays.
    let served = &log.served[0];
    assert_eq!((served.started.as_ns(), served.finished.as_ns()), (60_000, 1_560_000));
}

#[test]
fn split_request_begins_with_its_first_part_and_is_a_hit_if_all_parts_are() {
    // 32 sectors in two parts of 16: the first part also reads the sectors of the second into the cache of the drive.
    let parts = LayerConfig { limits: Limits { max_sectors: Sectors::new(16), ..depth(1) }, ..LayerConfig::default() };
    let load = [at(0, 0, Operation::Read, 80_000, 32), at(30_000, 0, Operation::Read, 80_000, 32)];
    let ended = replay(vec![layer(&fifo(), pass_through()), layer(&fifo(), parts)], "cheetah-15k4", &load);
    let [above, below] = [0, 1].map(|layer| ended.host.layers()[layer].counts());
    let hits: Vec<bool> = ended.observer.served.iter().map(|served| served.hit).collect();
    assert_eq!((hits.as_slice(), below.hits, above.hits), (&[false, true, true, true][..], 3, 1));
    // The request of the upper layer begins as it is sent; the second part waits for the first.
    assert_eq!(above.to_drive.sum_ns(), 0);
    let served = &ended.observer.served;
    let whole = served[1].finished.since(served[0].issued).as_ns() + served[3].finished.since(served[2].issued).as_ns();
    assert_eq!(above.below.sum_ns(), u128::from(whole));
}

#[test]
fn vms_that_wait_for_capacity_take_turns() {
    // VM 0 sends all its requests first; VM 1 and VM 2 send theirs while the first is served.
    let load: Vec<Request> = (0..4)
        .map(|n| read(0, 0, 100 + n))
        .chain((0..2).map(|n| read(1, 2, 300 + n)))
        .chain((0..2).map(|n| read(2, 1, 200 + n)))
        .collect();
    let below = LayerConfig { queue: 1, ..shared(depth(1)) };
    let layers = vec![layer(&fifo(), guests(depth(u32::MAX))), layer(&fifo(), below)];
    let log = run_stack(layers, "fixed", &load);
    assert_eq!(
        only(&log, "D"),
        [
            "0 D 0:100",
            "1000 D 2:300",
            "2000 D 1:200",
            "3000 D 0:101",
            "4000 D 2:301",
            "5000 D 1:201",
            "6000 D 0:102",
            "7000 D 0:103"
        ]
    );
}

#[test]
fn scheduler_chooses_only_when_the_layer_below_has_capacity() {
    // The nearest request arrives last, at 500 us; without a look-ahead it still goes second.
    let load = [read(0, 0, 0), read(10, 0, 5000), read(500, 0, 16)];
    let order = |look_ahead| {
        let limits = Limits { look_ahead, ..depth(8) };
        let below = LayerConfig { queue: 1, ..shared(depth(1)) };
        let sstf: Spec = "sstf".parse().unwrap();
        only(&run_stack(vec![layer(&sstf, shared(limits)), layer(&fifo(), below)], "fixed", &load), "D")
    };
    assert_eq!(order(false), ["0 D 0:0", "1000 D 0:16", "2000 D 0:5000"]);
    assert_eq!(order(true), ["0 D 0:0", "1000 D 0:5000", "2000 D 0:16"]);
}

#[test]
fn scheduler_whose_timer_expires_without_capacity_waits_for_capacity() {
    // VM 0 may send its second request at 400 ms; then VM 1 has the only slot below, until 450 ms.
    let slow: Spec = "token-bucket:rate=10k,burst=8k".parse().unwrap();
    let load = [at(0, 0, Operation::Read, 0, 16), read(1, 0, 500), read(350_000, 1, 1000)];
    let below = LayerConfig { queue: 1, ..shared(depth(1)) };
    let layers = vec![layer(&slow, guests(depth(8))), layer(&fifo(), below)];
    let log = run_stack(layers, "fixed:service=100ms", &load);
    assert_eq!(only(&log, "D"), ["0 D 0:0", "350000 D 1:1000", "450000 D 0:500"]);
}

#[test]
fn arrival_that_joins_two_waiting_requests_counts_as_one_merge() {
    let load = [read(0, 0, 1000), read(1, 0, 16), read(2, 0, 32), read(3, 0, 24)];
    let ended =
        replay(vec![layer(&fifo(), guests(depth(9))), layer(&fifo(), shared(Limits::default()))], "fixed", &load);
    assert_eq!(only(&ended.observer, "D"), ["0 D 0:1000", "1000 D 0:16"]);
    assert_eq!(ended.host.layers()[1].counts().merged, 1);
}

#[test]
fn each_layer_keeps_its_own_limits() {
    let load: Vec<Request> = (0..12).map(|n| at(0, n as u16 % 3, Operation::Write, 100 * n, 8)).collect();
    let lun = Limits { depth: 8, write_depth: 2, ..depth(8) };
    let log = run_stack(vec![layer(&fifo(), guests(depth(1))), layer(&fifo(), shared(lun))], "fixed", &load);
    // Each guest has one request below it, the LUN has two writes.
    assert_eq!(only(&log, "I").iter().filter(|line| line.starts_with("0 ")).count(), 3);
    assert_eq!(only(&log, "D").iter().filter(|line| line.starts_with("0 ")).count(), 2);
}

#[test]
fn decision_sees_all_arrivals_of_the_same_time() {
    // At 1,000 us the first completes, and the guest sends the request near the head at the same time. The layer below
    // has one far away, and still chooses the near one.
    let load = [read(0, 0, 0), read(1, 0, 8), read(2, 1, 5000)];
    let layers = vec![layer(&fifo(), guests(depth(1))), layer(&"sstf".parse().unwrap(), shared(depth(1)))];
    assert_eq!(only(&run_stack(layers, "fixed", &load), "D"), ["0 D 0:0", "1000 D 0:8", "2000 D 1:5000"]);
}

#[test]
fn requests_of_one_vm_merge_below_and_complete_separately() {
    let load = [read(0, 1, 1000), read(1, 0, 16), read(2, 0, 24), read(3, 1, 32)];
    let below = shared(Limits::default());
    let ended = replay(vec![layer(&fifo(), guests(depth(4))), layer(&fifo(), below)], "fixed", &load);
    assert_eq!(only(&ended.observer, "D"), ["0 D 1:1000", "1000 D 0:16", "2000 D 1:32"]);
    assert_eq!(only(&ended.observer, "F"), ["1000 F 1:1000", "2000 F 0:16", "2000 F 0:24", "3000 F 1:32"]);
    let counts = ended.host.layers()[1].counts();
    assert_eq!((counts.issued, counts.switches, counts.merged), (3, 2, 1));
    let counts = ended.host.layers()[0].counts();
    assert_eq!((counts.issued, counts.switches, counts.merged), (4, 2, 0));
}

#[test]
fn the_first_layer_makes_flush_sequences_and_the_others_pass_flushes_on() {
    let mut write = at(0, 0, Operation::Write, 16, 8);
    write.flags = Flags::PREFLUSH | Flags::FUA;
    let layers = || vec![layer(&fifo(), guests(depth(4))), layer(&fifo(), shared(depth(4)))];
    let points = |drive: &str| {
        let ended = replay(layers(), drive, &[write]);
        let flushes: Vec<u64> = ended.host.layers().iter().map(|layer| layer.counts().flushes).collect();
        (
            ended.observer.events.iter().filter(|(_, letter, _)| *letter == 'D').map(|(_, _, r)| r.operation).collect(),
            flushes,
        )
    };
    let (operations, flushes): (Vec<Operation>, _) = points("fixed:write_cache=volatile");
    assert_eq!((operations, flushes), (vec![Operation::Flush, Operation::Write, Operation::Flush], vec![2, 2]));
    let (operations, flushes): (Vec<Operation>, _) = points("fixed:write_cache=volatile-fua");
    assert_eq!((operations, flushes), (vec![Operation::Flush, Operation::Write], vec![1, 1]));
    let (operations, flushes): (Vec<Operation>, _) = points("fixed");
    assert_eq!((operations, flushes), (vec![Operation::Write], vec![0, 0]));
}

#[test]
fn flushes_of_several_vms_join_below() {
    let load = [at(0, 0, Operation::Flush, 0, 0), at(10, 1, Operation::Flush, 0, 0), at(20, 2, Operation::Flush, 0, 0)];
    let layers = vec![layer(&fifo(), guests(depth(4))), layer(&fifo(), shared(depth(4)))];
    let ended = replay(layers, "fixed:write_cache=volatile", &load);
    let flushes: Vec<u64> = ended.host.layers().iter().map(|layer| layer.counts().flushes).collect();
    assert_eq!(flushes, [3, 2]);
    assert_eq!(only(&ended.observer, "F"), ["1000 F 0:0", "2000 F 1:0", "2000 F 2:0"]);
}

#[test]
fn a_back_end_hides_processes_and_makes_writes_synchronous() {
    let mut write = at(0, 3, Operation::Write, 16, 8);
    write.stream = StreamId(77);
    write.priority = traces::Priority::new(1, 2).unwrap();
    let back_end = LayerConfig { by_vm: true, sync_writes: true, ..pass_through() };
    let log = run_stack(vec![layer(&fifo(), guests(depth(4))), layer(&fifo(), back_end)], "fixed", &[write]);
    let request = |letter| log.events.iter().find(|(_, l, _)| *l == letter).unwrap().2;
    let below = request('D');
    assert_eq!((below.vm, below.stream, below.priority.class()), (VmId(3), StreamId(0), 0));
    assert!(below.is_sync());
    assert_eq!(request('F'), write, "its source gets back what it sent");
}

#[test]
fn drive_without_service_time_completes_all_at_once() {
    let load: Vec<Request> = (0..100).map(|n| read(0, n as u16 % 4, 64 * n)).collect();
    let layers = vec![layer(&fifo(), guests(depth(1))), layer(&fifo(), shared(depth(1)))];
    let log = run_stack(layers, "fixed:service=0", &load);
    assert_eq!(log.completed.iter().filter(|(time, _)| *time == 0).count(), 100);
}

fn config() -> impl Strategy<Value = LayerConfig> {
    let delay = prop_oneof![3 => Just(0u64), 1 => 0u64..3_000_000];
    let queue = prop_oneof![Just(u32::MAX), 1u32..8];
    let bandwidth = prop_oneof![2 => Just(0u64), 1 => 1u64..1_000_000_000];
    (limits(), queue, any::<bool>(), any::<bool>(), delay.clone(), delay, bandwidth).prop_map(
        |(limits, queue, per_vm, back_end, down, up, bandwidth)| LayerConfig {
            limits,
            queue,
            per_vm,
            by_vm: back_end,
            sync_writes: back_end,
            delay_down: Nanos::from_ns(down),
            delay_up: Nanos::from_ns(up),
            bandwidth,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn no_request_is_lost_in_any_stack(
        load in prop::collection::vec(request(), 1..60),
        configs in prop::collection::vec((config(), 0usize..100), 1..4),
    ) {
        let load = arriving(&load);
        let known = schedulers();
        for drive in crate::support::drives() {
            let layers = || configs.iter().map(|(config, n)| layer(&known[n % known.len()], *config)).collect();
            let log = run_stack(layers(), drive, &load);
            prop_assert_eq!(log.completed.len(), load.len());
            let sum = |operation, log: &Log| log.served.iter().filter(|s| s.request.operation == operation)
                .map(|s| s.request.sectors().count()).sum::<u64>();
            for operation in [Operation::Read, Operation::Write] {
                let asked: u64 = load.iter().filter(|r| r.operation == operation).map(|r| r.sectors().count()).sum();
                prop_assert_eq!(sum(operation, &log), asked, "every sector is served once on {}", drive);
            }
            for served in &log.served {
                prop_assert!(served.issued <= served.started && served.started <= served.finished);
            }
            // A second run gives the same events.
            prop_assert_eq!(&run_stack(layers(), drive, &load).events, &log.events);
        }
    }

    /// The seek distance is counted once in each layer, wherever requests were merged and split.
    #[test]
    fn seek_distance_is_counted_once(
        load in prop::collection::vec(request(), 1..60), configs in prop::collection::vec(config(), 1..4),
    ) {
        let layers = configs.iter().map(|config| layer(&fifo(), *config)).collect();
        let ended = replay(layers, "cheetah-15k4", &arriving(&load));
        for layer in ended.host.layers() {
            prop_assert_eq!(layer.counts().seek_sectors, u128::from(ended.observer.seek));
            let Counts { to_drive, below, hits, issued, .. } = layer.counts();
            prop_assert!(to_drive.sum_ns() <= below.sum_ns() && hits <= issued);
            prop_assert_eq!((to_drive.count, below.count), (issued, issued));
        }
    }

    #[test]
    fn metrics_of_a_stack_obey_littles_law(
        load in prop::collection::vec(request(), 1..60), configs in prop::collection::vec(config(), 1..4),
    ) {
        let load = arriving(&load);
        let layers = configs.iter().map(|config| layer(&fifo(), *config)).collect();
        let stack = Stack::new(layers, drive("cheetah-15k4"));
        let (metrics, log) =
            Engine::on(Listed::new(&load), stack, (Metrics::new(), Log::default())).run().unwrap().observer;
        let responses: u128 = log.events.iter().filter(|(_, letter, _)| *letter == 'F')
            .map(|(now, _, r)| u128::from(now.since(r.arrival).as_ns())).sum();
        let area = metrics.outstanding.mean(metrics.span()) * metrics.span().as_ns() as f64;
        prop_assert!((area - responses as f64).abs() <= 1.0 + area * 1e-9);
    }
}
