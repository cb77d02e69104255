//! The history of a replay against a slow count of the same events.

#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::collections::BTreeMap;

use iocast_replay::{HistoryRecorder, Observer, Served};
use proptest::prelude::*;
use traces::record::{Observed, Record};
use traces::results::history::{Grid, History, STEPS_MAX, response_number};
use traces::statistics::Timeline;
use traces::{Lba, Nanos, Operation, Request, RequestId, Sectors, Timestamp, VmId};

/// An arrival, and how long it takes.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    request: Request,
    response: Nanos,
}

/// Something that happens, in the order of a replay: completions before arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Completed,
    Arrived,
}

fn steps(arrivals: &[Arrival]) -> Vec<(Timestamp, Step, usize)> {
    let mut steps = Vec::new();
    for (index, Arrival { request, response }) in arrivals.iter().enumerate() {
        steps.push((request.arrival, Step::Arrived, index));
        steps.push((request.arrival + *response, Step::Completed, index));
    }
    steps.sort();
    steps
}

fn recorded(arrivals: &[Arrival]) -> History {
    let mut recorder = HistoryRecorder::default();
    for (now, step, index) in steps(arrivals) {
        let (id, request) = (RequestId(index as u32), &arrivals[index].request);
        match step {
            Step::Arrived => recorder.arrived(now, id, request),
            Step::Completed => recorder.completed(now, id, request),
        }
    }
    recorder.finish(&["a".to_owned(), "b".to_owned()])
}

/// What was outstanding at each change, from the first arrival.
fn outstanding(arrivals: &[Arrival]) -> Vec<(u64, u64)> {
    let steps = steps(arrivals);
    let first = steps[0].0;
    let mut now = 0;
    let change = |(at, step, _): &(Timestamp, Step, usize)| {
        now = if *step == Step::Arrived { now + 1 } else { now - 1 };
        (at.since(first).as_ns(), now)
    };
    steps.iter().map(change).collect()
}

/// Checks one grid against the counted values of the requests that `chosen` accepts.
fn check(
    grid: &Grid,
    interval: u64,
    arrivals: &[Arrival],
    chosen: impl Fn(&Request) -> bool,
    value: impl Fn(&Arrival) -> u64,
) {
    let first = arrivals[0].request.arrival;
    let mut slow: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for arrival in arrivals.iter().filter(|arrival| chosen(&arrival.request)) {
        let at = (arrival.request.arrival + arrival.response).since(first).as_ns() / interval;
        *slow.entry((at, value(arrival) / grid.row_size)).or_default() += 1;
    }
    let counted = grid.columns.iter().enumerate();
    let counted = counted.flat_map(|(at, column)| column.iter().map(move |&(row, count)| ((at as u64, row), count)));
    assert_eq!(counted.collect::<BTreeMap<_, _>>(), slow);
    if let Some((low, high)) = grid.rows() {
        assert!(high - low < STEPS_MAX as u64);
        let values: Vec<u64> = arrivals.iter().filter(|arrival| chosen(&arrival.request)).map(value).collect();
        let range = values.iter().max().unwrap() - values.iter().min().unwrap();
        assert!(
            range / grid.row_size * 2 + 2 >= STEPS_MAX as u64 || grid.row_size <= 8,
            "rows are coarser than need be"
        );
    }
}

fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let gap = prop_oneof![4 => 0u64..3_000_000, 1 => 0u64..5_000_000_000];
    let response = prop_oneof![4 => 1u64..20_000_000, 1 => 1u64..4_000_000_000];
    let lba = prop_oneof![2 => 0u64..100_000, 1 => 0u64..1 << 36];
    let vm = prop_oneof![20 => 0u16..2, 1 => 0u16..40];
    let one = (gap, response, lba, 1u64..256, any::<bool>(), vm);
    prop::collection::vec(one, 1..200).prop_map(|parts| {
        let mut now = Timestamp::from_ns(77);
        let arrival = |(gap, response, lba, sectors, is_read, vm): (u64, u64, u64, u64, bool, u16)| {
            now += Nanos::from_ns(gap);
            let operation = if is_read { Operation::Read } else { Operation::Write };
            let mut request = Request::new(now, operation, Lba::new(lba), Sectors::new(sectors));
            request.vm = VmId(vm);
            Arrival { request, response: Nanos::from_ns(response) }
        };
        parts.into_iter().map(arrival).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn counts_are_those_of_a_slow_count(arrivals in arrivals()) {
        let history = recorded(&arrivals);
        let interval = history.interval_ns.as_ns();
        let columns = history.outstanding_mean.len();
        prop_assert!(columns <= STEPS_MAX && (columns * 2 > STEPS_MAX || interval == 1_000_000));
        for (class, is_read) in [(&history.read, true), (&history.write, false)] {
            let of_class = |request: &Request| (request.operation == Operation::Read) == is_read;
            check(&class.responses, interval, &arrivals, of_class, |arrival| response_number(arrival.response));
            let found: u64 = class.found.iter().sum();
            prop_assert_eq!(found, arrivals.iter().filter(|arrival| of_class(&arrival.request)).count() as u64);
        }
        for (vm, of) in history.vms.iter().enumerate() {
            let of_vm = |request: &Request| usize::from(request.vm.0).min(32) == vm;
            for (grid, is_read) in [(&of.reads, true), (&of.writes, false)] {
                let chosen = |request: &Request| of_vm(request) && (request.operation == Operation::Read) == is_read;
                check(grid, interval, &arrivals, chosen, |arrival| arrival.request.lba.sector());
            }
            let own = || arrivals.iter().filter(|arrival| of_vm(&arrival.request));
            prop_assert_eq!(of.requests.iter().sum::<u64>(), own().count() as u64);
            prop_assert_eq!(of.bytes.iter().sum::<u64>(), own().map(|own| own.request.sectors().bytes()).sum::<u64>());
        }
        // The time that so many were outstanding, interval by interval.
        let changes = outstanding(&arrivals);
        for column in 0..columns as u64 {
            let (begin, end) = (column * interval, (column + 1) * interval);
            let mut integral = 0_u128;
            for (index, &(at, count)) in changes.iter().enumerate() {
                let until = changes.get(index + 1).map_or(u64::MAX, |next| next.0);
                integral += u128::from(count) * u128::from(until.min(end).saturating_sub(at.max(begin)));
            }
            prop_assert_eq!(history.outstanding_mean[column as usize], integral as f64 / interval as f64);
        }
        let most = changes.iter().map(|(_, count)| *count).max();
        prop_assert_eq!(history.outstanding_max.iter().copied().max(), most);
    }
}

#[test]
fn what_an_arrival_finds_and_seeks_are_counted_by_class() {
    let read =
        |ms, lba| Request::new(Timestamp::ZERO + Nanos::from_ms(ms), Operation::Read, Lba::new(lba), Sectors::new(8));
    let mut write = read(2, 800);
    write.operation = Operation::Write;
    let flush = Request::new(Timestamp::ZERO, Operation::Flush, Lba::ZERO, Sectors::ZERO);
    let mut recorder = HistoryRecorder::default();
    for (id, request) in [read(0, 0), read(1, 8), write, read(3, 16)].iter().enumerate() {
        recorder.arrived(request.arrival, RequestId(id as u32), request);
    }
    recorder.arrived(write.arrival, RequestId(4), &flush);
    for (seek, request) in [(0, read(0, 0)), (1, read(1, 8)), (7, write), (8, read(3, 16)), (9, flush)] {
        let now = Timestamp::ZERO + Nanos::from_ms(9);
        let (id, seek) = (RequestId(0), Sectors::new(seek));
        let served =
            Served { id, request, dispatched: now, issued: now, started: now, finished: now, seek, hit: false };
        recorder.served(&served);
    }
    let history = recorder.finish(&[]);
    assert_eq!((history.read.found, history.write.found), (vec![1, 1, 1], vec![1]));
    // The first two reads find no write, the third one; the write finds two reads.
    assert_eq!((history.read.found_other, history.write.found_other), (vec![2, 1], vec![0, 0, 1]));
    assert_eq!(history.seeks, [1, 1, 0, 1, 1]);
}

/// Served one after another, in the order of arrival: when each begins and ends. The response time of an arrival is
/// taken for its service time.
fn one_by_one(arrivals: &[Arrival]) -> Vec<(Timestamp, Timestamp)> {
    let mut free = Timestamp::ZERO;
    let served = |arrival: &Arrival| {
        let start = arrival.request.arrival.max(free);
        free = start + arrival.response;
        (start, free)
    };
    arrivals.iter().map(served).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn a_trace_of_a_replay_has_the_history_of_the_replay(arrivals in arrivals()) {
        let times = one_by_one(&arrivals);
        let mut replayed = HistoryRecorder::default();
        // At one time: completions, arrivals, dispatches.
        let mut steps: Vec<(Timestamp, u8, usize)> = Vec::new();
        for (index, (start, end)) in times.iter().enumerate() {
            steps.extend([(*end, 0, index), (arrivals[index].request.arrival, 1, index), (*start, 2, index)]);
        }
        steps.sort();
        let mut head = None;
        for (now, step, index) in steps {
            let (id, request) = (RequestId(index as u32), arrivals[index].request);
            match step {
                0 => replayed.completed(now, id, &request),
                1 => replayed.arrived(now, id, &request),
                _ => {
                    let seek = head.map_or(Sectors::ZERO, |head| request.lba.distance(head));
                    head = Some(request.lba + request.sectors());
                    let (issued, started, finished) = (now, now, times[index].1);
                    replayed.served(&Served { id, request, dispatched: now, issued, started, finished, seek, hit: false });
                }
            }
        }
        let mut traced = HistoryRecorder::default();
        let mut timeline = Timeline::default();
        for (arrival, (_, end)) in arrivals.iter().zip(&times) {
            let observed = Observed { issued: Some(arrival.request.arrival), completed: Some(*end), ..Observed::default() };
            timeline.record(&Record { request: arrival.request, observed }, &mut traced);
        }
        prop_assert_eq!(timeline.finish(&mut traced), 0);
        let names: Vec<String> = (0..40).map(|vm| format!("vm{vm}")).collect();
        let (mut replayed, mut traced) = (replayed.finish(&names), traced.finish(&names));
        // A trace does not tell where the head was at first, nor in a close-up when a request arrived.
        let first = replayed.seeks.first().copied().unwrap_or(0);
        prop_assert!(first >= 1);
        replayed.seeks[0] -= 1;
        while replayed.seeks.last() == Some(&0) {
            replayed.seeks.pop();
        }
        for shown in replayed.close_up.requests.iter_mut().chain(&mut traced.close_up.requests) {
            shown.arrived_ns = shown.started_ns;
        }
        prop_assert_eq!(&replayed, &traced);
        // The device is never idle while it serves, and all of its time is some VM's.
        let served: u64 = traced.vms.iter().flat_map(|vm| &vm.served_ns).sum();
        prop_assert_eq!(served, arrivals.iter().map(|arrival| arrival.response.as_ns()).sum::<u64>());
        let interval = traced.interval_ns.as_ns();
        for column in 0..traced.outstanding_mean.len() {
            let busy: u64 = traced.vms.iter().map(|vm| vm.served_ns[column]).sum();
            prop_assert!(busy <= interval);
        }
    }
}
