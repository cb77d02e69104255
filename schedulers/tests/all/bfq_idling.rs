//! The rules of bfq as Linux 6.18 has them: how long the device idles for the queue in service, and which queue
//! preempts it.

use iocast_schedulers::Dispatch;
use traces::{Lba, Nanos, Operation, Priority, Request, RequestId, Sectors, StreamId, Timestamp, VmId};

use crate::bfq_processes::{Processes, be, bfq};
use crate::driver::{Driver, Ids};

#[test]
fn queue_of_a_higher_class_or_weight_preempts_the_queue_in_service() {
    // Stream 3 has the least weight. The device therefore idles for stream 1, which only a higher class or weight
    // preempts.
    for (new, preempts) in [(be(3), true), (be(4), false), (be(7), false), (Priority::new(1, 7).expect("rt"), true)] {
        let mut driver = bfq("");
        driver.begin(&[(2, new), (3, be(7)), (1, be(4))]);
        for n in 0..20 {
            driver.read(1, be(4), 1_000_000 + n * 8, 8);
        }
        driver.read(3, be(7), 3_000_000, 8);
        driver.served(3, Nanos::from_us(100));
        let id = driver.read(2, new, 2_000_000, 8);
        assert_eq!(driver.next() == id, preempts, "{new:?}");
    }
}

/// A process of weight 80 whose only request has just completed, and the waiting request of a process of weight 10.
fn empty_beside_a_lighter_one(tunables: &str) -> (Driver, u32) {
    let mut driver = bfq(tunables);
    driver.begin(&[(2, be(7)), (1, be(0))]);
    for n in 0..40 {
        let id = driver.read(1, be(0), 1_000_000 + n * 8, 8);
        assert_eq!(driver.next(), id);
        driver.complete(id);
    }
    let id = driver.read(1, be(0), 3_000_000, 8);
    assert_eq!(driver.next(), id);
    let other = driver.read(2, be(7), 2_000_000, 8);
    assert_eq!(driver.dispatch(), Dispatch::Idle, "the device is kept for the queue with a request in flight");
    driver.complete(id);
    (driver, other)
}

#[test]
fn device_idles_for_the_heavier_queue_until_its_request_comes_or_slice_idle_is_over() {
    for (tunables, idles_us) in [("", 8000), ("slice_idle=3ms", 3000), ("slice_idle_us=500", 500)] {
        let (mut driver, other) = empty_beside_a_lighter_one(tunables);
        let end = driver.now + Nanos::from_us(idles_us);
        assert_eq!(driver.dispatch(), Dispatch::WaitUntil(end), "{tunables}");
        driver.time(Timestamp::from_ns(end.as_ns() - 1));
        assert_eq!(driver.dispatch(), Dispatch::WaitUntil(end), "{tunables}");
        driver.time(end);
        assert_eq!(driver.next(), other, "{tunables}");
        // A request of the heavier process that comes in time goes first.
        let (mut driver, _) = empty_beside_a_lighter_one(tunables);
        let end = driver.now + Nanos::from_us(idles_us);
        driver.time(Timestamp::from_ns(end.as_ns() - 1));
        let id = driver.read(1, be(0), 3_000_008, 8);
        assert_eq!(driver.next(), id, "{tunables}");
    }
}

#[test]
fn device_does_not_idle_without_slice_idle_or_a_heavier_weight() {
    for (tunables, levels) in [("slice_idle=0ns", [0, 7]), ("", [4, 4])] {
        let mut driver = bfq(tunables);
        driver.begin(&[(1, be(levels[0])), (2, be(levels[1]))]);
        driver.read(1, be(levels[0]), 1_000_000, 8);
        driver.read(2, be(levels[1]), 2_000_000, 8);
        assert_eq!(driver.all(), [2, 3], "{tunables}");
    }
}

#[test]
fn device_idles_if_classes_or_groups_share_it() {
    // All queues have weight 10.
    let idle = Priority::new(3, 7).expect("a class of Linux");
    for (tunables, priorities, vms, waits) in [
        ("", [be(7), idle], [0, 0], true),
        ("", [idle, idle], [0, 0], false),
        ("", [be(7), be(7)], [0, 1], false),
        ("cgroups=on", [be(7), be(7)], [0, 0], false),
        ("cgroups=on", [be(7), be(7)], [0, 1], true),
    ] {
        let mut driver = bfq(tunables);
        let request = |driver: &Driver, n: usize, start: u64| {
            let mut request = Request::new(driver.now, Operation::Read, Lba::new(start), Sectors::new(8));
            (request.stream, request.priority, request.vm) = (StreamId(n as u32), priorities[n], VmId(vms[n]));
            request
        };
        for n in 0..2 {
            let id = driver.insert(request(&driver, n, 1000));
            assert_eq!(driver.next(), id.0);
            driver.complete(id.0);
            driver.now += Nanos::from_s(1);
            driver.dispatch();
        }
        let id = driver.insert(request(&driver, 0, 1008));
        assert_eq!(driver.next(), id.0);
        let other = driver.insert(request(&driver, 1, 5000));
        driver.complete(id.0);
        assert_eq!(driver.dispatch() != Dispatch::Send(other), waits, "{tunables} {priorities:?} {vms:?}");
    }
}

#[test]
fn rotational_device_idles_for_a_sequential_process_but_not_for_a_seeky_one() {
    for (seeks, rotational, waits) in [(false, "on", true), (true, "on", false), (false, "off", false)] {
        let mut driver = bfq(&format!("rotational={rotational}"));
        driver.begin(&[(2, be(4)), (1, be(4))]);
        for n in 0..40 {
            let id = driver.read(1, be(4), 1_000_000 + n * if seeks { 10_000 } else { 8 }, 8);
            assert_eq!(driver.next(), id);
            // The process is I/O-bound.
            driver.now += Nanos::from_ms(100);
            driver.complete(id);
        }
        let id = driver.read(1, be(4), 4_000_000, 8);
        assert_eq!(driver.next(), id);
        let other = driver.read(2, be(4), 2_000_000, 8);
        driver.complete(id);
        let choice = driver.dispatch();
        assert_eq!(
            choice == Dispatch::Send(RequestId(other)),
            !waits,
            "seeks {seeks} rotational {rotational}: {choice:?}"
        );
    }
}

#[test]
fn queue_that_was_waited_for_in_vain_keeps_its_budget_if_its_request_comes_soon_after() {
    // Within three times slice_idle of its last completion, stream 1 preempts stream 2. The device idles for stream 2,
    // because stream 3 is lighter.
    for (after_us, preempts) in [(24_000, true), (24_001, false)] {
        let mut driver = bfq("");
        driver.begin(&[(1, be(4)), (2, be(4)), (3, be(7))]);
        let first = driver.read(1, be(4), 1_000_000, 8);
        assert_eq!(driver.next(), first);
        let others: Ids = (0..30).map(|n| driver.read(2, be(4), 2_000_000 + n * 8, 8)).collect();
        driver.read(3, be(7), 3_000_000, 8);
        driver.complete(first);
        let completed = driver.now;
        driver.time(completed + Nanos::from_ms(8));
        assert_eq!(driver.next(), others[0]);
        driver.time(completed + Nanos::from_us(after_us));
        let second = driver.read(1, be(4), 1_000_008, 8);
        assert_eq!(driver.next() == second, preempts, "{after_us} us");
    }
}

#[test]
fn strict_guarantees_send_one_request_at_a_time_and_always_wait_for_the_next() {
    let mut driver = bfq("strict_guarantees=on,slice_idle=1ms");
    driver.begin(&[(2, be(4)), (1, be(4))]);
    let ids = [1_000_008, 1_000_016].map(|start| driver.read(1, be(4), start, 8));
    let other = driver.read(2, be(4), 2_000_000, 8);
    for id in ids {
        assert_eq!(driver.all(), [id]);
        assert_eq!(driver.dispatch(), Dispatch::Idle);
        driver.complete(id);
    }
    // With strict guarantees slice_idle is at least 8 ms.
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(driver.now + Nanos::from_ms(8)));
    let end = driver.now + Nanos::from_ms(8);
    assert_eq!(driver.time(end).next(), other);
}
