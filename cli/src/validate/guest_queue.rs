//! The replay of a guest's capture under another scheduler, on the drive that was served.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;

use anyhow::{Context, Result};
use capture::lab::Transport;
use replay::sources::{AddressMap, Closed, MergedTraces, TimeWindow, VmTrace};
use replay::stack::StackSpec;
use replay::{Engine, Host, Observer, Served};
use traces::{InMemoryTrace, Layer, Nanos, Operation, Record, Request, RequestId, Sectors, Timestamp, TraceMeta, VmId};

use super::guest_requests::{AtDevice, Done};

/// Most of the kernel's schedulers have two requests for each tag of the device, for at most 128 tags
/// (`blk_mq_init_sched`, Linux 6.1).
const TAGS_MAX: u32 = 128;

/// The queue of a guest's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestQueue {
    /// The most requests that the disk accepts.
    pub depth: u32,
    /// Whether the kernel takes the disk for one that turns (`queue/rotational`).
    pub is_rotational: bool,
    /// The depth that write-back throttling takes the disk to have.
    pub throttled_depth: u32,
    /// Whether that holds back the processes' writes, too. Direct writes pass it.
    pub throttles_processes: bool,
}

impl GuestQueue {
    /// The queue of a disk that accepts `depth` requests. What throttles write-back (`wbt_init`, `block/blk-wbt.c`, Linux
    /// 6.1) knows the depth of a SCSI disk. For others it takes the number of requests that the queue had at first, with
    /// mq-deadline.
    pub fn of(depth: u32, disk: Transport, is_rotational: bool) -> GuestQueue {
        let throttled_depth = match disk {
            Transport::Virtio => held_by_scheduler(depth),
            Transport::VirtioScsi | Transport::Iscsi => depth,
        };
        GuestQueue { depth, is_rotational, throttled_depth, throttles_processes: true }
    }
}

/// The requests that a scheduler's queue holds.
fn held_by_scheduler(depth: u32) -> u32 {
    2 * depth.min(TAGS_MAX)
}

/// The most requests of write-back outstanding in a guest: one waits until the kernel lets it in flight.
///
/// Throttling lets a quarter of its most writes in flight while others read. Twice as many of a guest that reads nothing,
/// and all while programs are held back from writing, are left out. bfq switches throttling off (`bfq_init_queue`), and
/// lets asynchronous requests have half of each word of tags. mq-deadline and kyber let them have three quarters.
fn write_back_depth(scheduler: &str, queue: GuestQueue) -> u32 {
    let held = held_by_scheduler(queue.depth);
    let in_flight = match scheduler {
        "bfq" => held_of_each_word(held, |word| word / 2).min(held),
        "none" => throttled(queue.throttled_depth).min(queue.depth),
        _ => throttled(queue.throttled_depth).min((3 * held / 4).max(1)),
    };
    in_flight + 1
}

/// Of the writes that processes wait for, the share that direct writers issue beside more others than throttling lets in
/// flight. Set by judgement: processes that sync files hardly ever do.
const PAST_THROTTLING_SHARE: f64 = 0.1;

/// Whether the processes' writes of a capture pass the throttling of its `queue`, as direct writes do. Throttling lets half
/// of its most writes in flight if nobody reads, which a capture does not say of each write.
fn pass_throttling(records: &[Record], queue: GuestQueue) -> bool {
    let is_awaited = |record: &&Record| record.request.operation == Operation::Write && record.request.is_sync();
    let times = |record: &Record| Some((record.observed.issued?, record.observed.completed?));
    let mut writes: Vec<(Timestamp, Timestamp)> = records.iter().filter(is_awaited).filter_map(times).collect();
    writes.sort_unstable();
    let most = most_throttled(queue.throttled_depth).div_ceil(2) as usize;
    let mut in_flight: BinaryHeap<Reverse<Timestamp>> = BinaryHeap::new();
    let mut past = 0;
    for &(issued, completed) in &writes {
        while in_flight.peek().is_some_and(|Reverse(done)| *done <= issued) {
            in_flight.pop();
        }
        past += usize::from(in_flight.len() >= most);
        in_flight.push(Reverse(completed));
    }
    past as f64 > PAST_THROTTLING_SHARE * writes.len() as f64
}

/// The most writes that throttling ever lets in flight, as long as reads take less than its target
/// (`rq_depth_calc_max_depth`, `block/blk-rq-qos.c`, Linux 6.1).
fn most_throttled(depth: u32) -> u32 {
    if depth == 1 { 2 } else { (3 * depth / 4).max(1) }
}

/// The writes that throttling lets in flight while others read (`calc_wb_limits`, `block/blk-wbt.c`, Linux 6.1).
fn throttled(depth: u32) -> u32 {
    match most_throttled(depth) {
        0..=2 => 1,
        most => most.div_ceil(4),
    }
}

/// The link between the guest and the drive: what requests and their data take besides the drive's own time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Down and up together.
    pub delay: Nanos,
    /// Bytes per second each link; unlimited if it is zero.
    pub bandwidth: u64,
}

impl Link {
    /// The settings of a layer.
    fn settings(self) -> String {
        let ns = self.delay.as_ns();
        let delays =
            if ns == 0 { String::new() } else { format!(",delay_down={}ns,delay_up={}ns", ns / 2, ns - ns / 2) };
        let data = if self.bandwidth == 0 { String::new() } else { format!(",bandwidth={}", self.bandwidth) };
        format!("{delays}{data}")
    }
}

/// The served drive behind the guest.
#[derive(Clone, Debug)]
pub struct Behind {
    pub drive: String,
    /// The scheduler in front of the drive.
    pub scheduler: String,
    /// Where the VM's disk begins.
    pub place: Sectors,
    pub link: Link,
}

/// The layers between the guest's processes and the drive, as a line.
///
/// `none` holds as many requests as the disk accepts; a process waits for one of them. Before another scheduler there
/// are two for each, and the scheduler chooses the next before the disk accepts it. bfq leaves some of them to reads.
/// Elsewhere throttling holds back the page cache's writes and those of processes that sync.
/// The served drive takes requests in the order of its own scheduler and merges none. Its completed writes may be
/// durable; the guest cannot know and sequences flushes.
pub fn layers(scheduler: &str, queue: GuestQueue, link: Link, lun_scheduler: &str, lun_depth: u32) -> String {
    let depth = queue.depth;
    let write_depth = |most: u32| if most < depth { format!(",write_depth={most}") } else { String::new() };
    let throttled = if queue.throttles_processes { throttled(queue.throttled_depth) } else { u32::MAX };
    let guest = match scheduler {
        "none" => format!("processes=none@depth={depth}{},merge=off,flushes=always", write_depth(throttled)),
        _ => {
            let held = held_by_scheduler(depth);
            let (tunables, writes) = match scheduler {
                "bfq" => (
                    if queue.is_rotational { ":rotational=on" } else { "" },
                    format!(",write_depth={}", writes_held_by_bfq(held)),
                ),
                _ => ("", write_depth(throttled)),
            };
            format!(
                "processes=none@depth={held}{writes},merge=off,flushes=always/guest={scheduler}{tunables}@depth={depth},look_ahead=on"
            )
        }
    };
    let link = link.settings();
    format!("{guest}{link}/drive={lun_scheduler}@depth={lun_depth},merge=off")
}

/// How many of the `held` requests before bfq synchronous writes may take: three quarters of each word of the bitmap of
/// tags (`bfq_update_depths`, Linux 6.1). Background writes may take half of each word; a layer has one limit for both.
fn writes_held_by_bfq(held: u32) -> u32 {
    held_of_each_word(held, |word| word * 3 / 4)
}

/// How many of the `held` requests may be taken if `part` of each word of the bitmap of tags may, at least one. It has at
/// least four words (`sbitmap_calculate_shift`, Linux 6.1).
fn held_of_each_word(held: u32, part: impl Fn(u32) -> u32) -> u32 {
    let mut shift = 6;
    while held >= 4 && shift > 0 && (4 << shift) > held {
        shift -= 1;
    }
    let word = 1_u32 << shift;
    held.div_ceil(word) * part(word).max(1)
}

/// A replay, with all that it completed.
pub struct Replayed {
    pub done: Vec<Done>,
    /// The requests at the drive.
    pub served: Vec<AtDevice>,
    /// When the VM had used up its capture.
    pub used_up: Option<Timestamp>,
}

/// Replays `records`, the requests of a capture, under `scheduler`. Returns the layers as a line, too.
///
/// # Errors
/// The drive or a scheduler cannot be built, or the capture cannot be replayed closed.
pub fn simulate(
    records: &[Record],
    path: &Path,
    scheduler: &str,
    [captured, queue]: [GuestQueue; 2],
    behind: &Behind,
) -> Result<(String, Replayed)> {
    let built = drive_models::build(&behind.drive.parse()?)?;
    let capacity = built.drive.capacity();
    let queue = GuestQueue { throttles_processes: !pass_throttling(records, captured), ..queue };
    let stack = layers(scheduler, queue, behind.link, &behind.scheduler, built.queue_depth());
    let spec = StackSpec::of(&stack)?;
    let target = Target { place: behind.place, capacity };
    let depth = write_back_depth(scheduler, queue);
    let replayed = replay(records, path, target, Some(depth), spec.build(built.drive))
        .with_context(|| format!("{} under {scheduler}", path.display()))?;
    Ok((stack, replayed))
}

/// Where a capture is replayed: on a drive of this capacity, on which the capture's disk begins at this place.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub place: Sectors,
    pub capacity: Sectors,
}

/// Replays `records` on `host`. The guest has at most `write_back_depth` requests of write-back outstanding there; if that
/// is not known, as many as in the capture.
///
/// # Errors
/// The capture cannot be replayed closed.
pub fn replay<H: Host>(
    records: &[Record],
    path: &Path,
    target: Target,
    write_back_depth: Option<u32>,
    host: H,
) -> Result<Replayed> {
    let Target { place, capacity } = target;
    let trace = VmTrace {
        name: path.display().to_string(),
        path: path.to_owned(),
        reader: Box::new(InMemoryTrace::new(TraceMeta::new("parquet", Layer::GuestQueue, "guest"), records.to_vec())),
        map: AddressMap::Wrap { place },
    };
    let workload = MergedTraces::new(vec![trace], TimeWindow::default(), capacity);
    let mut closed = Closed::new(workload);
    if let Some(depth) = write_back_depth {
        closed = closed.with_write_back_depth(&[VmId(0)], depth);
    }
    let ended = Engine::on(closed, host, Seen::default()).run()?;
    let Seen { done, served } = ended.observer;
    Ok(Replayed { done, served, used_up: ended.source.used_up().flatten().next() })
}

/// Keeps what completes.
#[derive(Default)]
struct Seen {
    done: Vec<Done>,
    served: Vec<AtDevice>,
}

impl Observer for Seen {
    fn completed(&mut self, now: Timestamp, _id: RequestId, request: &Request) {
        self.done.push(Done { request: *request, response: now.since(request.arrival) });
    }

    fn served(&mut self, served: &Served) {
        self.served.push(AtDevice { bytes: served.request.sectors().bytes(), issued: served.issued });
    }
}

#[cfg(test)]
mod tests {
    use traces::{Flags, Lba, Observed, StreamId};

    use super::*;

    #[test]
    fn layers_hold_what_the_kernel_holds() {
        let turning = |depth| GuestQueue::of(depth, Transport::Virtio, true);
        assert_eq!(
            layers("none", turning(4), Link::default(), "fifo", 1),
            "processes=none@depth=4,write_depth=2,merge=off,flushes=always/drive=fifo@depth=1,merge=off"
        );
        assert_eq!(
            layers("kyber", turning(200), Link { delay: Nanos::from_us(5), bandwidth: 125_000_000 }, "cats", 32),
            "processes=none@depth=256,write_depth=48,merge=off,flushes=always/guest=kyber@depth=200,look_ahead=on,delay_down=2500ns,delay_up=2500ns,bandwidth=125000000/drive=cats@depth=32,merge=off"
        );
        let direct = GuestQueue { throttles_processes: false, ..turning(4) };
        let passed = layers("mq-deadline", direct, Link::default(), "fifo", 1);
        assert!(passed.starts_with("processes=none@depth=8,merge=off"), "{passed}");
        // 8 tags are four words of two, 64 four words of sixteen, 3 one word.
        let bfq = layers("bfq", turning(4), Link::default(), "fifo", 1);
        assert!(
            bfq.starts_with(
                "processes=none@depth=8,write_depth=4,merge=off,flushes=always/guest=bfq:rotational=on@depth=4"
            ),
            "{bfq}"
        );
        assert_eq!([64, 256, 3].map(writes_held_by_bfq), [48, 192, 48]);
        assert!(
            layers("bfq", GuestQueue::of(4, Transport::Virtio, false), Link::default(), "fifo", 1)
                .contains("/guest=bfq@depth=4")
        );
        for scheduler in ["none", "mq-deadline", "bfq", "kyber"] {
            StackSpec::of(&layers(scheduler, turning(8), Link::default(), "fifo", 1)).unwrap();
        }
    }

    #[test]
    fn write_back_has_the_depth_that_guests_were_seen_with() {
        // As the suite's captures have it for most of their writes: disk, array, SSD, slow disk. Then a disk with bfq.
        let of = |depth, disk, scheduler| write_back_depth(scheduler, GuestQueue::of(depth, disk, true));
        assert_eq!(of(8, Transport::Virtio, "mq-deadline"), 4);
        assert_eq!(of(8, Transport::Iscsi, "none"), 3);
        assert_eq!(of(32, Transport::Virtio, "none"), 13);
        assert_eq!(of(1, Transport::Virtio, "bfq"), 3);
        assert_eq!(of(4, Transport::Virtio, "bfq"), 5);
        assert_eq!([1, 2, 3, 4, 1024].map(throttled), [1, 1, 1, 1, 192]);
        assert_eq!([of(1, Transport::Iscsi, "none"), of(2, Transport::Virtio, "kyber")], [2, 2]);
    }

    #[test]
    fn writes_pass_throttling_if_one_in_ten_is_issued_beside_more() {
        // Pairs of writes of 10 ms each, and now and then five at once. Throttling lets three in flight.
        let queue = GuestQueue::of(4, Transport::Virtio, true);
        let write = |at_ms: u64, flags: Flags| {
            let at = Timestamp::from_ns(at_ms * 1_000_000);
            let mut request = Request::new(at, Operation::Write, Lba::new(at_ms * 100), Sectors::new(8));
            request.flags = flags;
            let completed = Some(at.saturating_add(Nanos::from_ms(10)));
            Record { request, observed: Observed { inserted: None, issued: Some(at), completed, error: 0 } }
        };
        let with = |fives: u64, flags: Flags| -> Vec<Record> {
            let pair = |n: u64| [write(n * 20, flags), write(n * 20 + 10, flags)];
            let five = |n: u64| (0..5).map(move |k| write(10_000 + n * 20 + k, flags));
            (0..50).flat_map(pair).chain((0..fives).flat_map(five)).collect()
        };
        let pass = |fives: u64, flags: Flags| pass_throttling(&with(fives, flags), queue);
        // Two of five are beside three or more: 12 of 130, and 16 of 140.
        assert!(!pass(6, Flags::SYNC) && pass(8, Flags::SYNC));
        assert!(!pass(8, Flags::META), "nobody waits for these");
        assert!(!pass_throttling(&[], queue));
    }

    /// A process that reads one place after another, each `response_ms` long, without a pause.
    fn reads(stream: u32, count: u64, response_ms: u64) -> Vec<Record> {
        let read = |number: u64| {
            let arrival = Timestamp::from_ns(number * response_ms * 1_000_000);
            let lba = Lba::new(u64::from(stream) * 1_000_000 + number * 50_000 % 900_000);
            let mut request = Request::new(arrival, Operation::Read, lba, Sectors::new(8));
            (request.stream, request.flags) = (StreamId(stream), Flags::SYNC);
            let completed = Some(arrival.saturating_add(Nanos::from_ms(response_ms)));
            Record { request, observed: Observed { inserted: None, issued: Some(arrival), completed, error: 0 } }
        };
        (0..count).map(read).collect()
    }

    #[test]
    fn a_stream_without_further_requests_ends_the_measured_time() {
        // One process ends early in the capture itself, the other is much faster in the simulation.
        let mut records = reads(1, 10, 5);
        records.extend(reads(2, 100, 40));
        records.sort_by_key(|record| record.request.arrival);
        let behind = Behind {
            drive: "cheetah-15k4".to_owned(),
            scheduler: "fifo".to_owned(),
            place: Sectors::new(1 << 20),
            link: Link::default(),
        };
        let queue = GuestQueue::of(4, Transport::Virtio, true);
        let (_, found) = simulate(&records, Path::new("x"), "none", [queue; 2], &behind).unwrap();
        assert_eq!(found.done.len(), 110);
        let last =
            found.done.iter().filter(|done| done.request.stream == StreamId(2)).map(|done| done.request.arrival).max();
        assert_eq!(found.used_up, last);
        assert!(last.unwrap() < Timestamp::from_ns(2_000_000_000), "{last:?}");
        // The disk lies at its place of the drive.
        assert!(found.done.iter().all(|done| done.request.lba >= Lba::new(1 << 20)));
    }
}
