//! The rules of bfq as Linux 6.18 has them by which queues of processes are merged and split. Requests of two processes
//! may be merged if the processes share a queue; the tests detect shared queues by this.

use iocast_schedulers::Scheduler;
use traces::{Lba, Nanos, Operation, Priority, Request, RequestId, Sectors, StreamId};

use crate::driver::Driver;

fn be(level: u8) -> Priority {
    Priority::new(2, level).expect("a level of Linux")
}

fn request(driver: &Driver, stream: u32, level: u8, start: u64) -> Request {
    let mut request = Request::new(driver.now, Operation::Read, Lba::new(start), Sectors::new(8));
    (request.stream, request.priority) = (StreamId(stream), be(level));
    request
}

fn insert(driver: &mut Driver, stream: u32, level: u8, start: u64) -> u32 {
    let request = request(driver, stream, level, start);
    driver.insert(request).0
}

/// Whether a request of `stream` would go to the queue in which `id` waits.
fn shares(driver: &Driver, stream: u32, id: u32) -> bool {
    driver.scheduler.may_merge(RequestId(id), &request(driver, stream, 4, 1))
}

fn pass(driver: &mut Driver, ms: u64) {
    driver.now += Nanos::from_ms(ms);
}

#[test]
fn processes_that_begin_together_share_a_queue_on_flash() {
    for (gap_ms, levels, tunables, together) in [
        (100, [4, 4], "", true),
        (180, [4, 4], "", true),
        (184, [4, 4], "", false),
        (100, [4, 3], "", false),
        (300, [4, 4], ":burst_interval=300ms", true),
        (100, [4, 4], ":rotational=on", false),
    ] {
        let mut driver = Driver::new(&format!("bfq{tunables}"));
        let first = insert(&mut driver, 1, levels[0], 1_000_000);
        pass(&mut driver, gap_ms);
        let second = insert(&mut driver, 2, levels[1], 2_000_000);
        assert_eq!(shares(&driver, 1, second), together, "{gap_ms} ms, levels {levels:?} {tunables}");
        assert_eq!(shares(&driver, 2, first), together, "{gap_ms} ms, levels {levels:?} {tunables}");
    }
    // The third process shares the queue of the first, unless a process of another priority began between.
    let mut driver = Driver::new("bfq");
    let first = insert(&mut driver, 1, 4, 1_000_000);
    insert(&mut driver, 2, 4, 2_000_000);
    insert(&mut driver, 3, 4, 3_000_000);
    assert!(shares(&driver, 3, first));
    insert(&mut driver, 4, 3, 4_000_000);
    insert(&mut driver, 5, 4, 5_000_000);
    assert!(!shares(&driver, 5, first));
}

#[test]
fn shared_queue_is_served_in_one_sweep() {
    let mut driver = Driver::new("bfq");
    for (stream, start) in [(1, 300), (2, 100), (1, 200), (2, 400)] {
        insert(&mut driver, stream, 4, start);
    }
    assert_eq!(driver.all(), [1, 2, 0, 3]);
}

#[test]
fn processes_that_begin_together_are_merged_later_on_a_rotational_device_if_idling_does_not_help() {
    for (seeks, merged) in [(true, true), (false, false)] {
        let mut driver = Driver::new("bfq:rotational=on,low_latency=off");
        insert(&mut driver, 1, 4, 100_000_000);
        insert(&mut driver, 2, 4, 1_000_000);
        for n in 1..80 {
            for id in driver.all() {
                driver.now += Nanos::from_ms(10);
                driver.complete(id);
            }
            let id = insert(&mut driver, 2, 4, 1_000_000 + n * if seeks { 50_000 } else { 8 });
            insert(&mut driver, 1, 4, 100_000_000 + n * 50_000);
            let together = shares(&driver, 1, id);
            // The merge is put off for 600 ms.
            assert!(!together || driver.now.as_ns() > 600_000_000, "at {}", driver.now);
        }
        let id = insert(&mut driver, 2, 4, 70_000_000);
        assert_eq!(shares(&driver, 1, id), merged, "seeks {seeks}");
    }
}

/// Two processes that begin 650 ms apart on a rotational device and read close to each other.
fn neighbours(tunables: &str, distance: u64, levels: [u8; 2]) -> (Driver, u32) {
    let mut driver = Driver::new(&format!("bfq:rotational=on{tunables}"));
    let id = insert(&mut driver, 9, 4, 500_000_000);
    assert_eq!(driver.next(), id);
    driver.complete(id);
    pass(&mut driver, 1000);
    let first = insert(&mut driver, 1, levels[0], 1_000_000);
    insert(&mut driver, 9, 4, 500_000_000);
    pass(&mut driver, 650);
    insert(&mut driver, 2, levels[1], 1_000_000 + distance);
    (driver, first)
}

#[test]
fn cooperators_that_read_close_together_are_merged() {
    for (distance, levels, tunables, merged) in
        [(8192, [4, 4], "", true), (8193, [4, 4], "", false), (16, [4, 3], "", true), (16, [4, 4], ",cgroups=on", true)]
    {
        let (driver, first) = neighbours(tunables, distance, levels);
        let arriving = request(&driver, 2, levels[1], 1);
        let together = driver.scheduler.may_merge(RequestId(first), &arriving);
        assert_eq!(together, merged, "{distance} {levels:?}{tunables}");
    }
}

#[test]
fn queue_is_not_merged_later_than_100_ms_after_its_first_service() {
    for (age_ms, merged) in [(96, true), (108, false)] {
        let mut driver = Driver::new("bfq:rotational=on,low_latency=off,slice_idle=0ns");
        let first = insert(&mut driver, 1, 4, 1_000_000);
        insert(&mut driver, 1, 4, 1_000_008);
        pass(&mut driver, 1000);
        insert(&mut driver, 9, 4, 500_000_000);
        assert_eq!(driver.next(), first);
        let last = insert(&mut driver, 1, 4, 1_000_016);
        pass(&mut driver, age_ms);
        insert(&mut driver, 2, 4, 1_000_024);
        assert_eq!(shares(&driver, 2, last), merged, "{age_ms} ms");
    }
}

#[test]
fn cooperators_that_seek_are_split_again_and_stable_merges_are_not() {
    for stable in [false, true] {
        let (mut driver, first) = if stable {
            let mut driver = Driver::new("bfq:low_latency=off");
            let first = insert(&mut driver, 1, 4, 1_000_000);
            insert(&mut driver, 2, 4, 1_000_016);
            (driver, first)
        } else {
            neighbours(",low_latency=off", 16, [4, 4])
        };
        assert!(shares(&driver, 2, first));
        for n in 0..60 {
            for id in driver.all() {
                driver.now += Nanos::from_ms(1);
                driver.complete(id);
            }
            pass(&mut driver, 30);
            driver.dispatch();
            insert(&mut driver, 1 + n as u32 % 2, 4, 2_000_000 + n * 100_000);
        }
        driver.all();
        let id = insert(&mut driver, 1, 4, 50_000_000);
        insert(&mut driver, 2, 4, 90_000_000);
        assert_eq!(shares(&driver, 2, id), stable, "stable {stable}");
    }
}

/// A front merge of the kernel chooses the next request of a queue anew only if it brings the request before the previous
/// one in sector order (`bfq_request_merged`).
#[test]
fn front_merge_does_not_make_a_request_the_next_one_unless_it_overtakes() {
    // The head is at 260. The request at 200 lies 60 back, which counts as 120; that at 400 lies 140 ahead.
    for (grown_to, with_one_at_380, goes) in [(350, false, 200), (350, true, 350)] {
        let mut driver = Driver::new("bfq");
        let sent = insert(&mut driver, 1, 4, 252);
        assert_eq!(driver.next(), sent);
        insert(&mut driver, 1, 4, 200);
        let grown = insert(&mut driver, 1, 4, 400);
        if with_one_at_380 {
            insert(&mut driver, 1, 4, 380);
        }
        let mut request = driver.requests[grown as usize];
        request.lba = Lba::new(grown_to);
        request.set_sectors(Sectors::new(408 - grown_to));
        driver.scheduler.merged(driver.now, RequestId(grown), &request);
        driver.complete(sent);
        let next = driver.next();
        let start = if next == grown { grown_to } else { driver.requests[next as usize].lba.sector() };
        assert_eq!(start, goes, "with one at 380: {with_one_at_380}");
    }
}
