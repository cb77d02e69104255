//! Every rule of mq-deadline as Linux 6.18 has it. Ids count the requests of a script from zero.

use iocast_schedulers::{Capacity, Dispatch, Scheduler};
use traces::{Lba, Nanos, Operation, Priority, Request, RequestId, Sectors};

use crate::driver::{Driver, ms};

/// With ticks of a nanosecond, so that they change nothing.
fn mq_deadline(tunables: &str) -> Driver {
    let comma = if tunables.is_empty() { "" } else { "," };
    Driver::new(&format!("mq-deadline:tick=1ns{comma}{tunables}"))
}

const RT: u8 = 1;
const BE: u8 = 2;
const IDLE: u8 = 3;

/// Inserts requests of one class.
fn of_class(driver: &mut Driver, class: u8, operation: Operation, starts: &[u64]) {
    for &start in starts {
        let mut request = Request::new(driver.now, operation, Lba::new(start), Sectors::new(8));
        request.priority = Priority::new(class, 4).unwrap();
        driver.insert(request);
    }
}

#[test]
fn reads_go_on_from_where_the_last_began_and_then_from_the_oldest() {
    let mut driver = mq_deadline("");
    driver.reads(&[500, 100, 900, 300, 700]);
    // The first begins at sector 0, since nothing was sent before.
    assert_eq!(driver.all(), [1, 3, 0, 4, 2]);
    driver.reads(&[800, 100, 900]);
    // 900 itself is not behind where the last began; below it the oldest starts anew.
    assert_eq!(driver.all(), [7, 5, 6]);
}

#[test]
fn what_arrives_ahead_joins_the_batch() {
    let mut driver = mq_deadline("");
    driver.reads(&[500, 900]);
    assert_eq!(driver.next(), 0);
    driver.reads(&[700, 500, 499]);
    assert_eq!(driver.all(), [3, 2, 1, 4]);
}

#[test]
fn of_those_at_one_sector_the_older_goes_first() {
    let mut driver = mq_deadline("");
    driver.reads(&[500, 100, 500, 100]);
    assert_eq!(driver.all(), [1, 3, 0, 2]);
}

#[test]
fn the_first_batch_is_one_of_writes_if_there_are_any() {
    let mut driver = mq_deadline("fifo_batch=2");
    driver.reads(&[100]).writes(&[10, 20, 30]);
    assert_eq!(driver.all(), [1, 2, 0, 3]);
}

#[test]
fn a_batch_has_at_most_fifo_batch_requests_and_then_a_starved_write_may_go() {
    for (fifo_batch, sent) in [(0, vec![0, 1, 4, 2, 3]), (1, vec![0, 1, 4, 2, 3]), (2, vec![0, 1, 2, 3, 4])] {
        let mut driver = mq_deadline(&format!("fifo_batch={fifo_batch}"));
        driver.reads(&[100, 200, 300, 400]);
        let first = driver.up_to(1);
        driver.writes(&[50]);
        assert_eq!([first, driver.all()].concat(), if fifo_batch == 2 { sent } else { vec![0, 1, 2, 4, 3] });
    }
    // Sixteen by default; the write waits for the end of the batch that runs, and for two more.
    let mut driver = mq_deadline("");
    driver.reads(&(1..=60).map(|n| n * 100).collect::<Vec<_>>());
    assert_eq!(driver.next(), 0);
    driver.writes(&[50]);
    assert_eq!(driver.all().iter().position(|&id| id == 60), Some(47));
}

#[test]
fn reads_pass_writes_writes_starved_times_and_then_all_over_again() {
    for (starved, sent) in [
        (0, vec![5, 6, 7, 1, 2, 3, 4]),
        (1, vec![1, 5, 2, 6, 3, 7, 4]),
        (2, vec![1, 2, 5, 3, 4, 6, 7]),
        (3, vec![1, 2, 3, 5, 4, 6, 7]),
    ] {
        let mut driver = mq_deadline(&format!("fifo_batch=1,writes_starved={starved}"));
        driver.reads(&[50, 100, 200, 300, 400]);
        assert_eq!(driver.next(), 0);
        driver.writes(&[150, 250, 350]);
        assert_eq!(driver.all(), sent, "writes_starved={starved}");
    }
}

#[test]
fn writes_that_go_because_no_read_waits_begin_the_count_anew() {
    let mut driver = mq_deadline("fifo_batch=1");
    driver.reads(&[50, 100]);
    assert_eq!(driver.next(), 0);
    driver.writes(&[500, 600, 700]);
    assert_eq!(driver.up_to(2), [1, 2]);
    driver.reads(&[200, 300, 400]);
    assert_eq!(driver.all(), [5, 6, 3, 7, 4]);
}

#[test]
fn an_expired_head_starts_the_batch_at_its_deadline() {
    for (operation, tunables, expires) in [
        (Operation::Read, "fifo_batch=1", ms(500)),
        (Operation::Write, "fifo_batch=1", ms(5000)),
        (Operation::Discard, "fifo_batch=1", ms(5000)),
        (Operation::Read, "fifo_batch=1,read_expire=7ms", ms(7)),
        (Operation::Write, "fifo_batch=1,write_expire=9ms", ms(9)),
    ] {
        for (early_ns, next) in [(1, 2), (0, 1)] {
            let mut driver = mq_deadline(tunables);
            driver.arrive(operation, &[500]);
            assert_eq!(driver.next(), 0);
            driver.arrive(operation, &[100, 600]);
            driver.time(ms(0) + Nanos::from_ns(expires.as_ns() - early_ns));
            assert_eq!(driver.next(), next, "{operation} {early_ns} ns before its deadline, {tunables}");
        }
    }
}

#[test]
fn expiries_are_counted_in_ticks() {
    for (tunables, arrives, expires) in [
        // The tick it arrives in counts as a whole one, and half a tick of expiry too.
        ("fifo_batch=1", 3_900_000, ms(500)),
        ("fifo_batch=1", 4_000_000, ms(504)),
        ("fifo_batch=1,read_expire=7ms", 3_900_000, ms(8)),
        ("fifo_batch=1,tick=10ms", 3_900_000, ms(500)),
        ("fifo_batch=1,tick=10ms", 19_000_000, ms(510)),
    ] {
        for (early_ns, next) in [(1, 2), (0, 1)] {
            let mut driver = Driver::new(&format!("mq-deadline:{tunables}"));
            driver.reads(&[500]);
            assert_eq!(driver.next(), 0);
            driver.time(ms(0) + Nanos::from_ns(arrives)).reads(&[100, 600]);
            driver.time(ms(0) + Nanos::from_ns(expires.as_ns() - early_ns));
            assert_eq!(driver.next(), next, "{early_ns} ns before its deadline, {tunables}");
        }
    }
}

#[test]
fn expiry_is_looked_at_only_between_batches() {
    let mut driver = mq_deadline("fifo_batch=3");
    driver.reads(&[500]);
    assert_eq!(driver.next(), 0);
    driver.reads(&[100, 600, 700, 800]);
    driver.time(ms(501));
    assert_eq!(driver.all(), [2, 3, 1, 4]);
}

#[test]
fn each_direction_remembers_where_it_was() {
    let mut driver = mq_deadline("fifo_batch=1,writes_starved=1");
    driver.reads(&[500, 100, 600]);
    assert_eq!(driver.next(), 1);
    driver.writes(&[50]);
    // Unlike its forerunner's, a batch of writes in between changes nothing.
    assert_eq!(driver.all(), [0, 3, 2]);
}

#[test]
fn a_class_waits_while_a_higher_one_waits_or_is_in_flight() {
    let mut driver = mq_deadline("");
    of_class(&mut driver, IDLE, Operation::Read, &[100]);
    of_class(&mut driver, BE, Operation::Read, &[200, 300]);
    of_class(&mut driver, RT, Operation::Read, &[400, 500]);
    of_class(&mut driver, 0, Operation::Read, &[600]);
    assert_eq!(driver.all(), [3, 4]);
    assert!(matches!(driver.dispatch(), Dispatch::WaitUntil(_)));
    driver.complete(3);
    assert!(matches!(driver.dispatch(), Dispatch::WaitUntil(_)), "one is still in flight");
    driver.complete(4);
    // No class counts as best effort.
    assert_eq!(driver.all(), [1, 2, 5]);
    driver.complete(1).complete(2).complete(5);
    assert_eq!(driver.all(), [0]);
}

#[test]
fn what_has_waited_behind_a_higher_class_for_long_goes_first() {
    for (class, tunables, expires) in [
        (BE, "", ms(10_000)),
        (IDLE, "", ms(10_000)),
        (BE, "prio_aging_expire=30ms", ms(30)),
        (IDLE, "prio_aging_expire=30ms", ms(30)),
    ] {
        let mut driver = mq_deadline(tunables);
        of_class(&mut driver, RT, Operation::Read, &[1000, 2000, 3000]);
        of_class(&mut driver, class, Operation::Read, &[500]);
        assert_eq!(driver.next(), 0);
        driver.time(ms(0) + Nanos::from_ns(expires.as_ns() - 1));
        assert_eq!(driver.next(), 1);
        driver.time(expires);
        assert_eq!(driver.next(), 3, "{tunables}");
        assert_eq!(driver.all(), [2]);
    }
    // Without a higher one, nothing ages.
    let mut driver = mq_deadline("prio_aging_expire=0ns,fifo_batch=1,read_expire=1s");
    driver.reads(&[500, 100]);
    assert_eq!(driver.all(), [1, 0]);
}

#[test]
fn dispatch_waits_until_the_first_lower_class_request_has_aged() {
    let mut driver = mq_deadline("prio_aging_expire=30ms");
    of_class(&mut driver, RT, Operation::Read, &[1000]);
    assert_eq!(driver.next(), 0);
    driver.time(ms(5));
    of_class(&mut driver, BE, Operation::Read, &[500]);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(35)));
    driver.time(ms(35));
    assert_eq!(driver.dispatch(), Dispatch::Send(RequestId(1)));
    // Of two classes, the earlier.
    let mut driver = mq_deadline("prio_aging_expire=30ms");
    of_class(&mut driver, RT, Operation::Read, &[1000]);
    assert_eq!(driver.next(), 0);
    of_class(driver.time(ms(3)), IDLE, Operation::Read, &[500]);
    of_class(driver.time(ms(5)), BE, Operation::Read, &[500]);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(33)));
}

#[test]
fn a_class_that_is_looked_at_for_its_age_begins_the_batch_anew() {
    let mut driver = mq_deadline("fifo_batch=2");
    of_class(&mut driver, RT, Operation::Read, &[100, 200, 300, 400, 500, 600, 700]);
    of_class(&mut driver, RT, Operation::Write, &[100, 200, 300, 400]);
    of_class(&mut driver, IDLE, Operation::Write, &[900]);
    // The idle write begins a batch of writes each time, in which the real-time writes go on.
    assert_eq!(driver.up_to(4), [7, 8, 9, 10]);
    assert_eq!(driver.all(), [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn what_was_removed_or_completed_holds_up_nobody() {
    let mut driver = mq_deadline("");
    of_class(&mut driver, RT, Operation::Read, &[100, 200]);
    of_class(&mut driver, BE, Operation::Read, &[300]);
    assert_eq!(driver.next(), 0);
    driver.remove(1).complete(0);
    assert_eq!(driver.all(), [2]);
    // Nor a joined request.
    let mut driver = mq_deadline("");
    of_class(&mut driver, RT, Operation::Read, &[100, 108]);
    of_class(&mut driver, BE, Operation::Read, &[300]);
    driver.join(0, 1);
    assert_eq!(driver.all(), [0]);
    driver.complete(0);
    assert_eq!(driver.all(), [2]);
}

#[test]
fn a_joined_request_takes_the_earlier_expiry_and_the_place_that_goes_with_it() {
    // The place: 1 waits longer than 2, which waits longer than 3; 1 is joined behind 3.
    let mut driver = mq_deadline("");
    driver.reads(&[900, 208]).time(ms(1)).reads(&[400, 200]);
    driver.remove(0);
    driver.reads(&[900]);
    driver.join(3, 1);
    assert_eq!(driver.next(), 3);
    let mut driver = mq_deadline("fifo_batch=1,read_expire=100ms");
    driver.reads(&[900]);
    assert_eq!(driver.next(), 0);
    driver.reads(&[208]).time(ms(1)).reads(&[400, 200, 950]);
    driver.join(3, 1);
    driver.time(ms(100));
    // The expiry as well: 3 has expired when 1 would have, and goes before the next in order.
    assert_eq!(driver.all(), [3, 2, 4]);
    // The other way round it keeps its own.
    let mut driver = mq_deadline("fifo_batch=1");
    driver.reads(&[900]);
    assert_eq!(driver.next(), 0);
    driver.reads(&[200]).time(ms(1)).reads(&[400, 208]);
    driver.join(1, 3);
    assert_eq!(driver.all(), [1, 2]);
}

#[test]
fn a_front_merge_sorts_anew() {
    let mut driver = mq_deadline("");
    driver.reads(&[100, 96]).front_merge(0);
    assert_eq!(driver.all(), [0, 1]);
}

#[test]
fn front_merges_can_be_turned_off() {
    assert!(mq_deadline("").scheduler.front_merges());
    assert!(!mq_deadline("front_merges=off").scheduler.front_merges());
}

#[test]
fn what_comes_back_goes_first_and_is_not_merged_into() {
    let mut driver = mq_deadline("");
    of_class(&mut driver, RT, Operation::Read, &[300]);
    of_class(&mut driver, BE, Operation::Read, &[50, 100, 200]);
    assert_eq!(driver.next(), 0);
    driver.complete(0);
    assert_eq!(driver.up_to(2), [1, 2]);
    for id in [1, 2] {
        let (now, request) = (driver.now, driver.requests[id as usize]);
        driver.scheduler.requeue(now, RequestId(id), &request);
        assert!(!driver.scheduler.may_merge(RequestId(id), &request));
    }
    // Before a higher class, too.
    of_class(&mut driver, RT, Operation::Read, &[10]);
    assert!(driver.scheduler.may_merge(RequestId(4), &driver.requests[4]));
    assert_eq!(driver.up_to(2), [2, 1]);
    assert_eq!(driver.next(), 4);
    driver.complete(4);
    // It goes on from where the last of them began.
    assert_eq!(driver.next(), 3);
}

#[test]
fn a_direction_without_capacity_counts_as_having_nothing_waiting() {
    let no_reads = Capacity { reads: 0, ..Capacity::UNLIMITED };
    let no_writes = Capacity { writes: 0, ..Capacity::UNLIMITED };
    let mut driver = mq_deadline("");
    driver.reads(&[500, 600]);
    assert_eq!(driver.next(), 0);
    driver.writes(&[50]);
    driver.capacity = no_reads;
    assert_eq!(driver.all(), [2]);
    assert_eq!(driver.dispatch(), Dispatch::Idle);
    // Reads do not starve writes that could not go.
    let mut driver = mq_deadline("fifo_batch=1");
    driver.reads(&[100, 200, 300, 400, 500, 600]).writes(&[50, 60]);
    driver.capacity = no_writes;
    assert_eq!(driver.up_to(3), [0, 1, 2]);
    driver.capacity = Capacity::UNLIMITED;
    assert_eq!(driver.all(), [3, 4, 6, 5, 7]);
    // Nor does a lower class go meanwhile.
    let mut driver = mq_deadline("");
    of_class(&mut driver, RT, Operation::Write, &[100]);
    of_class(&mut driver, BE, Operation::Read, &[200]);
    driver.capacity = no_writes;
    assert!(!matches!(driver.dispatch(), Dispatch::Send(_)));
}

#[test]
fn somebody_elses_choice_is_followed_as_if_it_were_its_own() {
    // 1 goes on with the batch; 3 begins another, from which it goes on.
    let mut driver = mq_deadline("fifo_batch=2");
    driver.reads(&[100, 200, 300, 50, 60, 400]);
    assert_eq!(driver.next(), 3);
    assert!(driver.scheduler.follow(ms(0), RequestId(2)));
    assert_eq!(driver.all(), [5, 0, 1, 4]);
    // A read that begins a batch passes the writes that wait.
    let mut driver = mq_deadline("fifo_batch=1");
    driver.reads(&[100, 200, 300, 400]);
    assert_eq!(driver.next(), 0);
    driver.writes(&[50]);
    for id in [2, 1] {
        driver.scheduler.follow(ms(0), RequestId(id));
    }
    assert_eq!(driver.all(), [4, 3]);
    // Only one below real time has aged.
    for (class, other, rule) in [(BE, RT, "prio aged"), (RT, BE, "expired")] {
        let mut driver = mq_deadline("");
        of_class(&mut driver, class, Operation::Read, &[100]);
        of_class(&mut driver, other, Operation::Read, &[200]);
        driver.scheduler.follow(ms(20_000), RequestId(0));
        assert_eq!(driver.sent_by_rule(), [(rule, 1)]);
    }
    // It is in flight until it completes.
    let mut driver = mq_deadline("");
    of_class(&mut driver, RT, Operation::Read, &[100]);
    of_class(&mut driver, BE, Operation::Read, &[200]);
    driver.scheduler.follow(ms(0), RequestId(0));
    assert!(matches!(driver.dispatch(), Dispatch::WaitUntil(_)));
    driver.complete(0);
    assert_eq!(driver.all(), [1]);
}
