//! The table scheduler: its sequence is the best there is, it costs what it should, and it is
//! computed no more often than the queue changes.

use std::cell::Cell;

use iocast_schedulers::table::{Evaluation, Table, evaluate, greedy_sequence, optimal_sequence};
use iocast_schedulers::{AccessCost, Capacity, Dispatch, DistanceCost, Scheduler};
use proptest::prelude::*;
use traces::{Lba, Nanos, Operation, Request, RequestId, Sectors, Timestamp};

use crate::driver::Driver;

/// Costs of a leg, under some of which the table is exact.
#[derive(Clone, Copy, Debug)]
enum Line {
    /// Distance.
    Even,
    /// A constant and distance.
    Linear,
    /// A constant and distance on a line that is denser above sector 50; down is dearer than up.
    Uneven,
    /// Anything: a hash of the two ends.
    Arbitrary,
}

#[derive(Debug)]
struct Counted {
    line: Line,
    head: Lba,
    calls: Cell<usize>,
}

impl Counted {
    fn new(line: Line, head: u64) -> Counted {
        Counted { line, head: Lba::new(head), calls: Cell::new(0) }
    }
}

impl AccessCost for Counted {
    fn position(&self) -> Lba {
        self.head
    }
    fn capacity(&self) -> Sectors {
        Sectors::new(1 << 40)
    }
    fn between(&self, from: Lba, to: Lba, sectors: Sectors) -> Nanos {
        self.calls.set(self.calls.get() + 1);
        let distance = from.distance(to).count();
        let place = |lba: Lba| lba.sector() + 2 * lba.sector().saturating_sub(50);
        let stretched = place(from).abs_diff(place(to));
        let leg = match self.line {
            Line::Even => distance,
            Line::Linear => 425 + 5 * distance,
            Line::Uneven => 30 + stretched * if to < from { 3 } else { 1 },
            Line::Arbitrary => (from.sector() * 31 + to.sector() * 17) * 2_654_435_761 % 1009,
        };
        // The table must not ask for a transfer; the cost with one is different.
        Nanos::from_ns(leg + 1_000_000 * sectors.count())
    }
}

fn lbas(starts: &[u64]) -> Vec<Lba> {
    starts.iter().copied().map(Lba::new).collect()
}

/// The least sum of completion times over all orders that `may_follow` lets grow.
fn least(
    head: Lba,
    left: &mut Vec<Lba>,
    so_far: &mut Vec<Lba>,
    cost: &Counted,
    may_follow: &dyn Fn(&[Lba], Lba) -> bool,
) -> u128 {
    if left.is_empty() {
        return evaluate(head, so_far, cost).response_ns;
    }
    let mut best = u128::MAX;
    for index in 0..left.len() {
        if may_follow(left, left[index]) {
            let next = left.remove(index);
            so_far.push(next);
            best = best.min(least(head, left, so_far, cost, may_follow));
            so_far.pop();
            left.insert(index, next);
        }
    }
    best
}

fn table_response(head: Lba, queue: &[Lba], cost: &Counted) -> u128 {
    let sequence = optimal_sequence(head, queue, cost);
    let (mut served, mut asked) = (sequence.clone(), queue.to_vec());
    served.sort_unstable();
    asked.sort_unstable();
    assert_eq!(served, asked, "the sequence serves the queue");
    evaluate(head, &sequence, cost).response_ns
}

/// Sends everything through the policy itself, with requests of these lengths: the sequence it sends.
fn sent_by_policy(head: u64, requests: &[(u64, u64)], line: Line) -> Vec<Lba> {
    let mut table = Table::new(256);
    for (id, &(start, sectors)) in requests.iter().enumerate() {
        let request = Request::new(Timestamp::ZERO, Operation::Read, Lba::new(start), Sectors::new(sectors));
        table.insert(Timestamp::ZERO, RequestId(id as u32), &request);
    }
    let mut cost = Counted::new(line, head);
    let mut sent = Vec::new();
    while let Dispatch::Send(id) = table.dispatch(Timestamp::ZERO, Capacity::UNLIMITED, &cost) {
        let (start, sectors) = requests[id.index()];
        sent.push(Lba::new(start));
        cost.head = Lba::new(start + sectors);
    }
    assert_eq!(table.tables_built(), u64::from(!requests.is_empty()));
    sent
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Every queue up to 8 and every order of serving it; starts coincide with each other and with
    /// the head, the head is inside requests, and one or both sides may be empty.
    #[test]
    fn table_order_has_the_least_response_of_all_permutations(
        head in 0_u64..24,
        requests in prop::collection::vec((0_u64..24, prop_oneof![Just(0_u64), Just(8), 1_u64..40]), 0..=8),
        scale in prop_oneof![Just(1_u64), Just(5)],
        line in prop_oneof![Just(Line::Even), Just(Line::Linear), Just(Line::Uneven)],
    ) {
        let requests: Vec<_> = requests.into_iter().map(|(start, sectors)| (start * scale, sectors)).collect();
        let mut queue: Vec<Lba> = requests.iter().map(|&(start, _)| Lba::new(start)).collect();
        let cost = Counted::new(line, head * scale);
        let best = least(cost.head, &mut queue, &mut Vec::new(), &cost, &|_, _| true);
        prop_assert_eq!(table_response(cost.head, &queue, &cost), best);
        let sent = sent_by_policy(head * scale, &requests, line);
        prop_assert_eq!(evaluate(cost.head, &sent, &cost).response_ns, best);
    }

    /// Under any costs of legs, it is the best of the orders that serve each side outwards.
    #[test]
    fn it_is_the_best_that_serves_each_side_outwards(
        head in 0_u64..100,
        starts in prop::collection::btree_set(0_u64..100, 0..=9),
    ) {
        let cost = Counted::new(Line::Arbitrary, head);
        let mut queue = lbas(&starts.into_iter().collect::<Vec<_>>());
        let outwards = |left: &[Lba], next: Lba| {
            let passed = if next < cost.head { next.saturating_add(Sectors::new(1))..cost.head } else { cost.head..next };
            !left.iter().any(|lba| passed.contains(lba))
        };
        let best = least(cost.head, &mut queue, &mut Vec::new(), &cost, &outwards);
        prop_assert_eq!(table_response(cost.head, &queue, &cost), best);
    }
}

#[test]
fn table_1_of_geist_et_al() {
    let (head, queue) = (Lba::new(100), lbas(&[20, 82, 120, 200]));
    let cost = DistanceCost { position: head, capacity: Sectors::new(1000) };
    let greedy = greedy_sequence(head, &queue, &cost);
    assert_eq!(greedy, lbas(&[82, 120, 200, 20]));
    assert_eq!(evaluate(head, &greedy, &cost), Evaluation { requests: 4, service_ns: 316, response_ns: 526 });
    let optimal = optimal_sequence(head, &queue, &cost);
    assert_eq!(optimal, lbas(&[120, 82, 20, 200]));
    assert_eq!(evaluate(head, &optimal, &cost), Evaluation { requests: 4, service_ns: 300, response_ns: 498 });
}

#[test]
fn the_drive_is_asked_about_each_pair_of_sides_twice_and_once_along_each_side() {
    for (below, above) in [(0, 0), (0, 9), (9, 0), (1, 1), (16, 15), (100, 100), (200, 50)] {
        let starts: Vec<u64> = (0..below).map(|n| 999 - n * 3).chain((0..above).map(|n| 1000 + n * 7)).collect();
        let cost = Counted::new(Line::Linear, 1000);
        optimal_sequence(cost.head, &lbas(&starts), &cost);
        let expected = 2 * below * above + below + above + u64::from(above > 0);
        assert!(cost.calls.get() as u64 <= expected, "{below} below, {above} above: {} > {expected}", cost.calls.get());
    }
}

#[test]
fn legs_that_cost_all_time_there_is_do_not_overflow() {
    struct Endless;
    impl AccessCost for Endless {
        fn position(&self) -> Lba {
            Lba::new(500)
        }
        fn capacity(&self) -> Sectors {
            Sectors::new(1000)
        }
        fn between(&self, _from: Lba, _to: Lba, _sectors: Sectors) -> Nanos {
            Nanos::from_ns(u64::MAX)
        }
    }
    let starts: Vec<u64> = (0..1000).collect();
    assert_eq!(optimal_sequence(Lba::new(500), &lbas(&starts), &Endless).len(), 1000);
}

#[test]
fn a_table_is_built_only_when_the_queue_has_changed() {
    let mut table = Table::new(256);
    let cost = DistanceCost { position: Lba::new(100), capacity: Sectors::new(1000) };
    let read = |start| Request::new(Timestamp::ZERO, Operation::Read, Lba::new(start), Sectors::new(8));
    let write = Request::new(Timestamp::ZERO, Operation::Write, Lba::new(500), Sectors::new(8));
    let mut step = |change: &dyn Fn(&mut Table), capacity: Capacity, built: u64, why: &str| {
        change(&mut table);
        table.dispatch(Timestamp::ZERO, capacity, &cost);
        assert_eq!(table.tables_built(), built, "{why}");
    };
    let insert = |ids: std::ops::Range<u32>| {
        move |table: &mut Table| {
            for id in ids.clone() {
                table.insert(Timestamp::ZERO, RequestId(id), &read(u64::from(id) * 10));
            }
        }
    };
    let no_writes = Capacity { writes: 0, ..Capacity::UNLIMITED };
    step(&|_| {}, Capacity::UNLIMITED, 0, "nothing waits");
    step(&insert(0..20), Capacity::UNLIMITED, 1, "requests arrived");
    step(&|_| {}, Capacity::UNLIMITED, 1, "only what was sent is gone");
    step(&insert(30..31), Capacity::UNLIMITED, 2, "one arrived");
    step(&|table| table.remove(RequestId(30)), Capacity::UNLIMITED, 3, "one was taken back");
    step(&|table| table.merged(Timestamp::ZERO, RequestId(1), &read(2)), Capacity::UNLIMITED, 4, "one has grown");
    step(&|table| table.insert(Timestamp::ZERO, RequestId(40), &write), no_writes, 5, "a write arrived");
    step(&|_| {}, no_writes, 5, "it has no capacity still");
    step(&|_| {}, Capacity::UNLIMITED, 6, "it has capacity now");
    step(&|_| {}, Capacity::UNLIMITED, 6, "nothing changed");
}

#[test]
fn of_a_long_queue_the_nearest_take_part_and_the_rest_waits() {
    let mut driver = Driver::new("table:table_max=3");
    driver.at(100).reads(&[10, 90, 95, 104, 500, 300]);
    assert_eq!(driver.up_to(3).iter().copied().max(), Some(3));
    assert_eq!(driver.all().len(), 3);
    let mut backlog = Driver::new("table");
    backlog.at(500_000).reads(&(0..100_000).map(|n| n * 7 % 999_983).collect::<Vec<_>>());
    assert_eq!(backlog.all().len(), 100_000);
}
