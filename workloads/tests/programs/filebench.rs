//! The FileBench personalities against the published figures of their `.f` files. The metadata reads of look-ups are
//! disabled except in the test about them.

use std::collections::BTreeSet;

use iocast_workloads::guest::{Event, FileId, Files, Step};
use iocast_workloads::programs::build;
use traces::{Flags, Nanos, Operation, Sectors};

use crate::driver::{DISK, Run, run_spec};

const STEPS: usize = 400_000;

fn loops(run: &Run) -> usize {
    run.count(|step| *step == Step::Post(Event(0)))
}

/// Within a twentieth of the expected value.
fn about(found: usize, expected: f64, what: &str) {
    assert!((found as f64 / expected - 1.0).abs() < 0.05, "{what}: {found}, expected {expected:.0}");
}

#[test]
fn file_set_has_the_number_and_size_of_files_of_the_personality() {
    for (name, existing, mean, threads) in
        [("varmail", 40_000, 16_384, 16), ("webserver", 50_000, 16_384, 100), ("fileserver", 40_000, 131_072, 50)]
    {
        let mut files = Files::new(Sectors::new(DISK / 512));
        let workload = build(&format!("{name}:metadata=off").parse().unwrap()).unwrap();
        let processes = workload.processes(&mut files, 7).unwrap();
        assert_eq!((processes.len(), files.count()), (threads, existing + 1), "{name}: the log too");
        let bytes: u64 = (0..existing as u32).map(|file| files.size(FileId(file)).bytes()).sum();
        about((bytes / existing as u64) as usize, f64::from(mean) + 256.0, name);
        let average = bytes / existing as u64;
        let squares = (0..existing as u32).map(|file| files.size(FileId(file)).bytes().abs_diff(average).pow(2));
        let variance = squares.sum::<u64>() / existing as u64;
        // The variance of the law is the mean's square over the shape.
        let expected = f64::from(mean) * f64::from(mean) / 1.5;
        about(variance as usize, expected, "variance of the sizes");
        // Shape 1.5: the share below the mean is P(1.5, 1.5) = 0.608.
        let small = (0..existing as u32).filter(|&file| files.size(FileId(file)).bytes() <= mean as u64).count();
        about(small, 0.608 * existing as f64, "files below the mean");
    }
}

#[test]
fn a_loop_of_varmail_syncs_twice_reads_two_files_and_appends_twice() {
    let run = run_spec("varmail:metadata=off", STEPS);
    let loops = loops(&run);
    assert!(loops > 5000);
    about(run.count(|step| matches!(step, Step::Sync(_))), 2.0 * loops as f64, "syncs");
    let writes = run.accesses().iter().filter(|access| access.1 == Operation::Write).count();
    about(writes, 2.0 * loops as f64, "appends");
    let reads: Vec<_> = run.accesses().into_iter().filter(|access| access.1 == Operation::Read).collect();
    about(reads.len(), 2.0 * loops as f64, "reads");
    assert!(reads.iter().all(|read| read.3 == 0), "files of less than iosize are read in one call");
    // Half of 16 KiB on average, and up to two sectors that hold its ends.
    about((run.moved().1 / writes as u64) as usize, 8192.0 + 512.0, "bytes of an append");
}

#[test]
fn a_loop_of_the_web_server_reads_ten_files_and_appends_to_the_log() {
    let run = run_spec("webserver:metadata=off", STEPS);
    let loops = loops(&run) as f64;
    let accesses = run.accesses();
    let writes: Vec<_> = accesses.iter().filter(|access| access.1 == Operation::Write).collect();
    about(accesses.len() - writes.len(), 10.0 * loops, "reads");
    about(writes.len(), loops, "appends");
    assert_eq!(writes.iter().map(|write| write.2).collect::<BTreeSet<_>>().len(), 1, "there is one log");
    let mut places: Vec<_> = writes.iter().map(|write| (write.3, write.3 + write.4)).collect();
    places.sort();
    // A sector that holds the end of one append and the start of the next is written twice.
    assert!(places.windows(2).all(|pair| (pair[0].1 - 512..=pair[0].1).contains(&pair[1].0)), "it only grows");
    assert_eq!(run.count(|step| matches!(step, Step::Sync(_))), 0);
    let files: BTreeSet<_> = accesses.iter().map(|access| access.2).collect();
    assert!(files.len() > 20_000, "files are drawn evenly: {}", files.len());
}

#[test]
fn a_loop_of_the_file_server_writes_appends_reads_and_removes() {
    let run = run_spec("fileserver:metadata=off", STEPS);
    let loops = loops(&run) as f64;
    let accesses = run.accesses();
    let whole = accesses.iter().filter(|access| access.1 == Operation::Write && access.3 == 0).count();
    about(whole, loops, "files written");
    let reads = accesses.iter().filter(|access| access.1 == Operation::Read && access.3 == 0).count();
    about(reads, loops, "files read");
    let (read, written) = run.moved();
    about((written / loops as u64) as usize, 131_072.0 + 8192.0 + 768.0, "bytes written in a loop");
    assert!(read / loops as u64 > 120_000);
    let count = run.files.count() as f64;
    assert!((count - 40_001.0).abs() <= 50.0, "as many are removed as created: {count}");
}

/// Every file that is created, opened, removed or looked up is found by its directory and its inode.
#[test]
fn look_up_reads_two_blocks_of_metadata() {
    for (name, looked_up) in [("varmail", 4.0), ("webserver", 10.0), ("fileserver", 5.0)] {
        let run = run_spec(name, STEPS);
        let metadata: Vec<_> = run
            .seen
            .iter()
            .filter_map(|seen| match seen.step {
                Step::Access(access) if access.flags.contains(Flags::META) => Some(access),
                _ => None,
            })
            .collect();
        about(metadata.len(), 2.0 * looked_up * loops(&run) as f64, name);
        assert!(metadata.iter().all(|access| access.operation == Operation::Read && access.sectors == Sectors::new(8)));
        let blocks: BTreeSet<_> = metadata.iter().map(|access| (access.file, access.offset)).collect();
        assert!(blocks.len() > 1000, "{name}: files have names and inodes of their own: {} blocks", blocks.len());
    }
}

#[test]
fn no_two_threads_have_the_same_file_open() {
    let run = run_spec("varmail:nthreads=200,nfiles=1000,metadata=off", STEPS);
    let mut writers: Vec<Option<FileId>> = vec![None; 200];
    for seen in &run.seen {
        match seen.step {
            Step::Access(access) => {
                let other = writers
                    .iter()
                    .enumerate()
                    .any(|(process, file)| process != seen.process && *file == Some(access.file));
                assert!(!other, "{seen:?}");
                writers[seen.process] = Some(access.file);
            }
            Step::Sync(_) => {}
            _ => writers[seen.process] = None,
        }
    }
    assert!(!run.ended && run.full.is_none());
}

#[test]
fn a_log_that_fills_the_disk_is_an_error() {
    let mut files = Files::new(Sectors::new((1 << 27) / 512));
    let workload = build(&"webserver:nfiles=1000,nthreads=2,meanappendsize=1m".parse().unwrap()).unwrap();
    let processes = workload.processes(&mut files, 1).unwrap();
    let run = crate::driver::drive(processes, files, Nanos::from_us(1), STEPS);
    assert!(run.full.is_some() && !run.ended);
}
