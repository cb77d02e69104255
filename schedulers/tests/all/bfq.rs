//! The rules of bfq as Linux 6.18 has them: the order within a queue, budgets, weights and classes. Idling is tested in
//! `bfq_idling.rs`, weight raising and injection in `bfq_latency.rs`, merging of queues in `bfq_merging.rs`. Ids count
//! the requests of a script from zero.

use iocast_schedulers::{Capacity, Dispatch, Scheduler};
use traces::{Flags, Lba, Nanos, Operation, Priority, Request, RequestId, Sectors, StreamId, VmId};

use crate::bfq_processes::{Processes, be, bfq};
use crate::driver::{Driver, Ids, ms};

fn runs(streams: &[u32]) -> Vec<(u32, usize)> {
    let mut runs: Vec<(u32, usize)> = Vec::new();
    for &stream in streams {
        match runs.last_mut() {
            Some((last, count)) if *last == stream => *count += 1,
            _ => runs.push((stream, 1)),
        }
    }
    runs
}

#[test]
fn nearest_request_of_a_queue_goes_first_and_a_seek_back_costs_more() {
    // The first request leaves the head at 10,000.
    for (name, tunables, starts, sent) in [
        ("upwards", "", vec![9_992, 10_300, 10_100, 10_200], vec![0, 2, 3, 1]),
        ("back if less than half as far", "", vec![9_992, 10_210, 9_900], vec![0, 2, 1]),
        ("not if more", "", vec![9_992, 10_190, 9_900], vec![0, 1, 2]),
        ("forwards if as far with the penalty", "", vec![9_992, 10_200, 9_900], vec![0, 1, 2]),
        ("a penalty of one", "back_seek_penalty=1", vec![9_992, 10_190, 9_900], vec![0, 2, 1]),
        ("a penalty of three", "back_seek_penalty=3", vec![9_992, 10_290, 9_900], vec![0, 1, 2]),
        ("back as far as allowed", "back_seek_max=50", vec![9_992, 11_000, 9_900], vec![0, 2, 1]),
        ("no farther", "back_seek_max=49", vec![9_992, 11_000, 9_900], vec![0, 1, 2]),
        (
            "from the far end when nothing is ahead",
            "back_seek_max=10",
            vec![9_992, 9_000, 8_000, 9_500],
            vec![0, 2, 1, 3],
        ),
    ] {
        let mut driver = bfq(tunables);
        driver.reads(&starts[..1]);
        assert_eq!(driver.next(), 0);
        driver.reads(&starts[1..]);
        assert_eq!(driver.all(), sent[1..], "{name}");
    }
}

#[test]
fn arriving_request_is_next_if_it_is_nearer_to_the_end_of_the_request_sent_last() {
    let mut driver = bfq("");
    driver.reads(&[1_000, 5_000]);
    assert_eq!(driver.next(), 0);
    driver.reads(&[2_000, 990]);
    assert_eq!(driver.all(), [3, 2, 1]);
}

#[test]
fn metadata_goes_before_data() {
    let mut driver = bfq("");
    driver.reads(&[100, 200]);
    let mut request = driver.requests[0];
    (request.lba, request.flags) = (Lba::new(900), Flags::META);
    driver.insert(request);
    assert_eq!(driver.next(), 2);
}

#[test]
fn expired_request_goes_first_once_in_a_turn() {
    // The age is checked once in a turn, when the first request of the turn is sent.
    for (age_ms, tunables, sent) in [
        (124, "", [1, 2, 3, 0]),
        (125, "", [1, 0, 3, 2]),
        (50, "fifo_expire_sync=50ms", [1, 0, 3, 2]),
        (49, "fifo_expire_sync=50ms", [1, 2, 3, 0]),
    ] {
        let mut driver = bfq(tunables);
        driver.reads(&[50_000]).time(ms(age_ms)).reads(&[10_000, 20_000, 30_000]);
        assert_eq!(driver.all(), sent, "{age_ms} ms {tunables}");
    }
    let mut driver = bfq("");
    driver.reads(&[50_000, 20_000]).time(ms(200)).reads(&[10_000, 49_000, 48_000]);
    assert_eq!(driver.all(), [2, 0, 3, 4, 1]);
    // Async requests have an expiry time of their own.
    for (age_ms, sent) in [(249, [1, 2, 0]), (250, [1, 0, 2])] {
        let mut driver = bfq("");
        driver.writes(&[50_000]).time(ms(age_ms)).writes(&[10_000, 20_000]);
        assert_eq!(driver.all(), sent, "async, {age_ms} ms");
    }
}

/// Two processes with `count` requests of 1000 sectors each; the second process begins later.
fn two_backlogs(tunables: &str, priorities: [Priority; 2], count: u64) -> Driver {
    let mut driver = bfq(tunables);
    driver.begin(&[(1, priorities[0]), (2, priorities[1])]);
    for n in 0..count {
        driver.read(1, priorities[0], 1_000_000 + n * 1000, 1000);
        driver.read(2, priorities[1], 2_000_000 + n * 1000, 1000);
    }
    driver
}

#[test]
fn turn_ends_when_the_budget_does_not_suffice_and_the_next_budget_is_larger() {
    // A new queue gets two thirds of 16,384 sectors, and 2048 less after it was waited for in vain. A queue that used
    // up its budget gets four times as much, at most max_budget.
    for (tunables, expected) in [
        ("max_budget=3000", vec![(1, 8), (2, 8), (1, 3), (2, 3), (1, 3)]),
        ("max_budget=12000", vec![(1, 8), (2, 8), (1, 12), (2, 12)]),
        ("", vec![(1, 8), (2, 8), (1, 16), (2, 16)]),
    ] {
        let mut driver = two_backlogs(tunables, [be(4), be(4)], 60);
        let served = runs(&driver.served(50, Nanos::from_us(10)));
        assert_eq!(served[..expected.len()], expected, "{tunables}");
    }
}

#[test]
fn queue_that_used_up_a_small_budget_gets_four_times_as_much() {
    // The first budget is 10,922 sectors. It shrinks by 2,048 each of the four times that the queue is waited for in
    // vain.
    let mut driver = bfq("max_budget=16384");
    driver.begin(&[(2, be(4)), (1, be(4)), (1, be(4)), (1, be(4)), (1, be(4))]);
    for n in 0..40 {
        driver.read(1, be(4), 1_000_000 + n * 1000, 1000);
        driver.read(2, be(4), 2_000_000 + n * 1000, 1000);
    }
    let served = runs(&driver.served(60, Nanos::from_us(10)));
    let of_first: Vec<usize> = served.iter().filter(|&&(stream, _)| stream == 1).map(|&(_, count)| count).collect();
    assert_eq!(of_first[..2], [2, 10], "2,730 sectors and then 10,920: {served:?}");
}

#[test]
fn turn_ends_when_its_time_is_over() {
    // A request is dispatched every 10 ms; 125 ms are 31 jiffies of 4 ms.
    for (tunables, turn) in [("", 13), ("timeout_sync=60ms", 6), ("tick=1ms,timeout_sync=51ms", 6)] {
        let mut driver = bfq(tunables);
        driver.begin(&[(1, be(4)), (2, be(4))]);
        for n in 0..40 {
            driver.read(1, be(4), 1_000_000 + n * 8, 8);
            driver.read(2, be(4), 2_000_000 + n * 8, 8);
        }
        let served = runs(&driver.served(60, Nanos::from_ms(10)));
        assert!(served[..3].iter().all(|&(_, count)| count == turn), "{tunables}: {served:?}");
    }
}

#[test]
fn weights_share_service_in_proportion() {
    // The weight is ten times the difference of eight and the level.
    for (levels, share) in [([4, 4], 500), ([0, 4], 667), ([0, 7], 889), ([7, 3], 167)] {
        let mut driver = two_backlogs("max_budget=2000", levels.map(be), 400);
        let served = driver.served(360, Nanos::from_us(10));
        let of_first = served.iter().filter(|&&stream| stream == 1).count() * 1000 / served.len();
        assert!(of_first.abs_diff(share) < 40, "{levels:?}: {of_first} of 1000");
    }
}

#[test]
fn slow_queues_share_time_and_not_sectors() {
    // The first process sends 128 sectors at a time, the second 8; each request takes 10 ms.
    let mut driver = bfq("");
    driver.begin(&[(1, be(4)), (2, be(4))]);
    for n in 0..200 {
        driver.read(1, be(4), 1_000_000 + n * 5000, 128);
        driver.read(2, be(4), 2_000_000 + n * 5000, 8);
    }
    let served = driver.served(200, Nanos::from_ms(10));
    let of_first = served.iter().filter(|&&stream| stream == 1).count();
    assert!((90..=110).contains(&of_first), "{of_first} of 200");
}

#[test]
fn async_requests_of_a_priority_share_a_queue_and_are_charged_three_times() {
    let mut driver = bfq("");
    let write = |driver: &mut Driver, stream: u32, start: u64, sectors: u64| {
        let mut request = Request::new(driver.now, Operation::Write, Lba::new(start), Sectors::new(sectors));
        request.stream = StreamId(stream);
        driver.insert(request)
    };
    for (stream, start) in [(1, 300), (2, 200), (1, 100), (2, 400)] {
        write(&mut driver, stream, start, 8);
    }
    assert_eq!(driver.all(), [2, 1, 0, 3]);
    for id in 0..4 {
        driver.complete(id);
    }
    // A request of 1000 sectors is charged 3000: a budget of 10,922 suffices for three requests, not for ten.
    let mut driver = bfq("");
    driver.begin(&[(2, be(4))]);
    for n in 0..40 {
        write(&mut driver, 1, 1_000_000 + n * 1000, 1000);
    }
    for n in 0..40 {
        driver.read(2, be(4), 2_000_000 + n * 1000, 1000);
    }
    let served = runs(&driver.served(30, Nanos::from_us(10)));
    assert_eq!(served[..2], [(2, 8), (1, 3)], "{served:?}");
}

#[test]
fn classes_are_served_in_order_and_the_idle_class_at_least_every_200_ms() {
    let class = |class| Priority::new(class, 4).expect("a class of Linux");
    let mut driver = bfq("");
    for (stream, class_of) in [(1, class(3)), (2, class(2)), (3, class(1)), (4, Priority::NONE)] {
        for n in 0..3 {
            driver.read(stream, class_of, u64::from(stream) * 10_000 + n * 100, 8);
        }
    }
    let mut served = runs(&driver.served(12, Nanos::from_us(10)));
    assert_eq!((served.remove(0), served.pop()), ((3, 3), Some((1, 3))));
    // The idle class sends one request in a turn, once it has not been served for 200 ms.
    let mut driver = bfq("");
    driver.begin(&[(1, class(3)), (2, class(2))]);
    for n in 0..100 {
        driver.read(2, class(2), 2_000_000 + n * 1000, 1000);
        driver.read(1, class(3), 1_000_000 + n * 1000, 1000);
    }
    let served = driver.served(100, Nanos::from_ms(10));
    let idle: Vec<usize> = (0..100).filter(|&n| served[n] == 1).collect();
    // The turn of the other queue, 125 ms, is not interrupted.
    assert!(idle.len() >= 3 && idle.windows(2).all(|pair| (20..33).contains(&(pair[1] - pair[0]))), "{idle:?}");
}

#[test]
fn vms_share_by_the_weights_of_their_cgroups_whatever_the_number_of_their_processes() {
    for (cgroups, weights, share) in [("on", "100", 500), ("on", "300+100", 750), ("off", "300+100", 250)] {
        let mut driver = bfq(&format!("cgroups={cgroups},weights={weights},max_budget=2000"));
        let mut insert = |vm: u16, stream: u32, n: u64| {
            let start = u64::from(stream) * 1_000_000 + n * 1000;
            let mut request = Request::new(driver.now, Operation::Read, Lba::new(start), Sectors::new(1000));
            (request.vm, request.stream) = (VmId(vm), StreamId(stream));
            driver.insert(request);
            driver.now += Nanos::from_s(if n == 0 { 1 } else { 0 });
        };
        // The first VM has one process, the second has three.
        for n in 0..300 {
            for (vm, stream) in [(0, 1), (1, 2), (1, 3), (1, 4)] {
                insert(vm, stream, n);
            }
        }
        let served = driver.served(280, Nanos::from_us(10));
        let of_first = served.iter().filter(|&&stream| stream == 1).count() * 1000 / served.len();
        assert!(of_first.abs_diff(share) < 50, "cgroups={cgroups} {weights}: {of_first} of 1000");
    }
}

#[test]
fn requests_that_come_back_go_first_and_cancelled_requests_do_not_go() {
    let mut driver = bfq("");
    driver.reads(&[300, 100, 200]);
    assert_eq!(driver.next(), 1);
    let (now, request) = (driver.now, driver.requests[1]);
    driver.scheduler.requeue(now, RequestId(1), &request);
    driver.remove(2);
    assert_eq!(driver.all(), [1, 0]);
    // The request that came back last goes first.
    for id in [0, 1] {
        let request = driver.requests[id as usize];
        driver.scheduler.requeue(now, RequestId(id), &request);
    }
    assert_eq!((driver.scheduler.waiting(), driver.all()), (2, vec![1, 0]));
}

#[test]
fn followed_choice_is_charged_as_a_decision_of_bfq() {
    // Another scheduler serves the second process: that uses up its budget just as a decision of bfq does.
    let mut driver = two_backlogs("max_budget=3000", [be(4), be(4)], 30);
    driver.served(20, Nanos::from_us(10));
    let second: Ids =
        (0..driver.requests.len() as u32).filter(|&id| driver.requests[id as usize].stream.0 == 2).collect();
    let now = driver.now;
    for &id in &second[11..14] {
        assert!(driver.scheduler.follow(now, RequestId(id)));
    }
    assert_eq!(runs(&driver.served(6, Nanos::from_us(10))), [(1, 3), (2, 3)]);
}

#[test]
fn request_without_capacity_holds_up_the_others() {
    let mut driver = bfq("");
    driver.writes(&[100]).capacity = Capacity { reads: 1, writes: 0 };
    driver.reads(&[200]);
    assert_eq!(driver.dispatch(), Dispatch::Idle);
    driver.capacity = Capacity::UNLIMITED;
    assert_eq!(driver.all().len(), 2);
}

#[test]
fn requests_are_merged_within_a_queue_only() {
    let mut driver = bfq("");
    driver.begin(&[(1, be(4)), (2, be(4))]);
    let id = driver.read(1, be(4), 1000, 8);
    let mut arriving = driver.requests[id as usize];
    arriving.lba = Lba::new(1008);
    assert!(driver.scheduler.may_merge(RequestId(id), &arriving));
    arriving.stream = StreamId(2);
    assert!(!driver.scheduler.may_merge(RequestId(id), &arriving));
    arriving.stream = StreamId(1);
    arriving.operation = Operation::Write;
    assert!(!driver.scheduler.may_merge(RequestId(id), &arriving));
    // The next request is chosen anew after a front merge. A request that is joined to another passes on its place.
    let mut driver = bfq("");
    driver.reads(&[1000, 2000, 900]).front_merge(1);
    driver.join(0, 2);
    assert_eq!(driver.all(), [0, 1]);
}
