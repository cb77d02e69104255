//! Which records `align` takes for records of one run.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::collections::HashSet;
use std::path::Path;

use iocast_traces::align::{AlignError, Key, Sample, align};
use iocast_traces::results::alignment::AlignmentFigures;
use iocast_traces::trace::ReadOptions;
use iocast_traces::{Timestamp, formats};

fn samples(name: &str) -> Vec<Sample> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples").join(name);
    let mut reader = formats::open(&path, &ReadOptions::default()).unwrap();
    let mut samples = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        samples.extend(Sample::of(&record));
    }
    samples.sort_by_key(|sample| sample.issued);
    samples
}

fn without_completions(samples: &[Sample]) -> Vec<Sample> {
    samples.iter().map(|sample| Sample { completed: None, ..*sample }).collect()
}

/// On a clock that is `later_ns` ahead and runs faster by 200 in a million.
fn on_another_clock(samples: &[Sample], later_ns: u64) -> Vec<Sample> {
    let shifted = |time: Timestamp| Timestamp::from_ns(time.as_ns() + time.as_ns() / 5_000 + later_ns);
    let sample = |sample: &Sample| Sample {
        issued: shifted(sample.issued),
        completed: sample.completed.map(shifted),
        ..*sample
    };
    samples.iter().map(sample).collect()
}

fn accepted(reference: &[Sample], input: &[Sample], case: &str) -> AlignmentFigures {
    align(reference, input).unwrap_or_else(|error| panic!("{case}: {error}")).1
}

#[track_caller]
fn refused(reference: &[Sample], input: &[Sample], case: &str) -> AlignError {
    match align(reference, input) {
        Err(error) => error,
        Ok((_, figures)) => panic!("{case}: {figures:?}"),
    }
}

#[test]
fn vms_of_one_lab_are_strangers_with_completions_and_without() {
    let names = ["mail", "web", "file", "oltp"];
    let all = names.map(|name| samples(&format!("{name}.parquet")));
    let bare = all.each_ref().map(|samples| without_completions(samples));
    for (a, one) in names.iter().enumerate() {
        for (b, other) in names.iter().enumerate().filter(|&(b, _)| b != a) {
            let case = format!("{one} and {other}");
            let error = refused(&all[a], &all[b], &case);
            assert!(error.to_string().contains("they are not of one run"), "{case}: {error}");
            refused(&bare[a], &bare[b], &case);
            refused(&all[a], &bare[b], &case);
        }
    }
}

/// As when the same file system is mounted and then used otherwise: the common requests were in both places at one
/// time.
#[test]
fn strangers_who_begin_alike_have_too_little_in_common() {
    let (mail, web) = (samples("mail.parquet"), samples("web.parquet"));
    let keys: HashSet<Key> = mail.iter().map(|sample| sample.key).collect();
    let (begin, end) = (&mail[..mail.len() * 3 / 100], mail[mail.len() * 3 / 100].issued);
    let otherwise = web.iter().filter(|sample| sample.issued >= end && !keys.contains(&sample.key));
    let stranger: Vec<Sample> = begin.iter().chain(otherwise).copied().collect();
    let AlignError::OtherRun(evidence) = refused(&mail, &stranger, "mail and web") else { panic!("too few matches") };
    assert_eq!((evidence.matched, evidence.together), (begin.len(), begin.len()), "{evidence:?}");
}

/// The same VM on the same disk with the same seeds: much is the same in the same order, but not at the same pace.
#[test]
fn repetition_with_equal_seeds_is_refused_as_another_run() {
    for name in ["mail", "web", "file", "oltp"] {
        let run = |repetition| samples(&format!("lab-virtio/runs/alone-{name}/{repetition}/{name}.parquet"));
        let (one, other) = (run(1), run(2));
        let AlignError::OtherRun(evidence) = refused(&one, &other, name) else { panic!("{name}: too few matches") };
        assert!(evidence.matched * 10 > evidence.requests, "{name}: {evidence:?}");
        refused(&without_completions(&one), &without_completions(&other), name);
    }
}

/// The drive takes requests of two VMs, and in another order than they were issued in.
#[test]
fn a_guest_and_the_drive_it_shares_are_of_one_run() {
    for lab in ["lab-virtio", "lab-iscsi"] {
        let run = |name: &str| samples(&format!("{lab}/runs/together-mail-web/1/{name}.parquet"));
        let (drive, guest) = (run("lun"), run("mail"));
        let figures = accepted(&drive, &guest, lab);
        assert!(figures.matched * 2 < figures.reference_requests, "{figures:?}");
        assert!(figures.nested * 1000 >= figures.matched * 999, "{figures:?}");
        accepted(&drive, &on_another_clock(&guest, 40_000_000_000), lab);
        accepted(&without_completions(&drive), &without_completions(&guest), lab);
        accepted(&drive, &without_completions(&guest), lab);
        // The other VM's addresses are elsewhere on the drive.
        refused(&drive, &run("web"), lab);
    }
}

/// Records that were begun and ended at different times have only the middle in common.
#[test]
fn what_only_one_record_covers_does_not_speak_against_one_run() {
    let all = samples("web.parquet");
    let (early, late) = (&all[..all.len() * 52 / 100], &all[all.len() * 48 / 100..]);
    let figures = accepted(early, &on_another_clock(late, 7_000_000_000), "early and late");
    assert!(figures.matched * 10 < figures.input_requests, "{figures:?}");
}
