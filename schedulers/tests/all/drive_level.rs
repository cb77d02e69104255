//! V(R), SATF and batches: the policies that drives have, and the continuum between two of them.

use iocast_schedulers::{AccessCost, Capacity, Dispatch, DistanceCost, build};
use proptest::prelude::*;
use traces::{Lba, Nanos, Operation, Request, RequestId, Sectors, Timestamp};

use crate::driver::{Driver, ms};

#[test]
fn v_of_r_turns_when_what_is_behind_is_nearer_by_r_capacities() {
    // The capacity is 1,000,000: R = 0.2 is a handicap of 200,000 sectors.
    for (r, ahead, behind, first) in [
        ("0.2", 900_002, 499_999, 1),
        ("0.2", 900_000, 499_999, 0),
        ("0", 700_000, 499_999, 0),
        ("0", 700_001, 500_000, 1),
        ("0.001", 601_000, 599_999, 0),
        ("0.001", 601_002, 599_999, 1),
        ("1", 999_999, 599_999, 0),
    ] {
        let mut driver = Driver::new(&format!("vr:r={r}"));
        driver.at(600_000).reads(&[ahead, behind]);
        assert_eq!(driver.next(), first, "r={r} {ahead} {behind}");
    }
}

#[test]
fn v_of_r_takes_the_lower_address_at_equal_effective_distance() {
    let mut driver = Driver::new("vr:r=0.2");
    // Up 300,000; down 100,000 and the handicap of 200,000.
    driver.at(500_000).reads(&[800_000, 400_000]);
    assert_eq!(driver.all(), [1, 0]);
}

#[test]
fn v_of_r_turns_with_the_last_request_sent() {
    let mut driver = Driver::new("vr:r=0.2");
    driver.at(500_000).reads(&[499_000]);
    assert_eq!(driver.next(), 0);
    // Down now: 150,000 below goes before 10,000 above.
    driver.reads(&[509_000, 349_000]);
    assert_eq!(driver.all(), [2, 1]);
    // And the default is 0.2.
    let mut driver = Driver::new("vr");
    driver.at(500_000).reads(&[700_003, 499_998, 300_000]);
    assert_eq!(driver.next(), 1);
}

/// The requests that two schedulers send, with the same arrivals in the same places of the same script.
fn same_order(a: &str, b: &str, steps: &[(bool, u64, bool)]) -> Result<(), TestCaseError> {
    let [mut a, mut b] = [a, b].map(Driver::new);
    for driver in [&mut a, &mut b] {
        driver.cost = DistanceCost { position: Lba::ZERO, capacity: Sectors::new(2000) };
    }
    for &(dispatches, lba, writes) in steps {
        let operation = if writes { Operation::Write } else { Operation::Read };
        if dispatches {
            prop_assert_eq!(a.dispatch(), b.dispatch());
        } else {
            a.arrive(operation, &[lba]);
            b.arrive(operation, &[lba]);
        }
    }
    prop_assert_eq!(a.all(), b.all());
    Ok(())
}

proptest! {
    #[test]
    fn v_of_zero_is_sstf_and_v_of_one_is_look(
        steps in prop::collection::vec((any::<bool>(), prop_oneof![0_u64..1992, 40_u64..60], any::<bool>()), 1..120),
    ) {
        same_order("vr:r=0", "sstf", &steps)?;
        same_order("vr:r=1", "look", &steps)?;
        same_order("vscan", "vr", &steps)?;
        same_order("clook", "cscan", &steps)?;
        same_order("batch-fcfs:batch_max=1", "fifo", &steps)?;
        same_order("batch-fcfs:within=arrival", "fifo", &steps)?;
        same_order("satf:queue_max=1", "fifo", &steps)?;
    }

    /// Against a search over everything that waits, with an access time unlike a distance.
    #[test]
    fn satf_sends_the_least_effective_access_time(
        ageing in 0_u64..2000,
        steps in prop::collection::vec((any::<bool>(), 0_u64..500, 0_u64..300_000), 1..150),
    ) {
        let spec = format!("satf:ageing={}.{:03}", ageing / 1000, ageing % 1000);
        let mut scheduler = build(&spec.parse().unwrap()).unwrap().scheduler;
        let mut waiting: Vec<(u32, Request)> = Vec::new();
        let mut now = Timestamp::ZERO;
        for (id, (dispatches, lba, gap)) in (0..).zip(steps) {
            now += Nanos::from_ns(gap);
            if !dispatches {
                let request = Request::new(now, Operation::Read, Lba::new(lba), Sectors::new(8));
                scheduler.insert(now, RequestId(id), &request);
                waiting.push((id, request));
                continue;
            }
            let effective = |request: &Request| {
                let (access, waited) = (Rotating.access(now, request), now.since(request.arrival));
                access.as_ns() as i64 * 1000 - waited.as_ns() as i64 * ageing as i64
            };
            let best = waiting.iter().min_by_key(|(id, request)| (effective(request), *id)).map(|&(id, _)| id);
            let expected = best.map_or(Dispatch::Idle, |id| Dispatch::Send(RequestId(id)));
            prop_assert_eq!(scheduler.dispatch(now, Capacity::UNLIMITED, &Rotating), expected);
            waiting.retain(|&(id, _)| Some(id) != best);
        }
    }
}

/// A drive whose access time depends on where the platter is, and not on the distance.
struct Rotating;

impl AccessCost for Rotating {
    fn position(&self) -> Lba {
        Lba::ZERO
    }
    fn capacity(&self) -> Sectors {
        Sectors::new(1000)
    }
    fn between(&self, _from: Lba, _to: Lba, _sectors: Sectors) -> Nanos {
        panic!("SATF asks for access times")
    }
    fn access(&self, now: Timestamp, request: &Request) -> Nanos {
        Nanos::from_us((request.lba.sector() * 7 + 1000 - now.as_ns() / 1000 % 100) % 100)
    }
}

#[test]
fn satf_lets_a_request_outbid_access_time_with_waiting_time() {
    for (ageing, waits_ms, sent) in
        [("0", 1_000_000, [1, 0]), ("0.006", 149, [1, 0]), ("0.006", 151, [0, 1]), ("1", 1, [0, 1])]
    {
        let mut driver = Driver::new(&format!("satf:ageing={ageing}"));
        // A sector is a nanosecond: 900,000 away is 0.9 ms, which 0.006 of 150 ms outbids.
        driver.reads(&[900_000]).time(ms(waits_ms)).reads(&[0]);
        assert_eq!(driver.all(), sent, "{ageing} {waits_ms}");
    }
}

#[test]
fn satf_takes_the_older_of_equals_and_a_joined_request_is_as_old_as_its_older_part() {
    let mut driver = Driver::new("satf:ageing=0");
    driver.at(100).reads(&[110, 90, 110]);
    assert_eq!(driver.up_to(1), [0]);
    let mut driver = Driver::new("satf:ageing=1");
    driver.reads(&[8]).time(ms(1)).reads(&[500]).time(ms(2)).reads(&[0]);
    driver.join(2, 0).time(ms(3));
    assert_eq!(driver.all(), [2, 1]);
}

#[test]
fn satf_asks_about_the_oldest_queue_max_only() {
    let mut driver = Driver::new("satf:ageing=0,queue_max=2");
    driver.reads(&[500, 400, 0, 100]);
    assert_eq!(driver.next(), 1);
    // 0 moved up into the queue; 100 is still behind it.
    driver.at(100);
    assert_eq!(driver.next(), 2);
    driver.at(490).remove(3);
    assert_eq!(driver.all(), [0]);
}

#[test]
fn satf_goes_by_the_grown_request() {
    let mut driver = Driver::new("satf:ageing=0");
    driver.reads(&[108, 106]).front_merge(0);
    assert_eq!(driver.all(), [0, 1]);
}

#[test]
fn a_batch_is_served_as_a_whole_before_what_came_after_it_was_cut() {
    let mut driver = Driver::new("batch-fcfs:batch_max=3");
    driver.at(100).reads(&[500, 50, 200, 150]);
    // The first three, upwards and then from the lowest; 150 is the fourth.
    assert_eq!(driver.next(), 2);
    driver.reads(&[300]);
    assert_eq!(driver.all(), [0, 1, 3, 4]);
}

#[test]
fn the_next_batch_is_what_waits_when_the_last_is_used_up() {
    let mut driver = Driver::new("batch-fcfs");
    driver.reads(&[500]);
    assert_eq!(driver.next(), 0);
    driver.reads(&[700, 600]);
    assert_eq!(driver.next(), 2);
    driver.reads(&[650]);
    assert_eq!(driver.all(), [1, 3]);
    // 32 by default.
    let mut driver = Driver::new("batch-fcfs");
    driver.reads(&(0..33).map(|n| 1000 - n * 8).collect::<Vec<_>>());
    assert_eq!(driver.all(), (0..32).rev().chain([32]).collect::<Vec<_>>());
}

#[test]
fn a_batch_waits_for_capacity_and_a_request_that_comes_back_joins_it() {
    let mut driver = Driver::new("batch-fcfs:batch_max=2");
    driver.reads(&[100]).writes(&[200]).reads(&[300]);
    driver.capacity = Capacity { writes: 0, ..Capacity::UNLIMITED };
    assert_eq!(driver.all(), [0]);
    let (now, request) = (driver.now, driver.requests[0]);
    driver.scheduler.requeue(now, RequestId(0), &request);
    assert_eq!(driver.all(), [0]);
    driver.capacity = Capacity::UNLIMITED;
    assert_eq!(driver.all(), [1, 2]);
    // With the batch over, it begins the next.
    let mut driver = Driver::new("batch-fcfs:batch_max=1");
    driver.reads(&[100, 200]);
    assert_eq!(driver.next(), 0);
    let (now, request) = (driver.now, driver.requests[0]);
    driver.scheduler.requeue(now, RequestId(0), &request);
    assert_eq!(driver.all(), [0, 1]);
}

#[test]
fn a_front_merge_moves_a_request_within_its_batch_and_before_it() {
    let mut driver = Driver::new("batch-fcfs");
    driver.reads(&[0, 108, 104]);
    assert_eq!(driver.next(), 0);
    driver.front_merge(1);
    assert_eq!(driver.all(), [1, 2]);
    driver.at(0).reads(&[108, 104]).front_merge(3);
    assert_eq!(driver.all(), [3, 4]);
}
