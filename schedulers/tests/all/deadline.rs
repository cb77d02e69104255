//! Every rule of deadline as Linux 2.6.30 has it. Ids count the requests of a script from zero.

use iocast_schedulers::{Capacity, Dispatch, Scheduler};
use traces::{Nanos, Operation, RequestId};

use crate::driver::{Driver, ms};

fn deadline(tunables: &str) -> Driver {
    Driver::new(&if tunables.is_empty() { "deadline".to_owned() } else { format!("deadline:{tunables}") })
}

#[test]
fn a_batch_goes_up_from_the_oldest_and_the_next_starts_at_the_oldest_again() {
    let mut driver = deadline("");
    driver.reads(&[500, 100, 900, 300, 700]);
    assert_eq!(driver.all(), [0, 4, 2, 1, 3]);
}

#[test]
fn a_batch_goes_on_where_it_was_decided_to_when_the_last_request_went() {
    let mut driver = deadline("");
    driver.reads(&[500, 900]);
    assert_eq!(driver.next(), 0);
    // 700 arrives ahead, but 900 was next when 500 went.
    driver.reads(&[700, 950]);
    assert_eq!(driver.all(), [1, 3, 2]);
}

#[test]
fn a_batch_has_at_most_fifo_batch_requests_and_then_a_starved_write_may_go() {
    for (fifo_batch, sent) in [(0, vec![0, 1, 4, 2, 3]), (1, vec![0, 1, 4, 2, 3]), (2, vec![0, 1, 2, 3, 4])] {
        let mut driver = deadline(&format!("fifo_batch={fifo_batch}"));
        driver.reads(&[100, 200, 300, 400]).writes(&[50]);
        assert_eq!(driver.all(), sent, "fifo_batch={fifo_batch}");
    }
    // Sixteen by default: 48 reads in three batches of which two may pass the write.
    let mut driver = deadline("");
    driver.reads(&(1..=48).map(|n| n * 100).collect::<Vec<_>>()).writes(&[50]);
    assert_eq!(driver.all().iter().position(|&id| id == 48), Some(32));
}

#[test]
fn reads_pass_writes_writes_starved_times_and_then_all_over_again() {
    for (starved, sent) in [
        (0, vec![4, 5, 6, 0, 1, 2, 3]),
        (1, vec![0, 4, 1, 5, 2, 6, 3]),
        (2, vec![0, 1, 4, 2, 3, 5, 6]),
        (3, vec![0, 1, 2, 4, 3, 5, 6]),
    ] {
        let mut driver = deadline(&format!("fifo_batch=1,writes_starved={starved}"));
        driver.reads(&[100, 200, 300, 400]).writes(&[150, 250, 350]);
        assert_eq!(driver.all(), sent, "writes_starved={starved}");
    }
}

#[test]
fn a_batch_of_reads_starves_nothing_if_no_write_waits() {
    let mut driver = deadline("fifo_batch=1");
    driver.reads(&[100, 200, 300, 400, 500, 600]);
    assert_eq!(driver.up_to(3), [0, 1, 2]);
    driver.writes(&[50]);
    assert_eq!(driver.all(), [3, 4, 6, 5]);
}

#[test]
fn writes_that_go_because_no_read_waits_begin_the_count_anew() {
    let mut driver = deadline("fifo_batch=1");
    driver.reads(&[100]).writes(&[500, 600, 700]);
    assert_eq!(driver.up_to(2), [0, 1]);
    driver.reads(&[200, 300, 400]);
    assert_eq!(driver.all(), [4, 5, 2, 6, 3]);
}

#[test]
fn an_expired_head_starts_the_batch_strictly_after_its_deadline() {
    for (operation, expires) in
        [(Operation::Read, ms(500)), (Operation::Write, ms(5000)), (Operation::Discard, ms(5000))]
    {
        for (late_ns, next) in [(0, 2), (1, 1)] {
            let mut driver = deadline("fifo_batch=1");
            driver.arrive(operation, &[500, 100, 600]);
            assert_eq!(driver.next(), 0);
            driver.time(expires + Nanos::from_ns(late_ns));
            assert_eq!(driver.next(), next, "{operation} {late_ns} ns after its deadline");
        }
    }
}

#[test]
fn expiry_is_looked_at_only_between_batches() {
    let mut driver = deadline("fifo_batch=3");
    driver.reads(&[500, 100, 600, 700, 800]);
    assert_eq!(driver.next(), 0);
    driver.time(ms(501));
    assert_eq!(driver.all(), [2, 3, 1, 4]);
}

#[test]
fn a_change_of_direction_forgets_where_the_batch_was() {
    let mut driver = deadline("fifo_batch=1,writes_starved=1");
    driver.reads(&[500, 100, 600]).writes(&[50]);
    assert_eq!(driver.all(), [0, 3, 1, 2]);
}

#[test]
fn a_removed_request_that_was_next_hands_over_to_its_successor() {
    let mut driver = deadline("");
    driver.reads(&[500, 100, 600, 700]);
    assert_eq!(driver.next(), 0);
    driver.remove(2);
    assert_eq!(driver.all(), [3, 1]);
}

#[test]
fn a_request_at_the_same_sector_pushes_the_older_out_and_moves_the_batch_there() {
    for (name, first, alias, sent) in [
        ("no batch yet", 0, (Operation::Read, 600), vec![2, 0, 1, 4, 3]),
        ("the batch goes on from the alias", 1, (Operation::Read, 50), vec![3, 1, 2, 4]),
        ("there is none in the other direction", 1, (Operation::Write, 50), vec![1, 2, 3, 4]),
    ] {
        let mut driver = deadline("");
        driver.reads(&[500, 550, 600, 50]);
        assert_eq!(driver.up_to(first).len(), first);
        driver.arrive(alias.0, &[alias.1]);
        assert_eq!(driver.all(), sent, "{name}");
    }
    let mut driver = deadline("");
    // Pushing out a write ends a batch of reads.
    driver.reads(&[500, 100, 600]).writes(&[50]);
    assert_eq!(driver.next(), 0);
    driver.writes(&[50]);
    assert_eq!(driver.all(), [3, 1, 2, 4]);
}

#[test]
fn what_has_been_pushed_out_is_not_merged_into_and_can_be_taken_back() {
    let mut driver = deadline("");
    driver.reads(&[500, 500]);
    let request = driver.requests[0];
    assert!(!driver.scheduler.may_merge(RequestId(0), &request));
    assert!(driver.scheduler.may_merge(RequestId(1), &request));
    driver.remove(0);
    assert_eq!((driver.all(), driver.scheduler.waiting()), (vec![1], 0));
}

#[test]
fn a_joined_request_takes_the_earlier_expiry_and_the_place_that_goes_with_it() {
    // The place: 1 waits longer than 2, which waits longer than 3; 1 is joined behind 3.
    let mut driver = deadline("");
    driver.reads(&[900, 208]).time(ms(1)).reads(&[400, 200]);
    assert_eq!(driver.next(), 0);
    driver.join(3, 1);
    assert_eq!(driver.all(), [3, 2]);
    // The other way round it keeps its own.
    let mut driver = deadline("");
    driver.reads(&[900, 200]).time(ms(1)).reads(&[400, 208]);
    assert_eq!(driver.next(), 0);
    driver.join(1, 3);
    assert_eq!(driver.all(), [1, 2]);
    // One that expires at the same time keeps its own, too.
    let mut driver = deadline("fifo_batch=1");
    driver.reads(&[900, 200, 400, 208]);
    driver.join(1, 3).time(ms(500));
    assert_eq!(driver.all(), [0, 1, 2]);
    // The expiry: 300 is next in order after 250, until 3 has expired when 1 would have.
    for (late_ns, next) in [(0, 4), (1, 3)] {
        let mut driver = deadline("fifo_batch=1");
        driver.reads(&[250, 208]).time(ms(1)).reads(&[50, 200, 300]);
        assert_eq!(driver.next(), 0);
        driver.join(3, 1).time(ms(500) + Nanos::from_ns(late_ns));
        assert_eq!(driver.next(), next, "{late_ns}");
    }
}

#[test]
fn a_front_merge_sorts_anew() {
    let mut driver = deadline("");
    driver.reads(&[50, 100, 96]).front_merge(1);
    assert_eq!(driver.all(), [0, 1, 2]);
    // The next request stays next.
    let mut driver = deadline("");
    driver.reads(&[500, 600, 595]);
    assert_eq!(driver.next(), 0);
    driver.front_merge(1);
    assert_eq!(driver.all(), [2, 1]);
    // Another that waits at the new sector is pushed out.
    let mut driver = deadline("");
    driver.reads(&[50, 108, 100]).front_merge(1);
    assert_eq!(driver.all(), [2, 0, 1]);
}

#[test]
fn front_merges_can_be_turned_off() {
    assert!(deadline("").scheduler.front_merges());
    assert!(!deadline("front_merges=off").scheduler.front_merges());
}

#[test]
fn a_direction_without_capacity_counts_as_having_nothing_waiting() {
    let no_reads = Capacity { reads: 0, ..Capacity::UNLIMITED };
    let no_writes = Capacity { writes: 0, ..Capacity::UNLIMITED };
    // A batch is cut short, and not resumed.
    let mut driver = deadline("");
    driver.reads(&[500, 100, 600]).writes(&[50]);
    assert_eq!(driver.next(), 0);
    driver.capacity = no_reads;
    assert_eq!(driver.all(), [3]);
    assert_eq!(driver.dispatch(), Dispatch::Idle);
    driver.capacity = Capacity::UNLIMITED;
    assert_eq!(driver.all(), [1, 2]);
    // Reads do not starve writes that could not go.
    let mut driver = deadline("fifo_batch=1");
    driver.reads(&[100, 200, 300, 400, 500, 600]).writes(&[50, 60]);
    driver.capacity = no_writes;
    assert_eq!(driver.up_to(3), [0, 1, 2]);
    driver.capacity = Capacity::UNLIMITED;
    assert_eq!(driver.all(), [3, 4, 6, 5, 7]);
}

#[test]
fn requeued_request_is_dispatched_before_all_others() {
    let mut driver = deadline("");
    driver.reads(&[300, 100, 200]);
    assert_eq!(driver.next(), 0);
    // Before a request that has been pushed out, too.
    driver.reads(&[100]);
    let (now, request) = (driver.now, driver.requests[0]);
    driver.scheduler.requeue(now, RequestId(0), &request);
    assert_eq!(driver.all(), [0, 1, 2, 3]);
}
