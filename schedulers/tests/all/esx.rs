//! The fair share of ESX: its quantum, its limit for a VM, and its batches of reads and of writes.

use iocast_schedulers::Dispatch;
use traces::Operation::{Read, Write};

use crate::driver::Driver;

#[test]
fn vms_take_turns_but_for_sequential_requests_within_the_quantum() {
    let mut driver = Driver::new("esx:quantum=3");
    // Ids 0 to 4 of VM 0 are sequential; 5 and 6 of VM 1 are far from one another.
    for start in [0, 8, 16, 24, 32] {
        driver.of_vm(0, Read, start, 8);
    }
    driver.of_vm(1, Read, 1_000_000, 8);
    driver.of_vm(1, Read, 2_000_000, 8);
    // Three of VM 0; VM 1 has had fewer until it has had as many; then the older.
    assert_eq!(driver.all(), [0, 1, 2, 5, 6, 3, 4]);
}

#[test]
fn near_is_within_the_distance_on_either_side() {
    let order = |start: u64| {
        let mut driver = Driver::new("esx:near=100");
        driver.of_vm(0, Read, 1000, 8);
        driver.of_vm(0, Read, start, 8);
        driver.of_vm(1, Read, 500_000, 8);
        driver.all()
    };
    assert_eq!(order(1108), [0, 1, 2]);
    assert_eq!(order(1109), [0, 2, 1]);
    assert_eq!(order(908), [0, 1, 2]);
    assert_eq!(order(907), [0, 2, 1]);
}

#[test]
fn a_vm_that_begins_has_no_arrears() {
    let mut driver = Driver::new("esx:near=0");
    for nth in 0..4 {
        driver.of_vm(0, Read, 10_000 * nth, 8);
    }
    for _ in 0..4 {
        let id = driver.next();
        driver.complete(id);
    }
    for nth in 4..6 {
        driver.of_vm(0, Read, 10_000 * nth, 8);
        driver.of_vm(1, Read, 900_000 + 10_000 * nth, 8);
    }
    // VM 1 is one behind at most, and does not get all that VM 0 had before.
    assert_eq!(driver.all(), [5, 4, 7, 6]);
}

#[test]
fn a_vm_has_at_most_its_number_below_while_another_has_requests() {
    let mut driver = Driver::new("esx:outstanding=2,near=0");
    for nth in 0..4 {
        driver.of_vm(0, Read, 10_000 * nth, 8);
    }
    driver.of_vm(1, Read, 900_000, 8);
    assert_eq!(driver.all(), [0, 4, 1]);
    // VM 1 has nothing any more, so nothing limits VM 0.
    driver.complete(4);
    assert_eq!(driver.all(), [2, 3]);
}

#[test]
fn writes_wait_until_no_read_is_below_and_a_batch_ends_when_the_other_kind_waits() {
    let mut driver = Driver::new("esx:read_batch=2,write_batch=1,near=0");
    driver.reads(&[10_000, 20_000, 30_000]).writes(&[40_000, 50_000]);
    assert_eq!(driver.all(), [0, 1]);
    // Writes wait until no read is below; reads begin behind a batch of writes.
    driver.complete(0);
    assert_eq!(driver.dispatch(), Dispatch::Idle);
    assert_eq!(driver.complete(1).all(), [3, 2]);
    driver.complete(3);
    assert_eq!(driver.dispatch(), Dispatch::Idle);
    assert_eq!(driver.complete(2).all(), [4]);
    // A batch goes on as long as the other kind does not wait.
    assert_eq!(driver.writes(&[60_000, 70_000]).all(), [5, 6]);
}

#[test]
fn a_cancelled_request_counts_for_nobody() {
    let mut driver = Driver::new("esx:outstanding=1,near=0");
    driver.of_vm(0, Read, 0, 8);
    driver.of_vm(0, Read, 10_000, 8);
    driver.of_vm(1, Write, 20_000, 8);
    assert_eq!(driver.all(), [0]);
    driver.remove(2);
    assert_eq!(driver.all(), [1]);
}
