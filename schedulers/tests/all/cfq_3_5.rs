//! The differences of cfq as of Linux 3.5 from that of 2.6.30: groups by weight, kinds of load, low
//! latency, shared queues. A VM is a group, a stream a process of it; requests have 8 sectors.

use iocast_schedulers::Dispatch;
use traces::{Lba, Nanos, Operation, Priority, Request, RequestId, Sectors, StreamId, VmId};

use crate::driver::{Driver, ms};

fn cfq(tunables: &str) -> Driver {
    Driver::new(&if tunables.is_empty() { "cfq-3.5".to_owned() } else { format!("cfq-3.5:{tunables}") })
}

fn send(id: u32) -> Dispatch {
    Dispatch::Send(RequestId(id))
}

fn ask(driver: &mut Driver, operation: Operation, start: u64, vm: u16, stream: u32, class: u8) -> u32 {
    let mut request = Request::new(driver.now, operation, Lba::new(start), Sectors::new(8));
    (request.vm, request.stream) = (VmId(vm), StreamId(stream));
    request.priority = Priority::new(class, 4).expect("a class of Linux");
    driver.insert(request).0
}

fn read(driver: &mut Driver, start: u64, vm: u16, stream: u32) -> u32 {
    ask(driver, Operation::Read, start, vm, stream, 2)
}

fn write(driver: &mut Driver, start: u64) -> u32 {
    ask(driver, Operation::Write, start, 0, 9, 2)
}

/// `count` reads of a stream, one behind the other.
fn reads(driver: &mut Driver, from: u64, count: u64, vm: u16, stream: u32) {
    for n in 0..count {
        read(driver, from + n * 8, vm, stream);
    }
}

/// The number of served requests of each VM.
fn by_vm(driver: &Driver, served: &[u32]) -> [usize; 2] {
    [0, 1].map(|vm| served.iter().filter(|&&id| driver.requests[id as usize].vm == VmId(vm)).count())
}

#[test]
fn groups_have_time_in_proportion_to_their_weight() {
    for (tunables, shares) in
        [("", [1, 1]), ("weights=1000+500", [2, 1]), ("weights=100+900", [1, 9]), ("weights=300", [1, 1])]
    {
        let mut driver = cfq(tunables);
        reads(&mut driver, 1000, 4000, 0, 1);
        reads(&mut driver, 900_000_000, 4000, 1, 1);
        let served = driver.serve(2000, 4000);
        let [first, second] = by_vm(&driver, &served);
        let expected = 4000 * shares[0] / (shares[0] + shares[1]);
        assert!(first.abs_diff(expected) < 250, "{tunables}: {first} and {second}");
    }
}

#[test]
fn a_group_has_its_share_however_many_processes_it_has() {
    let mut driver = cfq("");
    for stream in 1..=4 {
        reads(&mut driver, u64::from(stream) * 1_000_000, 1000, 0, stream);
    }
    reads(&mut driver, 900_000_000, 4000, 1, 1);
    let served = driver.serve(2000, 4000);
    let [first, second] = by_vm(&driver, &served);
    assert!(first.abs_diff(second) < 250, "{first} and {second}");
}

#[test]
fn async_requests_of_all_vms_are_one_group_of_weight_1000() {
    // Preferred as it is, sync leaves async its share of time only because its group's time passes.
    let mut driver = cfq("slice_idle=0ns,group_idle=0ns,weights=500");
    for n in 0..2000 {
        write(&mut driver, 1_000_000 + n * 8);
        ask(&mut driver, Operation::Write, 2_000_000 + n * 8, 1, 3, 2);
    }
    assert_eq!(driver.next(), 0);
    // One queue for both: in order of sectors.
    driver.complete(0);
    assert_eq!(driver.next(), 2);
}

#[test]
fn a_group_s_only_queue_is_waited_for_group_idle_though_it_is_not_worth_it() {
    for (tunables, wait) in [("", Some(8)), ("group_idle=3ms", Some(3)), ("group_idle=0ns", None)] {
        // Twenty far seeks: no idling for the queue itself. With slice_idle there is for its tree.
        let spec = format!("slice_idle=0ns{}{tunables}", if tunables.is_empty() { "" } else { "," });
        let mut driver = cfq(&spec);
        read(&mut driver, 1000, 0, 1);
        assert_eq!(driver.next(), 0);
        let other = read(&mut driver, 900_000_000, 1, 1);
        assert_eq!(driver.dispatch() == send(other), wait.is_none(), "{spec}");
        driver.time(ms(5)).complete(0);
        let Some(wait) = wait else { continue };
        assert_eq!(driver.dispatch(), Dispatch::WaitUntil(ms(5 + wait)), "{spec}");
        driver.time(ms(5 + wait));
        assert_eq!(driver.next(), other, "{spec}");
    }
}

#[test]
fn low_latency_shortens_slices_so_that_all_have_one_in_target_latency() {
    // Six processes count as five at first: 300 ms / 5 = 60 ms each; less than two idle waits it never is.
    for (tunables, processes, requests) in [
        ("", 2, 11),
        ("", 6, 7),
        ("low_latency=off", 6, 11),
        ("target_latency=600ms", 6, 11),
        ("target_latency=120ms", 6, 4),
        ("target_latency=6ms", 6, 3),
    ] {
        let mut driver = cfq(tunables);
        for stream in 1..=processes {
            reads(&mut driver, u64::from(stream) * 1_000_000_000, 30, 0, stream);
        }
        let served = driver.serve(10_000, 31);
        let first = driver.requests[served[0] as usize].stream;
        let run = served.iter().take_while(|&&id| driver.requests[id as usize].stream == first).count();
        assert_eq!(run, requests, "{tunables} {processes}");
    }
}

/// Makes a process known to seek: no idling is worth while for it.
fn seeks(driver: &mut Driver, vm: u16, stream: u32) {
    for n in 0..40 {
        read(driver, 100_000_000 + n * 1_000_000, vm, stream);
        driver.serve(1000, 1);
    }
}

#[test]
fn a_process_that_seeks_is_idled_for_only_as_the_last_of_its_tree() {
    for (others, idles) in [(0, true), (1, false)] {
        let mut driver = cfq("group_idle=0ns");
        seeks(&mut driver, 0, 1);
        seeks(&mut driver, 0, 2);
        // Let all idling be over.
        driver.now += Nanos::from_s(1);
        let last = read(&mut driver, 5_000_000, 0, 1);
        assert_eq!(driver.dispatch(), send(last));
        let other =
            if others == 0 { read(&mut driver, 700_000_000, 1, 5) } else { read(&mut driver, 700_000_000, 0, 2) };
        driver.now += Nanos::from_ms(1);
        driver.complete(last);
        assert_eq!(driver.dispatch() != send(other), idles, "{others} others");
    }
}

#[test]
fn what_waits_long_enough_lets_async_go_deeper() {
    // Right after a sync request that was late one at a time; then one more per slice_sync, at most 8.
    for (quiet, depth) in [(10, 1), (150, 1), (250, 2), (350, 3), (5000, 8)] {
        let mut driver = cfq("slice_idle=0ns,group_idle=0ns,quantum=16");
        let late = read(&mut driver, 1000, 0, 1);
        driver.time(ms(200));
        assert_eq!(driver.dispatch(), send(late));
        driver.complete(late);
        driver.now += Nanos::from_ms(quiet);
        for n in 0..40 {
            write(&mut driver, 1_000_000 + n * 8);
            ask(&mut driver, Operation::Write, 2_000_000 + n * 8, 0, 9, 1);
        }
        assert_eq!(driver.all().len(), depth, "{quiet} ms");
    }
}

#[test]
fn cooperators_share_a_queue_from_then_on_and_part_when_they_scatter() {
    let mut driver = cfq("");
    read(&mut driver, 1000, 0, 1);
    read(&mut driver, 1008, 0, 2);
    assert_eq!(driver.next(), 0);
    driver.time(ms(1)).complete(0);
    assert_eq!(driver.next(), 1);
    // Their next requests are in one queue: they may merge.
    let next = read(&mut driver, 1016, 0, 1);
    driver.time(ms(2)).complete(1);
    let mut of_other = driver.requests[next as usize];
    (of_other.stream, of_other.lba) = (StreamId(2), Lba::new(1024));
    assert!(driver.scheduler.may_merge(RequestId(next), &of_other));
    // Scattered, they part.
    for n in 0..40 {
        read(&mut driver, 50_000_000 + n * 10_000_000, 0, 1 + (n % 2) as u32);
        driver.serve(1000, 2);
        driver.now += Nanos::from_ms(50);
    }
    read(&mut driver, 1000, 0, 1);
    let last = read(&mut driver, 5000, 0, 2);
    of_other.stream = StreamId(1);
    assert!(!driver.scheduler.may_merge(RequestId(last), &of_other));
}

#[test]
fn close_queues_of_the_same_group_cooperate() {
    for (vm, start, goes) in [(0, 1008, true), (1, 1008, false), (0, 1008 + 8192, true), (0, 1008 + 8193, false)] {
        let mut driver = cfq("");
        read(&mut driver, 1000, 0, 1);
        let near = read(&mut driver, start, vm, 2);
        // Another queue of the group, or it would be waited for as the group's only one.
        read(&mut driver, 900_000_000, 0, 3);
        assert_eq!(driver.next(), 0);
        driver.time(ms(1)).complete(0);
        assert_eq!(driver.dispatch() == send(near), goes, "VM {vm} at {start}");
    }
}

#[test]
fn half_of_quantum_goes_at_once_and_the_rest_while_the_slice_lasts() {
    for (tunables, alone, among_others) in [("", 40, 4), ("quantum=4", 40, 2)] {
        let mut driver = cfq(tunables);
        reads(&mut driver, 1000, 40, 0, 1);
        assert_eq!(driver.all().len(), alone, "{tunables}");
        let mut driver = cfq(tunables);
        reads(&mut driver, 1000, 40, 0, 1);
        reads(&mut driver, 900_000_000, 40, 0, 2);
        // No end of the slice is known before its first completion.
        assert_eq!(driver.all().len(), among_others, "{tunables}");
        driver.time(ms(1)).complete(0);
        assert_eq!(driver.all().len(), among_others + 1, "{tunables}");
    }
}

#[test]
fn sync_preempts_async_across_groups_and_real_time_is_not_preempted() {
    let mut driver = cfq("");
    for n in 0..8 {
        write(&mut driver, 1000 + n * 8);
    }
    assert_eq!(driver.serve(1000, 1), [0]);
    let sync = read(&mut driver, 900_000_000, 0, 1);
    assert_eq!(driver.next(), sync);
    let mut driver = cfq("");
    for n in 0..3 {
        ask(&mut driver, Operation::Write, 1000 + n * 8, 0, 9, 1);
    }
    assert_eq!(driver.serve(1000, 1), [0]);
    read(&mut driver, 900_000_000, 0, 1);
    assert_eq!(driver.next(), 1);
}

#[test]
fn two_requests_at_the_same_sector_both_wait() {
    let mut driver = cfq("");
    for start in [1000, 5000, 5000] {
        read(&mut driver, start, 0, 1);
    }
    assert_eq!(driver.serve(10, 9), [0, 1, 2]);
}

#[test]
fn a_joined_request_takes_the_older_one_s_place_in_the_fifo() {
    let mut driver = cfq("slice_sync=10s");
    driver.time(ms(100));
    read(&mut driver, 900_008, 0, 1);
    driver.time(ms(110));
    read(&mut driver, 1000, 0, 1);
    driver.time(ms(120));
    read(&mut driver, 900_000, 0, 1);
    driver.join(2, 0);
    driver.time(ms(226));
    assert_eq!(driver.serve(10, 9), [2, 1]);
}

#[test]
fn real_time_preempts_best_effort_of_its_group() {
    for (class, first) in [(1, 3), (2, 1)] {
        let mut driver = cfq("");
        reads(&mut driver, 1000, 3, 0, 1);
        assert_eq!(driver.serve(1000, 1), [0]);
        ask(&mut driver, Operation::Read, 900_000_000, 0, 2, class);
        assert_eq!(driver.next(), first, "class {class}");
    }
}

#[test]
fn processes_that_seek_follow_each_other_without_idling() {
    let mut driver = cfq("group_idle=0ns");
    for stream in 1..=3 {
        seeks(&mut driver, 0, stream);
    }
    driver.now += Nanos::from_s(1);
    for stream in 1..=3 {
        read(&mut driver, u64::from(stream) * 100_000_000, 0, stream);
    }
    for _ in 0..3 {
        let id = driver.next();
        driver.now += Nanos::from_ms(1);
        driver.complete(id);
    }
}

#[test]
fn a_group_s_only_queue_is_waited_for_at_the_end_of_its_slice() {
    // The slice is 1 ms to 101 ms. At its end another of the group keeps it from being prolonged.
    for (others, waits) in [(0, true), (1, false)] {
        let mut driver = cfq("");
        read(&mut driver, 1000, 0, 1);
        assert_eq!(driver.next(), 0);
        read(&mut driver, 900_000_000, 1, 1);
        driver.time(ms(1)).complete(0);
        let second = read(&mut driver, 1008, 0, 1);
        assert_eq!(driver.next(), second);
        if others > 0 {
            read(&mut driver, 500_000_000, 0, 2);
        }
        driver.time(ms(150)).complete(second);
        assert_eq!(driver.dispatch() == Dispatch::WaitUntil(ms(158)), waits, "{others} others");
    }
}
