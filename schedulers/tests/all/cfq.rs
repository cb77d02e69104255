//! The rules of cfq as Linux 2.6.30 has them: slices, classes and levels, preemption, and the order within a queue.
//! Idling and cooperation are tested in `cfq_idling.rs`. Ids count the requests of a script from zero.

use iocast_schedulers::{Capacity, Dispatch};
use traces::{Flags, Lba, Nanos, Operation, Request, RequestId, Sectors, StreamId, Timestamp};

use crate::cfq_processes::{BE, IDLE, RT, ask, cfq, read, write};
use crate::driver::{Driver, ms};

/// Each stream has `count` requests, far from those of the others; each request takes 10 ms. Returns the streams and
/// the lengths of their turns.
fn turns(driver: &mut Driver, count: u64, streams: &[(u32, u8, u8)]) -> Vec<(u32, usize)> {
    for &(stream, class, level) in streams {
        for n in 0..count {
            ask(driver, Operation::Read, u64::from(stream) * 100_000_000 + n * 8, stream, class, level);
        }
    }
    runs(driver, 10_000)
}

/// Serves all requests; returns the streams with the lengths of their runs.
fn runs(driver: &mut Driver, us: u64) -> Vec<(u32, usize)> {
    let served = driver.serve(us, usize::MAX);
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

#[test]
fn slice_begins_with_its_first_completion_and_ends_by_time() {
    // A turn has one request and those that begin within 100 ms of its completion; the others go in the second turn.
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
fn queue_of_a_lower_level_waits_longer_for_its_turn() {
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
        assert_eq!(driver.serve(10, 9), order, "after {after} ms");
    }
}

#[test]
fn async_requests_of_a_priority_share_a_queue() {
    let mut driver = cfq("slice_idle=0ns");
    for n in 0..3 {
        write(&mut driver, 1000 + n * 100, n as u32);
        ask(&mut driver, Operation::Write, 2_000_000 + n * 100, n as u32, BE, 0);
    }
    // There is one queue of level 4 and one of level 0 for all streams.
    assert_eq!(driver.serve(1000, 9), [0, 2, 4, 1, 3, 5]);
}

#[test]
fn async_requests_wait_until_no_sync_request_is_in_flight() {
    let mut driver = cfq("slice_idle=0ns");
    read(&mut driver, 1000, 1);
    assert_eq!(driver.next(), 0);
    write(&mut driver, 2000, 1);
    assert_eq!(driver.dispatch(), Dispatch::Idle);
    driver.complete(0);
    assert_eq!(driver.next(), 1);
}

#[test]
fn length_of_an_async_turn_depends_on_level_and_slice_async_rq_while_others_wait() {
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
fn queue_has_quantum_requests_in_flight_while_others_wait_and_four_times_as_many_alone() {
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
fn expired_request_goes_first_once_in_a_slice() {
    for (operation, expires) in [(Operation::Read, 125), (Operation::Write, 250)] {
        for (age_us, sent) in [(expires * 1000 - 1, [2, 3, 0]), (expires * 1000, [0, 2, 3])] {
            let mut driver = cfq("slice_sync=10s,slice_async=10s");
            for start in [9_000_000, 800_000_000, 1000, 2000] {
                ask(&mut driver, operation, start, 1, 0, 0);
            }
            driver.now = Timestamp::ZERO + Nanos::from_us(age_us);
            // The next in order was found when the requests came: 1000.
            assert_eq!(driver.serve(10, 3), sent, "{operation} after {age_us} us");
        }
    }
}

#[test]
fn requests_are_sent_upwards_from_the_head_with_short_back_seeks() {
    let order = |tunables: &str, starts: &[u64]| {
        let mut driver = cfq(tunables);
        read(&mut driver, 100_000_000, 1);
        assert_eq!(driver.serve(10, 1), [0]);
        for &start in starts {
            read(&mut driver, start, 1);
        }
        driver.serve(10, 9)
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
    assert_eq!(driver.serve(10, 9), [1, 0]);
}

#[test]
fn second_request_at_a_sector_moves_the_first_to_the_dispatch_queue() {
    let mut driver = cfq("");
    read(&mut driver, 1000, 1);
    read(&mut driver, 5000, 1);
    read(&mut driver, 5000, 1);
    assert_eq!(driver.next(), 1);
    assert_eq!(driver.all(), [0, 2]);
}

#[test]
fn real_time_preempts_best_effort_and_classes_are_served_in_order() {
    let mut driver = cfq("slice_idle=0ns");
    ask(&mut driver, Operation::Read, 1000, 1, IDLE, 0);
    ask(&mut driver, Operation::Read, 2000, 2, BE, 7);
    ask(&mut driver, Operation::Read, 3000, 3, RT, 7);
    assert_eq!(driver.serve(10, 9), [2, 1, 0]);
    // A real-time request preempts in the middle of a slice.
    let mut driver = cfq("");
    for n in 0..4 {
        read(&mut driver, 1000 + n * 8, 1);
    }
    assert_eq!(driver.serve(10, 1), [0]);
    ask(&mut driver, Operation::Read, 900_000_000, 2, RT, 4);
    assert_eq!(driver.serve(10, 9), [4, 1, 2, 3]);
}

#[test]
fn idle_class_has_one_request_in_flight_and_gives_way_after_each() {
    let mut driver = cfq("");
    for n in 0..4 {
        ask(&mut driver, Operation::Read, 1000 + n * 8, 1, IDLE, 0);
    }
    assert_eq!(driver.all(), [0]);
    read(&mut driver, 900_000_000, 2);
    driver.time(ms(1)).complete(0);
    assert_eq!(driver.next(), 4);
    // The device does not idle for the idle class, but the idle class waits until the idling for others is over.
    driver.time(ms(2)).complete(4);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(10)));
    driver.time(ms(10));
    assert_eq!(driver.serve(10, 9), [1, 2, 3]);
    // A second queue of the idle class does not wait for the completion.
    let mut driver = cfq("");
    for (start, stream) in [(1000, 1), (1008, 1), (900_000, 2), (900_008, 2)] {
        ask(&mut driver, Operation::Read, start, stream, IDLE, 0);
    }
    assert_eq!(driver.all(), [0, 2]);
}

#[test]
fn sync_request_preempts_an_async_turn() {
    let mut driver = cfq("");
    for n in 0..8 {
        write(&mut driver, 1000 + n * 8, 1);
    }
    assert_eq!(driver.serve(10, 1), [0]);
    read(&mut driver, 900_000_000, 2);
    assert_eq!(driver.next(), 8);
}

#[test]
fn metadata_request_preempts_data() {
    for (flags, first) in [(Flags::META, 2), (Flags::empty(), 1)] {
        let mut driver = cfq("");
        read(&mut driver, 1000, 1);
        read(&mut driver, 1008, 1);
        assert_eq!(driver.serve(10, 1), [0]);
        let mut request = Request::new(driver.now, Operation::Read, Lba::new(900_000_000), Sectors::new(8));
        request.stream = StreamId(2);
        request.flags = flags;
        driver.insert(request);
        assert_eq!(driver.next(), first);
    }
}

#[test]
fn preempted_queue_waits_for_its_next_turn_by_the_rest_of_its_slice() {
    // At 20 ms 90 ms of the slice are left. The next turn of the queue is due 90 ms later, and the handicap of its
    // level adds 80 ms.
    for (comes, first) in [(189, 41), (191, 2)] {
        let mut driver = cfq("slice_idle=0ns");
        for n in 0..40 {
            read(&mut driver, 1000 + n * 8, 1);
        }
        assert_eq!(driver.serve(10_000, 2), [0, 1]);
        let urgent = ask(&mut driver, Operation::Read, 900_000_000, 2, RT, 4);
        assert_eq!(driver.next(), urgent);
        driver.time(ms(comes));
        ask(&mut driver, Operation::Read, 800_000_000, 3, BE, 0);
        driver.complete(urgent);
        assert_eq!(driver.next(), first, "{comes} ms");
    }
}

#[test]
fn requests_are_merged_within_a_queue_only() {
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
fn front_merged_request_is_sorted_anew() {
    let mut driver = cfq("");
    for start in [100, 2008, 2004] {
        read(&mut driver, start, 1);
    }
    driver.front_merge(1);
    assert_eq!(driver.serve(10, 9), [0, 1, 2]);
}

#[test]
fn request_without_capacity_holds_up_the_others() {
    let mut driver = cfq("slice_idle=0ns");
    read(&mut driver, 100, 1);
    write(&mut driver, 200, 1);
    driver.capacity = Capacity { reads: 0, writes: 5 };
    assert_eq!(driver.dispatch(), Dispatch::Idle);
    driver.capacity = Capacity::UNLIMITED;
    assert_eq!(driver.next(), 0);
}

#[test]
fn request_that_comes_back_goes_first() {
    let mut driver = cfq("");
    read(&mut driver, 100, 1);
    read(&mut driver, 200, 1);
    assert_eq!(driver.next(), 0);
    let request = driver.requests[0];
    driver.scheduler.requeue(driver.now, RequestId(0), &request);
    assert_eq!(driver.all(), [0, 1]);
}
