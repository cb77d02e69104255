//! The rules of cfq, as Linux 2.6.30 has them, by which the device idles for the active process or serves a cooperator
//! instead. Ids count the requests of a script from zero.

use iocast_schedulers::Dispatch;
use traces::{Flags, Lba, Nanos, Operation, Request, Sectors};

use crate::cfq_processes::{BE, ask, cfq, read, send, write};
use crate::driver::{Driver, ms};

/// The only waiting request is sent, once the device has idled.
fn wait_out(driver: &mut Driver) {
    match driver.dispatch() {
        Dispatch::WaitUntil(until) => {
            driver.now = until;
            driver.next();
        }
        sent => assert_ne!(sent, Dispatch::Idle),
    }
}

/// Stream `stream` reads at each place and thinks for `think_us` after every completion; each read takes 1 ms.
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
fn device_idles_for_the_active_process_and_not_longer_than_slice_idle() {
    for (tunables, wait) in [("", Some(8)), ("slice_idle=3ms", Some(3)), ("slice_idle=0ns", None)] {
        let mut driver = cfq(tunables);
        read(&mut driver, 1000, 1);
        assert_eq!(driver.next(), 0);
        let other = read(&mut driver, 900_000_000, 2);
        // The request in flight may be followed by more requests of the same process.
        assert_eq!(driver.dispatch() == send(other), wait.is_none(), "{tunables}");
        driver.time(ms(10)).complete(0);
        let Some(wait) = wait else { continue };
        assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(10 + wait)), "{tunables}");
        driver.time(ms(10 + wait));
        assert_eq!(driver.next(), other, "{tunables}");
    }
}

#[test]
fn request_of_the_awaited_process_goes_at_once() {
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
fn device_does_not_idle_for_a_process_that_thinks_longer_than_slice_idle() {
    for (think_us, idles) in [(1000, true), (7000, true), (9000, false), (100_000, false)] {
        let mut driver = cfq("");
        reads_with_thought(&mut driver, 1, (0..20).map(|n| n * 8), think_us);
        let other = read(&mut driver, 900_000_000, 2);
        assert_eq!(driver.dispatch() != send(other), idles, "{think_us} us");
    }
}

#[test]
fn queueing_device_does_not_idle_for_a_process_that_seeks() {
    for (step, idles) in [(8, true), (7900, true), (8300, false), (20_000, false)] {
        let mut driver = cfq("");
        reads_with_thought(&mut driver, 1, (0..40).map(|n| 5_000_000 + n * step), 100);
        let other = read(&mut driver, 900_000_000, 2);
        assert_eq!(driver.dispatch() != send(other), idles, "by {step}");
    }
}

/// Lets cfq detect that the device takes one request at a time under load.
fn shows_no_queueing(driver: &mut Driver) {
    for n in 0..60 {
        read(driver, 1000 + n * 8, 9);
    }
    driver.serve(100, 60);
}

#[test]
fn device_without_queueing_idles_2_ms_for_a_process_that_seeks() {
    let mut driver = cfq("");
    shows_no_queueing(&mut driver);
    reads_with_thought(&mut driver, 1, (0..40).map(|n| 5_000_000 + n * 20_000), 100);
    read(&mut driver, 900_000_000, 2);
    let in_2_ms = driver.now + Nanos::from_ms(2);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(in_2_ms));
}

#[test]
fn flash_idles_only_if_it_does_not_queue() {
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
fn device_idles_for_sync_writes_unless_noidle_writes_is_on() {
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
fn request_close_to_the_head_preempts_a_process_that_is_waited_for() {
    // As no seeks of the awaited process are known, requests within 8192 sectors are close.
    for (start, goes) in [(1008 + 8192, true), (1008 + 8193, false)] {
        let mut driver = cfq("");
        read(&mut driver, 1000, 1);
        assert_eq!(driver.serve(10, 1), [0]);
        read(&mut driver, 900_000_000, 3);
        let close = read(&mut driver, start, 2);
        assert_eq!(driver.dispatch() == send(close), goes, "at {start}");
    }
}

#[test]
fn cooperator_takes_over_once_without_idling() {
    // Process 1 has no request for now, and process 2 waits right behind the head.
    let mut driver = cfq("");
    read(&mut driver, 1000, 1);
    read(&mut driver, 1008, 2);
    read(&mut driver, 900_000_000, 3);
    assert_eq!(driver.next(), 0);
    driver.time(ms(1)).complete(0);
    assert_eq!(driver.next(), 1);
    // Process 2 took over. Process 1 waits right behind the head and did not take over before: it takes over from 2.
    read(&mut driver, 1016, 1);
    driver.time(ms(2)).complete(1);
    assert_eq!(driver.next(), 3);
    // Process 2 is close again, but has had no turn of its own since: the device idles for process 1.
    read(&mut driver, 1024, 2);
    driver.time(ms(3)).complete(3);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(11)));
    // A new request that is close ends the idling all the same.
    let close = read(&mut driver, 1032, 2);
    assert_eq!(driver.dispatch(), send(4));
    driver.complete(4);
    assert_eq!(driver.next(), close);
}

#[test]
fn device_does_not_idle_while_requests_are_in_flight() {
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
