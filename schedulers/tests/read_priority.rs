//! Reads first, and writes above a limit.

mod driver;

use driver::Driver;
use schedulers::{Dispatch, Room};
use traces::RequestId;

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
fn a_kind_without_room_is_passed_over_and_what_comes_back_is_first_again() {
    let mut driver = Driver::new("read-priority");
    driver.writes(&[10, 11]).reads(&[20, 30]);
    driver.room = Room { reads: 0, writes: 1 };
    assert_eq!(driver.dispatch(), Dispatch::Send(RequestId(0)));
    driver.room = Room { reads: 0, writes: 0 };
    assert_eq!(driver.dispatch(), Dispatch::Idle);
    driver.room = Room::UNLIMITED;
    assert_eq!(driver.next(), 2);
    let (now, request) = (driver.now, driver.requests[2]);
    driver.scheduler.requeue(now, RequestId(2), &request);
    assert_eq!(driver.all(), [2, 3, 1]);
}
