//! Orders of reads and writes: reads first, with writes above a limit, and both in turn.

use iocast_schedulers::{Capacity, Dispatch};
use traces::RequestId;

use crate::driver::Driver;

#[test]
fn reads_pass_writes_and_each_kind_keeps_its_order() {
    let mut driver = Driver::new("read-priority");
    driver.writes(&[10, 400]).reads(&[300, 20]).writes(&[0]);
    assert_eq!(driver.up_to(1), [2]);
    driver.reads(&[5]);
    assert_eq!(driver.all(), [3, 5, 0, 1, 4]);
}

#[test]
fn writes_are_drained_from_one_limit_to_the_other() {
    let mut driver = Driver::new("read-priority:drain_at=3,drain_to=1");
    driver.writes(&[10, 20]).reads(&[300]);
    assert_eq!(driver.up_to(1), [2]);
    // Three wait: two go, though reads wait, and of the one that is left reads are first again.
    driver.reads(&[310, 320]).writes(&[30]);
    assert_eq!(driver.all(), [0, 1, 3, 4, 5]);
    // A drain ends only at its own limit, not where it would not have begun.
    driver.writes(&[40, 50, 60, 70]).reads(&[330]);
    assert_eq!(driver.up_to(2), [6, 7]);
    driver.reads(&[340]);
    assert_eq!(driver.all(), [8, 10, 11, 9]);
}

#[test]
fn turns_are_as_long_as_their_weights_and_each_kind_keeps_its_order() {
    let mut driver = Driver::new("weighted:reads=3,writes=2");
    driver.writes(&[90, 80, 70, 60]).reads(&[50, 40, 30, 20, 10]);
    assert_eq!(driver.all(), [4, 5, 6, 0, 1, 7, 8, 2, 3]);
}

#[test]
fn requests_sent_while_the_other_operation_is_idle_use_up_the_turn() {
    let mut driver = Driver::new("weighted:reads=2,writes=1");
    driver.reads(&[10, 20, 30, 40]);
    assert_eq!(driver.up_to(3), [0, 1, 2]);
    // The reads have had their turn and more.
    driver.writes(&[50, 60]).reads(&[70]);
    assert_eq!(driver.all(), [4, 3, 6, 5]);
    // A write went last: it is the reads' turn, and after two of them a write's.
    driver.writes(&[5]).reads(&[1, 2, 3]);
    assert_eq!(driver.all(), [8, 9, 7, 10]);
}

#[test]
fn a_kind_without_capacity_is_passed_over_and_a_request_that_comes_back_is_first_again() {
    for (scheduler, afterwards) in [("read-priority", [2, 3, 1]), ("weighted:reads=1,writes=1", [1, 2, 3])] {
        let mut driver = Driver::new(scheduler);
        driver.writes(&[10, 11]).reads(&[20, 30]);
        driver.capacity = Capacity { reads: 0, writes: 1 };
        assert_eq!(driver.dispatch(), Dispatch::Send(RequestId(0)), "{scheduler}");
        driver.capacity = Capacity { reads: 0, writes: 0 };
        assert_eq!(driver.dispatch(), Dispatch::Idle, "{scheduler}");
        driver.capacity = Capacity::UNLIMITED;
        assert_eq!(driver.next(), 2, "{scheduler}");
        let (now, request) = (driver.now, driver.requests[2]);
        driver.scheduler.requeue(now, RequestId(2), &request);
        assert_eq!(driver.all(), afterwards, "{scheduler}");
    }
}
