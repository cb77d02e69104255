use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::Sectors;
use traces::events::{Category, Event};
use traces::histograms::LineReader;
use traces::results::histograms::OperationInSecond;

use super::*;
use crate::block::output::Output;
use crate::block::store::Rotate;

/// A wall clock that is 1,000.25 s ahead of the events' clock.
const OFFSET_NS: i64 = 1_000_250_000_000;
const MS: u64 = 1_000_000;

fn options(output: &Path, devices: u32) -> CaptureOptions {
    let device = |number| BlockDevice {
        path: PathBuf::from(format!("/dev/d{number}")),
        name: format!("d{number}"),
        number,
        capacity: Sectors::new(8),
        folder: PathBuf::new(),
        sequence: None,
    };
    CaptureOptions {
        histograms: true,
        buffer_kib: 1,
        ..CaptureOptions::new((1..=devices).map(device).collect(), Output::File(output.to_owned()))
    }
}

/// Histograms of devices 1 to `devices` from 1 s of the events' clock on, which is 1,001.25 s of the wall clock.
struct Setup {
    folder: tempfile::TempDir,
    histograms: Histograms,
    attribution: Attribution,
    losses: Losses,
}

impl Setup {
    fn new(devices: u32, change: impl FnOnce(&mut CaptureOptions)) -> Setup {
        let folder = tempfile::tempdir().unwrap();
        let mut options = options(&folder.path().join("x.jsonl"), devices);
        change(&mut options);
        let names = options.devices.iter().map(|device| device.name.clone());
        let attribution = Attribution::new(options.vm_by, names);
        let histograms = Histograms::begin(&options, "trace-pipe-raw", 1_000 * MS, OFFSET_NS).unwrap();
        Setup { folder, histograms, attribution, losses: Losses::default() }
    }

    fn hand(&mut self, events: &[Placed], known: u64) {
        self.histograms.hand(events, known, &self.losses, &mut self.attribution).unwrap();
    }

    /// Ends at that time; the lines of the files that are left.
    fn end(mut self, now: u64) -> (Vec<SecondOfVm>, StoreOutcome) {
        let outcome = self.histograms.end(now, &self.losses, &mut self.attribution);
        let mut lines = Vec::new();
        for file in &outcome.files {
            let mut reader = LineReader::open(file, false).unwrap();
            lines.extend(std::iter::from_fn(|| reader.next_line().unwrap()));
            assert!(!reader.is_cut());
        }
        drop(self.folder);
        (lines, outcome)
    }
}

const READ: Category = Category::READ;
const WRITE: Category = Category::WRITE;

fn event(code: u8, category: Category, device: u32, time: u64, sector: u64) -> Placed {
    let phase = match code {
        action::ISSUE => Category::ISSUE,
        action::COMPLETE => Category::COMPLETE,
        action::REQUEUE => Category::REQUEUE,
        _ => Category::QUEUE,
    };
    let side = if category.contains(Category::PASSTHROUGH) { Category::empty() } else { Category::FS };
    let bytes = if category.contains(Category::FLUSH) { 0 } else { 4096 };
    let action = u32::from(code) | (phase | category | side).in_action();
    Placed { event: Event { time, device, sector, bytes, action, pid: 7, ..Event::default() }, at: 0 }
}

fn issue(time: u64, sector: u64) -> Placed {
    event(action::ISSUE, READ, 1, time, sector)
}

fn complete(time: u64, sector: u64) -> Placed {
    event(action::COMPLETE, READ, 1, time, sector)
}

fn requests(of: &Option<OperationInSecond>) -> u64 {
    of.as_ref().map_or(0, |of| of.requests)
}

#[test]
fn requests_count_in_the_second_of_the_wall_clock_in_which_they_complete() {
    let mut setup = Setup::new(1, |_| {});
    // The wall clock's second ends at 1.75 s of the events' clock.
    let across = [issue(1_100 * MS, 0), issue(1_200 * MS, 8), complete(1_749 * MS, 8), complete(1_750 * MS, 0)];
    setup.hand(&across, 0);
    // Nothing for two seconds, then a part of one.
    setup.hand(&[issue(4_000 * MS, 0), complete(4_000 * MS + 100, 0)], 4_100 * MS);
    let (lines, _) = setup.end(4_250 * MS);
    let starts: Vec<(i64, u64)> = lines.iter().map(|line| (line.start_unix_ns, line.length_ns)).collect();
    let second = |at: i64| at * SECOND_NS as i64;
    assert_eq!(
        starts,
        [(1_001_250_000_000, 750 * MS), (second(1_002), SECOND_NS), (second(1_004), 500 * MS)],
        "idle seconds have no line"
    );
    let reads: Vec<u64> = lines.iter().map(|line| requests(&line.read)).collect();
    assert_eq!(reads, [1, 1, 1]);
    let first = lines[0].read.as_ref().unwrap();
    assert_eq!((first.bytes, first.d2c_sum_ns, first.d2c_max_ns), (4_096, 549 * MS, 549 * MS));
    assert_eq!(first.sectors, [(8, 1)]);
    assert_eq!(lines[1].read.as_ref().unwrap().d2c_sum_ns, 650 * MS);
    assert_eq!(lines[2].read.as_ref().unwrap().d2c_ns, [(100, 1)]);
    // In flight: one for 650 ms and the other for 549 ms of the first second, one at the begin of the next.
    let in_flight: Vec<(u64, u64)> =
        lines.iter().map(|line| (line.device_in_flight_ns, line.device_in_flight_max)).collect();
    assert_eq!(in_flight, [(1_199 * MS, 2), (0, 1), (100, 1)]);
    assert_eq!(lines.iter().map(|line| line.begins).collect::<Vec<_>>(), [true, false, false]);
    assert!(lines.iter().all(|line| line.device == "d1" && line.vm == "d1" && line.unmatched.is_empty()));
}

#[test]
fn each_operation_and_device_is_counted_apart_and_nothing_is_dropped_in_silence() {
    let mut setup = Setup::new(2, |_| {});
    let flush = Category::FLUSH | READ;
    let discard = Category::DISCARD | WRITE;
    let both = |category, device, time, sector| {
        [
            event(action::ISSUE, category, device, time, sector),
            event(action::COMPLETE, category, device, time + 9, sector),
        ]
    };
    let time = 1_100 * MS;
    let mut events =
        [both(READ, 1, time, 0), both(WRITE, 1, time, 0), both(flush, 1, time, 0), both(discard, 2, time, 0)].concat();
    events.sort_by_key(|placed| placed.event.time);
    // A device that is not captured, a completion without issue, and an issue without completion.
    events.extend(both(READ, 3, time + 20, 0));
    events.push(complete(time + 30, 800));
    events.push(event(action::COMPLETE, Category::PASSTHROUGH | READ, 2, time + 31, 0));
    events.push(issue(time + 32, 808));
    // Taken back and issued again: the last issue counts.
    let again = |code, time| event(code, WRITE, 2, time, 16);
    events.extend([again(action::ISSUE, time + 40), again(action::REQUEUE, time + 50)]);
    events.extend([again(action::ISSUE, time + 60), again(action::COMPLETE, time + 67)]);
    setup.losses.lost_events = 3;
    setup.hand(&events, time + 100);
    setup.losses.lost_events = 8;
    setup.losses.skip("malformed event");
    assert_eq!((setup.histograms.requests(), setup.histograms.events(0)), (5, 8));
    let (lines, _) = setup.end(1_200 * MS);
    let [one, two] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!([&one.read, &one.write, &one.flush, &one.discard].map(requests), [1, 1, 1, 0]);
    assert_eq!([&two.read, &two.write, &two.flush, &two.discard].map(requests), [0, 1, 0, 1]);
    assert_eq!(two.write.as_ref().unwrap().d2c_ns, [(7, 1)]);
    assert_eq!((one.flush.as_ref().unwrap().bytes, one.device_in_flight_max), (0, 3));
    let kinds = [("C without D".to_owned(), 1), ("D without C".to_owned(), 1)];
    assert_eq!(one.unmatched, BTreeMap::from(kinds));
    assert_eq!((one.lost_events, one.skipped["malformed event"], one.passed_through), (8, 1, 0));
    assert_eq!((two.lost_events, two.passed_through, two.unmatched.len()), (0, 1, 0));
}

#[test]
fn losses_and_stuck_requests_have_a_line_without_a_request() {
    let mut setup = Setup::new(1, |_| {});
    setup.hand(&[issue(1_000 * MS, 0), complete(1_100 * MS, 800)], 3_000 * MS);
    setup.hand(&[complete(3_000 * MS, 0)], 4_000 * MS);
    setup.losses.lost_events = 2;
    setup.hand(&[], 6_000 * MS);
    let (lines, _) = setup.end(6_000 * MS);
    let found: Vec<(u64, u64, u64)> =
        lines.iter().map(|line| (line.device_in_flight_ns / MS, requests(&line.read), line.lost_events)).collect();
    assert_eq!(found, [(750, 0, 0), (1_000, 0, 0), (250, 1, 0), (0, 0, 2), (0, 0, 0)]);
    // Each is on one line only.
    let unmatched: Vec<u64> = lines.iter().map(|line| line.unmatched.values().sum()).collect();
    assert_eq!(unmatched, [1, 0, 0, 0, 0]);
}

/// Against a slow count of random requests that overlap, also at the same address and in batches of any size.
#[test]
fn random_requests_are_counted_as_a_slow_program_counts_them() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut setup = Setup::new(1, |_| {});
    let mut events = Vec::new();
    let mut expected: BTreeMap<(u64, bool), Vec<u64>> = BTreeMap::new();
    for number in 0..20_000u64 {
        let (from, took) =
            (1_000 * MS + number * 200_000, random.random_range(1..2_000_000_000u64 / (1 + number % 99)));
        // Not twice at once at an address, where the order of completions is not known.
        let (sector, is_write) = (number * 8, random.random_bool(0.3));
        let operation = if is_write { WRITE } else { READ };
        events.push(event(action::ISSUE, operation, 1, from, sector));
        events.push(event(action::COMPLETE, operation, 1, from + took, sector));
        let second = (from + took + 250 * MS) / SECOND_NS;
        expected.entry((second, is_write)).or_default().push(took);
    }
    events.sort_by_key(|placed| placed.event.time);
    let end = events.last().unwrap().event.time + 1;
    for batch in events.chunks(997) {
        setup.hand(batch, batch.last().unwrap().event.time);
    }
    let (lines, _) = setup.end(end);
    let mut found = 0;
    for line in &lines {
        let second = (line.start_unix_ns - 1_000_000_000_000) as u64 / SECOND_NS;
        for (of, is_write) in [(&line.read, false), (&line.write, true)] {
            let Some(times) = expected.get(&(second, is_write)) else { continue };
            let of = of.as_ref().unwrap();
            let mut histogram = traces::histograms::LogHistogram::default();
            times.iter().for_each(|time| histogram.add(*time));
            assert_eq!((of.requests, of.d2c_sum_ns), (times.len() as u64, times.iter().sum()));
            assert_eq!((of.d2c_max_ns, &of.d2c_ns), (*times.iter().max().unwrap(), &histogram.stored()));
            found += of.requests;
        }
    }
    assert_eq!(found, 20_000);
    let in_flight: u64 = lines.iter().map(|line| line.device_in_flight_ns).sum();
    assert_eq!(in_flight, expected.values().flatten().sum::<u64>());
}

#[test]
fn requests_have_the_process_of_their_first_bio() {
    let mut setup = Setup::new(1, |options| options.vm_by = AttributeBy::Process);
    let own = std::process::id();
    let of = |code, pid, time, sector| {
        let placed = event(code, READ, 1, time, sector);
        Placed { event: Event { pid, ..placed.event }, ..placed }
    };
    let time = 1_100 * MS;
    // Issued and completed by kernel threads, or by whatever runs.
    let events = [
        of(action::GET_REQUEST, own, time, 0),
        of(action::GET_REQUEST, 2, time + 1, 8),
        of(action::ISSUE, 2, time + 2, 0),
        of(action::ISSUE, own, time + 3, 8),
        of(action::COMPLETE, 2, time + 5, 0),
        of(action::COMPLETE, own, time + 6, 8),
    ];
    setup.hand(&events, time);
    let comm = std::fs::read_to_string(format!("/proc/{own}/comm")).unwrap();
    let (lines, _) = setup.end(1_200 * MS);
    let named: BTreeMap<&str, u64> =
        lines.iter().map(|line| (line.vm.as_str(), line.read.as_ref().unwrap().d2c_sum_ns)).collect();
    assert_eq!(named, BTreeMap::from([("unattributed", 3), (comm.trim_end(), 3)]));
}

#[test]
fn pieces_are_continued_and_the_oldest_go() {
    let mut setup = Setup::new(1, |options| {
        (options.rotate, options.keep) = (Some(Rotate::Time(Duration::ZERO)), Some(2));
    });
    let folder = setup.folder.path().to_owned();
    for second in 1..6 {
        setup.hand(&[issue(second * SECOND_NS, 0), complete(second * SECOND_NS + 5, 0)], second * SECOND_NS);
    }
    let names = |folder: &Path| {
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(&folder), ["x.0003.jsonl", "x.0004.jsonl"]);
    // Pieces of an earlier capture would be read with those of the next one.
    let again = options(&folder.join("x.jsonl"), 1);
    let refused = HistogramFiles::begin(&again).err().unwrap().to_string();
    assert!(refused.contains("x.0003.jsonl exists; --force"), "{refused}");
    let (lines, outcome) = setup.end(5_500 * MS);
    assert_eq!((lines.len(), outcome.files.len()), (2, 2));
    assert!(outcome.failure.is_none() && outcome.bytes > 1_000);
}

#[test]
fn a_piece_is_as_old_as_its_seconds() {
    // From 1 s of the events' clock on, a second of the wall clock ends at 1.75 s, 2.75 s and so on.
    let mut setup = Setup::new(1, |options| options.rotate = Some(Rotate::Time(Duration::from_secs(1))));
    for at in [1_100, 1_800, 2_800, 3_800, 4_800] {
        setup.hand(&[issue(at * MS, 0), complete(at * MS + 5, 0)], at * MS);
    }
    let (lines, outcome) = setup.end(5_000 * MS);
    // The first second is a part: it shares a piece with the one after it. All others have pieces of their own.
    assert_eq!((lines.len(), outcome.files.len()), (5, 4));
}

#[test]
fn new_capture_replaces_pieces_of_an_earlier_one_if_it_may() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["x.0007.jsonl", "x.jsonl", "other.0001.jsonl"] {
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    let rotate = Some(Rotate::Time(Duration::from_secs(60)));
    let again = CaptureOptions { force: true, rotate, ..options(&folder.path().join("x.jsonl"), 1) };
    HistogramFiles::begin(&again).unwrap();
    let is_there = |name: &str| folder.path().join(name).exists();
    assert!(!is_there("x.0007.jsonl") && !is_there("x.jsonl"));
    assert!(is_there("x.0001.jsonl") && is_there("other.0001.jsonl"));
}

#[test]
fn full_disk_ends_the_writing_once_and_is_said() {
    let options = CaptureOptions { output: Output::File("/dev/full".into()), force: true, ..options(Path::new(""), 1) };
    let mut files = HistogramFiles::begin(&options).unwrap();
    files.write(b"{}\n", 0);
    files.write(b"{}\n", 1);
    assert!(files.has_failed() && files.bytes() == 0);
    let failure = files.end().failure.unwrap();
    assert!(failure.contains("/dev/full: No space left on device"), "{failure}");
}

#[test]
fn device_without_requests_is_refused_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let device = BlockDevice::described_by(folder.path());
    let refused = check_has_requests(std::slice::from_ref(&device)).unwrap_err().to_string();
    assert!(refused.contains("no D2C") && refused.contains("--vm-by process"), "{refused}");
    std::fs::create_dir(folder.path().join("mq")).unwrap();
    assert!(check_has_requests(&[device]).is_ok());
}

#[test]
fn wall_clock_that_is_set_changes_the_next_second_only() {
    let mut setup = Setup::new(1, |_| {});
    let read = |at: u64| [issue(at * MS, 0), complete(at * MS + 5, 0)];
    setup.hand(&read(1_100), 1_100 * MS);
    setup.histograms.set_offset(OFFSET_NS - 600_000_000);
    for at in [1_800, 2_500, 3_500] {
        setup.hand(&read(at), at * MS);
    }
    let (lines, _) = setup.end(3_600 * MS);
    let starts: Vec<(i64, u64)> =
        lines.iter().map(|line| (line.start_unix_ns / MS as i64, line.length_ns / MS)).collect();
    // 1.75 s was 1,002 s, and is 1,001.4 s from then on.
    assert_eq!(starts, [(1_001_250, 750), (1_001_400, 600), (1_002_000, 1_000), (1_003_000, 250)]);
}
