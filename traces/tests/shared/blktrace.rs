//! The lab's captures against blkparse, which is run on each, and against a slow pairing of its

//! text.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use iocast_traces::formats;
use iocast_traces::trace::{ArrivalPoint, ReadOptions};
use iocast_traces::{Losses, Operation, Record, TraceMeta};

/// Name, Q, X and of them all that were counted when the captures were taken.
const CAPTURES: [(&str, usize, usize); 5] = [
    ("virtio-mail", 32_100, 0),
    ("virtio-web", 27_047, 0),
    ("virtio-file", 21_165, 32),
    ("iscsi-mail-alone", 13_300, 0),
    ("iscsi-web-alone", 5_123, 0),
];

/// One event as blkparse prints it.
#[derive(Clone, Debug)]
struct Line {
    ns: u64,
    pid: u32,
    action: char,
    rwbs: String,
    sector: u64,
    /// `None` where blkparse prints no length.
    sectors: Option<u64>,
}

fn folder() -> PathBuf {
    let lab = crate::root().join("lab");
    assert!(lab.is_dir(), "IOCAST_SHARED_DATA: there is no folder {}", lab.display());
    lab
}

fn capture(name: &str) -> PathBuf {
    folder().join(format!("{name}.blktrace.0.gz"))
}

/// The output of blkparse for a capture.
fn blkparse(name: &str) -> Vec<Line> {
    let scratch = tempfile::tempdir().unwrap();
    let plain = scratch.path().join("capture.blktrace.0");
    let mut input = iocast_traces::input::Input::open(&capture(name)).unwrap();
    std::io::copy(&mut input, &mut std::fs::File::create(&plain).unwrap()).unwrap();
    let output = Command::new("blkparse")
        .args(["-q", "-f", "%T.%9t %p %a %d %S %n\n", "-i"])
        .arg(scratch.path().join("capture"))
        .output()
        .expect("blkparse (Debian package blktrace) must be installed");
    assert!(output.status.success(), "blkparse: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Line> = text.lines().filter_map(parse).collect();
    assert!(!lines.is_empty(), "blkparse printed no event");
    lines
}

fn parse(line: &str) -> Option<Line> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (seconds, ns) = fields.first()?.split_once('.')?;
    let ns = seconds.parse::<u64>().ok()? * 1_000_000_000 + ns.parse::<u64>().ok()?;
    let mut actions = fields[2].chars();
    let (action, None) = (actions.next()?, actions.next()) else { return None };
    let sectors: u64 = fields[5].parse().unwrap();
    Some(Line {
        ns,
        pid: fields[1].parse().unwrap(),
        action,
        rwbs: fields[3].to_owned(),
        sector: fields[4].parse().unwrap(),
        sectors: (sectors > 0).then_some(sectors),
    })
}

fn read(name: &str, arrivals: ArrivalPoint) -> (Vec<Record>, Losses, TraceMeta) {
    let options = ReadOptions { arrivals, ..ReadOptions::default() };
    let mut reader = formats::open(&capture(name), &options).unwrap();
    let mut records = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        records.push(record);
    }
    (records, reader.losses().clone(), reader.meta().clone())
}

fn operation(line: &Line) -> Operation {
    match line.sectors {
        None => Operation::Flush,
        Some(_) if line.rwbs.contains('D') => Operation::Discard,
        Some(_) if line.rwbs.contains('W') => Operation::Write,
        Some(_) => Operation::Read,
    }
}

/// Each event of arrival against each record, in order.
fn assert_arrivals(name: &str, arrivals: ArrivalPoint, action: char) -> usize {
    let lines: Vec<Line> = blkparse(name).into_iter().filter(|line| line.action == action).collect();
    let (records, losses, _) = read(name, arrivals);
    assert_eq!(losses, Losses::default(), "{name}");
    assert_eq!(records.len(), lines.len(), "{name}");
    for (record, line) in records.iter().zip(&lines) {
        let request = &record.request;
        let ours = (
            request.arrival.as_ns(),
            request.stream.0,
            request.operation,
            request.lba.sector(),
            request.sectors().count(),
        );
        assert_eq!(ours, (line.ns, line.pid, operation(line), line.sector, line.sectors.unwrap_or(0)), "{name}");
        assert!(record.observed.completed.is_some(), "{name}: {record:?}");
    }
    records.len()
}

#[test]
fn every_queued_bio_is_the_one_blkparse_prints() {
    for (name, queued, splits) in CAPTURES {
        assert_eq!(assert_arrivals(name, ArrivalPoint::Queued, 'Q'), queued, "{name}");
        let (_, _, meta) = read(name, ArrivalPoint::Queued);
        let ours = meta.provenance.get("blktrace.splits").map_or(0, |count| count.parse().unwrap());
        assert_eq!(ours, splits, "{name}");
    }
}

#[test]
fn every_issued_request_is_the_one_blkparse_prints() {
    for (name, ..) in CAPTURES {
        assert!(assert_arrivals(name, ArrivalPoint::Issued, 'D') > 1_000);
    }
}

#[test]
fn issue_and_completion_of_plain_requests_are_those_of_a_slow_pairing() {
    let mut compared = 0;
    for (name, ..) in CAPTURES {
        let lines = blkparse(name);
        // Requests that something else than Q, G, I, D and C happened to, at any time, are left out.
        let special: BTreeSet<u64> = lines
            .iter()
            .filter(|line| matches!(line.action, 'M' | 'F' | 'X') || line.rwbs.contains('F'))
            .flat_map(|line| [line.sector, line.sector + line.sectors.unwrap_or(0)])
            .collect();
        // Per sector, length and direction, the D and C that follow a Q before the next one.
        let mut expected: BTreeMap<u64, (Option<u64>, Option<u64>)> = BTreeMap::new();
        let mut outstanding: BTreeMap<(u64, u64, bool), Vec<u64>> = BTreeMap::new();
        let mut overlapping = BTreeSet::new();
        for line in &lines {
            let Some(sectors) = line.sectors else { continue };
            let key = (line.sector, sectors, line.rwbs.contains('W'));
            let queue = outstanding.entry(key).or_default();
            match line.action {
                'Q' => {
                    queue.push(line.ns);
                    if queue.len() > 1 {
                        overlapping.extend(queue.iter().copied());
                    }
                    expected.insert(line.ns, (None, None));
                }
                'D' => {
                    for queued in queue.iter() {
                        expected.get_mut(queued).unwrap().0 = Some(line.ns);
                    }
                }
                'C' => {
                    for queued in queue.drain(..) {
                        expected.get_mut(&queued).unwrap().1 = Some(line.ns);
                    }
                }
                _ => {}
            }
        }
        for record in read(name, ArrivalPoint::Queued).0 {
            let request = &record.request;
            let [start, end] = [request.lba.sector(), request.end().sector()];
            let arrival = request.arrival.as_ns();
            let plain = request.operation.moves_data() && !special.contains(&start) && !special.contains(&end);
            if !plain || overlapping.contains(&arrival) {
                continue;
            }
            let ns = |time: Option<iocast_traces::Timestamp>| time.map(iocast_traces::Timestamp::as_ns);
            assert_eq!(
                (ns(record.observed.issued), ns(record.observed.completed)),
                expected[&arrival],
                "{name}: {record:?}"
            );
            compared += 1;
        }
    }
    // A test that compares nothing would pass as well.
    assert!(compared > 50_000, "only {compared} requests were plain");
}
