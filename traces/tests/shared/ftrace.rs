//! The choices of real schedulers, against a slow reading of the same lines.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use iocast_traces::formats;
use iocast_traces::trace::{ArrivalPoint, ReadOptions};
use iocast_traces::{Losses, Priority, Timestamp};

/// The captures, all of one device and with merging off.
fn captures() -> Vec<PathBuf> {
    let folder = crate::root().join("kernel-decisions");
    assert!(folder.is_dir(), "IOCAST_SHARED_DATA: there is no folder {}", folder.display());
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut captures: Vec<PathBuf> = entries.filter(|path| path.to_str().unwrap().ends_with(".txt.gz")).collect();
    captures.sort();
    assert!(captures.len() >= 16, "only {} captures", captures.len());
    captures
}

/// The times of a bio, in microseconds, with its process, CPU, flags of writing and priority.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    sector: u64,
    sectors: u64,
    writes: bool,
    pid: u32,
    cpu: u16,
    queued: u64,
    inserted: Option<u64>,
    issued: Option<u64>,
    completed: Option<u64>,
    priority: Option<(u8, u8)>,
}

/// Reads the lines word by word and follows each bio by its sector.
fn slowly(path: &Path) -> Vec<Seen> {
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let mut all: Vec<Seen> = Vec::new();
    let mut outstanding: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        // Names of tasks may hold spaces.
        let column = words.iter().position(|word| word.len() == 5 && word.starts_with("[0")).unwrap();
        let [task, cpu, _, time, name, _device, rwbs] = words[column - 1..column + 6] else { panic!("{line}") };
        let (seconds, micros) = time.trim_end_matches(':').split_once('.').unwrap();
        let us = seconds.parse::<u64>().unwrap() * 1_000_000 + micros.parse::<u64>().unwrap();
        let plus = words.iter().position(|word| *word == "+").unwrap();
        let (sector, sectors) = (words[plus - 1].parse().unwrap(), words[plus + 1].parse().unwrap());
        let classes = ["none", "rt", "be", "idle"];
        let priority = words[plus + 2].split_once(",0,").map(|(class, level)| {
            (classes.iter().position(|name| *name == class).unwrap() as u8, level.parse().unwrap())
        });
        let waiting = outstanding.entry(sector).or_default();
        // The oldest there that has not come so far.
        let mut note = |done: fn(&mut Seen) -> &mut Option<u64>| {
            let number = *waiting.iter().find(|number| done(&mut all[**number]).is_none()).unwrap();
            *done(&mut all[number]) = Some(us);
            all[number].priority = all[number].priority.or(priority);
        };
        match name {
            "block_bio_queue:" => {
                let pid = task.rsplit_once('-').unwrap().1.parse().unwrap();
                let cpu = cpu.trim_matches(['[', ']']).parse().unwrap();
                let writes = rwbs.contains('W');
                waiting.push(all.len());
                all.push(Seen { sector, sectors, writes, pid, cpu, queued: us, ..Seen::default() });
            }
            "block_rq_insert:" => note(|seen| &mut seen.inserted),
            "block_rq_issue:" => note(|seen| &mut seen.issued),
            "block_rq_complete:" => {
                note(|seen| &mut seen.completed);
                waiting.retain(|number| all[*number].completed.is_none());
            }
            "block_getrq:" => {}
            other => panic!("{other}"),
        }
    }
    all
}

#[test]
fn every_request_is_that_of_a_slow_reading() {
    let mut compared = 0;
    for path in captures() {
        let expected = slowly(&path);
        assert_eq!(formats::recognise(&path, &ReadOptions::default()).unwrap().name, "ftrace");
        let mut reader = formats::open(&path, &ReadOptions::default()).unwrap();
        let zero = expected[0].queued;
        for expected in &expected {
            let record = reader.next().unwrap().unwrap();
            let us = |time: Option<Timestamp>| time.map(|time| zero + time.as_ns() / 1_000);
            let request = &record.request;
            let read = Seen {
                sector: request.lba.sector(),
                sectors: request.sectors().count(),
                writes: request.operation == iocast_traces::Operation::Write,
                pid: request.stream.0,
                cpu: request.cpu,
                queued: us(Some(request.arrival)).unwrap(),
                inserted: us(record.observed.inserted),
                issued: us(record.observed.issued),
                completed: us(record.observed.completed),
                priority: Some(request.priority)
                    .filter(|priority| *priority != Priority::NONE)
                    .map(|priority| (priority.class(), priority.level())),
            };
            assert_eq!(read, *expected, "{}", path.display());
            compared += 1;
        }
        assert_eq!(reader.next().unwrap(), None);
        let unfinished = expected.iter().filter(|seen| seen.completed.is_none()).count();
        assert_eq!(reader.losses().total(), 0);
        assert_eq!(reader.losses().unmatched.values().sum::<u64>() as usize, unfinished, "{}", path.display());
    }
    // A test that compares nothing would pass as well.
    assert!(compared > 60_000, "only {compared} requests");
}

#[test]
fn every_issue_is_an_arrival_if_that_is_asked_for() {
    for path in captures() {
        let issued = slowly(&path).iter().filter(|seen| seen.issued.is_some()).count();
        let options = ReadOptions { arrivals: ArrivalPoint::Issued, ..ReadOptions::default() };
        let mut reader = formats::open(&path, &options).unwrap();
        let mut records = 0;
        while reader.next().unwrap().is_some() {
            records += 1;
        }
        assert_eq!(records, issued, "{}", path.display());
        assert_eq!(Losses { unmatched: BTreeMap::new(), ..reader.losses().clone() }, Losses::default());
    }
}
