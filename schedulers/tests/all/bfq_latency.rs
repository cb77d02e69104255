//! The rules of bfq as Linux 6.18 has them that favour a queue for a while, or send requests of other queues meanwhile:
//! weight raising, bursts and injection.

use iocast_schedulers::{Dispatch, Scheduler};
use traces::{Flags, Lba, Nanos, Operation, Priority, Request, RequestId, Sectors, StreamId};

use crate::driver::Driver;

/// Best effort, by level. Level 4 is the default; only its queues are raised.
fn be(level: u8) -> Priority {
    Priority::new(2, level).expect("a level of Linux")
}

fn insert(driver: &mut Driver, stream: u32, level: u8, start: u64, sectors: u64) -> u32 {
    let mut request = Request::new(driver.now, Operation::Read, Lba::new(start), Sectors::new(sectors));
    (request.stream, request.priority) = (StreamId(stream), be(level));
    driver.insert(request).0
}

/// Time passes and the idle timer runs.
fn pass(driver: &mut Driver, ms: u64) {
    let end = driver.now + Nanos::from_ms(ms);
    driver.time(end);
    driver.dispatch();
}

/// Sends and completes the only waiting request.
fn serve(driver: &mut Driver, id: u32) {
    assert_eq!(driver.next(), id);
    driver.complete(id);
}

/// The streams of the next `count` requests; each completes at once.
fn served(driver: &mut Driver, count: usize) -> Vec<u32> {
    let mut streams = Vec::new();
    while streams.len() < count {
        match driver.dispatch() {
            Dispatch::Send(id) => {
                driver.complete(id.0);
                streams.push(driver.requests[id.index()].stream.0);
            }
            Dispatch::WaitUntil(until) => driver.now = until,
            Dispatch::Idle => break,
        }
    }
    streams
}

/// A process of weight 50 has a backlog, and a process of `level` begins with a backlog too; requests have `sectors`
/// sectors. Returns the share of the second process among `count` requests after the first `skip`, in percent.
fn share_of_new(tunables: &str, level: u8, sectors: u64, skip: usize, count: usize) -> usize {
    let mut driver = Driver::new(&format!("bfq{tunables}"));
    let id = insert(&mut driver, 1, 3, 0, 8);
    serve(&mut driver, id);
    pass(&mut driver, 1000);
    for n in 0..1000 {
        insert(&mut driver, 1, 3, 1_000_000 + n * sectors, sectors);
    }
    for n in 0..1000 {
        insert(&mut driver, 2, level, 5_000_000 + n * sectors, sectors);
    }
    served(&mut driver, skip);
    served(&mut driver, count).iter().filter(|&&stream| stream == 2).count() * 100 / count
}

#[test]
fn new_process_of_the_default_weight_is_raised_until_its_service_or_time_is_used_up() {
    // A raised process has 1200 of 1250 parts, others have 40 of 90. Turns are long, so the bounds are wide.
    let share = share_of_new("", 4, 200, 0, 500);
    assert!(share > 90, "{share}");
    let share = share_of_new(":low_latency=off", 4, 200, 0, 1000);
    assert!(share < 70, "low_latency=off: {share}");
    let share = share_of_new(":wr_coeff=1", 4, 200, 0, 1000);
    assert!(share < 70, "wr_coeff=1: {share}");
    let share = share_of_new("", 5, 200, 0, 1000);
    assert!(share < 70, "weight 30: {share}");
    // Raising ends after 120,000 sectors, 600 requests of 200. The service after that is shared by plain weight.
    let share = share_of_new("", 4, 200, 640, 500);
    assert!(share < 70, "after its service: {share}");
}

/// Whether the queue of stream 2 is raised: its request preempts a heavier process that is waited for.
fn is_raised(driver: &mut Driver) -> bool {
    for n in 0..30 {
        insert(driver, 1, 0, 8_000_000 + n * 8, 8);
    }
    insert(driver, 3, 7, 9_000_000, 8);
    // Stream 1 receives as much service as makes up for that of stream 2.
    driver.up_to(20);
    let id = insert(driver, 2, 4, 6_000_000, 8);
    driver.next() == id
}

/// A driver in which streams 1 and 3 have begun and rest.
fn begun(tunables: &str) -> Driver {
    let mut driver = Driver::new(&format!("bfq{tunables}"));
    for (stream, level) in [(1, 0), (3, 7)] {
        let id = insert(&mut driver, stream, level, u64::from(stream) * 1000, 8);
        serve(&mut driver, id);
        pass(&mut driver, 1000);
    }
    driver
}

#[test]
fn process_is_raised_again_after_a_rest() {
    for (tunables, rest_ms, raised) in [
        ("", 2100, true),
        ("", 1900, false),
        (":wr_min_idle_time=500ms", 600, true),
        (":wr_min_idle_time=500ms", 400, false),
    ] {
        // Soft real-time raising is off, and interactive raising is over at once.
        let mut driver = begun(&format!(
            "{}wr_max_softrt_rate=0,wr_max_time=1ms",
            if tunables.is_empty() { ":".to_owned() } else { format!("{tunables},") }
        ));
        for n in 0..2 {
            let id = insert(&mut driver, 2, 4, 6_000_000 + n * 8, 8);
            serve(&mut driver, id);
            pass(&mut driver, 10);
        }
        pass(&mut driver, rest_ms);
        assert_eq!(is_raised(&mut driver), raised, "{tunables} {rest_ms}");
    }
}

#[test]
fn process_that_sends_little_at_regular_times_is_soft_real_time() {
    // 8 sectors in 60 ms are less than the default rate, but more than 100 sectors a second.
    for (rate, seeks, raised) in [(7000, false, true), (0, false, false), (100, false, false), (7000, true, false)] {
        let mut driver = begun(&format!(":wr_max_softrt_rate={rate},wr_max_time=1ms,wr_rt_max_time=20ms"));
        for n in 0..40 {
            let id = insert(&mut driver, 2, 4, 6_000_000 + n * if seeks { 10_000 } else { 8 }, 8);
            serve(&mut driver, id);
            pass(&mut driver, 60);
        }
        assert_eq!(is_raised(&mut driver), raised, "rate {rate}, seeks {seeks}");
    }
}

#[test]
fn device_idles_20_ms_for_a_raised_queue() {
    for (level, waited_ms) in [(4, 20), (3, 8)] {
        let mut driver = begun("");
        let id = insert(&mut driver, 2, level, 6_000_000, 8);
        assert_eq!(driver.next(), id);
        insert(&mut driver, 3, 7, 9_000_000, 8);
        driver.complete(id);
        assert_eq!(driver.dispatch(), Dispatch::WaitUntil(driver.now + Nanos::from_ms(waited_ms)), "level {level}");
    }
}

#[test]
fn async_queue_is_raised_after_a_rest() {
    let write = |driver: &mut Driver, start: u64| {
        let mut request = Request::new(driver.now, Operation::Write, Lba::new(start), Sectors::new(1000));
        request.stream = StreamId(2);
        driver.insert(request)
    };
    for (rest_ms, raised) in [(600, true), (400, false)] {
        let mut driver = begun("");
        write(&mut driver, 0);
        pass(&mut driver, rest_ms);
        // The second request raises the busy queue. A raised queue is charged for its async requests only once, so it
        // sends more of them in a turn.
        for n in 1..60 {
            write(&mut driver, n * 1000);
        }
        insert(&mut driver, 1, 0, 8_000_000, 8);
        let streams = served(&mut driver, 40);
        let first = streams.iter().take_while(|&&stream| stream == 2).count();
        assert_eq!(first > 3, raised, "{rest_ms} ms: {streams:?}");
    }
}

#[test]
fn queues_of_a_large_burst_are_not_raised() {
    // The processes begin within 180 ms of one another, while no other queue is busy.
    for (count, gap_ms, tunables, raised) in [
        (8, 100, "", false),
        (7, 100, "", true),
        (8, 200, "", true),
        (3, 100, ",large_burst_thresh=3", false),
        (8, 200, ",burst_interval=250ms", false),
    ] {
        let mut driver = begun(&format!(":rotational=on{tunables}"));
        pass(&mut driver, 1000);
        for n in 1..count {
            let id = insert(&mut driver, 100 + n, 4, u64::from(n) * 100_000, 8);
            serve(&mut driver, id);
            pass(&mut driver, gap_ms);
        }
        // The last process of the burst.
        let id = insert(&mut driver, 2, 4, 6_000_000, 8);
        assert_eq!(driver.next(), id);
        insert(&mut driver, 3, 7, 9_000_000, 8);
        driver.complete(id);
        let waits = Dispatch::WaitUntil(driver.now + Nanos::from_ms(20));
        assert_eq!(driver.dispatch() == waits, raised, "{count} every {gap_ms} ms {tunables}");
    }
}

/// A heavy process that thinks for `think_ms` between its requests, and a request of a lighter process. The queue of
/// the heavy process is in service and empty.
fn thinking(think_ms: u64) -> (Driver, u32) {
    let mut driver = Driver::new("bfq:low_latency=off");
    for (stream, level) in [(2, 7), (1, 0)] {
        let id = insert(&mut driver, stream, level, u64::from(stream) * 1_000_000, 8);
        serve(&mut driver, id);
        pass(&mut driver, 1000);
    }
    for n in 0..12 {
        let id = insert(&mut driver, 1, 0, 1_000_000 + n * 8, 8);
        serve(&mut driver, id);
        // The think time is longer than the idling, so the queue does not stay in service.
        driver.now += Nanos::from_ms(think_ms);
    }
    pass(&mut driver, 20);
    let id = insert(&mut driver, 1, 0, 1_500_000, 8);
    assert_eq!(driver.next(), id);
    let other = insert(&mut driver, 2, 7, 2_000_000, 8);
    assert_eq!(driver.dispatch(), Dispatch::Idle);
    driver.complete(id);
    (driver, other)
}

#[test]
fn request_of_another_queue_is_injected_while_a_queue_of_long_think_time_is_waited_for() {
    let (mut driver, other) = thinking(12);
    insert(&mut driver, 2, 7, 2_000_008, 8);
    assert_eq!(driver.next(), other);
    // One request is injected at a time, and the queue in service stays in service.
    assert!(matches!(driver.dispatch(), Dispatch::WaitUntil(_)));
    let id = insert(&mut driver, 1, 0, 1_500_008, 8);
    assert_eq!(driver.next(), id);
}

#[test]
fn async_requests_of_the_process_that_is_waited_for_are_injected() {
    let mut driver = Driver::new("bfq:low_latency=off");
    for (stream, level) in [(2, 7), (1, 0)] {
        let id = insert(&mut driver, stream, level, u64::from(stream) * 1_000_000, 8);
        serve(&mut driver, id);
        pass(&mut driver, 1000);
    }
    let id = insert(&mut driver, 1, 0, 1_000_008, 8);
    insert(&mut driver, 2, 7, 2_000_008, 8);
    assert_eq!(driver.next(), id);
    let mut write = Request::new(driver.now, Operation::Write, Lba::new(5000), Sectors::new(8));
    (write.stream, write.priority) = (StreamId(1), be(0));
    let write = driver.insert(write);
    assert_eq!(driver.dispatch(), Dispatch::Send(write));
    assert_eq!(driver.dispatch(), Dispatch::Idle);
}

#[test]
fn waker_is_served_while_the_queue_that_it_wakes_is_waited_for() {
    // Stream 1 sends 10 ms after its own request completed, right after a request of stream 2 completed. This is
    // detected from the second round on, and must be detected three times.
    for (rounds, pause, woken) in [(8, 1, true), (4, 1, true), (3, 1, false), (8, 9, false)] {
        let mut driver = Driver::new("bfq:low_latency=off");
        for (stream, level) in [(2, 7), (1, 0)] {
            let id = insert(&mut driver, stream, level, u64::from(stream) * 1_000_000, 8);
            serve(&mut driver, id);
            pass(&mut driver, 1000);
        }
        for n in 0..rounds {
            let id = insert(&mut driver, 1, 0, 1_000_000 + n * 8, 8);
            serve(&mut driver, id);
            pass(&mut driver, 10);
            let id = insert(&mut driver, 2, 7, 2_000_000 + n * 8, 8);
            serve(&mut driver, id);
            pass(&mut driver, pause);
        }
        // After this pause stream 2 has no missed service to recover.
        pass(&mut driver, 30);
        let id = insert(&mut driver, 1, 0, 1_500_000, 8);
        assert_eq!(driver.next(), id);
        for n in 0..8 {
            insert(&mut driver, 2, 7, 2_500_000 + n * 8, 8);
        }
        driver.complete(id);
        // The injection limit does not apply to the waker.
        assert_eq!(driver.all().len() == 8, woken, "{rounds} rounds, {pause} ms");
    }
}

#[test]
fn sync_writes_go_to_the_sync_queue_of_their_process() {
    let mut driver = Driver::new("bfq:low_latency=off");
    insert(&mut driver, 1, 4, 1000, 8);
    let mut request = Request::new(driver.now, Operation::Write, Lba::new(500), Sectors::new(8));
    (request.stream, request.flags) = (StreamId(1), Flags::SYNC);
    let id = driver.insert(request);
    let mut adjacent = request;
    adjacent.lba = Lba::new(508);
    assert!(driver.scheduler.may_merge(RequestId(id.0), &adjacent));
    assert_eq!(driver.all(), [1, 0]);
}

#[test]
fn completion_calls_for_a_dispatch_if_the_device_is_idle_and_waits_for_no_queue() {
    let mut driver = Driver::new("bfq:low_latency=off");
    for (stream, level) in [(2, 7), (1, 0)] {
        let id = insert(&mut driver, stream, level, u64::from(stream) * 1_000_000, 8);
        serve(&mut driver, id);
        assert!(!driver.scheduler.calls_for_dispatch(), "the one busy queue is waited for");
        pass(&mut driver, 1000);
    }
    let async_write = |driver: &Driver, start: u64| {
        let mut write = Request::new(driver.now, Operation::Write, Lba::new(start), Sectors::new(8));
        (write.stream, write.priority) = (StreamId(3), be(4));
        write
    };
    let first = driver.insert(async_write(&driver, 100)).0;
    let second = driver.insert(async_write(&driver, 900)).0;
    assert_eq!(driver.up_to(2), [first, second]);
    driver.complete(first);
    assert!(!driver.scheduler.calls_for_dispatch(), "one is in flight");
    driver.complete(second);
    assert!(driver.scheduler.calls_for_dispatch(), "nothing is waited for in the queue of async requests");
}
