//! Terasort against the number of bytes that each of its phases has to move.

use std::collections::BTreeSet;

use iocast_workloads::guest::{FileId, Step};
use traces::Operation;

use crate::driver::{Run, run_spec};

const MIB: u64 = 1 << 20;

fn ended(spec: &str) -> Run {
    let run = run_spec(spec, 10_000_000);
    assert!(run.ended && run.full.is_none(), "{spec}");
    run
}

/// With d bytes: read, spilled (d), merged if a chunk has several spills (d read, d written), fetched
/// and written (d each), read for the reduce and written as its result (d each).
#[test]
fn every_byte_passes_all_phases() {
    for (settings, read, written) in [
        ("chunk=16m,io.sort.mb=100m", 3, 3),
        ("chunk=16m,io.sort.mb=10m,io.sort.spill.percent=0.8", 4, 4),
        ("chunk=64m,io.sort.mb=4m,io.sort.factor=100,reduces=3", 4, 4),
        ("chunk=16m,map_slots=1,reduce_slots=1,reduces=5", 3, 3),
        ("chunk=16m,shuffle_buffer=1m", 3, 3),
    ] {
        let run = ended(&format!("terasort:data=64m,{settings}"));
        // A sector where the parts of two reduces meet is moved for both.
        for (moved, times) in [(run.moved().0, read), (run.moved().1, written)] {
            assert!((times * 64 * MIB..times * 64 * MIB + MIB).contains(&moved), "{settings}: {moved}");
        }
    }
}

/// 13 spills and 4 at a time: Hadoop's first merge takes 4 (12 = 4 * 3 remain full), so 13 → 10 → 7 → 4.
/// Spills of 1 MiB: three merges of the smallest before the last, which reads all 13.
#[test]
fn smallest_spills_are_merged_first() {
    let run = ended(
        "terasort:data=13m,chunk=13m,io.sort.mb=1m,io.sort.spill.percent=1,io.sort.factor=4,reduces=1,map_slots=1",
    );
    let before_the_last = 3 * 4;
    let read = 13 + before_the_last + 13 + 13 + 13;
    assert_eq!(run.moved().0, read * MIB);
    // With a last spill of half a MiB, the first merge takes that one and three others.
    let run = ended(
        "terasort:data=12800k,chunk=13m,io.sort.mb=1m,io.sort.spill.percent=1,io.sort.factor=4,reduces=1,map_slots=1",
    );
    assert_eq!(run.moved().0, 4 * 12800 * 1024 + (3 + 4 + 4) * MIB + MIB / 2);
    // 12 spills: the first merge takes 3, then 4 of 1 MiB twice, to leave 4.
    let run = ended(
        "terasort:data=12m,chunk=12m,io.sort.mb=1m,io.sort.spill.percent=1,io.sort.factor=4,reduces=1,map_slots=1",
    );
    assert_eq!(run.moved().0, (12 + 3 + 4 + 4 + 12 + 12 + 12) * MIB);
}

#[test]
fn full_buffer_is_written_at_once() {
    let run = ended("terasort:data=40m,chunk=40m,io.sort.mb=10m,map_slots=1,reduces=1");
    let mut bursts: Vec<(Operation, u64)> = Vec::new();
    for access in run.accesses().iter().filter(|access| access.0 == 0).take(2 * 40 * 16) {
        match bursts.last_mut() {
            Some((operation, bytes)) if *operation == access.1 => *bytes += access.4,
            _ => bursts.push((access.1, access.4)),
        }
    }
    let expected: Vec<_> = (0..5).flat_map(|_| [(Operation::Read, 8 * MIB), (Operation::Write, 8 * MIB)]).collect();
    assert_eq!(bursts, expected);
}

#[test]
fn a_merge_reads_its_files_alternately() {
    let run = ended("terasort:data=40m,chunk=40m,io.sort.mb=10m,map_slots=1,reduces=1");
    let accesses = run.accesses().into_iter().filter(|access| access.0 == 0);
    let (reads, writes): (Vec<_>, Vec<_>) = accesses.skip(2 * 40 * 16).partition(|access| access.1 == Operation::Read);
    assert_eq!((reads.len(), writes.len()), (40 * 16, 40 * 16));
    for five in reads.chunks(5) {
        let files: BTreeSet<_> = five.iter().map(|read| read.2).collect();
        assert_eq!(files.len(), 5, "a call's bytes of each spill in turn");
    }
    assert!(writes.windows(2).all(|pair| pair[0].2 == pair[1].2 && pair[0].3 + pair[0].4 == pair[1].3));
}

#[test]
fn phases_are_in_order_and_temporary_files_are_removed() {
    let run = ended("terasort:data=64m,chunk=16m,reduces=3,io.sort.mb=4m");
    let posts = |event: u32| run.count(|step| *step == Step::Post(iocast_workloads::guest::Event(event)));
    assert_eq!((posts(0), posts(1), posts(2)), (4, 3, 3));
    assert!(run.posted(0, 4) < run.posted(1, 1), "a shuffle ends when every map has");
    assert!(run.posted(1, 1) < run.posted(2, 1));
    assert_eq!(run.files.count(), 4 + 4 + 3);
    let results: u64 = run.accesses().iter().filter(|access| access.1 == Operation::Write).map(|access| access.4).sum();
    assert!(results > 0 && run.files.size(FileId(0)).bytes() == 16 * MIB);
}

#[test]
fn reduces_fetch_while_maps_are_running() {
    let run = ended("terasort:data=64m,chunk=4m,map_slots=1,reduces=1,reduce_slots=1");
    let first_fetch = run.seen.iter().find(|seen| seen.process == 1 && matches!(seen.step, Step::Access(_))).unwrap();
    assert!(first_fetch.at < run.posted(0, 3), "the first output is fetched while later maps run");
}

/// 64 MiB at 10 ms a MiB of mapping and of reducing, and 5 ms where the fetched is merged to be written.
#[test]
fn computing_takes_the_configured_time() {
    let fast =
        ended("terasort:data=64m,chunk=64m,map_slots=1,reduces=1,map_compute=0,merge_compute=0,reduce_compute=0");
    let slow = ended("terasort:data=64m,chunk=64m,map_slots=1,reduces=1");
    assert_eq!(slow.end.since(fast.end).as_ns(), 64 * (10 + 5 + 10) * 1_000_000);
}
