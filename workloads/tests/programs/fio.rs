//! The options of fio against their documented effect (HOWTO of fio 3.33), in numbers.

use std::collections::{BTreeMap, BTreeSet};

use iocast_workloads::guest::{Event, Step};
use iocast_workloads::programs::fio::Jobs;
use traces::{Nanos, Operation, Timestamp};

use crate::driver::{Run, Seen, run_jobs};

fn places(run: &Run) -> Vec<(u64, u64)> {
    run.accesses().iter().map(|&(_, _, _, offset, bytes)| (offset, bytes)).collect()
}

#[test]
fn sections_inherit_the_global_sections_above_them() {
    let run = run_jobs(
        "; a comment\n[global]\nbs=8k   ; inline\nsize=32k # too\nrw=write\nfilename=a\n[one]\n[two]\nstonewall\nbs=16k\n\
         [global]\nsize=64k\n[three]\nwait_for_previous\n",
    );
    let count = |process| run.accesses().iter().filter(|access| access.0 == process).count();
    assert_eq!([0, 1, 2].map(count), [4, 2, 8]);
    let files: BTreeSet<_> = run.accesses().iter().map(|access| access.2).collect();
    assert_eq!(files.len(), 1, "one name, one file");
    assert_eq!(run.files.size(*files.first().unwrap()).bytes(), 65_536);
}

#[test]
fn a_barrier_waits_for_every_job_before_it() {
    let run = run_jobs("[global]\nsize=64k\n[a]\nnumjobs=2\n[b]\nsize=128k\n[c]\nstonewall\n[d]\n[e]\nstonewall\n");
    let first =
        |process| run.seen.iter().find(|s| s.process == process && matches!(s.step, Step::Access(_))).unwrap().at;
    let end = |process| run.seen.iter().find(|s| s.process == process && matches!(s.step, Step::Post(_))).unwrap().at;
    let (first, end): (Vec<Timestamp>, Vec<Timestamp>) = (0..6).map(|p| (first(p), end(p))).unzip();
    let last = |of: &[usize]| of.iter().map(|&process| end[process]).max().unwrap();
    // The cached access begins a moment after the barrier falls.
    assert!(first[3] > last(&[0, 1, 2]) && first[4] > last(&[0, 1, 2]) && first[5] > last(&[3, 4]));
    assert!(first[1] < end[0] && first[4] < end[3], "jobs of a group run together");
}

#[test]
fn random_accesses_visit_every_block_once_unless_the_map_is_off() {
    for (options, distinct) in [("", 256), ("norandommap", 180), ("randseed=9", 256)] {
        let run = run_jobs(&format!("[a]\nrw=randread\nsize=1m\n{options}\n"));
        let places = places(&run);
        assert_eq!(places.len(), 256);
        assert!(places.iter().all(|&(offset, bytes)| bytes == 4096 && offset % 4096 == 0 && offset < 1 << 20));
        let seen = places.iter().collect::<BTreeSet<_>>().len();
        assert!(if options == "norandommap" { seen < distinct } else { seen == distinct }, "{options}: {seen}");
        let in_sequence = places.windows(2).filter(|pair| pair[1].0 == pair[0].0 + 4096).count();
        assert!(in_sequence < 30, "{options}: {in_sequence}");
    }
}

#[test]
fn mixed_job_has_the_requested_share_of_reads() {
    for (options, percent) in [("rwmixread=70", 70), ("rwmixwrite=90", 10), ("", 50), ("rwmixread=0", 0)] {
        for rw in ["rw", "randrw"] {
            let run = run_jobs(&format!("[a]\nrw={rw}\nsize=40m\n{options}\n"));
            let accesses = run.accesses();
            let reads = accesses.iter().filter(|access| access.1 == Operation::Read).count();
            let share = reads * 1000 / accesses.len();
            assert!(share.abs_diff(percent * 10) <= 15, "{rw} {options}: {share}");
            assert_eq!(accesses.len(), 10_240);
        }
    }
}

#[test]
fn sizes_of_a_split_have_their_shares() {
    for (split, shares) in [
        ("4k/10:64k/50:32k/", [(4, 10), (64, 50), (32, 40)]),
        ("4k/20:8k/:16k", [(4, 20), (8, 40), (16, 40)]),
        ("4k/20:8k/80:16k/0", [(4, 20), (8, 80), (16, 0)]),
    ] {
        let run = run_jobs(&format!("[a]\nrw=randwrite\nnorandommap\nsize=64m\nbssplit={split}\n"));
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        let accesses = places(&run);
        for &(_, bytes) in &accesses {
            *counts.entry(bytes >> 10).or_default() += 1;
        }
        for (kib, expected) in shares {
            let share = counts.get(&kib).copied().unwrap_or(0) * 100 / accesses.len();
            assert!(share.abs_diff(expected) < 4, "{split}: {counts:?}");
        }
    }
}

#[test]
fn sizes_differ_by_direction() {
    let run = run_jobs("[a]\nrw=rw\nbs=8k,32k\nsize=1m\n");
    let expected = |operation| if operation == Operation::Read { 8192 } else { 32_768 };
    assert!(run.accesses().iter().all(|access| access.4 == expected(access.1)));
    let run = run_jobs("[a]\nrw=trimwrite\nbs=8k,16k,16k\nsize=64k\n");
    let operations: Vec<_> = run.accesses().iter().map(|access| (access.1, access.3)).collect();
    let expected = (0..4).flat_map(|block| [(Operation::Discard, block << 14), (Operation::Write, block << 14)]);
    assert_eq!(operations, expected.collect::<Vec<_>>(), "each block is trimmed, then written");
}

#[test]
fn iodepth_above_one_is_reached_with_direct_accesses_only() {
    for (options, in_flight) in [
        ("ioengine=libaio\niodepth=8\ndirect=1", 8),
        ("ioengine=libaio\niodepth=8\ndirect=0", 0),
        ("ioengine=psync\niodepth=8\ndirect=1", 0),
        ("ioengine=io_uring\niodepth=3\nbuffered=0", 3),
    ] {
        let run = run_jobs(&format!("[a]\nrw=randread\nsize=1m\n{options}\n"));
        assert_eq!((run.most_in_flight, run.accesses().len()), (in_flight, 256), "{options}");
    }
}

/// With a service time of 100 us, a closed loop of depth d and a pause z after each access.
#[test]
fn pauses_rates_and_delays_take_the_requested_time() {
    for (options, us) in [
        ("", 256 * 100),
        ("thinktime=900", 256 * 1000),
        ("thinktime=1ms\nthinktime_blocks=16", 256 * 100 + 16 * 1000),
        ("startdelay=2", 2_000_000 + 256 * 100),
        ("rate_iops=100", 2_550_000 + 100),
        ("rate=100k", 10_200_000 + 100),
        ("rate_iops=1000000", 256 * 100),
        ("ioengine=libaio\niodepth=4", 64 * 100),
        ("ioengine=libaio\niodepth=4\nthinktime=1ms\nthinktime_blocks=4", 64 * 1100),
        ("runtime=10ms", 10_000),
        ("runtime=1s\ntime_based", 1_000_000),
        ("runtime=1\nramp_time=1\ntime_based\nrw=randread", 2_000_000),
        ("loops=3", 3 * 256 * 100),
        ("number_ios=17", 1700),
    ] {
        let run = run_jobs(&format!("[a]\nrw=read\ndirect=1\nsize=1m\n{options}\n"));
        assert_eq!(run.end.since(Timestamp::ZERO), Nanos::from_us(us), "{options}");
    }
}

#[test]
fn a_mix_switches_to_the_direction_that_is_behind_its_rate() {
    let run = run_jobs("[a]\nrw=rw\ndirect=1\nsize=8m\nrwmixread=50\nrate_iops=100,300\n");
    let accesses = run.accesses();
    let reads = accesses.iter().filter(|access| access.1 == Operation::Read).count();
    assert!((reads * 100 / accesses.len()).abs_diff(25) <= 1, "{reads} of {}", accesses.len());
}

#[test]
fn writes_are_synced_as_requested() {
    for (options, syncs) in [
        ("fsync=3", 5),
        ("fsync=4", 3),
        ("fdatasync=4\nend_fsync=1", 4),
        ("end_fsync=1", 1),
        ("rw=read\nend_fsync=1", 0),
        ("rw=read\nfsync=1", 0),
        ("", 0),
    ] {
        let run = run_jobs(&format!("[a]\nrw=write\nbs=64k\nsize=1m\n{options}\n"));
        assert_eq!(run.count(|step| matches!(step, Step::Sync(_))), syncs, "{options}");
    }
}

#[test]
fn copies_of_a_job_start_offset_increment_apart() {
    let run = run_jobs("[a]\nfilename=x\nsize=1m\noffset=1m\noffset_increment=2m\nnumjobs=3\n");
    for (process, start) in [(0, 1u64 << 20), (1, 3 << 20), (2, 5 << 20)] {
        let mine = run.accesses().into_iter().filter(|access| access.0 == process).map(|access| access.3);
        let (least, most) = (mine.clone().min().unwrap(), mine.max().unwrap());
        assert_eq!((least, most), (start, start + (1 << 20) - 4096));
    }
}

#[test]
fn passes_repeat_the_random_order_unless_randrepeat_is_off() {
    for (options, same) in [("", true), ("randrepeat=0", false)] {
        let run = run_jobs(&format!("[a]\nrw=randread\nsize=1m\nloops=2\n{options}\n"));
        let places = places(&run);
        assert_eq!(places[..256] == places[256..], same, "{options}");
    }
}

#[test]
fn a_jobs_event_is_posted_by_each_of_its_processes() {
    let run = run_jobs("[a]\nsize=4k\nnumjobs=2\n[b]\nsize=4k\n");
    let posts = |event| run.seen.iter().filter(|seen: &&Seen| seen.step == Step::Post(Event(event))).count();
    assert_eq!((posts(0), posts(1)), (2, 1));
}

#[test]
fn unmodelled_options_are_refused_with_line_and_alternative() {
    for (text, message) in [
        ("[a]\nsize=1m\nrw=randread:8\n", " at line 3: rw: the suffix `:8` is not modelled; write randread"),
        ("[a]\nsize=1m\niodepht=4\n", " at line 3: `iodepht` is not an option that is modelled; did you mean iodepth"),
        ("[a]\nsize=1m\nverify=crc32c\n", " at line 3: `verify` is not modelled; a job of its own"),
        ("[a]\nsize=1.5m\n", " at line 2: size: `1.5m` is not a size"),
        ("[a]\nsize=1m\nioengine=mmap\n", " at line 3: ioengine: `mmap` is not modelled; use one of sync"),
        ("[a]\nsize=1m\nrandom_distribution=normal:3\n", "`normal:3` is not modelled; use random, zipf:theta or"),
        ("[a]\nsize=1m\nrandom_distribution=zipf:1\n", "zipf's theta is above 0, at most 100 and not 1"),
        ("[a]\nsize=1m\nbssplit=4k/60:8k/60\n", "percentages add up to 120, not 100"),
        ("\n[a]\nrw=read\n", " at line 2: job `a`: size is missing"),
        ("[a]\nsize=1k\n", " at line 1: job `a`: size is too small: 1024 bytes, and a block has 4096"),
        ("[a]\nsize=50%\n", "size as a percentage needs filesize"),
        ("[a]\nsize=1m\ndirect=1\nbs=1000\n", "1000 is not a multiple of 512"),
        ("[a]\nsize=1m\nrw=randrw\nbs=4k,8k\n", "give norandommap"),
        ("[a]\nsize=1m\ntime_based\n", "time_based needs a runtime"),
        ("[a]\nsize=1m\nnumjobs=99999999\n", "numjobs is above 65536"),
        ("[a]\nsize=1m\nnumjobs=60000\n[b]\nsize=1m\nnumjobs=60000\n", " at line 4: there are more than 65536"),
        ("[a]\nsize=${SIZE}\n", " at line 2: variables"),
        ("size=1m\n", " at line 1: `size=1m` stands before the first section"),
        ("[a\n", " at line 1: `[a` is not a section"),
        ("[global]\nsize=1m\n", ": there is no job"),
        ("[a]\nsize=1m\nfilename=a:b\n", "a list of files is not modelled"),
        ("[a]\nsize=9000000p\n", "size: `9000000p` is not a size"),
        ("[a]\nsize=9000t\n", "offset and size lie beyond"),
    ] {
        let error = Jobs::parse("test", text).err().unwrap_or_else(|| panic!("{text} is accepted")).to_string();
        assert!(error.starts_with("fio job file test") && error.contains(message), "{text}: {error}");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 2000, ..Default::default() })]
    #[test]
    fn no_text_panics(lines in proptest::collection::vec(
        "(\\[a\\]|\\[global\\]|size|bs|rw|bssplit|ba|offset|filesize|rate|random_distribution|percentage_random|\
         startdelay|runtime|stonewall|fsync)(=[0-9a-z%:/,.-]{0,8})?", 0..12))
    {
        let _ = Jobs::parse("test", &format!("[a]\nsize=64k\n{}", lines.join("\n")));
    }
}
