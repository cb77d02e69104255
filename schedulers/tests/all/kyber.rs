//! Every rule of kyber as Linux 6.18 has it, and of none. Ids count the requests of a script from zero.

use iocast_schedulers::{Capacity, Dispatch, Scheduler};
use traces::{Lba, Nanos, Operation, Request, RequestId, Sectors, Timestamp};

use crate::driver::{self, Driver, ms};

fn kyber() -> Driver {
    Driver::new("kyber")
}

fn on_cpu(driver: &mut Driver, cpu: u16, operation: Operation, starts: &[u64]) {
    for &start in starts {
        let mut request = Request::new(driver.now, operation, Lba::new(start), Sectors::new(8));
        request.cpu = cpu;
        driver.insert(request);
    }
}

/// Serves requests each of which completes `took` after it was inserted, and `waited` of that before it
/// was issued. As many go at once as there are tokens, and then the clock is set back for the next.
fn serve(driver: &mut Driver, operation: Operation, count: usize, waited: Nanos, took: Nanos) {
    let start = driver.now;
    let mut left = count;
    while left > 0 {
        driver.now = start;
        let at_once = left.min(depth(driver, operation));
        driver.arrive(operation, &vec![0; at_once]);
        let ids = driver.all();
        assert!(at_once > 0 && ids.len() == at_once);
        driver.time(start + waited);
        for &id in &ids {
            driver.scheduler.issued(driver.now, RequestId(id));
        }
        driver.time(start + took);
        for &id in &ids {
            driver.complete(id);
        }
        left -= at_once;
    }
}

/// How many of this operation may be in flight.
fn depth(driver: &mut Driver, operation: Operation) -> usize {
    let mut copy = driver.scheduler.fork().unwrap();
    for id in 10_000..10_600 {
        let request = Request::new(driver.now, operation, Lba::ZERO, Sectors::new(8));
        copy.insert(driver.now, RequestId(id), &request);
    }
    let mut sent = 0;
    while let Dispatch::Send(_) = copy.dispatch(driver.now, Capacity::UNLIMITED, &driver.cost) {
        sent += 1;
    }
    sent
}

#[test]
fn domains_take_turns_in_batches() {
    let mut driver = kyber();
    driver.arrive(Operation::Discard, &[0; 3]).writes(&[0; 20]).reads(&[0; 40]);
    let kinds: String = driver
        .all()
        .iter()
        .map(|&id| match driver.requests[id as usize].operation {
            Operation::Read => 'r',
            Operation::Write => 'w',
            _ => 'd',
        })
        .collect();
    let (reads, writes) = ("r".repeat(16), "w".repeat(8));
    assert_eq!(kinds, format!("{reads}{writes}d{reads}{writes}drrrrrrrrwwwwd"));
}

#[test]
fn a_turn_ends_early_if_nothing_is_left_and_the_next_one_is_whole() {
    let mut driver = kyber();
    driver.reads(&[0; 3]).writes(&[0; 2]);
    assert_eq!(driver.up_to(4), [0, 1, 2, 3]);
    // The turn of the writes goes on for seven more, although reads have come.
    driver.reads(&[0; 2]).writes(&[0; 8]);
    assert_eq!(driver.all(), [4, 7, 8, 9, 10, 11, 12, 5, 6, 13, 14]);
}

#[test]
fn the_turn_does_not_pass_on_while_nothing_waits() {
    let mut driver = kyber();
    driver.reads(&[0; 4]);
    assert_eq!(driver.all(), [0, 1, 2, 3]);
    assert_eq!(driver.dispatch(), Dispatch::Idle);
    driver.writes(&[0; 1]).reads(&[0; 13]);
    // Twelve more reads, and not another sixteen.
    assert_eq!(driver.all(), [5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 4, 17]);
}

#[test]
fn a_batch_is_taken_from_the_cpus_in_their_order() {
    let mut driver = kyber();
    on_cpu(&mut driver, 1, Operation::Read, &[100, 200]);
    on_cpu(&mut driver, 0, Operation::Read, &[300, 400]);
    assert_eq!(driver.next(), 2);
    // A request that arrives now waits until all that were taken over have been sent.
    on_cpu(&mut driver, 0, Operation::Read, &[500]);
    on_cpu(&mut driver, 2, Operation::Read, &[600]);
    assert_eq!(driver.next(), 3);
    on_cpu(&mut driver, 0, Operation::Read, &[700]);
    assert_eq!(driver.all(), [0, 1, 4, 6, 5]);
}

#[test]
fn each_domain_has_its_own_tokens() {
    for (operation, tokens) in [(Operation::Read, 256), (Operation::Write, 128), (Operation::Discard, 64)] {
        let mut driver = kyber();
        driver.arrive(operation, &vec![0; 300]);
        let ids = driver.all();
        assert_eq!((ids.len(), driver.dispatch()), (tokens, Dispatch::Idle), "{operation}");
        // Another domain is not held up.
        let other = if operation == Operation::Read { Operation::Write } else { Operation::Read };
        driver.arrive(other, &[0]);
        assert_eq!(driver.all(), [300]);
        // A completion gives a token back, and so does a request that comes back, which goes first.
        driver.complete(ids[0]);
        assert_eq!(driver.all().len(), 1);
        let (now, request) = (driver.now, driver.requests[ids[1] as usize]);
        driver.scheduler.requeue(now, RequestId(ids[1]), &request);
        assert_eq!(driver.all().len(), 1);
    }
}

#[test]
fn what_comes_back_goes_before_what_waits_on_its_cpu() {
    let mut driver = kyber();
    driver.reads(&[0, 0]);
    assert_eq!(driver.all(), [0, 1]);
    driver.reads(&[0]);
    for id in [0, 1] {
        let (now, request) = (driver.now, driver.requests[id as usize]);
        driver.scheduler.requeue(now, RequestId(id), &request);
    }
    assert_eq!(driver.all(), [1, 0, 2]);
}

/// One window of latencies: (operation, how many, wait before the issue, total time).
type Window<'a> = &'a [(Operation, usize, u64, u64)];

#[test]
fn tokens_follow_latencies_and_targets() {
    use Operation::{Discard, Read, Write};
    let ms = 1_000_000;
    let cases: [(&str, Window<'_>, Operation, usize); 15] = [
        (
            "good reads, slow writes: a quarter of the tokens",
            &[(Read, 64, 0, ms / 2), (Write, 64, 0, 40 * ms)],
            Read,
            64,
        ),
        ("up to a quarter of the target", &[(Read, 64, 0, ms / 2), (Write, 64, 0, 40 * ms)], Write, 128),
        ("just above a quarter", &[(Read, 64, 0, ms / 2 + 1), (Write, 64, 0, 40 * ms)], Read, 128),
        ("up to three quarters", &[(Read, 64, 0, 3 * ms / 2), (Write, 64, 0, 40 * ms)], Read, 192),
        ("just within the target", &[(Read, 64, 0, 2 * ms), (Write, 64, 0, 40 * ms)], Read, 256),
        ("no domain is slow", &[(Read, 64, 0, ms / 2), (Write, 64, 0, 10 * ms)], Read, 256),
        ("slow in all, but not in the device", &[(Read, 64, 0, ms / 2), (Write, 64, 35 * ms, 40 * ms)], Read, 256),
        (
            "a tenth of the writes is slow",
            &[(Read, 64, 0, ms / 2), (Write, 90, 0, ms), (Write, 10, 0, 40 * ms)],
            Read,
            256,
        ),
        (
            "somewhat more than a tenth is",
            &[(Read, 64, 0, ms / 2), (Write, 89, 0, ms), (Write, 11, 0, 40 * ms)],
            Read,
            64,
        ),
        (
            "the 99th percentile decides",
            &[(Read, 99, 0, ms / 2), (Read, 1, 0, 2 * ms), (Write, 64, 0, 40 * ms)],
            Read,
            64,
        ),
        (
            "two of a hundred are above",
            &[(Read, 98, 0, ms / 2), (Read, 2, 0, 2 * ms), (Write, 64, 0, 40 * ms)],
            Read,
            256,
        ),
        (
            "one of ninety-nine is above",
            &[(Read, 98, 0, ms / 2), (Read, 1, 0, 2 * ms), (Write, 64, 0, 40 * ms)],
            Read,
            256,
        ),
        ("discards have five seconds", &[(Discard, 64, 0, 4_000 * ms), (Read, 64, 0, ms / 2)], Read, 256),
        ("slow discards count as well", &[(Discard, 64, 0, 5_001 * ms), (Read, 64, 0, ms / 2)], Read, 64),
        ("slow reads throttle writes", &[(Read, 64, 0, 3 * ms), (Write, 64, 0, 5 * ms)], Write, 64),
    ];
    for (name, window, operation, tokens) in cases {
        let mut driver = kyber();
        // Five hundred of each are enough to act at once.
        for _ in 0..8 {
            for &(operation, count, waited, took) in window {
                serve(&mut driver, operation, count, Nanos::from_ns(waited), Nanos::from_ns(took));
                // All in one window, for any times of the requests.
                driver.now = Timestamp::ZERO;
            }
        }
        driver.time(driver::ms(60_000));
        assert_eq!(depth(&mut driver, operation), tokens, "{name}");
    }
}

#[test]
fn a_slow_domain_gets_its_tokens_back_and_never_more_than_at_first() {
    let mut driver = kyber();
    let window = |driver: &mut Driver, read_us: u64, write_us: u64| {
        for _ in 0..8 {
            let start = driver.now;
            serve(driver, Operation::Read, 63, Nanos::ZERO, Nanos::from_us(read_us));
            driver.now = start;
            serve(driver, Operation::Write, 63, Nanos::ZERO, Nanos::from_us(write_us));
        }
        driver.time(driver.now + Nanos::from_ms(104));
        depth(driver, Operation::Read)
    };
    assert_eq!(window(&mut driver, 500, 40_000), 64);
    assert_eq!(window(&mut driver, 500, 40_000), 16);
    assert_eq!(window(&mut driver, 1000, 40_000), 8);
    // Twice as many where latencies are beyond seven quarters of the target, congested or not.
    assert_eq!(window(&mut driver, 4000, 1000), 16);
    assert_eq!(window(&mut driver, 2400, 1000), 20);
    // Nor need the device be slow.
    for _ in 0..8 {
        serve(&mut driver, Operation::Read, 63, Nanos::from_us(2300), Nanos::from_us(2400));
    }
    driver.time(driver.now + Nanos::from_ms(104));
    assert_eq!(depth(&mut driver, Operation::Read), 25);
    for _ in 0..8 {
        window(&mut driver, 4000, 40_000);
    }
    assert_eq!(depth(&mut driver, Operation::Read), 256);
    // And never none.
    for _ in 0..8 {
        window(&mut driver, 100, 40_000);
    }
    assert_eq!(depth(&mut driver, Operation::Read), 1);
}

#[test]
fn the_timer_runs_in_the_tick_after_a_tenth_of_a_second_since_the_first_completion() {
    // Ticks count from the last one, and a timer fires a tick after that it is due at.
    for (spec, first_us, fires_us) in [
        ("kyber", 500, 104_000),
        ("kyber", 3999, 104_000),
        ("kyber", 4000, 108_000),
        ("kyber:tick=1ms", 500, 101_000),
        ("kyber:tick=10ms", 500, 110_000),
    ] {
        for (at_us, tokens) in [(fires_us - 1, 256), (fires_us, 64)] {
            let mut driver = Driver::new(spec);
            for _ in 0..8 {
                for (operation, took_us) in [(Operation::Read, 500), (Operation::Write, 40_000)] {
                    driver.now = Timestamp::ZERO + Nanos::from_us(first_us - 500);
                    serve(&mut driver, operation, 64, Nanos::ZERO, Nanos::from_us(took_us));
                }
            }
            driver.time(Timestamp::ZERO + Nanos::from_us(at_us));
            assert_eq!(depth(&mut driver, Operation::Read), tokens, "{spec}, {first_us}, {at_us}");
        }
    }
}

#[test]
fn fewer_than_five_hundred_wait_for_a_second_and_do_for_one_histogram_at_a_time() {
    // The time is started by the first look, and each histogram that is used starts it anew: the time in
    // the device times are always judged first, so that fewer never remain for the total times.
    let mut driver = kyber();
    let both = |driver: &mut Driver, count: usize| {
        serve(driver, Operation::Read, count, Nanos::ZERO, Nanos::from_us(500));
        serve(driver, Operation::Write, count, Nanos::ZERO, Nanos::from_ms(40));
    };
    for look in 1..40 {
        driver.time(ms(200 * look));
        both(&mut driver, 5);
        assert_eq!(depth(&mut driver, Operation::Read), 256, "look {look}");
    }
    // Five hundred total times since the start are enough for the other.
    both(&mut driver, 305);
    for _ in 0..3 {
        driver.time(driver.now + Nanos::from_ms(1100));
        serve(&mut driver, Operation::Write, 1, Nanos::ZERO, Nanos::from_ms(40));
    }
    assert_eq!(depth(&mut driver, Operation::Read), 64);
    // A domain of which nothing more completes has its turn.
    let mut driver = kyber();
    both(&mut driver, 5);
    for look in 1..=10 {
        driver.time(ms(200 * look));
        serve(&mut driver, Operation::Write, 1, Nanos::ZERO, Nanos::from_ms(40));
    }
    // The first look that used one was at 1144 ms.
    driver.time(ms(2143));
    assert_eq!(depth(&mut driver, Operation::Read), 256);
    driver.time(ms(2144));
    assert_eq!(depth(&mut driver, Operation::Read), 64);
}

#[test]
fn a_percentile_is_kept_for_when_the_device_is_congested_and_used_once() {
    let mut driver = kyber();
    let window = |driver: &mut Driver, operation: Operation, us: u64| {
        for _ in 0..8 {
            serve(driver, operation, 64, Nanos::ZERO, Nanos::from_us(us));
        }
        driver.time(driver.now + Nanos::from_ms(104));
        depth(driver, Operation::Read)
    };
    assert_eq!(window(&mut driver, Operation::Read, 500), 256);
    assert_eq!(window(&mut driver, Operation::Write, 40_000), 64);
    assert_eq!(window(&mut driver, Operation::Write, 40_000), 64);
}

#[test]
fn targets_are_tunables() {
    for (spec, tokens) in [
        ("kyber", 64),
        ("kyber:write_lat_nsec=40ms", 256),
        ("kyber:read_lat_nsec=1ms", 128),
        ("kyber:read_lat_nsec=667us", 192),
    ] {
        let mut driver = Driver::new(spec);
        for _ in 0..8 {
            for (operation, took) in [(Operation::Read, 500), (Operation::Write, 40_000)] {
                driver.now = Timestamp::ZERO;
                serve(&mut driver, operation, 64, Nanos::ZERO, Nanos::from_us(took));
            }
        }
        driver.time(ms(1000));
        assert_eq!(depth(&mut driver, Operation::Read), tokens, "{spec}");
    }
}

#[test]
fn only_the_last_eight_on_the_same_cpu_are_merged_into() {
    let mut driver = kyber();
    on_cpu(&mut driver, 0, Operation::Read, &[0; 9]);
    on_cpu(&mut driver, 1, Operation::Read, &[0; 9]);
    let mut request = driver.requests[0];
    let may = |driver: &Driver, id: u32, request: &Request| driver.scheduler.may_merge(RequestId(id), request);
    assert_eq!((0..18).filter(|&id| may(&driver, id, &request)).collect::<Vec<_>>(), (1..9).collect::<Vec<_>>());
    request.operation = Operation::Write;
    assert!((0..18).all(|id| !may(&driver, id, &request)));
    request.operation = Operation::Read;
    request.cpu = 1;
    assert_eq!((0..18).filter(|&id| may(&driver, id, &request)).collect::<Vec<_>>(), (10..18).collect::<Vec<_>>());
    // Nor those that have been taken from it.
    assert_eq!(driver.next(), 0);
    assert!((1..18).all(|id| !may(&driver, id, &request)));
}

#[test]
fn two_waiting_requests_are_never_joined() {
    assert!(!kyber().scheduler.joins());
}

#[test]
fn a_domain_without_capacity_is_passed_over() {
    let mut driver = kyber();
    driver.reads(&[0, 0]).writes(&[0, 0]);
    driver.capacity = Capacity { reads: 0, ..Capacity::UNLIMITED };
    assert_eq!(driver.all(), [2, 3]);
    driver.capacity = Capacity { writes: 0, ..Capacity::UNLIMITED };
    driver.writes(&[0]);
    assert_eq!(driver.all(), [0, 1]);
}

#[test]
fn somebody_elses_choice_is_followed_as_if_it_were_its_own() {
    let mut driver = kyber();
    driver.reads(&[0; 4]).writes(&[0; 9]);
    assert_eq!(driver.up_to(2), [0, 1]);
    assert!(driver.scheduler.follow(driver.now, RequestId(5)));
    // It was the first of a turn of writes.
    assert_eq!(driver.all(), [4, 6, 7, 8, 9, 10, 11, 2, 3, 12]);
    let mut driver = kyber();
    driver.writes(&[0; 129]);
    driver.scheduler.follow(driver.now, RequestId(5));
    assert_eq!(driver.all().len(), 127);
}

#[test]
fn without_a_scheduler_requests_go_in_the_order_of_arrival() {
    let mut driver = Driver::new("none");
    driver.reads(&[500, 100]).writes(&[300]).reads(&[0]);
    assert_eq!(driver.up_to(3), [0, 1, 2]);
    let (now, request) = (driver.now, driver.requests[1]);
    driver.scheduler.requeue(now, RequestId(1), &request);
    assert_eq!(driver.all(), [1, 3]);
}
