//! The three parts of the burstiness-aware scheduler. Requests of a megabyte (2048 sectors) but where a
//! length is given; the scheduler below is a fifo, so that requests go in the order in which they are let through.

use iocast_schedulers::Dispatch;
use traces::Operation::{Read, Write};
use traces::{Lba, Request, RequestId, Sectors, StreamId, VmId};

use crate::driver::{Driver, ms};

const MEGABYTE: u64 = 2048;

fn ba(tunables: &str) -> Driver {
    Driver::new(&format!("ba:below=fifo{}{tunables}", if tunables.is_empty() { "" } else { "," }))
}

/// A VM asks for this many megabytes; the ids.
fn asks(driver: &mut Driver, vm: u16, megabytes: u64) -> Vec<u32> {
    (0..megabytes).map(|n| driver.of_vm(vm, Read, n * MEGABYTE, MEGABYTE)).collect()
}

fn complete_all(driver: &mut Driver, ids: &[u32]) {
    for &id in ids {
        driver.complete(id);
    }
}

#[test]
fn without_a_bursty_vm_everything_passes() {
    let mut driver = ba("depth=1");
    // 4 MB/s are not above the threshold.
    for vm in [0, 1, 0, 1] {
        driver.of_vm(vm, Read, 0, MEGABYTE);
        driver.of_vm(vm, Write, 0, MEGABYTE);
    }
    assert_eq!(driver.all(), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(driver.dispatch(), Dispatch::Idle);
}

#[test]
fn a_vm_is_bursty_above_the_threshold_and_has_the_disk_alone() {
    for (sectors, writes_pass) in [(0, true), (1, false)] {
        let mut driver = ba("");
        asks(&mut driver, 0, 4);
        driver.of_vm(0, Read, 0, sectors);
        driver.of_vm(1, Write, 0, MEGABYTE);
        let sent = driver.all();
        assert_eq!(sent.contains(&5), writes_pass, "4 MB and {sectors} sectors: {sent:?}");
    }
}

#[test]
fn bursty_vms_take_turns_of_a_quantum_round_robin() {
    let mut driver = ba("");
    for vm in [2, 0, 1] {
        asks(&mut driver, vm, 100);
    }
    let mut turns = Vec::new();
    for quantum in 0..7 {
        driver.time(ms(quantum * 1000));
        let sent = driver.up_to(200);
        let vm = |id: u32| driver.requests[id as usize].vm.0;
        turns.push(vm(sent[0]));
        // At first a read of each of the others goes, as they are not bursty yet.
        assert!(quantum == 0 || sent.iter().all(|&id| vm(id) == turns[quantum as usize]), "{sent:?}");
        assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms((quantum + 1) * 1000)));
        driver.time(ms(quantum * 1000 + 999));
        assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms((quantum + 1) * 1000)));
        complete_all(&mut driver, &sent);
    }
    assert_eq!(turns, [2, 0, 1, 2, 0, 1, 2]);
}

#[test]
fn a_vm_in_its_turn_has_at_most_its_depth_below() {
    let mut driver = ba("depth=4");
    let first = asks(&mut driver, 0, 20);
    // The fifth makes it bursty.
    assert_eq!(driver.all().len(), 4);
    complete_all(&mut driver, &first[..1]);
    assert_eq!(driver.all().len(), 1);
    complete_all(&mut driver, &first[1..5]);
    assert_eq!(driver.all().len(), 4);
}

#[test]
fn reads_of_the_others_are_let_through_at_the_reserved_rate() {
    let mut driver = ba("M_reserved=2m");
    let bursty = asks(&mut driver, 0, 6);
    // Half a megabyte each: a quarter of a second.
    let reads: Vec<u32> = (0..3).map(|vm| driver.of_vm(vm + 1, Read, 0, MEGABYTE / 2)).collect();
    let write = driver.of_vm(1, Write, 0, MEGABYTE / 2);
    let sent = driver.all();
    assert_eq!(sent.iter().filter(|id| reads.contains(id)).collect::<Vec<_>>(), [&reads[0]]);
    assert!(!sent.contains(&write) && bursty.iter().all(|id| sent.contains(id)));
    for (at, read) in [(250, reads[1]), (500, reads[2])] {
        assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(at)));
        driver.time(ms(at));
        assert_eq!(driver.all(), [read]);
    }
    // The write waits for the turn to end.
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(1000)));
}

/// The millisecond at which VM 1 is first sent something in its turn while VM 0 keeps the disk, if VM 1
/// asks for `step` every 100 ms.
fn has_its_turn(mut step: impl FnMut(&mut Driver, u64)) -> Option<u64> {
    let mut driver = ba("");
    asks(&mut driver, 0, 50);
    driver.all();
    for tenth in 0..100 {
        driver.time(ms(tenth * 100 + 1));
        asks(&mut driver, 0, 5);
        step(&mut driver, tenth);
        let sent = driver.all();
        if sent.iter().any(|&id| driver.requests[id as usize].operation == Write) {
            return Some(tenth * 100);
        }
        complete_all(&mut driver, &sent);
    }
    None
}

#[test]
fn what_is_held_back_piles_up_until_it_is_bursty() {
    // Two megabytes of writes a tenth of a second: bursty with the third, in turn when the other's ends.
    let piles = |driver: &mut Driver, tenth| {
        if tenth < 5 {
            driver.of_vm(1, Write, tenth * 2 * MEGABYTE, 2 * MEGABYTE);
        }
    };
    assert_eq!(has_its_turn(piles), Some(1000));
}

#[test]
fn what_is_held_back_for_a_window_makes_its_vm_bursty_however_little_it_is() {
    let one_page = |from: u64| {
        move |driver: &mut Driver, tenth: u64| {
            if tenth == from {
                driver.of_vm(1, Write, 0, 8);
            }
        }
    };
    // Held from 0 and from 0.5 s on; VM 0's turns end every second.
    assert_eq!(has_its_turn(one_page(0)), Some(1000));
    assert_eq!(has_its_turn(one_page(5)), Some(2000));
}

#[test]
fn a_window_stands_still_while_something_is_held_back() {
    // Half a megabyte of reads at a time, the next one 5 ms behind the one before. With M_reserved at
    // 1 MB a second each waits half a second, so that it is 1 MB a second; but 100 of what it is not held back for.
    let mut driver = ba("M_reserved=1m");
    asks(&mut driver, 0, 50);
    driver.all();
    let (mut read, mut bursty_at) = (Some(driver.of_vm(1, Read, 0, MEGABYTE / 2)), None);
    for step in 1..2400_u64 {
        driver.time(ms(step * 5));
        asks(&mut driver, 0, 1);
        let mut sent = driver.all();
        if read.is_none() {
            read = Some(driver.of_vm(1, Read, step * MEGABYTE, MEGABYTE / 2));
            let more = driver.all();
            // In its turn it is not held back: one read after another, without half a second between.
            if more.contains(&read.unwrap()) {
                bursty_at = Some(step * 5);
                break;
            }
            sent.extend(more);
        }
        if sent.contains(&read.unwrap()) {
            read = None;
        }
        complete_all(&mut driver, &sent);
    }
    // Nine halves of a megabyte are above 4 MB: the last of them is asked for at 4 s.
    assert!(bursty_at.is_some_and(|at| (3_900..=5_600).contains(&at)), "{bursty_at:?}");
}

#[test]
fn a_turn_ends_when_its_vm_has_asked_for_nothing_for_a_while() {
    let mut driver = ba("");
    let bursty = asks(&mut driver, 0, 6);
    let write = driver.of_vm(1, Write, 0, 8);
    assert_eq!(driver.all(), bursty);
    driver.time(ms(100));
    complete_all(&mut driver, &bursty[..5]);
    // Something is still outstanding: no end in sight but the quantum's.
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(1000)));
    driver.time(ms(200)).complete(bursty[5]);
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(208)));
    driver.time(ms(208));
    assert_eq!(driver.all(), [write]);
}

#[test]
fn a_vm_that_demands_little_for_a_window_is_no_longer_bursty() {
    for (megabytes, held) in [(3, false), (4, true)] {
        let mut driver = ba("");
        let bursty = asks(&mut driver, 0, 5);
        assert_eq!(driver.all(), bursty);
        complete_all(&mut driver, &bursty);
        // Its turn has begun at 0 with the fifth held back; the window ends after a second.
        driver.time(ms(5));
        let more = asks(&mut driver, 0, megabytes);
        assert_eq!(driver.all(), more);
        driver.time(ms(1000));
        let own = driver.of_vm(0, Read, 0, 8);
        let write = driver.of_vm(1, Write, 0, 8);
        assert_eq!(driver.all(), if held { vec![own] } else { vec![own, write] }, "{megabytes} MB");
    }
}

#[test]
fn a_bursty_vm_that_is_held_back_stays_bursty_whatever_it_asks_for() {
    let mut driver = ba("S_quantum=5s");
    asks(&mut driver, 0, 200);
    asks(&mut driver, 1, 5);
    // One of VM 1's goes while it is not bursty yet.
    assert_eq!(driver.all().len(), 33);
    // Four windows later VM 1 has asked for nothing more, and still waits for its turn.
    driver.time(ms(4500));
    asks(&mut driver, 0, 5);
    assert!(driver.all().is_empty());
    driver.time(ms(5000));
    assert_eq!(driver.all().len(), 4);
}

#[test]
fn tunables_set_the_threshold_and_the_window() {
    // 1 MB/s over half a second.
    for (sectors, passes) in [(1024, true), (1025, false)] {
        let mut driver = ba("B_threshold=1m,window=500ms");
        driver.of_vm(0, Read, 0, sectors);
        let write = driver.of_vm(1, Write, 0, 8);
        assert_eq!(driver.all().contains(&write), passes, "{sectors}");
    }
}

#[test]
fn the_scheduler_below_orders_what_is_let_through() {
    let mut driver = Driver::new("ba:below=cscan");
    driver.at(100).reads(&[300, 50, 200]);
    assert_eq!(driver.all(), [2, 0, 1]);
    // It decides on merges into requests that wait there, and gets those that come back.
    let mut driver = Driver::new("ba:below=deadline");
    driver.reads(&[500, 500]);
    let request = driver.requests[0];
    assert!(!driver.scheduler.may_merge(RequestId(0), &request));
    assert!(driver.scheduler.may_merge(RequestId(1), &request));
    driver.reads(&[100]);
    assert_eq!(driver.all(), [0, 1, 2]);
    let (now, request) = (driver.now, driver.requests[1]);
    driver.reads(&[50]).scheduler.requeue(now, RequestId(1), &request);
    assert_eq!(driver.all(), [1, 3]);
}

#[test]
fn to_the_scheduler_below_a_vm_is_one_process() {
    // Anticipatory waits for the process it has served; two of one VM are one.
    for (vms, goes) in [([0, 0], true), ([0, 1], false)] {
        let mut driver = Driver::new("ba:below=anticipatory");
        driver.at(100);
        let asks = |driver: &mut Driver, n: usize, start| {
            let mut request = Request::new(driver.now, Read, Lba::new(start), Sectors::new(8));
            (request.vm, request.stream) = (VmId(vms[n]), StreamId(n as u32));
            driver.insert(request)
        };
        asks(&mut driver, 0, 100);
        assert_eq!(driver.next(), 0);
        driver.time(ms(1)).complete(0);
        asks(&mut driver, 1, 500_000);
        assert_eq!(driver.dispatch() == Dispatch::Send(RequestId(1)), goes, "{vms:?}");
    }
}

#[test]
fn a_merge_adds_to_the_demand_and_a_cancelled_request_takes_its_part_away() {
    // 16 sectors and 8 of them grown: 12 KiB.
    for (threshold, passes) in [("12k", true), ("11776", false)] {
        let mut driver = ba(&format!("B_threshold={threshold}"));
        driver.of_vm(0, Read, 8, 8);
        driver.of_vm(0, Read, 100, 8);
        driver.front_merge(0);
        let write = driver.of_vm(1, Write, 0, 8);
        assert_eq!(driver.all(), if passes { vec![0, 1, write] } else { vec![0, 1] });
    }
    // Two that are joined demand no more than before.
    let mut driver = ba("B_threshold=8k");
    driver.of_vm(0, Read, 0, 8);
    driver.of_vm(0, Read, 8, 8);
    driver.join(0, 1);
    let write = driver.of_vm(1, Write, 0, 8);
    assert_eq!(driver.all(), [0, write]);
    let mut driver = ba("B_threshold=8k");
    driver.of_vm(0, Read, 0, 16);
    driver.remove(0);
    driver.of_vm(0, Read, 0, 16);
    let write = driver.of_vm(1, Write, 0, 8);
    assert_eq!(driver.all(), [1, write]);
}
