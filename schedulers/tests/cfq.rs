//! Every rule of cfq as Linux 2.6.30 has it. Ids count the requests of a script from zero. A process
//! is a stream; requests have 8 sectors.

mod driver;

use driver::{Driver, Ids, ms};
use schedulers::{Capacity, Dispatch};
use traces::{Flags, Lba, Nanos, Operation, Priority, Request, RequestId, Sectors, StreamId, Timestamp};

fn cfq(tunables: &str) -> Driver {
    Driver::new(&if tunables.is_empty() { "cfq".to_owned() } else { format!("cfq:{tunables}") })
}

fn send(id: u32) -> Dispatch {
    Dispatch::Send(RequestId(id))
}

const RT: u8 = 1;
const BE: u8 = 2;
const IDLE: u8 = 3;

/// A request of a stream with a priority.
fn ask(driver: &mut Driver, operation: Operation, start: u64, stream: u32, class: u8, level: u8) -> u32 {
    let mut request = Request::new(driver.now, operation, Lba::new(start), Sectors::new(8));
    request.stream = StreamId(stream);
    request.priority = Priority::new(class, level).expect("a class of Linux");
    driver.insert(request).0
}

fn read(driver: &mut Driver, start: u64, stream: u32) -> u32 {
    ask(driver, Operation::Read, start, stream, 0, 0)
}

fn write(driver: &mut Driver, start: u64, stream: u32) -> u32 {
    ask(driver, Operation::Write, start, stream, 0, 0)
}

/// Sends and completes one request after another, each in `us`, until `count` have completed or none
/// goes; waits are waited out.
fn serve(driver: &mut Driver, us: u64, count: usize) -> Ids {
    let mut served = Ids::new();
    while served.len() < count {
        match driver.dispatch() {
            Dispatch::Send(id) => {
                driver.now += Nanos::from_us(us);
                driver.complete(id.0);
                served.push(id.0);
            }
            Dispatch::WaitUntil(until) => driver.now = until,
            Dispatch::Idle => break,
        }
    }
    served
}

/// Streams `a` and `b` have `count` requests each far apart, each takes 10 ms: whose turn is how long.
fn turns(driver: &mut Driver, count: u64, streams: &[(u32, u8, u8)]) -> Vec<(u32, usize)> {
    for &(stream, class, level) in streams {
        for n in 0..count {
            ask(driver, Operation::Read, u64::from(stream) * 100_000_000 + n * 8, stream, class, level);
        }
    }
    runs(driver, 10_000)
}

/// Serves everything; the streams in runs.
fn runs(driver: &mut Driver, us: u64) -> Vec<(u32, usize)> {
    let served = serve(driver, us, usize::MAX);
    let mut runs: Vec<(u32, usize)> = Vec::new();
    for id in served {
        let stream = driver.requests[id as usize].stream.0;
        match runs.last_mut() {
            Some((last, count)) if *last == stream => *count += 1,
            _ => runs.push((stream, 1)),
        }
    }
    runs
}

/// The one request that waits goes, after what idling there is.
fn wait_out(driver: &mut Driver) {
    match driver.dispatch() {
        Dispatch::WaitUntil(until) => {
            driver.now = until;
            driver.next();
        }
        sent => assert_ne!(sent, Dispatch::Idle),
    }
}

/// Stream `stream` reads at each place, thinking `think_us` after every completion; each takes 1 ms.
fn reads_with_thought(driver: &mut Driver, stream: u32, starts: impl IntoIterator<Item = u64>, think_us: u64) {
    for start in starts {
        driver.now += Nanos::from_us(think_us);
        let id = read(driver, start, stream);
        wait_out(driver);
        driver.now += Nanos::from_us(1000);
        driver.complete(id);
    }
}

#[test]
fn a_slice_begins_with_its_first_completion_and_ends_by_time() {
    // 1 request, then those that begin within 100 ms of its completion; the rest in the second turn.
    let runs = turns(&mut cfq(""), 15, &[(1, 0, 0), (2, 0, 0)]);
    assert_eq!(runs, [(1, 11), (2, 11), (1, 4), (2, 4)]);
    let runs = turns(&mut cfq("slice_sync=50ms"), 15, &[(1, 0, 0), (2, 0, 0)]);
    assert_eq!(runs, [(1, 6), (2, 6), (1, 6), (2, 6), (1, 3), (2, 3)]);
}

#[test]
fn slices_scale_with_the_level_by_a_fifth() {
    for (level, requests) in [(0, 19), (1, 17), (3, 13), (4, 11), (5, 9), (7, 5)] {
        let runs = turns(&mut cfq(""), 30, &[(1, BE, level), (2, BE, level)]);
        assert_eq!(runs[0], (1, requests), "level {level}");
        assert_eq!(runs[1], (2, requests), "level {level}");
    }
    // No priority is best effort 4.
    assert_eq!(turns(&mut cfq(""), 30, &[(1, 0, 0), (2, 0, 0)])[0], (1, 11));
}

#[test]
fn a_lower_level_waits_longer_for_its_turn() {
    // (busy queues - 1) x (180 ms - its slice): level 7 waits until 141 ms, and level 0 does not.
    for (after, order) in [(139, [1, 3, 2]), (142, [1, 2, 3])] {
        let mut driver = cfq("");
        read(&mut driver, 0, 1);
        read(&mut driver, 8, 1);
        assert_eq!(driver.next(), 0);
        driver.time(ms(1));
        ask(&mut driver, Operation::Read, 1_000_000_000, 2, BE, 7);
        driver.time(ms(after));
        ask(&mut driver, Operation::Read, 2_000_000_000, 3, BE, 0);
        driver.complete(0);
        assert_eq!(serve(&mut driver, 10, 9), order, "after {after} ms");
    }
}

#[test]
fn it_idles_for_the_active_process_and_not_longer_than_slice_idle() {
    for (tunables, wait) in [("", Some(8)), ("slice_idle=3ms", Some(3)), ("slice_idle=0ns", None)] {
        let mut driver = cfq(tunables);
        read(&mut driver, 1000, 1);
        assert_eq!(driver.next(), 0);
        let other = read(&mut driver, 900_000_000, 2);
        // What is below may be followed by more of the same process.
        assert_eq!(driver.dispatch() == send(other), wait.is_none(), "{tunables}");
        driver.time(ms(10)).complete(0);
        let Some(wait) = wait else { continue };
        assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(10 + wait)), "{tunables}");
        driver.time(ms(10 + wait));
        assert_eq!(driver.next(), other, "{tunables}");
    }
}

#[test]
fn a_request_of_the_awaited_process_goes_at_once() {
    let mut driver = cfq("");
    read(&mut driver, 1000, 1);
    assert_eq!(driver.next(), 0);
    read(&mut driver, 900_000_000, 2);
    driver.time(ms(10)).complete(0);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(18)));
    driver.time(ms(17));
    let awaited = read(&mut driver, 1008, 1);
    assert_eq!(driver.next(), awaited);
}

#[test]
fn it_does_not_idle_for_a_process_that_thinks_longer_than_slice_idle() {
    for (think_us, idles) in [(1000, true), (7000, true), (9000, false), (100_000, false)] {
        let mut driver = cfq("");
        reads_with_thought(&mut driver, 1, (0..20).map(|n| n * 8), think_us);
        let other = read(&mut driver, 900_000_000, 2);
        assert_eq!(driver.dispatch() != send(other), idles, "{think_us} us");
    }
}

#[test]
fn it_does_not_idle_for_a_process_that_seeks_on_a_device_that_queues() {
    for (step, idles) in [(8, true), (7900, true), (8300, false), (20_000, false)] {
        let mut driver = cfq("");
        reads_with_thought(&mut driver, 1, (0..40).map(|n| 5_000_000 + n * step), 100);
        let other = read(&mut driver, 900_000_000, 2);
        assert_eq!(driver.dispatch() != send(other), idles, "by {step}");
    }
}

/// Makes the device seen to take one request at a time under load.
fn shows_no_queueing(driver: &mut Driver) {
    for n in 0..60 {
        read(driver, 1000 + n * 8, 9);
    }
    serve(driver, 100, 60);
}

#[test]
fn a_device_seen_not_to_queue_is_idled_for_shortly_when_a_process_seeks() {
    let mut driver = cfq("");
    shows_no_queueing(&mut driver);
    reads_with_thought(&mut driver, 1, (0..40).map(|n| 5_000_000 + n * 20_000), 100);
    read(&mut driver, 900_000_000, 2);
    let in_2_ms = driver.now + Nanos::from_ms(2);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(in_2_ms));
}

#[test]
fn a_device_without_seeks_is_idled_for_only_if_it_does_not_queue() {
    for (rotational, queues, idles) in [("on", true, true), ("off", true, false), ("off", false, true)] {
        let mut driver = cfq(&format!("rotational={rotational}"));
        if !queues {
            shows_no_queueing(&mut driver);
        }
        reads_with_thought(&mut driver, 1, (0..10).map(|n| n * 8), 100);
        let other = read(&mut driver, 900_000_000, 2);
        assert_eq!(driver.dispatch() != send(other), idles, "{rotational} {queues}");
    }
}

#[test]
fn sync_writes_are_idled_for_unless_they_are_said_to_be_marked() {
    for (tunables, idles) in [("", true), ("noidle_writes=on", false)] {
        let mut driver = cfq(tunables);
        let mut request = Request::new(driver.now, Operation::Write, Lba::new(1000), Sectors::new(8));
        request.flags = Flags::SYNC;
        driver.insert(request);
        assert_eq!(driver.next(), 0);
        let other = read(&mut driver, 900_000_000, 2);
        driver.time(ms(5)).complete(0);
        assert_eq!(driver.dispatch() != send(other), idles, "{tunables}");
    }
}

#[test]
fn async_requests_of_a_priority_share_a_queue() {
    let mut driver = cfq("slice_idle=0ns");
    for n in 0..3 {
        write(&mut driver, 1000 + n * 100, n as u32);
        ask(&mut driver, Operation::Write, 2_000_000 + n * 100, n as u32, BE, 0);
    }
    // One queue of level 4 and one of level 0, whoever asked.
    assert_eq!(serve(&mut driver, 1000, 9), [0, 2, 4, 1, 3, 5]);
}

#[test]
fn async_waits_until_no_sync_is_below() {
    let mut driver = cfq("slice_idle=0ns");
    read(&mut driver, 1000, 1);
    assert_eq!(driver.next(), 0);
    write(&mut driver, 2000, 1);
    assert_eq!(driver.dispatch(), Dispatch::Idle);
    driver.complete(0);
    assert_eq!(driver.next(), 1);
}

#[test]
fn an_async_turn_has_so_many_requests_while_others_wait() {
    // 2 x slice_async_rq x (8 - level), or 40 ms scaled by the level.
    for (tunables, level, us, requests) in [
        ("slice_sync=1s,slice_async=1s", 4, 10, 16),
        ("slice_sync=1s,slice_async=1s", 7, 10, 4),
        ("slice_sync=1s,slice_async=1s,slice_async_rq=1", 4, 10, 8),
        ("", 4, 10_000, 5),
        ("", 0, 10_000, 9),
        ("slice_async=10ms", 4, 10_000, 2),
    ] {
        let mut driver = cfq(tunables);
        for n in 0..40 {
            ask(&mut driver, Operation::Write, 1000 + n * 8, 1, BE, level);
        }
        for n in 0..40 {
            ask(&mut driver, Operation::Write, 900_000_000 + n * 8, 2, BE, if level == 0 { 1 } else { level - 1 });
        }
        let runs = runs(&mut driver, us);
        let first = runs.iter().find(|(stream, _)| *stream == 1);
        assert_eq!(first, Some(&(1, requests)), "{tunables} level {level}: {runs:?}");
    }
}

#[test]
fn a_queue_has_quantum_requests_below_while_others_wait_and_four_times_that_alone() {
    for (tunables, quantum) in [("", 4), ("quantum=2", 2)] {
        let mut driver = cfq(tunables);
        for n in 0..40 {
            read(&mut driver, 1000 + n * 8, 1);
        }
        assert_eq!(driver.all().len(), 4 * quantum, "{tunables}");
        let mut driver = cfq(tunables);
        for n in 0..40 {
            read(&mut driver, 1000 + n * 8, 1);
        }
        read(&mut driver, 900_000_000, 2);
        assert_eq!(driver.all().len(), quantum, "{tunables}");
    }
}

#[test]
fn an_expired_head_goes_first_but_once_in_a_slice() {
    for (operation, expires) in [(Operation::Read, 125), (Operation::Write, 250)] {
        for (age_us, sent) in [(expires * 1000 - 1, [2, 3, 0]), (expires * 1000, [0, 2, 3])] {
            let mut driver = cfq("slice_sync=10s,slice_async=10s");
            for start in [9_000_000, 800_000_000, 1000, 2000] {
                ask(&mut driver, operation, start, 1, 0, 0);
            }
            driver.now = Timestamp::ZERO + Nanos::from_us(age_us);
            // The next in order was found when the requests came: 1000.
            assert_eq!(serve(&mut driver, 10, 3), sent, "{operation} after {age_us} us");
        }
    }
}

#[test]
fn requests_go_up_from_the_head_with_short_back_seeks() {
    let order = |tunables: &str, starts: &[u64]| {
        let mut driver = cfq(tunables);
        read(&mut driver, 100_000_000, 1);
        assert_eq!(serve(&mut driver, 10, 1), [0]);
        for &start in starts {
            read(&mut driver, start, 1);
        }
        serve(&mut driver, 10, 9)
    };
    let head = 100_000_008;
    assert_eq!(order("", &[head - 100, head + 199]), [2, 1]);
    assert_eq!(order("", &[head - 100, head + 201]), [1, 2]);
    assert_eq!(order("back_seek_penalty=1", &[head - 100, head + 101]), [1, 2]);
    // 16 MiB are 32,768 sectors.
    assert_eq!(order("", &[head - 32_768, head + 65_537]), [1, 2]);
    assert_eq!(order("", &[head - 32_769, head + 65_539]), [2, 1]);
    assert_eq!(order("back_seek_max=0", &[head - 1, head + 1_000_000]), [2, 1]);
}

#[test]
fn metadata_goes_before_data() {
    let mut driver = cfq("");
    read(&mut driver, 1000, 1);
    let mut request = Request::new(driver.now, Operation::Read, Lba::new(900_000), Sectors::new(8));
    request.stream = StreamId(1);
    request.flags = Flags::META;
    driver.insert(request);
    assert_eq!(serve(&mut driver, 10, 9), [1, 0]);
}

#[test]
fn one_that_waits_at_the_same_sector_gives_way_to_the_dispatch_queue() {
    let mut driver = cfq("");
    read(&mut driver, 1000, 1);
    read(&mut driver, 5000, 1);
    read(&mut driver, 5000, 1);
    assert_eq!(driver.next(), 1);
    assert_eq!(driver.all(), [0, 2]);
}

#[test]
fn real_time_preempts_and_goes_before_best_effort_and_that_before_idle() {
    let mut driver = cfq("slice_idle=0ns");
    ask(&mut driver, Operation::Read, 1000, 1, IDLE, 0);
    ask(&mut driver, Operation::Read, 2000, 2, BE, 7);
    ask(&mut driver, Operation::Read, 3000, 3, RT, 7);
    assert_eq!(serve(&mut driver, 10, 9), [2, 1, 0]);
    // In the middle of a slice.
    let mut driver = cfq("");
    for n in 0..4 {
        read(&mut driver, 1000 + n * 8, 1);
    }
    assert_eq!(serve(&mut driver, 10, 1), [0]);
    ask(&mut driver, Operation::Read, 900_000_000, 2, RT, 4);
    assert_eq!(serve(&mut driver, 10, 9), [4, 1, 2, 3]);
}

#[test]
fn the_idle_class_has_one_request_below_and_gives_way_after_each() {
    let mut driver = cfq("");
    for n in 0..4 {
        ask(&mut driver, Operation::Read, 1000 + n * 8, 1, IDLE, 0);
    }
    assert_eq!(driver.all(), [0]);
    read(&mut driver, 900_000_000, 2);
    driver.time(ms(1)).complete(0);
    assert_eq!(driver.next(), 4);
    // And nobody idles for it, while it waits out the idling for others.
    driver.time(ms(2)).complete(4);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(10)));
    driver.time(ms(10));
    assert_eq!(serve(&mut driver, 10, 9), [1, 2, 3]);
    // Another of the class does not wait for its completion.
    let mut driver = cfq("");
    for (start, stream) in [(1000, 1), (1008, 1), (900_000, 2), (900_008, 2)] {
        ask(&mut driver, Operation::Read, start, stream, IDLE, 0);
    }
    assert_eq!(driver.all(), [0, 2]);
}

#[test]
fn sync_preempts_async() {
    let mut driver = cfq("");
    for n in 0..8 {
        write(&mut driver, 1000 + n * 8, 1);
    }
    assert_eq!(serve(&mut driver, 10, 1), [0]);
    read(&mut driver, 900_000_000, 2);
    assert_eq!(driver.next(), 8);
}

#[test]
fn metadata_preempts_data() {
    for (flags, first) in [(Flags::META, 2), (Flags::empty(), 1)] {
        let mut driver = cfq("");
        read(&mut driver, 1000, 1);
        read(&mut driver, 1008, 1);
        assert_eq!(serve(&mut driver, 10, 1), [0]);
        let mut request = Request::new(driver.now, Operation::Read, Lba::new(900_000_000), Sectors::new(8));
        request.stream = StreamId(2);
        request.flags = flags;
        driver.insert(request);
        assert_eq!(driver.next(), first);
    }
}

#[test]
fn a_request_close_to_the_head_preempts_a_process_that_is_waited_for() {
    // With no seeks known of the awaited process close is 8192 sectors.
    for (start, goes) in [(1008 + 8192, true), (1008 + 8193, false)] {
        let mut driver = cfq("");
        read(&mut driver, 1000, 1);
        assert_eq!(serve(&mut driver, 10, 1), [0]);
        read(&mut driver, 900_000_000, 3);
        let close = read(&mut driver, start, 2);
        assert_eq!(driver.dispatch() == send(close), goes, "at {start}");
    }
}

#[test]
fn who_is_preempted_queues_up_behind_the_rest_of_its_slice() {
    // At 20 ms 90 ms of the slice are left: its turn is then, 90 ms and a level's handicap of 80 ms later.
    for (comes, first) in [(189, 41), (191, 2)] {
        let mut driver = cfq("slice_idle=0ns");
        for n in 0..40 {
            read(&mut driver, 1000 + n * 8, 1);
        }
        assert_eq!(serve(&mut driver, 10_000, 2), [0, 1]);
        let urgent = ask(&mut driver, Operation::Read, 900_000_000, 2, RT, 4);
        assert_eq!(driver.next(), urgent);
        driver.time(ms(comes));
        ask(&mut driver, Operation::Read, 800_000_000, 3, BE, 0);
        driver.complete(urgent);
        assert_eq!(driver.next(), first, "{comes} ms");
    }
}

#[test]
fn a_cooperator_takes_over_once_without_idling() {
    // Process 1 is done for now, and 2 waits right behind the head.
    let mut driver = cfq("");
    read(&mut driver, 1000, 1);
    read(&mut driver, 1008, 2);
    read(&mut driver, 900_000_000, 3);
    assert_eq!(driver.next(), 0);
    driver.time(ms(1)).complete(0);
    assert_eq!(driver.next(), 1);
    // 2 took over; right behind it process 1 waits, which did not: it takes over from 2.
    read(&mut driver, 1016, 1);
    driver.time(ms(2)).complete(1);
    assert_eq!(driver.next(), 3);
    // 2 again, but it has had no turn of its own since: so 1 is idled for.
    read(&mut driver, 1024, 2);
    driver.time(ms(3)).complete(3);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(11)));
    // A new request that is close ends that all the same.
    let close = read(&mut driver, 1032, 2);
    assert_eq!(driver.dispatch(), send(4));
    driver.complete(4);
    assert_eq!(driver.next(), close);
}

#[test]
fn it_does_not_idle_while_anything_is_below() {
    for (below, idles) in [(true, false), (false, true)] {
        let mut driver = cfq("");
        write(&mut driver, 1000, 1);
        assert_eq!(driver.next(), 0);
        read(&mut driver, 1100, 1);
        assert_eq!(driver.next(), 1);
        let other = read(&mut driver, 900_000_000, 2);
        if !below {
            driver.complete(0);
        }
        driver.time(ms(1)).complete(1);
        assert_eq!(driver.dispatch() != send(other), idles, "a write below: {below}");
    }
}

#[test]
fn only_a_close_queue_of_the_same_level_cooperates() {
    // The head is at 101_008.
    for (start, class, level, goes) in [
        (101_016, BE, 4, true),
        (101_016, BE, 5, false),
        (101_008 + 8192, BE, 4, true),
        (101_008 + 8193, BE, 4, false),
        (101_008 - 8192, BE, 4, true),
        (101_008 - 8193, BE, 4, false),
    ] {
        let mut driver = cfq("");
        read(&mut driver, 101_000, 1);
        assert_eq!(driver.next(), 0);
        let other = ask(&mut driver, Operation::Read, start, 2, class, level);
        driver.time(ms(1)).complete(0);
        assert_eq!(driver.dispatch() == send(other), goes, "{start} of level {level}");
    }
}

#[test]
fn a_merge_stays_within_a_queue() {
    let mut driver = cfq("");
    read(&mut driver, 1000, 1);
    write(&mut driver, 2000, 1);
    let like = |operation, stream| {
        let mut request = Request::new(Timestamp::ZERO, operation, Lba::new(1008), Sectors::new(8));
        request.stream = StreamId(stream);
        request
    };
    for (into, operation, stream, may) in [
        (0, Operation::Read, 1, true),
        (0, Operation::Read, 2, false),
        (0, Operation::Write, 1, false),
        (1, Operation::Write, 7, true),
        (1, Operation::Read, 1, false),
    ] {
        let request = like(operation, stream);
        assert_eq!(driver.scheduler.may_merge(RequestId(into), &request), may, "{operation} of {stream} into {into}");
    }
}

#[test]
fn a_front_merged_request_is_sorted_anew() {
    let mut driver = cfq("");
    for start in [100, 2008, 2004] {
        read(&mut driver, start, 1);
    }
    driver.front_merge(1);
    assert_eq!(serve(&mut driver, 10, 9), [0, 1, 2]);
}

#[test]
fn what_there_is_no_room_for_holds_up_the_rest() {
    let mut driver = cfq("slice_idle=0ns");
    read(&mut driver, 100, 1);
    write(&mut driver, 200, 1);
    driver.capacity = Capacity { reads: 0, writes: 5 };
    assert_eq!(driver.dispatch(), Dispatch::Idle);
    driver.capacity = Capacity::UNLIMITED;
    assert_eq!(driver.next(), 0);
}

#[test]
fn what_comes_back_goes_first() {
    let mut driver = cfq("");
    read(&mut driver, 100, 1);
    read(&mut driver, 200, 1);
    assert_eq!(driver.next(), 0);
    let request = driver.requests[0];
    driver.scheduler.requeue(driver.now, RequestId(0), &request);
    assert_eq!(driver.all(), [0, 1]);
}
