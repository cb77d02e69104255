//! When a throttle with a fixed k lets requests complete, against the linear model and the virtual disk each by itself.

use iocast_drives::{Completion, DriveModel};
use proptest::prelude::*;
use traces::{Operation, Request, RequestId, Timestamp};

use crate::submission::{CAPACITY, by_id, drive, load, one_by_one, open, read, request, throttle};

const MS: u64 = 1_000_000;

/// Virtual disks of every kind.
pub const DISKS: &[&str] = &[
    "virtual=fixed,virtual.service=0",
    "virtual.service=3ms",
    "virtual.service=40ms",
    "virtual.service=20ms,virtual.cache=5m,virtual.cached=1us",
    "virtual.service=6ms,virtual.cv=1.5,virtual.seed=7",
    "virtual.service=1ms,virtual.drift=linear,virtual.drift_to=60ms,virtual.drift_over=300ms",
    "virtual.service=50ms,virtual.drift=steps,virtual.drift_to=1us,virtual.drift_over=200ms",
    "virtual=empirical,virtual.depth=1000",
];

/// The virtual disk of a throttle by itself.
fn disk_alone(disk: &str) -> Box<dyn DriveModel> {
    let (mut name, mut tunables) = ("virtual-disk", format!("capacity={CAPACITY}"));
    for part in disk.split(',') {
        match part.split_once('=').unwrap() {
            ("virtual", given) => name = given,
            (tunable, value) => tunables += &format!(",{}={value}", tunable.strip_prefix("virtual.").unwrap()),
        }
    }
    drive(&format!("{name}:{tunables}"))
}

/// The expected completions of a throttle: all in ns, in the order of submission.
struct Expected {
    finished: Vec<u64>,
    late: u64,
    lateness_max: u64,
    held_max: u64,
}

/// The throttle computed afterwards, from the times of each drive by itself.
fn slow(line: &[Completion], disk: &[Completion], loads: &[Request], k: u64, timer: u64, overhead: u64) -> Expected {
    let (mut target, mut targets) = (0, Vec::new());
    for (line, request) in line.iter().zip(loads) {
        let service = u128::from(line.finished.since(line.started).as_ns());
        target = target.max(request.arrival.as_ns()) + (service * u128::from(k) / 1000) as u64;
        targets.push(target);
    }
    let arrived = |nth: usize| disk[nth].finished.as_ns();
    let until = |nth: usize| match arrived(nth) >= targets[nth] {
        true => arrived(nth),
        false if timer == 0 => targets[nth],
        false => targets[nth].div_ceil(timer) * timer,
    };
    let all = || 0..loads.len();
    let lateness = |nth: usize| arrived(nth).saturating_sub(targets[nth]);
    // Those that were there when one of them came, itself too; of those at the same time the first in, first counted.
    let order = |nth: usize| (arrived(nth), nth);
    let held_with = |of: usize| all().filter(|&nth| order(nth) <= order(of) && until(nth) > arrived(of)).count() as u64;
    Expected {
        finished: all().map(|nth| until(nth) + overhead).collect(),
        late: all().filter(|&nth| lateness(nth) > 0).count() as u64,
        lateness_max: all().map(lateness).max().unwrap(),
        held_max: all().map(held_with).max().unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn in_front_of_an_instantaneous_disk_all_times_are_k_times_the_lines(requests in load(), k in 1u64..20) {
        let spec = format!("throttle:k={k},virtual=fixed,virtual.service=0,virtual.capacity={CAPACITY}");
        let mut slowed = throttle(&spec);
        let stretched: Vec<Request> = requests
            .iter()
            .map(|request| {
                let mut stretched = *request;
                stretched.arrival = Timestamp::from_ns(request.arrival.as_ns() * k);
                stretched
            })
            .collect();
        let times = |time: Timestamp| Timestamp::from_ns(time.as_ns() * k);
        let expected: Vec<Completion> = open(&mut *drive(&format!("linear:capacity={CAPACITY}")), &requests)
            .into_iter()
            .map(|done| Completion { started: times(done.started), finished: times(done.finished), ..done })
            .collect();
        prop_assert_eq!(open(&mut slowed, &stretched), expected);
        prop_assert_eq!(slowed.report().late, 0);
    }

    #[test]
    fn a_fixed_k_delays_each_completion_to_its_target_and_counts_the_late(
        requests in load(),
        disk in prop::sample::select(DISKS),
        k in 100u64..8000,
        timer in prop::sample::select(vec![0, 1, MS, 4 * MS, 7_777_777]),
        overhead in prop::sample::select(vec![0, 30_000, 5 * MS]),
        line in prop::sample::select(vec![
            "cache=on", "cache=off", "hit=1ms,segments=2", "a=0,b=20ms,per_byte_ps=80000",
        ]),
    ) {
        let mut slowed = throttle(&format!(
            "throttle:k={}.{:03},{disk},virtual.capacity={CAPACITY},timer={timer}ns,overhead={overhead}ns,{line}",
            k / 1000, k % 1000,
        ));
        let done = open(&mut slowed, &requests);
        prop_assert!(done.is_sorted_by_key(|done| done.finished));
        let line = by_id(open(&mut *drive(&format!("linear:capacity={CAPACITY},{line}")), &requests));
        let disk = by_id(open(&mut *disk_alone(disk), &requests));
        let Expected { finished, late, lateness_max, held_max } = slow(&line, &disk, &requests, k, timer, overhead);
        let done = by_id(done);
        prop_assert_eq!(done.iter().map(|done| done.finished.as_ns()).collect::<Vec<_>>(), finished);
        prop_assert!(done.iter().zip(&line).all(|(done, line)| (done.seek, done.hit) == (line.seek, line.hit)));
        let report = slowed.report();
        prop_assert_eq!((report.late, report.lateness_max.as_ns(), report.held_max), (late, lateness_max, held_max));
        prop_assert_eq!((report.completions, report.changes.len()), (requests.len() as u64, 0));
    }
}

/// Times of reads at 0, 8 and the far end, each sent when the one before is back.
fn three(tunables: &str) -> Vec<u64> {
    let mut slowed = throttle(&format!("throttle:virtual.capacity={CAPACITY},{tunables}"));
    let reads = [read(0, 0), read(0, 8), read(0, 99_992)];
    let mut before = Timestamp::ZERO;
    let done = one_by_one(&mut slowed, &reads, traces::Nanos::ZERO);
    let span = |done: Completion| done.finished.since(std::mem::replace(&mut before, done.finished)).as_ns();
    done.into_iter().map(span).collect()
}

#[test]
fn each_source_of_error_can_be_switched() {
    // 4.25 ms, a hit, and nearly the whole line: 99,984 sectors from 8, where the head has stayed, of 100,000.
    let far = 4_250_000 + 5_250_000 * 99_984 / 100_000;
    assert_eq!(three("k=8"), [34 * MS, 2 * MS, 8 * far]);
    assert_eq!(three("k=8,hit=100us,virtual.service=1us"), [34 * MS, 800_000, 8 * far]);
    // Too slow for the hit.
    assert_eq!(three("k=8,hit=100us"), [34 * MS, MS, 8 * far]);
    let beyond = 8 * (4_250_000 + 5_250_000 * 99_976 / 100_000);
    assert_eq!(three("k=8,cache=off"), [34 * MS, 34 * MS, beyond]);
    assert_eq!(three("k=8,overhead=40us"), [34_040_000, 2_040_000, 8 * far + 40_000]);
    // 34 to 36, 38, then on from 38.
    assert_eq!(three("k=8,timer=4ms"), [36 * MS, 4 * MS, (40 * MS + 8 * far).div_ceil(4 * MS) * 4 * MS - 40 * MS]);
}

#[test]
fn completion_at_its_target_is_released_at_once() {
    // k·X_r = 2 · 4.25 ms = X_v: not late, and no tick is waited for.
    let tunables = |service| format!("throttle:k=2,timer=5ms,virtual.service={service},virtual.capacity={CAPACITY}");
    for (service, finished, late, held) in
        [("8500us", 8_500_000, 0, 0), ("8499999ns", 10_000_000, 0, 1), ("8500001ns", 8_500_001, 1, 0)]
    {
        let mut slowed = throttle(&tunables(service));
        assert_eq!(open(&mut slowed, &[read(0, 0)])[0].finished.as_ns(), finished, "{service}");
        let report = slowed.report();
        assert_eq!((report.late, report.held_max), (late, held), "{service}");
    }
}

#[test]
fn schedulers_see_costs_on_the_virtual_systems_clock() {
    let mut slowed = throttle(&format!("throttle:k=3,virtual.capacity={CAPACITY}"));
    let mut line = drive(&format!("linear:capacity={CAPACITY}"));
    open(&mut slowed, &[read(0, 5000)]);
    open(&mut *line, &[read(0, 5000)]);
    assert_eq!(slowed.cost().position(), line.cost().position());
    for lba in [0, 5008, 70_000] {
        let ask = |drive: &dyn DriveModel| drive.cost().access(Timestamp::ZERO, &read(0, lba)).as_ns();
        assert_eq!(ask(&slowed), 3 * ask(&*line));
    }
}

#[test]
fn a_flush_costs_the_real_disk_nothing_and_moves_no_arm() {
    let mut slowed = throttle(&format!("throttle:k=2,cache=off,virtual.capacity={CAPACITY}"));
    let requests = [read(0, 50_000), request(Operation::Flush, 0, 0, 0), read(0, 50_008)];
    let done = open(&mut slowed, &requests);
    let first = 2 * (4_250_000 + 5_250_000 / 2);
    let expected = [(0, first), (1, first), (2, first + 8_500_000)];
    assert_eq!(done.iter().map(|done| (done.id.0, done.finished.as_ns())).collect::<Vec<_>>(), expected);
}

#[test]
fn distances_are_shares_of_the_virtual_disks_capacity() {
    // Half of the way on either disk.
    for capacity in [1 << 20, 1 << 40] {
        let mut slowed = throttle(&format!("throttle:k=1,cache=off,virtual.capacity={capacity}"));
        let done = open(&mut slowed, &[read(0, capacity / 512 / 2)]);
        assert_eq!(done[0].finished.as_ns(), 4_250_000 + 5_250_000 / 2);
    }
}

#[test]
fn throttle_accepts_as_many_requests_as_its_virtual_disk() {
    let mut slowed = throttle("throttle:virtual=empirical,virtual.depth=2,k=1000");
    slowed.submit(Timestamp::ZERO, RequestId(0), &read(0, 0));
    assert!(slowed.accepts(&read(0, 0)));
    slowed.submit(Timestamp::ZERO, RequestId(1), &read(0, 0));
    assert!(!slowed.accepts(&read(0, 0)));
    // A held completion is no longer at the virtual disk.
    slowed.advance(Timestamp::from_ns(1_000 * MS), &mut Vec::new());
    assert!(slowed.accepts(&read(0, 0)) && slowed.next_event().is_some());
}
