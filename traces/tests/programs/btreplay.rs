//! btrecord's record files of our captures, and btreplay's own report (`-v -v`) of the requests it sent.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use iocast_traces::trace::ReadOptions;
use iocast_traces::{Operation, Record, Timestamp};

use crate::support::{data, read_as};
use crate::{make_disk, mixed, run, write};

/// The report of btreplay for each request: when it was due after the first one (ns), first sector,
/// sectors, and direction.
type Sent = (u64, u64, u64, char);

/// How long btreplay may take for a trace of 200 ms, and from its last request to its end.
const PATIENCE: Duration = Duration::from_secs(60);
const GRACE: Duration = Duration::from_millis(500);

/// Replays `disk.replay.0` of a folder, which holds `requests` requests, onto the file `disk` beside it.
fn replay(folder: &Path, requests: usize, arguments: &[&str]) -> Vec<Sent> {
    make_disk(&folder.join("disk"));
    // It opens /dev/NAME, with every `_` of the name made a `/`.
    let device = format!("..{}/disk", folder.display());
    assert!(!device.contains('_'), "btreplay cannot replay onto {device}: set TMPDIR to a path without `_`");
    let report = folder.join("disk.replay.0.rep");
    let _ = std::fs::remove_file(&report);
    let mut program = Command::new("btreplay")
        .args(["-v", "-v", "-d", "/dev"])
        .args(arguments)
        .arg(&device)
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("btreplay is needed for this test (`make tools` installs it): {error}"));
    let begun = Instant::now();
    let mut complete = None;
    // It may wait for ever when its last request is done before it has seen that it is the last.
    while program.try_wait().unwrap().is_none() {
        if complete.is_none() && sent(&report).iter().filter(|sent| sent.0 < u64::MAX).count() == requests {
            complete = Some(Instant::now());
        }
        if complete.is_some_and(|since| since.elapsed() > GRACE) || begun.elapsed() > PATIENCE {
            program.kill().unwrap();
            program.wait().unwrap();
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    sent(&report)
}

/// The requests that btreplay reports.
fn sent(report: &Path) -> Vec<Sent> {
    let report = std::fs::read_to_string(report).unwrap_or_default();
    let mut sent: Vec<Sent> = Vec::new();
    let mut waiting = 0;
    for line in report.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [sector, "+", sectors, direction] = words[..] {
            sent.push((u64::MAX, sector.parse().unwrap(), sectors.parse().unwrap(), direction.chars().next().unwrap()));
            waiting += 1;
        } else if let Some((due, _)) = line.trim().strip_prefix("stall(").and_then(|due| due.split_once(',')) {
            // Said once of the requests above it.
            let (seconds, ns) = due.split_once('.').unwrap();
            let due = seconds.parse::<u64>().unwrap() * 1_000_000_000 + ns.parse::<u64>().unwrap();
            let from = sent.len() - std::mem::take(&mut waiting);
            sent[from..].iter_mut().for_each(|request| request.0 = due);
        }
    }
    sent
}

fn expected(records: &[Record]) -> Vec<Sent> {
    let first = records[0].request.arrival;
    let sent = |record: &Record| {
        let request = &record.request;
        let direction = if request.operation == Operation::Read { 'R' } else { 'W' };
        (request.arrival.since(first).as_ns(), request.lba.sector(), request.sectors().count(), direction)
    };
    records.iter().map(sent).collect()
}

#[test]
fn btreplay_sends_the_requests_that_we_wrote_when_they_are_due() {
    let folder = tempfile::tempdir().unwrap();
    let records = mixed(10_929_555_507, &[Operation::Read, Operation::Write, Operation::Write, Operation::Flush]);
    write("btreplay", &folder.path().join("disk.replay.0"), &records);
    assert_eq!(replay(folder.path(), records.len(), &["-W"]), expected(&records));
    // Without -W writes are sent as reads, which is the program's doing and not the file's.
    assert!(replay(folder.path(), records.len(), &[]).iter().all(|sent| sent.3 == 'R'));
}

const CAPTURES: [&str; 3] = ["virtio-mail", "virtio-file", "iscsi-mail"];

/// Runs btrecord on a capture and reads its output.
fn record(folder: &Path, capture: &str, arguments: &[&str]) -> Vec<Record> {
    let mut bytes = Vec::new();
    let compressed = std::fs::File::open(data(&format!("blktrace/{capture}.blktrace.0.gz"))).unwrap();
    std::io::Read::read_to_end(&mut flate2::read::MultiGzDecoder::new(compressed), &mut bytes).unwrap();
    std::fs::write(folder.join(format!("{capture}.blktrace.0")), bytes).unwrap();
    let output = run(folder, "btrecord", &[&["-v"], arguments, &[capture]].concat());
    let made = read_as("btreplay", &folder.join(format!("{capture}.replay.0")), &ReadOptions::default()).unwrap();
    assert_eq!((made.losses.total(), made.meta.provenance["btrecord_version"].as_str()), (0, "1.0.0"));
    // `virtio-mail:0: 1200 pkts (tot), 214 pkts (replay), 30 bunches, 7.1 pkts/bunch`
    let found = String::from_utf8(output.stderr).unwrap();
    assert!(found.contains(&format!(" {} pkts (replay)", made.records.len())), "{found}");
    made.records
}

/// The part of our records of the same capture that btrecord keeps.
fn as_recorded(record: &Record) -> (Timestamp, Operation, u64, u64) {
    let request = &record.request;
    let operation = if request.operation == Operation::Discard { Operation::Write } else { request.operation };
    (request.arrival, operation, request.lba.sector(), request.sectors().count())
}

#[test]
fn btrecord_makes_of_a_capture_what_we_read_in_it() {
    for capture in CAPTURES {
        let folder = tempfile::tempdir().unwrap();
        // One request a bunch, so that each has its own time.
        let made = record(folder.path(), capture, &["-M", "1"]);
        let read = read_as("blktrace", &folder.path().join(capture), &ReadOptions::default()).unwrap();
        // Ours begin at zero, btrecord's as the capture does.
        let (zero, first) = (made[0].request.arrival, read.records[0].request.arrival);
        let theirs: Vec<_> = made
            .iter()
            .map(|record| {
                let (arrival, operation, sector, sectors) = as_recorded(record);
                (arrival.since(zero), operation, sector, sectors)
            })
            .collect();
        let ours: Vec<_> = read
            .records
            .iter()
            .map(|record| {
                let (arrival, operation, sector, sectors) = as_recorded(record);
                (arrival.since(first), operation, sector, sectors)
            })
            .collect();
        assert_eq!(theirs, ours, "{capture}");
    }
}

/// By its own defaults btrecord gives up to 8 requests the time of the first of them.
#[test]
fn btrecord_bunches_requests_within_10_ms() {
    let folder = tempfile::tempdir().unwrap();
    let exact = record(folder.path(), "virtio-mail", &["-M", "1"]);
    let bunched = record(folder.path(), "virtio-mail", &[]);
    assert_eq!(exact.len(), bunched.len());
    let early = |pair: (&Record, &Record)| pair.0.request.arrival.since(pair.1.request.arrival).as_ns();
    assert!(exact.iter().zip(&bunched).map(early).max().unwrap() > 0);
    assert!(exact.iter().zip(&bunched).map(early).all(|ns| ns <= 10_000_000));
}

#[test]
fn what_btrecord_made_is_written_again_byte_for_byte_but_for_its_counts() {
    let folder = tempfile::tempdir().unwrap();
    let made = record(folder.path(), "virtio-mail", &["-M", "1"]);
    write("btreplay", &folder.path().join("again.replay.0"), &made);
    let theirs = std::fs::read(folder.path().join("virtio-mail.replay.0")).unwrap();
    let ours = std::fs::read(folder.path().join("again.replay.0")).unwrap();
    // Requests that arrive at the same nanosecond would share a bunch: here none do.
    assert_eq!(ours[..16], theirs[..16]);
    assert_eq!(ours[32..], theirs[32..]);
    let counts = |bytes: &[u8]| [16, 24].map(|at| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()));
    assert_eq!(counts(&ours), counts(&theirs).map(|count| count + 1));
}
