//! Every rule of the anticipatory scheduler as Linux 2.6.30 has it. Ids count the requests of a
//! script from zero.

use iocast_schedulers::{Capacity, Dispatch};
use traces::{Lba, Nanos, Operation, Request, RequestId, Sectors, StreamId, Timestamp};

use crate::driver::{Driver, Ids, ms};

fn anticipatory(tunables: &str) -> Driver {
    Driver::new(&if tunables.is_empty() { "anticipatory".to_owned() } else { format!("anticipatory:{tunables}") })
}

fn us(us: u64) -> Timestamp {
    Timestamp::ZERO + Nanos::from_us(us)
}

fn send(id: u32) -> Dispatch {
    Dispatch::Send(RequestId(id))
}

fn write_of(driver: &mut Driver, start: u64, stream: u32) -> u32 {
    let mut request = Request::new(driver.now, Operation::Write, Lba::new(start), Sectors::new(8));
    request.stream = StreamId(stream);
    driver.insert(request).0
}

/// Stream `stream` reads at each place, thinking `think_us` after every completion; each read takes a
/// millisecond. Ends with the last completion, at the driver's time.
fn reads_with_thought(driver: &mut Driver, stream: u32, starts: &[u64], think_us: u64) {
    for &start in starts {
        driver.now += Nanos::from_us(think_us);
        let id = driver.read_of_stream(start, stream).0;
        while driver.dispatch() == Dispatch::Idle {}
        driver.now += Nanos::from_us(1000);
        driver.complete(id);
    }
}

#[test]
fn it_waits_after_a_completion_and_not_longer_than_antic_expire() {
    for (tunables, until) in [("", Some(ms(16))), ("antic_expire=3ms", Some(ms(13))), ("antic_expire=0ns", None)] {
        let mut driver = anticipatory(tunables);
        driver.read_of_stream(100_000, 1);
        assert_eq!(driver.next(), 0);
        driver.read_of_stream(900_000, 2);
        // Before it has completed there is no telling when to stop.
        assert_eq!(driver.dispatch(), if until.is_some() { Dispatch::Idle } else { send(1) }, "{tunables}");
        driver.time(ms(10)).complete(0);
        let Some(until) = until else { continue };
        assert_eq!(driver.dispatch(), Dispatch::WaitUntil(until), "{tunables}");
        driver.time(until);
        assert_eq!(driver.next(), 1, "{tunables}");
    }
}

#[test]
fn the_awaited_process_or_one_that_is_near_ends_the_wait() {
    // After 100_008: the process, place and delay of a request, and whether it is sent at once.
    for (stream, start, after_us, goes) in [
        (1, 900_000, 500, true),
        (2, 100_008, 500, true),
        (2, 100_008 + 8192, 500, true),
        (2, 100_008 + 8193, 500, false),
        (2, 100_008 - 4096, 500, true),
        (2, 100_008 - 4097, 500, false),
        // The distance that counts as near doubles with every millisecond.
        (2, 100_008 + 16_384, 1000, true),
        (2, 100_008 + 16_385, 1999, false),
        (2, 100_008 + 32_768, 2000, true),
    ] {
        let mut driver = anticipatory("");
        driver.read_of_stream(100_000, 1);
        assert_eq!(driver.next(), 0);
        driver.time(ms(10)).complete(0);
        // Something far off waits.
        driver.read_of_stream(5_000_000, 3);
        assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(16)));
        driver.time(us(10_000 + after_us));
        driver.read_of_stream(start, stream);
        let sent = driver.dispatch();
        assert_eq!(sent == send(2), goes, "stream {stream} at {start} after {after_us} us: {sent:?}");
    }
}

#[test]
fn a_write_does_not_end_the_wait_but_the_awaited_process_s_does() {
    for (stream, goes) in [(2, false), (1, true)] {
        let mut driver = anticipatory("");
        driver.read_of_stream(100_000, 1);
        assert_eq!(driver.next(), 0);
        driver.time(ms(10)).complete(0);
        write_of(&mut driver, 100_008, stream);
        let sent = driver.dispatch();
        assert_eq!(sent == send(1), goes, "{sent:?}");
    }
}

#[test]
fn a_process_with_other_requests_is_not_waited_for() {
    let mut driver = anticipatory("");
    driver.read_of_stream(100_000, 1);
    driver.read_of_stream(9_000_000, 1);
    assert_eq!(driver.all(), [0, 1]);
}

#[test]
fn a_process_that_thinks_longer_than_antic_expire_is_not_waited_for() {
    for (think_us, waits) in [(1000, true), (5000, true), (7000, false), (15_000, false)] {
        let mut driver = anticipatory("");
        reads_with_thought(&mut driver, 1, &[100, 108, 116, 124, 132, 140, 148, 156], think_us);
        let far = driver.read_of_stream(9_000_000, 2).0;
        let sent = driver.dispatch();
        assert_eq!(matches!(sent, Dispatch::WaitUntil(_)), waits, "{think_us} us: {sent:?}");
        assert_eq!(sent == send(far), !waits, "{think_us} us");
    }
}

#[test]
fn a_new_process_is_judged_by_those_before_it() {
    // Twelve processes whose second request came after 15 ms: there is no wait for a thirteenth.
    let mut driver = anticipatory("");
    for stream in 1..=12 {
        reads_with_thought(&mut driver, stream, &[100, 108], 15_000);
    }
    let first = driver.read_of_stream(100, 50).0;
    assert_eq!(driver.dispatch(), send(first));
    driver.complete(first);
    let far = driver.read_of_stream(9_000_000, 51).0;
    assert_eq!(driver.dispatch(), send(far));
}

#[test]
fn a_far_request_is_as_good_as_one_of_a_process_that_seeks_as_far() {
    for (step, goes) in [(8, false), (300_000, true)] {
        let mut driver = anticipatory("");
        let starts: Vec<u64> = (0..20).map(|n| 1_000_000 + n % 2 * step).collect();
        reads_with_thought(&mut driver, 1, &starts, 100);
        let other = driver.read_of_stream(1_000_000 + 200_000, 2).0;
        assert_eq!(driver.dispatch() == send(other), goes, "seeks by {step}");
    }
}

#[test]
fn a_cooperator_counts_for_the_awaited_process_s_history() {
    // Alone it thinks too long. That another goes on at once where it left off counts as if it did.
    for (cooperates, waits) in [(false, false), (true, true)] {
        let mut driver = anticipatory("");
        for n in 0..30 {
            reads_with_thought(&mut driver, 1, &[1000 + n * 16], 7000);
            if cooperates {
                driver.now += Nanos::from_us(100);
                let near = driver.read_of_stream(1008 + n * 16, 2).0;
                assert_eq!(driver.dispatch(), send(near));
                driver.complete(near);
            }
        }
        reads_with_thought(&mut driver, 1, &[2000], 7000);
        driver.read_of_stream(9_000_000, 3);
        assert_eq!(matches!(driver.dispatch(), Dispatch::WaitUntil(_)), waits, "cooperates: {cooperates}");
    }
}

#[test]
fn a_process_presumed_to_have_exited_raises_the_odds_until_none_is_waited_for() {
    for (tunables, still_waits) in [("", true), ("presumed_exit=5ms", false)] {
        let mut driver = anticipatory(tunables);
        let mut waited = true;
        for stream in 0..12 {
            let id = driver.read_of_stream(u64::from(stream) * 5_000_000, stream).0;
            waited = driver.dispatch() != send(id);
            if waited {
                driver.now += Nanos::from_ms(6);
                assert_eq!(driver.dispatch(), send(id));
            }
            driver.complete(id);
            driver.now += Nanos::from_us(5500);
        }
        assert_eq!(waited, still_waits, "{tunables}");
    }
}

#[test]
fn a_batch_is_a_one_way_elevator_with_short_back_seeks() {
    let sorts = |starts: &[u64]| -> Ids {
        let mut driver = anticipatory("antic_expire=0ns");
        driver.reads(starts);
        driver.all()
    };
    // From 0 up; and back to the first.
    assert_eq!(sorts(&[500_000, 10_000, 900_000]), [1, 0, 2]);
    // From 10_000_008: 100 back counts 200 ahead.
    let mut driver = anticipatory("antic_expire=0ns");
    driver.reads(&[10_000_000]);
    assert_eq!(driver.next(), 0);
    driver.reads(&[10_000_008 - 100, 10_000_008 + 199]);
    assert_eq!(driver.all(), [2, 1]);
    driver.reads(&[20_000_000]);
    assert_eq!(driver.next(), 3);
    driver.reads(&[20_000_008 - 100, 20_000_008 + 201]);
    assert_eq!(driver.all(), [4, 5]);
    // More than 1024 x 1024 sectors behind goes last.
    driver.reads(&[40_000_000]);
    assert_eq!(driver.next(), 6);
    driver.reads(&[40_000_008 - 1_048_577, 90_000_000]);
    assert_eq!(driver.all(), [8, 7]);
}

#[test]
fn an_expired_head_goes_first_and_is_looked_for_once_in_its_expiry() {
    for (now, first) in [(ms(225), 1), (ms(226), 0)] {
        let mut driver = anticipatory("antic_expire=0ns");
        driver.time(ms(100)).reads(&[900_000, 1000, 2000, 3000]);
        driver.time(now);
        assert_eq!(driver.next(), first, "at {now}");
    }
    // 0 and 1 have both expired, but the second is not looked for until another 125 ms have passed.
    let mut driver = anticipatory("antic_expire=0ns");
    driver.time(ms(100)).reads(&[900_000, 800_000_000, 901_000, 902_000]);
    driver.time(ms(226));
    assert_eq!(driver.up_to(2), [0, 2]);
    driver.time(ms(226 + 125));
    assert_eq!(driver.next(), 1);
}

#[test]
fn batches_change_by_time_and_the_old_one_completes_first() {
    let mut driver = anticipatory("antic_expire=0ns");
    driver.reads(&[100, 200, 300]).writes(&[50_000]);
    assert_eq!(driver.next(), 0);
    // 500 ms after the start, and not at 500 ms.
    driver.time(ms(500));
    assert_eq!(driver.next(), 1);
    driver.time(ms(501));
    assert_eq!(driver.dispatch(), Dispatch::Idle, "reads are in flight");
    driver.complete(0);
    assert_eq!(driver.dispatch(), Dispatch::Idle);
    driver.complete(1);
    assert_eq!(driver.next(), 3);
    // A read goes on once the write is over.
    driver.time(ms(700));
    assert_eq!(driver.dispatch(), Dispatch::Idle);
    driver.complete(3);
    assert_eq!(driver.next(), 2);
    // From its first completion on, reads again have 500 ms.
    driver.writes(&[60_000]).reads(&[400, 500]);
    driver.time(ms(710)).complete(2);
    driver.time(ms(1210));
    assert_eq!(driver.next(), 5);
    driver.time(ms(1211));
    assert_eq!(driver.dispatch(), Dispatch::Idle);
    driver.complete(5);
    assert_eq!(driver.next(), 4);
}

#[test]
fn reads_alone_put_off_the_end_of_their_batch() {
    let mut driver = anticipatory("antic_expire=0ns");
    driver.time(ms(2000)).reads(&[100, 200, 300]);
    assert_eq!(driver.next(), 0);
    driver.writes(&[50_000]);
    driver.time(ms(2499));
    assert_eq!(driver.next(), 1);
    driver.complete(0).complete(1).time(ms(2501));
    assert_eq!(driver.next(), 3);
}

/// How many writes go in a batch while a read waits, time standing still.
fn writes_in_a_batch(driver: &mut Driver) -> usize {
    let mut writes = 0;
    loop {
        match driver.dispatch() {
            Dispatch::Send(id) if driver.requests[id.index()].operation == Operation::Write => {
                writes += 1;
                driver.complete(id.0);
            }
            Dispatch::Send(id) => {
                driver.complete(id.0);
                return writes;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_write_batch_grows_if_it_was_short_and_shrinks_if_it_was_long() {
    // 12 to begin with: 125 ms at 10 ms each. How long the first takes, and how many the second has.
    for (took, next) in [(0, 24), (41, 24), (42, 13), (124, 13), (126, 11), (375, 11), (376, 6)] {
        let mut driver = anticipatory("antic_expire=0ns");
        let starts: Vec<u64> = (0..100).map(|n| 1_000_000 + n * 100).collect();
        driver.writes(&starts);
        // The first batch begins while no read waits.
        let first = driver.next();
        driver.reads(&[100]).complete(first);
        let mut writes = 1;
        while let Dispatch::Send(id) = driver.dispatch() {
            if driver.requests[id.index()].operation == Operation::Read {
                // The batch is timed until a read completes.
                driver.time(ms(took)).complete(id.0);
                break;
            }
            writes += 1;
            driver.complete(id.0);
        }
        assert_eq!(writes, 12);
        driver.reads(&[200, 300]);
        let until_writes = driver.now + Nanos::from_ms(501);
        driver.time(until_writes);
        assert_eq!(writes_in_a_batch(&mut driver), next, "took {took} ms");
    }
}

#[test]
fn a_write_batch_ends_by_time_too() {
    let mut driver = anticipatory("antic_expire=0ns");
    driver.writes(&[1000, 2000, 3000]);
    assert_eq!(driver.next(), 0);
    driver.reads(&[100]).complete(0);
    driver.time(ms(125));
    assert_eq!(driver.next(), 1);
    driver.complete(1).time(ms(126));
    assert_eq!(driver.next(), 3);
}

#[test]
fn one_that_waits_at_the_same_sector_gives_way_to_the_dispatch_queue() {
    let mut driver = anticipatory("antic_expire=0ns");
    driver.reads(&[5000, 100, 5000]);
    assert!(!driver.scheduler.may_merge(RequestId(0), &driver.requests[0]));
    assert_eq!(driver.all(), [0, 2, 1]);
}

#[test]
fn a_joined_request_takes_the_older_one_s_place_in_the_fifo() {
    let mut driver = anticipatory("antic_expire=0ns");
    driver.time(ms(100)).reads(&[900_008]);
    driver.time(ms(110)).reads(&[1000]);
    driver.time(ms(120)).reads(&[900_000]);
    driver.join(2, 0);
    driver.time(ms(226));
    assert_eq!(driver.all(), [2, 1]);
}

#[test]
fn a_front_merged_request_is_sorted_anew() {
    let mut driver = anticipatory("antic_expire=0ns");
    driver.reads(&[100, 2008, 2004]);
    driver.front_merge(1);
    assert_eq!(driver.all(), [0, 1, 2]);
}

#[test]
fn a_request_without_capacity_is_chosen_and_holds_up_the_rest() {
    let mut driver = anticipatory("antic_expire=0ns");
    driver.reads(&[100]).writes(&[200]);
    driver.capacity = Capacity { reads: 0, writes: 5 };
    assert_eq!(driver.dispatch(), Dispatch::Idle);
    driver.capacity = Capacity::UNLIMITED;
    assert_eq!(driver.next(), 0);
}
