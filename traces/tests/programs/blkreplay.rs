//! blkreplay's dry run goes through its own parser and prints each request that it would send.

use std::fs::File;
use std::process::{Command, Stdio};

use iocast_traces::Operation;

use crate::{make_disk, mixed, write};

/// Runs a load file through blkreplay; start in ns, first sector, sectors and letter of each request, by start.
fn dry_run(folder: &std::path::Path, load: &str) -> Vec<(u64, u64, u64, String)> {
    make_disk(&folder.join("disk"));
    let output = Command::new("blkreplay")
        .args(["--dry-run", "--threads=8", "--start-grace=1", "disk"])
        .current_dir(folder)
        .stdin(Stdio::from(File::open(folder.join(load)).unwrap()))
        .output()
        .unwrap_or_else(|error| panic!("blkreplay is needed for this test (`make tools` installs it): {error}"));
    let text = String::from_utf8(output.stdout).unwrap();
    // It says so of a title line in every load file, and must not of any other.
    let complaints: Vec<&str> = text.lines().filter(|line| line.starts_with("ERROR")).collect();
    assert!(complaints.len() == 1 && complaints[0].contains("line='start ; sector"), "{complaints:?}");
    let mut requests: Vec<_> = text
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split(';').map(str::trim).collect();
            let (seconds, ns) = fields[0].split_once('.')?;
            let start = seconds.parse::<u64>().ok()? * 1_000_000_000 + ns.parse::<u64>().ok()?;
            let [sector, length] = [1, 2].map(|at| fields.get(at).and_then(|field| field.parse().ok()));
            // A small letter: it waited for another request to the same sectors.
            Some((start, sector?, length?, fields.get(3)?.to_uppercase()))
        })
        .collect();
    requests.sort();
    requests
}

#[test]
fn blkreplay_sees_the_requests_that_we_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let start = 3_600_000_000_123;
    let records = mixed(start, &[Operation::Read, Operation::Write, Operation::Write]);
    write("blkreplay", &folder.path().join("mixed.load"), &records);
    let seen = dry_run(folder.path(), "mixed.load");
    let mut expected: Vec<_> = records
        .iter()
        .map(|record| {
            let request = &record.request;
            let letter = if request.operation == Operation::Read { "R" } else { "W" };
            // blkreplay begins with the first request.
            let since = request.arrival.as_ns() - start_of(&records);
            (since, request.lba.sector(), request.sectors().count(), letter.to_owned())
        })
        .collect();
    expected.sort();
    assert_eq!(seen, expected);
}

fn start_of(records: &[iocast_traces::Record]) -> u64 {
    records[0].request.arrival.as_ns()
}
