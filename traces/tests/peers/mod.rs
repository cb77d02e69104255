//! Statistics of a capture against blkparse's summary and btt's report of the same file. Where the
//! old programs count something else, the difference is computed here, from the passages of the
//! arrivals, and named.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use iocast_traces::events::{Event, Passage, Watch, action};
use iocast_traces::formats::blktrace;
use iocast_traces::results::TraceProvenance;
use iocast_traces::results::statistics::{EventFigures, SpanFigures, TraceStatistics};
use iocast_traces::statistics::{Distribution, Statistics};
use iocast_traces::trace::ReadOptions;
use iocast_traces::{Nanos, Operation, Timestamp};

/// A statistic that also keeps the data for the adjustments.
struct Both {
    statistics: Statistics,
    passages: Vec<Passage>,
    /// Sector and time of front merges.
    front_merges: BTreeSet<(u64, u64)>,
    /// Start and end of each request with data issued to the device, and of each arrival.
    issued: Vec<(u64, u64)>,
    queued: Vec<(u64, u64)>,
    /// Time, start and end of each completion with a length.
    completed: Vec<(Timestamp, u64, u64)>,
    /// Time and sector of each request allocated for data.
    got: Vec<(Timestamp, u64)>,
    /// The same of requests given to the scheduler.
    inserted: Vec<(Timestamp, u64)>,
}

impl Watch for Both {
    fn event(&mut self, now: Timestamp, event: &Event) {
        self.statistics.event(now, event);
        if event.code() == action::FRONT_MERGE {
            self.front_merges.insert((event.sector, now.as_ns()));
        }
        if event.bytes > 0 && event.code() == action::ISSUE {
            self.issued.push((event.sector, event.end()));
        }
        if event.bytes > 0 && event.code() == action::QUEUE {
            self.queued.push((event.sector, event.end()));
        }
        if event.bytes > 0 && event.code() == action::GET_REQUEST {
            self.got.push((now, event.sector));
        }
        if event.bytes > 0 && event.code() == action::INSERT {
            self.inserted.push((now, event.sector));
        }
        if event.bytes > 0 && event.code() == action::COMPLETE {
            self.completed.push((now, event.sector, event.end()));
        }
    }

    fn queued(&mut self, now: Timestamp, request: &iocast_traces::Request) {
        self.statistics.queued(now, request);
    }

    fn issued(&mut self, request: &iocast_traces::events::DeviceRequest) {
        self.statistics.issued(request);
    }

    fn taken_back(&mut self, now: Timestamp, operation: Operation) {
        self.statistics.taken_back(now, operation);
    }

    fn completed(&mut self, now: Timestamp, request: &iocast_traces::events::DeviceRequest) {
        self.statistics.completed(now, request);
    }

    fn finished(&mut self, now: Timestamp, request: &iocast_traces::Request) {
        self.statistics.finished(now, request);
    }

    fn given_up(&mut self, now: Timestamp, operation: Operation) {
        self.statistics.given_up(now, operation);
    }

    fn passed(&mut self, passage: &Passage) {
        self.statistics.passed(passage);
        self.passages.push(*passage);
    }
}

/// One capture, measured by us and unpacked where the old programs find it.
pub(crate) struct Capture {
    name: String,
    folder: tempfile::TempDir,
    both: Both,
    pub(crate) figures: TraceStatistics,
}

/// One field: its name, ours, theirs, and why they differ if they do.
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) ours: String,
    pub(crate) adjusted: String,
    pub(crate) theirs: String,
    pub(crate) reason: &'static str,
}

fn run(program: &str, arguments: &[&str], folder: &Path) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap_or_else(|error| panic!("{program} (Debian package blktrace) must be installed: {error}"));
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl Capture {
    /// Measures the capture in this (compressed) file.
    pub(crate) fn measure(path: &Path) -> Capture {
        let name = path.file_name().unwrap().to_string_lossy().split(".blktrace").next().unwrap().to_owned();
        let folder = tempfile::tempdir().unwrap();
        let plain: PathBuf = folder.path().join("capture.blktrace.0");
        let mut input = iocast_traces::input::Input::open(path).unwrap();
        std::io::copy(&mut input, &mut std::fs::File::create(&plain).unwrap()).unwrap();
        let open = blktrace::FORMAT.open_events.expect("blktrace holds events");
        let mut reader = open(&plain, &ReadOptions::default()).unwrap();
        let mut both = Both {
            statistics: Statistics::new(reader.meta(), None),
            passages: Vec::new(),
            front_merges: BTreeSet::new(),
            issued: Vec::new(),
            queued: Vec::new(),
            completed: Vec::new(),
            got: Vec::new(),
            inserted: Vec::new(),
        };
        while reader.next_watched(&mut both).unwrap().is_some() {}
        let of = TraceProvenance::of(reader.meta(), both.passages.len() as u64);
        let trace = TraceProvenance { losses: reader.losses().clone(), ..of };
        let figures = both.statistics.figures("test", trace, reader.meta());
        Capture { name, folder, both, figures }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Every figure of blkparse's summary.
    pub(crate) fn against_blkparse(&self) -> Vec<Field> {
        let text = run("blkparse", &["-i", "capture", "-f", ""], self.folder.path());
        let summary = text.split("CPU0 (capture):").nth(1).expect("a summary of the one CPU");
        // Columns of "name: count, NKiB"; the names are unique.
        let theirs = |name: &str| -> (u64, u64) {
            let rest = summary.split(&format!("{name}:")).nth(1).unwrap_or_else(|| panic!("blkparse prints no {name}"));
            let mut numbers = rest.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
            let count = numbers.next().unwrap().parse().unwrap();
            (count, numbers.next().unwrap().parse().unwrap())
        };
        let events = self.figures.events.as_ref().unwrap();
        let of = |kind: &str| events.get(kind).copied().unwrap_or_default();
        let reads = |of: EventFigures| (of.read.events, of.empty_read.events, of.read.bytes);
        let writes = |of: EventFigures| {
            (of.write.events, of.empty_write.events + of.discard.events, of.write.bytes + of.discard.bytes)
        };
        let merges = {
            let (back, front) = (of("back_merge"), of("front_merge"));
            (reads(back), reads(front), writes(back), writes(front))
        };
        let sum = |a: (u64, u64, u64), b: (u64, u64, u64)| (a.0 + b.0, a.1 + b.1, a.2 + b.2);
        let rows = [
            ("Reads Queued", reads(of("queue"))),
            ("Writes Queued", writes(of("queue"))),
            ("Read Dispatches", reads(of("issue"))),
            ("Write Dispatches", writes(of("issue"))),
            ("Reads Completed", reads(of("complete"))),
            ("Writes Completed", writes(of("complete"))),
            ("Read Merges", sum(merges.0, merges.1)),
            ("Write Merges", sum(merges.2, merges.3)),
        ];
        let mut fields = Vec::new();
        for (name, (ours, more, bytes)) in rows {
            let (count, kib) = theirs(name);
            fields.push(Field {
                name: name.to_owned(),
                ours: ours.to_string(),
                adjusted: (ours + more).to_string(),
                theirs: count.to_string(),
                reason: "it counts events without data, and discards, by the direction bit",
            });
            fields.push(Field {
                name: format!("{name}, KiB"),
                ours: (bytes >> 10).to_string(),
                adjusted: (bytes >> 10).to_string(),
                theirs: kib.to_string(),
                reason: "",
            });
        }
        let single = |name: &str, kind: &str| {
            let of = of(kind);
            let ours = of.read.events + of.write.events + of.empty_read.events + of.empty_write.events;
            let rest = summary.split(&format!("{name}:")).nth(1).unwrap().trim_start();
            let theirs: String = rest.chars().take_while(char::is_ascii_digit).collect();
            Field { name: name.to_owned(), ours: ours.to_string(), adjusted: ours.to_string(), theirs, reason: "" }
        };
        fields.extend([single("IO unplugs", "unplug"), single("Timer unplugs", "unplug_timer")]);
        let total = text.lines().find(|line| line.starts_with("Events (capture)")).expect("a total of events");
        let theirs = total.split_whitespace().nth(2).unwrap().to_owned();
        let ours: u64 = events
            .values()
            .flat_map(|of| [of.read, of.write, of.discard, of.empty_read, of.empty_write, of.passthrough])
            .map(|tally| tally.events)
            .sum();
        let (ours, adjusted) = (ours.to_string(), ours.to_string());
        fields.push(Field { name: "Events".to_owned(), ours, adjusted, theirs, reason: "" });
        fields
    }

    /// Every stage, and counts of btt's report.
    pub(crate) fn against_btt(&self) -> Vec<Field> {
        run("blkparse", &["-i", "capture", "-d", "dump", "-O"], self.folder.path());
        let text = run("btt", &["-i", "dump"], self.folder.path());
        let mut fields = Vec::new();
        for (stage, reason, adjusted) in self.as_btt_counts() {
            let upper = stage.to_uppercase();
            // It takes majors 9, 253 and 254 for device mapper, and virtio disks have 254.
            let line = text.lines().find(|line| {
                let first = line.split_whitespace().next();
                first == Some(&upper) || first == Some(&format!("{upper}dm"))
            });
            let theirs: Vec<&str> = line.unwrap_or_default().split_whitespace().skip(1).collect();
            let ours = self.figures.stages.get(stage).map(|of| of.all.clone()).unwrap_or_default();
            fields.extend(stage_fields(stage, reason, &ours, &adjusted, &theirs));
        }
        let mut info = text.lines().skip_while(|line| !line.contains("Device Merge Information"));
        let counts: Vec<&str> = info.nth(4).unwrap().split('|').nth(1).unwrap().split_whitespace().collect();
        let (arrived, issued) = (self.data(&self.figures.arrivals), self.data(&self.figures.device_requests));
        fields.push(plain("Q", arrived, counts[0], ""));
        fields.push(plain("D", issued, counts[1], ""));
        for (what, requests) in [("Q2Q", &self.both.queued), ("D2D", &self.both.issued)] {
            let mut info = text.lines().skip_while(|line| !line.contains(&format!("{what} Seek Information")));
            let line = info.nth(4).unwrap().split('|').nth(1).unwrap();
            let theirs: Vec<&str> = line.split_whitespace().collect();
            let at = if what == "Q2Q" { "at_queue" } else { "at_issue" };
            let ours = &self.figures.seeks[at].all;
            fields.push(Field {
                name: format!("{what} seeks"),
                ours: ours.count.to_string(),
                adjusted: (ours.count + 1).to_string(),
                theirs: theirs[0].to_owned(),
                reason: "it counts the first request as a seek from sector 0",
            });
            fields.push(Field {
                name: format!("{what} seek mean"),
                ours: format!("{:.1}", ours.mean_sectors.unwrap_or(0.0)),
                adjusted: format!("{:.1}", seek_mean_as_btt(requests)),
                theirs: theirs[1].to_owned(),
                reason: "it measures backwards from start to start, and an overlap as no seek",
            });
        }
        fields
    }

    /// Requests with data.
    fn data(&self, requests: &BTreeMap<String, iocast_traces::results::statistics::RequestFigures>) -> u64 {
        requests.iter().filter(|(name, _)| *name != "flush").map(|(_, of)| of.requests).sum()
    }

    /// Our passages, counted by btt's rules: stage, reason of the difference, distribution.
    fn as_btt_counts(&self) -> Vec<(&'static str, &'static str, SpanFigures)> {
        const FLUSHES: &str = "it leaves out what carries no data, and the flush after a write";
        const SPLITS: &str = "it leaves out what carries no data and the flush after a write, and loses split bios";
        const FRONT: &str = "it takes the bio at a request's first sector for the one that was inserted";
        const PARTS: &str = "it counts both parts of a split bio up to their insertion, and neither after it";
        let names = ["q2q", "q2g", "q2m", "g2i", "i2d", "m2d", "d2c", "q2c"];
        let mut stages: BTreeMap<&str, Distribution> =
            names.iter().map(|name| (*name, Distribution::default())).collect();
        let mut add = |stage: &str, from: Option<Timestamp>, to: Option<Timestamp>| {
            if let (Some(from), Some(to)) = (from, to) {
                // It prints 1 ns for a span of none.
                stages.get_mut(stage).unwrap().add(to.since(from).max(Nanos::from_ns(1)));
            }
        };
        let leaders = self.leaders();
        let mut last = None;
        let data = self.both.passages.iter().enumerate();
        for (at, passage) in data.filter(|(_, passage)| passage.record.request.operation != Operation::Flush) {
            let (arrival, observed) = (Some(passage.record.request.arrival), passage.record.observed);
            add("q2q", last, arrival);
            last = arrival;
            add("q2m", arrival, passage.merged);
            if passage.split {
                let gots: Vec<Timestamp> = of_parts(&self.both.got, passage).collect();
                gots.iter().for_each(|got| add("q2g", arrival, Some(*got)));
                for inserted in of_parts(&self.both.inserted, passage) {
                    let latest = gots.iter().copied().filter(|got| *got <= inserted).max();
                    add("g2i", latest, Some(inserted));
                }
                continue;
            }
            add("q2g", arrival, passage.got);
            if leaders.contains(&at) {
                add("g2i", passage.got, observed.inserted);
                add("i2d", observed.inserted, observed.issued);
            } else {
                add("m2d", passage.merged, observed.issued);
            }
            let completed = self.data_completed(passage);
            add("d2c", observed.issued, completed);
            add("q2c", arrival, completed);
        }
        let reason = |stage: &str| match stage {
            "q2q" | "q2m" => "",
            "q2g" | "g2i" | "i2d" if self.figures.merges.splits > 0 => PARTS,
            "g2i" | "i2d" | "m2d" => FRONT,
            _ if self.figures.merges.splits > 0 => SPLITS,
            "q2g" => "",
            _ => FLUSHES,
        };
        names.into_iter().map(|name| (name, reason(name), stages[name].figures())).collect()
    }

    /// When the data of an arrival was written or read; a flush may follow.
    fn data_completed(&self, passage: &Passage) -> Option<Timestamp> {
        let (issued, lba) = (passage.record.observed.issued?, passage.record.request.lba.sector());
        let from = self.both.completed.partition_point(|(time, ..)| *time < issued);
        let mut later = self.both.completed[from..].iter();
        later.find(|(_, start, end)| (*start..*end).contains(&lba)).map(|(time, ..)| *time)
    }

    /// Of each request that was inserted, the arrival at its first sector then.
    fn leaders(&self) -> BTreeSet<usize> {
        let mut first: BTreeMap<(Timestamp, Option<Timestamp>), usize> = BTreeMap::new();
        for (at, passage) in self.both.passages.iter().enumerate() {
            let Some(inserted) = passage.record.observed.inserted else { continue };
            // Later merges were not in the request that was inserted.
            if passage.merged.is_some_and(|merged| merged >= inserted) {
                continue;
            }
            let leader = first.entry((inserted, passage.record.observed.issued)).or_insert(at);
            if passage.record.request.lba < self.both.passages[*leader].record.request.lba {
                *leader = at;
            }
        }
        first.into_values().collect()
    }
}

/// The events at the parts of a split arrival, from it to its completion.
fn of_parts(events: &[(Timestamp, u64)], passage: &Passage) -> impl Iterator<Item = Timestamp> {
    let request = passage.record.request;
    let from = events.partition_point(|(time, _)| *time < request.arrival);
    let until = passage.record.observed.completed.unwrap_or(Timestamp::MAX);
    let later = events[from..].iter().take_while(move |(time, _)| *time < until);
    let within = request.lba.sector()..request.end().sector();
    later.filter(move |(_, sector)| within.contains(sector)).map(|(time, _)| *time)
}

fn plain(name: &str, ours: u64, theirs: &str, reason: &'static str) -> Field {
    Field {
        name: name.to_owned(),
        ours: ours.to_string(),
        adjusted: ours.to_string(),
        theirs: theirs.to_owned(),
        reason,
    }
}

/// Count, least, mean and largest of a stage, as btt prints them: seconds to the ns.
fn stage_fields(
    stage: &str,
    reason: &'static str,
    ours: &SpanFigures,
    adjusted: &SpanFigures,
    theirs: &[&str],
) -> Vec<Field> {
    let seconds = |ns: Option<f64>| format!("{:.9}", ns.unwrap_or(0.0) / 1e9);
    let whole = |ns: Option<u64>| seconds(ns.map(|ns| ns as f64));
    let columns = |of: &SpanFigures| {
        [whole(of.moments.min_ns), seconds(of.moments.mean_ns), whole(of.moments.max_ns), of.count.to_string()]
    };
    let (ours, adjusted) = (columns(ours), columns(adjusted));
    let names = ["min", "mean", "max", "n"];
    (0..4)
        .map(|column| Field {
            name: format!("{} {}", stage.to_uppercase(), names[column]),
            ours: ours[column].clone(),
            adjusted: adjusted[column].clone(),
            theirs: theirs.get(column).copied().unwrap_or(if column == 3 { "0" } else { "0.000000000" }).to_owned(),
            reason,
        })
        .collect()
}

/// btt's mean distance.
fn seek_mean_as_btt(requests: &[(u64, u64)]) -> f64 {
    let (mut start, mut end, mut sum) = (0u64, 0u64, 0u128);
    for &(from, to) in requests {
        let overlap = (start <= from && from <= end) || (start <= to && to <= end);
        let distance = match () {
            () if overlap => 0,
            () if from > end => from - end,
            () => start - from,
        };
        sum += u128::from(distance);
        (start, end) = (from, to);
    }
    sum as f64 / requests.len().max(1) as f64
}

/// Asserts that every field is the same after its adjustment, and that one is adjusted only where a
/// reason is named.
pub(crate) fn assert_same(capture: &Capture, fields: &[Field]) {
    for Field { name, ours, adjusted, theirs, reason } in fields {
        let place = format!("{}, {name}", capture.name());
        assert_eq!(adjusted, theirs, "{place}: ours {ours}");
        assert!(ours == adjusted || !reason.is_empty(), "{place}: {ours} became {adjusted} without a reason");
    }
}
