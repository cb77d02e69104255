//! The effect of each tunable of the web server on its accesses.

use std::collections::{BTreeMap, BTreeSet};

use iocast_workloads::guest::{Access, FileId, Step};
use traces::{Flags, Nanos, Sectors};

use crate::driver::{Run, run_spec};

const STEPS: usize = 60_000;
const PAGE: Sectors = Sectors::new(8);

fn run(more: &str) -> Run {
    run_spec(&format!("surge:files=2000,directories=20{more}"), STEPS)
}

/// The accesses of one process, in order.
fn accesses_of(run: &Run, process: usize) -> Vec<Access> {
    let of = |seen: &crate::driver::Seen| match seen.step {
        Step::Access(access) if seen.process == process => Some(access),
        _ => None,
    };
    run.seen.iter().filter_map(of).collect()
}

fn is_metadata(access: &Access) -> bool {
    access.flags.contains(Flags::META)
}

fn sleeps(run: &Run) -> Vec<Nanos> {
    let sleep = |step: &Step| if let Step::Sleep(span) = step { Some(*span) } else { None };
    run.seen.iter().filter_map(|seen| sleep(&seen.step)).collect()
}

/// Name and inode, then every page of the file once and in order, with a pause after each.
#[test]
fn a_file_is_opened_and_read_page_by_page() {
    let run = run(",processes=3");
    assert_eq!(run.seen.iter().map(|seen| seen.process).collect::<BTreeSet<usize>>().len(), 3);
    for process in 0..3 {
        let accesses = accesses_of(&run, process);
        let opened: Vec<usize> = (0..accesses.len()).filter(|&at| is_metadata(&accesses[at])).step_by(2).collect();
        assert!(opened.len() > 100, "{}", opened.len());
        for ends in opened.windows(2) {
            let (metadata, pages) = accesses[ends[0]..ends[1]].split_at(2);
            assert!(metadata.iter().all(is_metadata) && metadata.iter().all(|access| !access.direct));
            let size = run.files.size(pages[0].file);
            assert_eq!(pages.len() as u64, size.count() / 8);
            for (number, page) in pages.iter().enumerate() {
                let expected = Access::read(pages[0].file, Sectors::new(number as u64 * 8), PAGE);
                assert_eq!(*page, expected);
            }
        }
    }
    let steps: Vec<Step> = run.seen.iter().filter(|seen| seen.process == 0).map(|seen| seen.step).collect();
    let sleeps_after_data = |two: &[Step]| match two {
        [Step::Access(access), next] => matches!(next, Step::Sleep(_)) != is_metadata(access),
        _ => true,
    };
    assert!(steps.windows(2).all(sleeps_after_data));
}

#[test]
fn each_switch_has_its_documented_effect() {
    let all = |run: &Run| (0..5).flat_map(|process| accesses_of(run, process)).collect::<Vec<Access>>();
    let direct = all(&run(",processes=5,direct=on"));
    assert!(direct.iter().all(|access| access.direct != is_metadata(access)));
    let bare = all(&run(",processes=5,metadata=off"));
    assert!(!bare.iter().any(is_metadata));
    let parts = all(&run(",processes=5,whole_pages=off"));
    let short = parts.iter().filter(|access| access.sectors < PAGE).count();
    assert!(short * 100 > parts.len(), "{short} of {}", parts.len());
}

/// The pauses follow a Pareto law of shape 1.5 from 2 ms on, times the scale: the median is 2 ms · 2^(2/3).
#[test]
fn pauses_are_pareto_from_2_ms_times_sleep_scale() {
    for (more, least_ms) in [("", 2.0), (",sleep_scale=0.125", 0.25), (",sleep_scale=3", 6.0)] {
        let mut spans: Vec<f64> = sleeps(&run(more)).iter().map(|span| span.as_ms_f64()).collect();
        spans.sort_by(f64::total_cmp);
        assert!((spans[0] / least_ms - 1.0).abs() < 0.01, "{more}: {}", spans[0]);
        let median = spans[spans.len() / 2] / least_ms;
        assert!((median / 2_f64.powf(2.0 / 3.0) - 1.0).abs() < 0.03, "{more}: {median}");
    }
}

/// In how many directories the ten files lie that are opened most.
fn directories_of_the_popular(run: &Run) -> usize {
    let mut opened: BTreeMap<(FileId, FileId), u32> = BTreeMap::new();
    for process in 0..5 {
        for three in accesses_of(run, process).windows(3) {
            if is_metadata(&three[0]) && is_metadata(&three[1]) {
                *opened.entry((three[2].file, three[0].file)).or_default() += 1;
            }
        }
    }
    let mut most: Vec<(u32, FileId)> = opened.iter().map(|((_, directory), count)| (*count, *directory)).collect();
    most.sort();
    most.iter().rev().take(10).map(|(_, directory)| *directory).collect::<BTreeSet<FileId>>().len()
}

#[test]
fn popular_files_share_a_directory_or_are_spread_at_random() {
    assert_eq!(directories_of_the_popular(&run(",processes=5")), 1);
    assert!(directories_of_the_popular(&run(",processes=5,popularity=shuffled")) > 4);
}
