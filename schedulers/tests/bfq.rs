//! Every rule of bfq as Linux 6.18 has it, but for those that favour a queue for a while
//! (`bfq_latency.rs`) or join several (`bfq_merging.rs`). Ids count the requests of a script from zero.

mod driver;

use driver::{Driver, Ids, ms};
use schedulers::{Capacity, Dispatch, Scheduler};
use traces::{Flags, Lba, Nanos, Operation, Priority, Request, RequestId, Sectors, StreamId, Timestamp, VmId};

/// Best effort, by level.
fn be(level: u8) -> Priority {
    Priority::new(2, level).expect("a level of Linux")
}

/// bfq without raising, where every process has a queue of its own: they begin a second apart.
fn bfq(tunables: &str) -> Driver {
    Driver::new(&format!("bfq:low_latency=off{}{tunables}", if tunables.is_empty() { "" } else { "," }))
}

trait Processes {
    /// A read of a process at a priority.
    fn read(&mut self, stream: u32, priority: Priority, start: u64, sectors: u64) -> u32;
    /// The streams of the requests that go, each completing at once after `each`.
    fn served(&mut self, count: usize, each: Nanos) -> Vec<u32>;
    /// Lets processes begin one after another, long enough apart to have queues of their own: each
    /// sends a request and waits for it, and the last is waited for in vain.
    fn begin(&mut self, processes: &[(u32, Priority)]) -> &mut Self;
}

impl Processes for Driver {
    fn read(&mut self, stream: u32, priority: Priority, start: u64, sectors: u64) -> u32 {
        let mut request = Request::new(self.now, Operation::Read, Lba::new(start), Sectors::new(sectors));
        (request.stream, request.priority) = (StreamId(stream), priority);
        self.insert(request).0
    }

    fn served(&mut self, count: usize, each: Nanos) -> Vec<u32> {
        let mut streams = Vec::new();
        while streams.len() < count {
            match self.dispatch() {
                Dispatch::Send(id) => {
                    self.now += each;
                    self.complete(id.0);
                    streams.push(self.requests[id.index()].stream.0);
                }
                Dispatch::WaitUntil(until) => self.now = until,
                Dispatch::Idle => break,
            }
        }
        streams
    }

    fn begin(&mut self, processes: &[(u32, Priority)]) -> &mut Self {
        for &(stream, priority) in processes {
            let id = self.read(stream, priority, u64::from(stream) * 1_000_000, 8);
            assert_eq!(self.next(), id);
            self.now += Nanos::from_ms(1);
            self.complete(id);
            self.now += Nanos::from_ms(1000);
            self.dispatch();
        }
        self
    }
}

fn runs(streams: &[u32]) -> Vec<(u32, usize)> {
    let mut runs: Vec<(u32, usize)> = Vec::new();
    for &stream in streams {
        match runs.last_mut() {
            Some((last, count)) if *last == stream => *count += 1,
            _ => runs.push((stream, 1)),
        }
    }
    runs
}

#[test]
fn within_a_queue_the_nearest_goes_first_and_the_way_back_costs_more() {
    // The first request leaves the head at 10,000.
    for (name, tunables, starts, sent) in [
        ("upwards", "", vec![9_992, 10_300, 10_100, 10_200], vec![0, 2, 3, 1]),
        ("back if less than half as far", "", vec![9_992, 10_210, 9_900], vec![0, 2, 1]),
        ("not if more", "", vec![9_992, 10_190, 9_900], vec![0, 1, 2]),
        ("forwards if as far with the penalty", "", vec![9_992, 10_200, 9_900], vec![0, 1, 2]),
        ("a penalty of one", "back_seek_penalty=1", vec![9_992, 10_190, 9_900], vec![0, 2, 1]),
        ("a penalty of three", "back_seek_penalty=3", vec![9_992, 10_290, 9_900], vec![0, 1, 2]),
        ("back as far as allowed", "back_seek_max=50", vec![9_992, 11_000, 9_900], vec![0, 2, 1]),
        ("no farther", "back_seek_max=49", vec![9_992, 11_000, 9_900], vec![0, 1, 2]),
        (
            "from the far end when nothing is ahead",
            "back_seek_max=10",
            vec![9_992, 9_000, 8_000, 9_500],
            vec![0, 2, 1, 3],
        ),
    ] {
        let mut driver = bfq(tunables);
        driver.reads(&starts[..1]);
        assert_eq!(driver.next(), 0);
        driver.reads(&starts[1..]);
        assert_eq!(driver.all(), sent[1..], "{name}");
    }
}

#[test]
fn an_arrival_is_next_if_it_is_nearer_to_the_end_of_what_went_last() {
    let mut driver = bfq("");
    driver.reads(&[1_000, 5_000]);
    assert_eq!(driver.next(), 0);
    driver.reads(&[2_000, 990]);
    assert_eq!(driver.all(), [3, 2, 1]);
}

#[test]
fn metadata_goes_first() {
    let mut driver = bfq("");
    driver.reads(&[100, 200]);
    let mut request = driver.requests[0];
    (request.lba, request.flags) = (Lba::new(900), Flags::META);
    driver.insert(request);
    assert_eq!(driver.next(), 2);
}

#[test]
fn an_expired_request_goes_first_once_in_a_turn() {
    // The age is looked at when the first request of a turn goes, and no more in that turn.
    for (age_ms, tunables, sent) in [
        (124, "", [1, 2, 3, 0]),
        (125, "", [1, 0, 3, 2]),
        (50, "fifo_expire_sync=50ms", [1, 0, 3, 2]),
        (49, "fifo_expire_sync=50ms", [1, 2, 3, 0]),
    ] {
        let mut driver = bfq(tunables);
        driver.reads(&[50_000]).time(ms(age_ms)).reads(&[10_000, 20_000, 30_000]);
        assert_eq!(driver.all(), sent, "{age_ms} ms {tunables}");
    }
    let mut driver = bfq("");
    driver.reads(&[50_000, 20_000]).time(ms(200)).reads(&[10_000, 49_000, 48_000]);
    assert_eq!(driver.all(), [2, 0, 3, 4, 1]);
    // Async requests have their own time.
    for (age_ms, sent) in [(249, [1, 2, 0]), (250, [1, 0, 2])] {
        let mut driver = bfq("");
        driver.writes(&[50_000]).time(ms(age_ms)).writes(&[10_000, 20_000]);
        assert_eq!(driver.all(), sent, "async, {age_ms} ms");
    }
}

/// Two processes with requests of 1000 sectors each, of which the second begins later.
fn two_backlogs(tunables: &str, priorities: [Priority; 2], count: u64) -> Driver {
    let mut driver = bfq(tunables);
    driver.begin(&[(1, priorities[0]), (2, priorities[1])]);
    for n in 0..count {
        driver.read(1, priorities[0], 1_000_000 + n * 1000, 1000);
        driver.read(2, priorities[1], 2_000_000 + n * 1000, 1000);
    }
    driver
}

#[test]
fn a_turn_ends_when_the_budget_does_not_suffice_and_the_next_budget_is_larger() {
    // A new queue gets two thirds of 16,384 sectors, less four times 512 after it was waited for in
    // vain; one whose turn used it up four times as much, at most what max_budget says.
    for (tunables, expected) in [
        ("max_budget=3000", vec![(1, 8), (2, 8), (1, 3), (2, 3), (1, 3)]),
        ("max_budget=12000", vec![(1, 8), (2, 8), (1, 12), (2, 12)]),
        ("", vec![(1, 8), (2, 8), (1, 16), (2, 16)]),
    ] {
        let mut driver = two_backlogs(tunables, [be(4), be(4)], 60);
        let served = runs(&driver.served(50, Nanos::from_us(10)));
        assert_eq!(served[..expected.len()], expected, "{tunables}");
    }
}

#[test]
fn a_queue_that_used_up_a_small_budget_gets_four_times_as_much() {
    // 10,922 sectors at first, less 2,048 each of the four times that it was waited for in vain.
    let mut driver = bfq("max_budget=16384");
    driver.begin(&[(2, be(4)), (1, be(4)), (1, be(4)), (1, be(4)), (1, be(4))]);
    for n in 0..40 {
        driver.read(1, be(4), 1_000_000 + n * 1000, 1000);
        driver.read(2, be(4), 2_000_000 + n * 1000, 1000);
    }
    let served = runs(&driver.served(60, Nanos::from_us(10)));
    let of_first: Vec<usize> = served.iter().filter(|&&(stream, _)| stream == 1).map(|&(_, count)| count).collect();
    assert_eq!(of_first[..2], [2, 10], "2,730 sectors and then 10,920: {served:?}");
}

#[test]
fn a_turn_ends_when_its_time_is_up() {
    // Dispatched every 10 ms; 125 ms are 31 jiffies of 4 ms.
    for (tunables, turn) in [("", 13), ("timeout_sync=60ms", 6), ("tick=1ms,timeout_sync=51ms", 6)] {
        let mut driver = bfq(tunables);
        driver.begin(&[(1, be(4)), (2, be(4))]);
        for n in 0..40 {
            driver.read(1, be(4), 1_000_000 + n * 8, 8);
            driver.read(2, be(4), 2_000_000 + n * 8, 8);
        }
        let served = runs(&driver.served(60, Nanos::from_ms(10)));
        assert!(served[..3].iter().all(|&(_, count)| count == turn), "{tunables}: {served:?}");
    }
}

#[test]
fn weights_share_service_in_proportion() {
    // Weights are ten times eight less the level.
    for (levels, share) in [([4, 4], 500), ([0, 4], 667), ([0, 7], 889), ([7, 3], 167)] {
        let mut driver = two_backlogs("max_budget=2000", levels.map(be), 400);
        let served = driver.served(360, Nanos::from_us(10));
        let of_first = served.iter().filter(|&&stream| stream == 1).count() * 1000 / served.len();
        assert!(of_first.abs_diff(share) < 40, "{levels:?}: {of_first} of 1000");
    }
}

#[test]
fn slow_queues_share_time_and_not_sectors() {
    // The first process sends 128 sectors at a time, the second 8; each request takes 10 ms.
    let mut driver = bfq("");
    driver.begin(&[(1, be(4)), (2, be(4))]);
    for n in 0..200 {
        driver.read(1, be(4), 1_000_000 + n * 5000, 128);
        driver.read(2, be(4), 2_000_000 + n * 5000, 8);
    }
    let served = driver.served(200, Nanos::from_ms(10));
    let of_first = served.iter().filter(|&&stream| stream == 1).count();
    assert!((90..=110).contains(&of_first), "{of_first} of 200");
}

#[test]
fn async_requests_of_a_priority_share_a_queue_that_is_charged_three_times() {
    let mut driver = bfq("");
    let write = |driver: &mut Driver, stream: u32, start: u64, sectors: u64| {
        let mut request = Request::new(driver.now, Operation::Write, Lba::new(start), Sectors::new(sectors));
        request.stream = StreamId(stream);
        driver.insert(request)
    };
    for (stream, start) in [(1, 300), (2, 200), (1, 100), (2, 400)] {
        write(&mut driver, stream, start, 8);
    }
    assert_eq!(driver.all(), [2, 1, 0, 3]);
    for id in 0..4 {
        driver.complete(id);
    }
    // 1000 sectors count 3000: a budget of 10,922 suffices for three, not for ten.
    let mut driver = bfq("");
    driver.begin(&[(2, be(4))]);
    for n in 0..40 {
        write(&mut driver, 1, 1_000_000 + n * 1000, 1000);
    }
    for n in 0..40 {
        driver.read(2, be(4), 2_000_000 + n * 1000, 1000);
    }
    let served = runs(&driver.served(30, Nanos::from_us(10)));
    assert_eq!(served[..2], [(2, 8), (1, 3)], "{served:?}");
}

#[test]
fn classes_go_in_order_and_the_idle_class_at_least_every_200_ms() {
    let class = |class| Priority::new(class, 4).expect("a class of Linux");
    let mut driver = bfq("");
    for (stream, class_of) in [(1, class(3)), (2, class(2)), (3, class(1)), (4, Priority::NONE)] {
        for n in 0..3 {
            driver.read(stream, class_of, u64::from(stream) * 10_000 + n * 100, 8);
        }
    }
    let mut served = runs(&driver.served(12, Nanos::from_us(10)));
    assert_eq!((served.remove(0), served.pop()), ((3, 3), Some((1, 3))));
    // Idle requests go once that class has not been served for 200 ms, one in a turn.
    let mut driver = bfq("");
    driver.begin(&[(1, class(3)), (2, class(2))]);
    for n in 0..100 {
        driver.read(2, class(2), 2_000_000 + n * 1000, 1000);
        driver.read(1, class(3), 1_000_000 + n * 1000, 1000);
    }
    let served = driver.served(100, Nanos::from_ms(10));
    let idle: Vec<usize> = (0..100).filter(|&n| served[n] == 1).collect();
    // The other's turn of 125 ms is not interrupted for it.
    assert!(idle.len() >= 3 && idle.windows(2).all(|pair| (20..33).contains(&(pair[1] - pair[0]))), "{idle:?}");
}

#[test]
fn a_queue_of_a_higher_class_or_weight_preempts_that_in_service() {
    // The third has the least weight: so the first is worth idling for, and is not preempted otherwise.
    for (new, preempts) in [(be(3), true), (be(4), false), (be(7), false), (Priority::new(1, 7).expect("rt"), true)] {
        let mut driver = bfq("");
        driver.begin(&[(2, new), (3, be(7)), (1, be(4))]);
        for n in 0..20 {
            driver.read(1, be(4), 1_000_000 + n * 8, 8);
        }
        driver.read(3, be(7), 3_000_000, 8);
        driver.served(3, Nanos::from_us(100));
        let id = driver.read(2, new, 2_000_000, 8);
        assert_eq!(driver.next() == id, preempts, "{new:?}");
    }
}

/// A process of weight 80 whose only request was just completed, and one of weight 10 that has work.
fn empty_beside_a_lighter_one(tunables: &str) -> (Driver, u32) {
    let mut driver = bfq(tunables);
    driver.begin(&[(2, be(7)), (1, be(0))]);
    for n in 0..40 {
        let id = driver.read(1, be(0), 1_000_000 + n * 8, 8);
        assert_eq!(driver.next(), id);
        driver.complete(id);
    }
    let id = driver.read(1, be(0), 3_000_000, 8);
    assert_eq!(driver.next(), id);
    let other = driver.read(2, be(7), 2_000_000, 8);
    assert_eq!(driver.dispatch(), Dispatch::Idle, "it is kept for what is in flight");
    driver.complete(id);
    (driver, other)
}

#[test]
fn the_device_idles_for_the_heavier_queue_until_its_request_comes_or_slice_idle_is_over() {
    for (tunables, idles_us) in [("", 8000), ("slice_idle=3ms", 3000), ("slice_idle_us=500", 500)] {
        let (mut driver, other) = empty_beside_a_lighter_one(tunables);
        let end = driver.now + Nanos::from_us(idles_us);
        assert_eq!(driver.dispatch(), Dispatch::WaitUntil(end), "{tunables}");
        driver.time(Timestamp::from_ns(end.as_ns() - 1));
        assert_eq!(driver.dispatch(), Dispatch::WaitUntil(end), "{tunables}");
        driver.time(end);
        assert_eq!(driver.next(), other, "{tunables}");
        // In time, its request goes first.
        let (mut driver, _) = empty_beside_a_lighter_one(tunables);
        let end = driver.now + Nanos::from_us(idles_us);
        driver.time(Timestamp::from_ns(end.as_ns() - 1));
        let id = driver.read(1, be(0), 3_000_008, 8);
        assert_eq!(driver.next(), id, "{tunables}");
    }
}

#[test]
fn without_slice_idle_or_a_heavier_weight_it_does_not_idle() {
    for (tunables, levels) in [("slice_idle=0ns", [0, 7]), ("", [4, 4])] {
        let mut driver = bfq(tunables);
        driver.begin(&[(1, be(levels[0])), (2, be(levels[1]))]);
        driver.read(1, be(levels[0]), 1_000_000, 8);
        driver.read(2, be(levels[1]), 2_000_000, 8);
        assert_eq!(driver.all(), [2, 3], "{tunables}");
    }
}

#[test]
fn it_idles_where_classes_or_groups_share_the_device() {
    // All of weight 10.
    let idle = Priority::new(3, 7).expect("a class of Linux");
    for (tunables, priorities, vms, waits) in [
        ("", [be(7), idle], [0, 0], true),
        ("", [idle, idle], [0, 0], false),
        ("", [be(7), be(7)], [0, 1], false),
        ("cgroups=on", [be(7), be(7)], [0, 0], false),
        ("cgroups=on", [be(7), be(7)], [0, 1], true),
    ] {
        let mut driver = bfq(tunables);
        let request = |driver: &Driver, n: usize, start: u64| {
            let mut request = Request::new(driver.now, Operation::Read, Lba::new(start), Sectors::new(8));
            (request.stream, request.priority, request.vm) = (StreamId(n as u32), priorities[n], VmId(vms[n]));
            request
        };
        for n in 0..2 {
            let id = driver.insert(request(&driver, n, 1000));
            assert_eq!(driver.next(), id.0);
            driver.complete(id.0);
            driver.now += Nanos::from_s(1);
            driver.dispatch();
        }
        let id = driver.insert(request(&driver, 0, 1008));
        assert_eq!(driver.next(), id.0);
        let other = driver.insert(request(&driver, 1, 5000));
        driver.complete(id.0);
        assert_eq!(driver.dispatch() != Dispatch::Send(other), waits, "{tunables} {priorities:?} {vms:?}");
    }
}

#[test]
fn a_rotational_device_idles_for_a_sequential_process_but_not_for_one_that_seeks() {
    for (seeks, rotational, waits) in [(false, "on", true), (true, "on", false), (false, "off", false)] {
        let mut driver = bfq(&format!("rotational={rotational}"));
        driver.begin(&[(2, be(4)), (1, be(4))]);
        for n in 0..40 {
            let id = driver.read(1, be(4), 1_000_000 + n * if seeks { 10_000 } else { 8 }, 8);
            assert_eq!(driver.next(), id);
            // It is I/O-bound.
            driver.now += Nanos::from_ms(100);
            driver.complete(id);
        }
        let id = driver.read(1, be(4), 4_000_000, 8);
        assert_eq!(driver.next(), id);
        let other = driver.read(2, be(4), 2_000_000, 8);
        driver.complete(id);
        let choice = driver.dispatch();
        assert_eq!(
            choice == Dispatch::Send(RequestId(other)),
            !waits,
            "seeks {seeks} rotational {rotational}: {choice:?}"
        );
    }
}

#[test]
fn a_queue_that_was_waited_for_in_vain_goes_on_with_its_budget_if_its_request_comes_soon_after() {
    // Within three times slice_idle of its last completion it preempts the other, which is worth
    // idling for beside a lighter third.
    for (after_us, preempts) in [(24_000, true), (24_001, false)] {
        let mut driver = bfq("");
        driver.begin(&[(1, be(4)), (2, be(4)), (3, be(7))]);
        let first = driver.read(1, be(4), 1_000_000, 8);
        assert_eq!(driver.next(), first);
        let others: Ids = (0..30).map(|n| driver.read(2, be(4), 2_000_000 + n * 8, 8)).collect();
        driver.read(3, be(7), 3_000_000, 8);
        driver.complete(first);
        let completed = driver.now;
        driver.time(completed + Nanos::from_ms(8));
        assert_eq!(driver.next(), others[0]);
        driver.time(completed + Nanos::from_us(after_us));
        let second = driver.read(1, be(4), 1_000_008, 8);
        assert_eq!(driver.next() == second, preempts, "{after_us} us");
    }
}

#[test]
fn strict_guarantees_send_one_at_a_time_and_always_wait() {
    let mut driver = bfq("strict_guarantees=on,slice_idle=1ms");
    driver.begin(&[(2, be(4)), (1, be(4))]);
    let ids = [1_000_008, 1_000_016].map(|start| driver.read(1, be(4), start, 8));
    let other = driver.read(2, be(4), 2_000_000, 8);
    for id in ids {
        assert_eq!(driver.all(), [id]);
        assert_eq!(driver.dispatch(), Dispatch::Idle);
        driver.complete(id);
    }
    // Slice_idle is then at least 8 ms.
    assert_eq!(driver.dispatch(), Dispatch::WaitUntil(driver.now + Nanos::from_ms(8)));
    let end = driver.now + Nanos::from_ms(8);
    assert_eq!(driver.time(end).next(), other);
}

#[test]
fn machines_share_by_their_cgroups_weights_whatever_the_number_of_their_processes() {
    for (cgroups, weights, share) in [("on", "100", 500), ("on", "300+100", 750), ("off", "300+100", 250)] {
        let mut driver = bfq(&format!("cgroups={cgroups},weights={weights},max_budget=2000"));
        let mut insert = |vm: u16, stream: u32, n: u64| {
            let start = u64::from(stream) * 1_000_000 + n * 1000;
            let mut request = Request::new(driver.now, Operation::Read, Lba::new(start), Sectors::new(1000));
            (request.vm, request.stream) = (VmId(vm), StreamId(stream));
            driver.insert(request);
            driver.now += Nanos::from_s(if n == 0 { 1 } else { 0 });
        };
        // One process in the first machine, three in the second.
        for n in 0..300 {
            for (vm, stream) in [(0, 1), (1, 2), (1, 3), (1, 4)] {
                insert(vm, stream, n);
            }
        }
        let served = driver.served(280, Nanos::from_us(10));
        let of_first = served.iter().filter(|&&stream| stream == 1).count() * 1000 / served.len();
        assert!(of_first.abs_diff(share) < 50, "cgroups={cgroups} {weights}: {of_first} of 1000");
    }
}

#[test]
fn what_comes_back_goes_first_and_what_is_cancelled_does_not_go() {
    let mut driver = bfq("");
    driver.reads(&[300, 100, 200]);
    assert_eq!(driver.next(), 1);
    let (now, request) = (driver.now, driver.requests[1]);
    driver.scheduler.requeue(now, RequestId(1), &request);
    driver.remove(2);
    assert_eq!(driver.all(), [1, 0]);
    // The last to come back before the others.
    for id in [0, 1] {
        let request = driver.requests[id as usize];
        driver.scheduler.requeue(now, RequestId(id), &request);
    }
    assert_eq!((driver.scheduler.waiting(), driver.all()), (2, vec![1, 0]));
}

#[test]
fn a_followed_choice_is_accounted_as_ones_own() {
    // Somebody else serves the other process: its budget is used up as by itself.
    let mut driver = two_backlogs("max_budget=3000", [be(4), be(4)], 30);
    driver.served(20, Nanos::from_us(10));
    let second: Ids =
        (0..driver.requests.len() as u32).filter(|&id| driver.requests[id as usize].stream.0 == 2).collect();
    let now = driver.now;
    for &id in &second[11..14] {
        assert!(driver.scheduler.follow(now, RequestId(id)));
    }
    assert_eq!(runs(&driver.served(6, Nanos::from_us(10))), [(1, 3), (2, 3)]);
}

#[test]
fn a_request_that_there_is_no_room_for_holds_up_the_others() {
    let mut driver = bfq("");
    driver.writes(&[100]).capacity = Capacity { reads: 1, writes: 0 };
    driver.reads(&[200]);
    assert_eq!(driver.dispatch(), Dispatch::Idle);
    driver.capacity = Capacity::UNLIMITED;
    assert_eq!(driver.all().len(), 2);
}

#[test]
fn requests_are_merged_within_a_queue_only() {
    let mut driver = bfq("");
    driver.begin(&[(1, be(4)), (2, be(4))]);
    let id = driver.read(1, be(4), 1000, 8);
    let mut arriving = driver.requests[id as usize];
    arriving.lba = Lba::new(1008);
    assert!(driver.scheduler.may_merge(RequestId(id), &arriving));
    arriving.stream = StreamId(2);
    assert!(!driver.scheduler.may_merge(RequestId(id), &arriving));
    arriving.stream = StreamId(1);
    arriving.operation = Operation::Write;
    assert!(!driver.scheduler.may_merge(RequestId(id), &arriving));
    // What is next is chosen anew after a front merge, and a joined request passes on its place.
    let mut driver = bfq("");
    driver.reads(&[1000, 2000, 900]).front_merge(1);
    driver.join(0, 2);
    assert_eq!(driver.all(), [0, 1]);
}
