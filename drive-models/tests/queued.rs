//! Drives with a queue of their own against slow versions that look at everything that waits.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use iocast_drives::queued::{QueueLimits, Queued};
use iocast_drives::single_server::{Service, ServiceModel};
use iocast_drives::{Completion, DriveModel, build, build_mechanical};
use proptest::prelude::*;
use schedulers::{AccessCost, Capacity, Dispatch, Scheduler};
use traces::{Lba, Operation, Request, RequestId, Sectors, Timestamp};

const MS: u64 = 1_000_000;

fn request(operation: Operation, lba: u64, sectors: u64) -> Request {
    Request::new(Timestamp::ZERO, operation, Lba::new(lba), Sectors::new(sectors))
}

/// Submits each request at its time (ns), or as soon as the drive accepts it.
fn run(drive: &mut dyn DriveModel, requests: &[(u64, Request)]) -> Vec<Completion> {
    let mut completions = Vec::new();
    let mut now = Timestamp::ZERO;
    for (id, (at, request)) in requests.iter().enumerate() {
        now = now.max(Timestamp::from_ns(*at));
        while let Some(next) = drive.next_event().filter(|&next| next <= now || !drive.accepts(request)) {
            drive.advance(next, &mut completions);
            now = now.max(next);
        }
        assert!(drive.accepts(request), "an idle drive takes a request");
        drive.submit(now, RequestId(id as u32), request);
    }
    while let Some(next) = drive.next_event() {
        drive.advance(next, &mut completions);
    }
    completions
}

/// The same, looking through all that waits for every choice. Returns which was done when.
fn slow(spec: &Queue, requests: &[(u64, Request)]) -> Vec<(u32, u64)> {
    let mut drive = build_mechanical(&spec.name.parse().unwrap()).unwrap().unwrap();
    let mut waiting: Vec<(u64, usize)> = Vec::new();
    let mut served: Option<(u64, usize)> = None;
    let (mut to_come, mut now, mut up) = (0, 0, true);
    let mut done = Vec::new();
    while done.len() < requests.len() {
        let full = waiting.len() + usize::from(served.is_some()) == spec.depth;
        let arrival = requests.get(to_come).filter(|_| !full).map_or(u64::MAX, |&(at, _)| now.max(at));
        match served {
            Some((finished, nth)) if finished <= arrival => {
                now = finished;
                done.push((nth as u32, now));
                served = None;
            }
            _ => {
                now = arrival;
                waiting.push((now, to_come));
                to_come += 1;
            }
        }
        if served.is_none() && !waiting.is_empty() {
            let (_, nth) = waiting.remove(spec.choose(now, &waiting, requests, &drive, &mut up));
            let Service { time, .. } = drive.serve(Timestamp::from_ns(now), &requests[nth].1);
            served = Some((now + time.as_ns(), nth));
        }
    }
    done
}

impl Queue {
    /// Which of `waiting`, the oldest first, goes next.
    fn choose(
        &self,
        now: u64,
        waiting: &[(u64, usize)],
        requests: &[(u64, Request)],
        drive: &dyn AccessCost,
        up: &mut bool,
    ) -> usize {
        if self.age_limit_ms > 0 && now - waiting[0].0 >= self.age_limit_ms * MS {
            return 0;
        }
        let request = |at: &usize| &requests[waiting[*at].1].1;
        let all = 0..waiting.len();
        match self.order {
            "fifo" => 0,
            "satf" => all.min_by_key(|at| drive.access(Timestamp::from_ns(now), request(at))).unwrap(),
            _ => {
                let (head, lba) = (drive.position().sector(), |at: &usize| request(at).lba.sector());
                let above = all.clone().filter(|at| lba(at) >= head).min_by_key(lba);
                let below = all.filter(|at| lba(at) < head).max_by_key(lba);
                *up = if *up { above.is_some() } else { below.is_none() };
                if *up { above.unwrap() } else { below.unwrap() }
            }
        }
    }
}

/// The queue of a drive.
#[derive(Clone, Copy, Debug)]
struct Queue {
    name: &'static str,
    depth: usize,
    order: &'static str,
    age_limit_ms: u64,
}

impl Queue {
    fn drive(&self) -> Box<dyn DriveModel> {
        let Queue { name, depth, order, age_limit_ms } = self;
        let spec = format!("{name}:queue_depth={depth},queue_order={order},age_limit={age_limit_ms}ms");
        build(&spec.parse().unwrap()).unwrap().drive
    }
}

fn load() -> impl Strategy<Value = Vec<(u64, Request)>> {
    let one = (0u64..6, 0u64..280_000_000, 1u64..64, any::<bool>());
    prop::collection::vec(one, 1..80).prop_map(|asked| {
        let mut at = 0;
        let request = |(gap, lba, sectors, write)| {
            at += gap * MS;
            (at, request(if write { Operation::Write } else { Operation::Read }, lba, sectors))
        };
        asked.into_iter().map(request).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn queue_chooses_as_a_full_scan_does(
        requests in load(),
        name in prop::sample::select(vec!["cheetah-15k5", "cheetah-9lp", "ibm-18es", "hp-c2490a"]),
        depth in 1usize..20,
        order in prop::sample::select(vec!["fifo", "look", "satf"]),
        age_limit_ms in prop::sample::select(vec![0, 1, 20, 60]),
    ) {
        let queue = Queue { name, depth, order, age_limit_ms };
        let capacity = queue.drive().capacity().count();
        let on_drive = |(at, asked): &(u64, Request)| {
            (*at, request(asked.operation, asked.lba.sector() % (capacity - 64), asked.sectors().count()))
        };
        let requests: Vec<(u64, Request)> = requests.iter().map(on_drive).collect();
        let fast = run(&mut *queue.drive(), &requests);
        let fast: Vec<(u32, u64)> = fast.iter().map(|done| (done.id.0, done.finished.as_ns())).collect();
        prop_assert_eq!(fast, slow(&queue, &requests));
    }
}

fn ids(completions: &[Completion]) -> Vec<u32> {
    completions.iter().map(|completion| completion.id.0).collect()
}

#[test]
fn starving_command_is_served_at_its_age_limit() {
    // One far away, and a stream near the head that never ends.
    let far = (0, request(Operation::Read, 280_000_000, 8));
    let near = |nth: u64| (0, request(Operation::Read, nth * 8 % 4096, 8));
    let mut requests: Vec<(u64, Request)> = (0..200).map(near).collect();
    requests.insert(1, far);
    let place = |age_limit_ms| {
        let done = run(&mut *Queue { name: "cheetah-15k5", depth: 4, order: "satf", age_limit_ms }.drive(), &requests);
        let place = done.iter().position(|done| done.id.0 == 1).unwrap();
        (place, done[place].started.as_ns())
    };
    assert!(place(0).0 > 190);
    let (place, started) = place(30);
    assert!(place < 190 && (30 * MS..50 * MS).contains(&started), "{place} at {started}");
}

#[test]
fn command_that_has_waited_exactly_the_age_limit_goes_first() {
    let requests = [1000, 0, 2000].map(|lba| (0, request(Operation::Read, lba, 8)));
    let order = |age_limit: &str| {
        let spec = format!("fixed:queue_depth=4,queue_order=look,age_limit={age_limit}");
        ids(&run(&mut *build(&spec.parse().unwrap()).unwrap().drive, &requests))
    };
    assert_eq!(order("1000001ns"), [0, 2, 1]);
    assert_eq!(order("1ms"), [0, 1, 2]);
}

#[test]
fn without_a_queue_depth_nothing_is_reordered() {
    let requests: Vec<_> = [0, 200_000_000, 100].map(|lba| (0, request(Operation::Read, lba, 8))).to_vec();
    let order = |spec: &str| ids(&run(&mut *build(&spec.parse().unwrap()).unwrap().drive, &requests));
    assert_eq!(order("cheetah-15k5"), [0, 1, 2]);
    assert_eq!(order("cheetah-15k5:queue_depth=3"), [0, 2, 1]);
    // One command at a time leaves nothing to choose.
    assert_eq!(order("cheetah-15k5:queue_depth=1"), [0, 1, 2]);
    assert_eq!(order("linear:cache=off,queue_depth=3"), [0, 2, 1]);
}

#[test]
fn full_queue_accepts_a_command_after_a_completion() {
    let mut drive = build(&"fixed:queue_depth=3".parse().unwrap()).unwrap().drive;
    let read = request(Operation::Read, 0, 8);
    for id in 0..3 {
        assert!(drive.accepts(&read));
        drive.submit(Timestamp::ZERO, RequestId(id), &read);
    }
    assert!(!drive.accepts(&read));
    let mut done = Vec::new();
    drive.advance(Timestamp::from_ns(MS), &mut done);
    assert!(drive.accepts(&read) && ids(&done) == [0]);
    // Late by services: events in between keep their own times.
    drive.submit(Timestamp::from_ns(6 * MS), RequestId(0), &read);
    assert_eq!(drive.next_event(), Some(Timestamp::from_ns(2 * MS)));
    drive.advance(Timestamp::from_ns(7 * MS), &mut done);
    assert_eq!(done.iter().map(|done| done.finished.as_ns() / MS).collect::<Vec<_>>(), [1, 2, 3, 7]);
    assert_eq!(drive.next_event(), None);
}

#[test]
fn flush_goes_before_waiting_commands() {
    let mut drive = build(&"fixed:write_cache=volatile,queue_depth=8,queue_order=fifo".parse().unwrap()).unwrap().drive;
    let write = request(Operation::Write, 0, 8);
    let requests = [(0, write), (0, write), (0, request(Operation::Flush, 0, 0))];
    assert_eq!(ids(&run(&mut *drive, &requests)), [0, 2, 1]);
}

#[test]
fn only_drives_that_serve_one_at_a_time_have_such_a_queue() {
    for spec in ["nvme-ssd", "qemu-virtio", "raid"] {
        let refused = build(&format!("{spec}:queue_depth=4").parse().unwrap()).err().unwrap().to_string();
        assert!(refused.starts_with(&format!("`{spec}` has no tunable `queue_depth`")), "{refused}");
    }
    let refused = build(&"fixed:queue_order=sstf".parse().unwrap()).err().unwrap().to_string();
    assert_eq!(refused, "fixed:queue_order=`sstf` is not fifo|look|satf");
}

#[test]
fn queue_depth_is_what_a_drive_holds_at_once() {
    for (spec, depth) in [
        ("cheetah-15k4", 1),
        ("cheetah-15k5", 1),
        ("cheetah-15k5:queue_depth=16", 16),
        ("sata-7200", 32),
        ("sata-ssd", 32),
        ("nvme-ssd", 1023),
        ("nvme-ssd:depth=8", 8),
        ("qemu-virtio", 37),
        ("ds8700-raid5-7", 32),
        ("throttle", 1),
    ] {
        assert_eq!(build(&spec.parse().unwrap()).unwrap().queue_depth(), depth, "{spec}");
    }
    // Drives that refuse a request when they are full hold exactly that many.
    for spec in ["sata-7200", "sata-ssd", "nvme-ssd", "qemu-virtio"] {
        let mut built = build(&spec.parse().unwrap()).unwrap();
        let read = |id: u32| request(Operation::Read, u64::from(id) * 8, 8);
        let mut held = 0;
        while built.drive.accepts(&read(held)) {
            built.drive.submit(Timestamp::ZERO, RequestId(held), &read(held));
            held += 1;
        }
        assert_eq!(held, built.queue_depth(), "{spec}");
    }
}

/// Action, request, and time in ms.
type Heard = (&'static str, u32, u64);

/// First come first served, and records the calls.
struct Listener {
    waiting: VecDeque<RequestId>,
    heard: Arc<Mutex<Vec<Heard>>>,
}

impl Listener {
    fn hear(&self, what: &'static str, id: RequestId, now: Timestamp) {
        self.heard.lock().unwrap().push((what, id.0, now.as_ns() / MS));
    }
}

impl Scheduler for Listener {
    fn insert(&mut self, _now: Timestamp, id: RequestId, _request: &Request) {
        self.waiting.push_back(id);
    }
    fn dispatch(&mut self, _now: Timestamp, _room: Capacity, _cost: &dyn AccessCost) -> Dispatch {
        self.waiting.pop_front().map_or(Dispatch::Idle, Dispatch::Send)
    }
    fn issued(&mut self, now: Timestamp, id: RequestId) {
        self.hear("issued", id, now);
    }
    fn completed(&mut self, now: Timestamp, id: RequestId, _request: &Request) {
        self.hear("completed", id, now);
    }
    fn remove(&mut self, _id: RequestId) {}
    fn merged(&mut self, _now: Timestamp, _into: RequestId, _request: &Request) {}
    fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

#[test]
fn scheduler_is_notified_of_every_event_but_those_of_flushes() {
    let heard = Arc::default();
    let listener = Listener { waiting: VecDeque::new(), heard: Arc::clone(&heard) };
    let drive = build(&"fixed:write_cache=volatile".parse().unwrap()).unwrap().drive;
    let mut queue = Queued::new(drive, Box::new(listener), QueueLimits { held: 8, at_drive: 1, age: None });
    let read = (0, request(Operation::Read, 0, 8));
    run(&mut queue, &[read, (0, request(Operation::Flush, 0, 0)), read]);
    let expected = [("issued", 0, 0), ("completed", 0, 1), ("issued", 2, 2), ("completed", 2, 3)];
    assert_eq!(*heard.lock().unwrap(), expected);
}
