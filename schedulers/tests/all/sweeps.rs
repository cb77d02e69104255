//! Fifo and the policies that choose by the head's position: the next request, and when there is none.

use iocast_schedulers::{AccessCost, Capacity, Dispatch, DistanceCost};
use traces::{Lba, Nanos, RequestId, Sectors, Timestamp};

use crate::driver::{Driver, ms};

#[test]
fn each_serves_a_standing_queue_in_its_order() {
    for (name, head, starts, sent) in [
        ("fifo", 100, [20, 82, 120, 200], [0, 1, 2, 3]),
        ("sstf", 100, [20, 82, 120, 200], [1, 2, 3, 0]),
        ("sstf", 100, [100, 0, 50, 99], [0, 3, 2, 1]),
        ("look", 100, [20, 82, 120, 200], [2, 3, 1, 0]),
        ("look", 100, [100, 99, 500, 0], [0, 2, 1, 3]),
        ("cscan", 100, [20, 82, 120, 200], [2, 3, 0, 1]),
        ("cscan", 121, [20, 82, 120, 200], [3, 0, 1, 2]),
    ] {
        for writes in [false, true] {
            let mut driver = Driver::new(name);
            driver.at(head);
            if writes {
                driver.writes(&starts[..2]).reads(&starts[2..])
            } else {
                driver.reads(&starts)
            };
            assert_eq!(driver.all(), sent, "{name} from {head}: {starts:?}");
        }
    }
}

#[test]
fn sstf_goes_below_on_a_tie_and_to_the_older_at_one_address() {
    let mut driver = Driver::new("sstf");
    driver.at(100).reads(&[110, 90]).writes(&[90]).reads(&[90]);
    assert_eq!(driver.up_to(2), [1, 2]);
}

#[test]
fn fifo_overtakes_nobody_and_takes_back_what_returns_at_its_head() {
    let mut driver = Driver::new("fifo");
    driver.writes(&[10]).reads(&[20, 30]);
    driver.capacity = Capacity { reads: 1, writes: 0 };
    assert_eq!(driver.dispatch(), Dispatch::Idle);
    driver.capacity = Capacity::UNLIMITED;
    assert_eq!(driver.next(), 0);
    let (now, request) = (driver.now, driver.requests[0]);
    driver.scheduler.requeue(now, RequestId(0), &request);
    assert_eq!(driver.all(), [0, 1, 2]);
}

#[test]
fn the_others_pass_over_requests_without_capacity() {
    for (name, writes, reads) in
        [("sstf", [0, 2], [3, 1]), ("look", [2, 0], [1, 3]), ("cscan", [2, 0], [3, 1]), ("table", [0, 2], [3, 1])]
    {
        let mut driver = Driver::new(name);
        driver.at(100).writes(&[90]).reads(&[80]).writes(&[120]).reads(&[119]);
        driver.capacity = Capacity { reads: 0, writes: 5 };
        assert_eq!(driver.all(), writes, "{name}");
        driver.at(100).capacity = Capacity { reads: 5, writes: 0 };
        assert_eq!(driver.all(), reads, "{name}");
    }
}

#[test]
fn look_takes_in_what_arrives_ahead_and_turns_at_the_last() {
    let mut driver = Driver::new("look");
    driver.at(100).reads(&[200, 50, 300]);
    assert_eq!(driver.next(), 0);
    driver.reads(&[250, 150]);
    assert_eq!(driver.all(), [3, 2, 4, 1]);
    // Going down, a request that starts where the head is lies behind.
    driver.reads(&[58, 20]);
    assert_eq!(driver.all(), [6, 5]);
}

#[test]
fn scan_pays_for_the_trip_to_the_edge_with_a_wait() {
    let capacity = 1_000_000;
    let mut driver = Driver::new("scan");
    driver.at(100).reads(&[50, 200]);
    assert_eq!(driver.next(), 1);
    let back = Timestamp::from_ns(2 * (capacity - 1 - 208));
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(back));
    driver.time(Timestamp::from_ns(back.as_ns() - 1));
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(back));
    driver.time(back);
    assert_eq!(driver.next(), 0);
    // Downwards the edge is the first sector.
    driver.reads(&[500]);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(back + Nanos::from_ns(2 * 58)));
}

#[test]
fn an_arrival_ahead_is_served_during_the_trip_which_then_begins_anew() {
    let mut driver = Driver::new("scan");
    driver.at(100).reads(&[50]);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(Timestamp::from_ns(2 * 999_899)));
    driver.time(ms(1)).reads(&[900_000]);
    assert_eq!(driver.next(), 1);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(1) + Nanos::from_ns(2 * 99_991)));
    // With no request left behind there is no trip, and a later one starts from the beginning.
    driver.remove(0);
    assert_eq!(driver.dispatch(), Dispatch::Idle);
    driver.time(ms(2)).reads(&[40]);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(2) + Nanos::from_ns(2 * 99_991)));
}

#[test]
fn a_trip_that_costs_nothing_is_no_wait() {
    struct Flat;
    impl AccessCost for Flat {
        fn position(&self) -> Lba {
            Lba::new(100)
        }
        fn capacity(&self) -> Sectors {
            Sectors::new(1000)
        }
        fn between(&self, _from: Lba, _to: Lba, _sectors: Sectors) -> Nanos {
            Nanos::from_us(100)
        }
    }
    let mut driver = Driver::new("scan");
    driver.reads(&[50]);
    assert_eq!(driver.scheduler.dispatch(ms(1), Capacity::UNLIMITED, &Flat), Dispatch::Send(RequestId(0)));
}

#[test]
fn a_front_merge_moves_a_request_in_every_order() {
    for name in ["sstf", "look", "cscan"] {
        let mut driver = Driver::new(name);
        driver.at(90).reads(&[104, 100]).front_merge(0);
        assert_eq!(driver.all(), [0, 1], "{name}");
    }
}

#[test]
fn between_all_appends_costs_grouped_by_destination() {
    let cost = DistanceCost { position: Lba::ZERO, capacity: Sectors::new(1000) };
    let lbas = |starts: &[u64]| starts.iter().copied().map(Lba::new).collect::<Vec<_>>();
    let mut legs = vec![Nanos::ZERO];
    cost.between_all(&lbas(&[0, 10]), &lbas(&[5, 100]), Sectors::ZERO, &mut legs);
    assert_eq!(legs.iter().map(|leg| leg.as_ns()).collect::<Vec<_>>(), [0, 5, 5, 100, 90]);
}
