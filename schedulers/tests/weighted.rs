//! Reads and writes in turn.

mod driver;

use driver::Driver;
use schedulers::{Dispatch, Room};
use traces::RequestId;

#[test]
fn turns_are_as_long_as_their_weights_and_each_kind_keeps_its_order() {
    let mut driver = Driver::new("weighted:reads=3,writes=2");
    driver.writes(&[90, 80, 70, 60]).reads(&[50, 40, 30, 20, 10]);
    assert_eq!(driver.all(), [4, 5, 6, 0, 1, 7, 8, 2, 3]);
}

#[test]
fn what_goes_while_nobody_else_waits_counts_for_its_turn() {
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
fn a_kind_without_room_is_passed_over_and_what_comes_back_is_first_again() {
    let mut driver = Driver::new("weighted:reads=1,writes=1");
    driver.writes(&[10, 11]).reads(&[20, 30]);
    driver.room = Room { reads: 0, writes: 1 };
    assert_eq!(driver.dispatch(), Dispatch::Send(RequestId(0)));
    driver.room = Room { reads: 0, writes: 0 };
    assert_eq!(driver.dispatch(), Dispatch::Idle);
    driver.room = Room::UNLIMITED;
    assert_eq!(driver.next(), 2);
    let (now, request) = (driver.now, driver.requests[2]);
    driver.scheduler.requeue(now, RequestId(2), &request);
    assert_eq!(driver.all(), [1, 2, 3]);
}
