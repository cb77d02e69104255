use iocast_workloads::Until;
use iocast_workloads::guest::journal::Journal;
use iocast_workloads::guest::memory::MemorySettings;
use iocast_workloads::guest::{Access, FileId, Files, Step};
use traces::Operation::{Flush, Read, Write};
use traces::{Flags, Timestamp};

use super::support::*;

fn one_file(pages: u64) -> (Files, FileId) {
    let mut files = Files::new(sectors(1 << 20));
    let file = files.create(0, sectors(pages * 8)).unwrap();
    (files, file)
}

fn pages(file: FileId, from: u64, count: u64) -> Step {
    Step::Access(Access::read(file, sectors(from * 8), sectors(count * 8)))
}

fn written(file: FileId, from: u64, count: u64) -> Step {
    Step::Access(Access::write(file, sectors(from * 8), sectors(count * 8)))
}

#[test]
fn sequential_read_is_read_ahead_in_growing_windows() {
    let (files, file) = one_file(70);
    let (program, times) = script(&(0..70).map(|page| pages(file, page, 1)).collect::<Vec<_>>());
    let seen = run(vec![guest(files, Some(memory(1000)), vec![program])], Until::default()).unwrap();
    // 4, 8, 16 and 32 pages; the rest of the file. Each is begun at the marker of the
    // one before, whether that has come in or not.
    let read = |time: u64, page: u64, count: u64| (time, Read, page * 8, count * 8, 1);
    assert_eq!(
        seen.arrivals,
        [read(0, 0, 4), read(1000, 4, 8), read(1000, 12, 16), read(2000, 28, 32), read(3000, 60, 10)]
    );
    assert_eq!(*asked(&times).last().unwrap(), 5000);
}

#[test]
fn page_wanted_by_several_processes_is_read_once() {
    let (files, file) = one_file(1);
    let ((one, a), (other, b)) = (script(&[pages(file, 0, 1)]), script(&[Step::Sleep(ms(0)), pages(file, 0, 1)]));
    let seen = run(vec![guest(files, Some(memory(64)), vec![one, other])], Until::default()).unwrap();
    assert_eq!(seen.arrivals.len(), 1);
    assert_eq!((asked(&a), asked(&b)), (vec![0, 1000], vec![0, 0, 1000]));
}

#[test]
fn read_of_cached_pages_takes_the_copy_time_only() {
    let (files, file) = one_file(4);
    let (program, times) = script(&[pages(file, 0, 4), pages(file, 0, 4)]);
    let settings = MemorySettings { page_copy: traces::Nanos::from_us(10), ..memory(64) };
    let seen = run(vec![guest(files, Some(settings), vec![program])], Until::default()).unwrap();
    assert_eq!(seen.arrivals, [(0, Read, 0, 32, 1)]);
    assert_eq!(asked(&times), [0, 1040, 1080]);
}

#[test]
fn evicted_pages_are_read_again() {
    let (files, file) = one_file(200);
    let (program, _) = script(&[pages(file, 0, 200), pages(file, 0, 1), pages(file, 199, 1)]);
    let seen = run(vec![guest(files, Some(memory(64)), vec![program])], Until::default()).unwrap();
    let read: u64 = seen.arrivals.iter().map(|arrival| arrival.3).sum();
    assert_eq!(read / 8, 204, "all once, and the first window of the file again");
}

#[test]
fn page_read_in_several_parts_counts_as_used_once() {
    let (files, file) = one_file(200);
    let piece = |n| Step::Access(Access::read(file, sectors(n), sectors(1)));
    // Eight pieces of the first page; then as much as memory holds, and the first page again.
    let mut steps: Vec<Step> = (0..8).map(piece).collect();
    steps.extend([pages(file, 50, 100), pages(file, 0, 1)]);
    let (program, _) = script(&steps);
    let seen = run(vec![guest(files, Some(memory(64)), vec![program])], Until::default()).unwrap();
    let first = seen.arrivals.iter().filter(|arrival| arrival.2 == 0).count();
    assert_eq!(first, 2, "a page that many use would have stayed");
}

#[test]
fn more_processes_than_pages_take_turns() {
    let (files, file) = one_file(1000);
    let all: Vec<_> = (0..80).map(|n| script(&[pages(file, 11 + n * 11, 1)])).collect();
    let (programs, times): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    let seen = run(vec![guest(files, Some(memory(64)), programs)], Until::default()).unwrap();
    assert_eq!(seen.arrivals.len(), 80);
    assert!(times.iter().all(|times| asked(times).len() == 2), "each has its page and ends");
    assert!(seen.arrivals[..64].iter().all(|arrival| arrival.0 == 0) && seen.arrivals[64].0 >= 1000);
}

#[test]
fn metadata_is_read_without_read_ahead() {
    let (files, file) = one_file(10);
    let mut access = Access::read(file, sectors(0), sectors(8));
    access.flags = Flags::META;
    let (program, _) = script(&[Step::Access(access)]);
    let seen = run(vec![guest(files, Some(memory(64)), vec![program])], Until::default()).unwrap();
    assert_eq!(seen.arrivals, [(0, Read, 0, 8, 1)]);
}

#[test]
fn a_write_takes_no_time_until_it_is_synced() {
    let (files, file) = one_file(10);
    let (program, times) = script(&[written(file, 2, 3), Step::Sleep(ms(4)), Step::Sync(file)]);
    let seen = run(vec![guest(files, Some(memory(64)), vec![program])], Until::default()).unwrap();
    assert_eq!(seen.arrivals, [(4000, Write, 16, 24, 1), (5000, Flush, 0, 0, 1)]);
    assert_eq!(asked(&times)[..3], [0, 0, 4000]);
    assert!(seen.flags[0].contains(Flags::SYNC));
}

#[test]
fn partly_written_page_is_read_first() {
    let (files, file) = one_file(10);
    let part = Step::Access(Access::write(file, sectors(17), sectors(2)));
    let (program, times) = script(&[part, written(file, 5, 1)]);
    let seen = run(vec![guest(files, Some(memory(64)), vec![program])], Until::default()).unwrap();
    assert_eq!(seen.arrivals, [(0, Read, 16, 8, 1)]);
    assert_eq!(asked(&times), [0, 1000, 1000]);
}

#[test]
fn journal_commits_after_the_data_is_written() {
    let mut files = Files::new(sectors(1 << 20));
    let journal = Journal::new(&mut files).unwrap();
    let file = files.create(0, sectors(80)).unwrap();
    let start = files.extent_at(file, sectors(0)).unwrap().lba.sector();
    let (program, _) = script(&[written(file, 0, 10), Step::Sync(file)]);
    let mut host = guest(files, Some(memory(64)), vec![program]);
    host.journal = Some(journal);
    let seen = run(vec![host], Until::default()).unwrap();
    // The data, the descriptor, the commit block.
    let what: Vec<_> =
        seen.arrivals.iter().map(|&(time, operation, lba, count, _)| (time, operation, lba, count)).collect();
    assert_eq!(what, [(0, Write, start, 80), (1000, Write, 0, 8), (2000, Write, 8, 8)]);
    assert!(seen.flags[2].contains(Flags::PREFLUSH | Flags::FUA) && !seen.flags[1].contains(Flags::FUA));
}

#[test]
fn dirty_pages_are_written_after_the_expiry_time() {
    let (files, file) = one_file(10);
    let (program, _) = script(&[Step::Sleep(ms(2)), written(file, 0, 5), Step::Sleep(ms(60_000))]);
    let seen = run(vec![guest(files, Some(memory(1000)), vec![program])], Until::default()).unwrap();
    // 30 s after they were dirtied, at the next of the sweeps every 5 s.
    assert_eq!(seen.arrivals, [(35_000_000, Write, 0, 40, 0)]);
}

#[test]
fn writer_at_the_dirty_limit_is_limited_by_the_drive() {
    let (files, file) = one_file(4000);
    let writes: Vec<Step> = (0..400).map(|index| written(file, index * 10, 10)).collect();
    let (program, times) = script(&writes);
    let seen = run(vec![guest(files, Some(memory(1000)), vec![program])], Until::default()).unwrap();
    let done = *asked(&times).last().unwrap();
    // When the last write returns, all pages but those that may be dirty or in flight are on the drive; a request has
    // 128 pages.
    let pages: u64 = seen.arrivals.iter().take_while(|arrival| arrival.0 < done).map(|arrival| arrival.3 / 8).sum();
    assert!((3799..4000).contains(&pages), "{pages}");
    assert!(seen.arrivals.iter().all(|arrival| arrival.1 == Write && arrival.3 <= 1024));
    assert!(done >= (3799 / 128) * 1000, "{done}");
}

#[test]
fn endless_run_is_reproducible() {
    let once = || {
        let (files, file) = one_file(3000);
        let steps: Vec<Step> =
            (0..500)
                .map(|index| {
                    if index % 3 == 0 { written(file, index * 7 % 2900, 4) } else { pages(file, index * 31 % 2900, 3) }
                })
                .collect();
        let programs = (0..5).map(|_| script(&steps).0).collect();
        let until = Until { requests: None, time: Some(Timestamp::from_ns(40_000_000_000)) };
        run(vec![guest(files, Some(memory(500)), programs)], until).unwrap().arrivals
    };
    let first = once();
    assert!(first.len() > 500);
    assert_eq!(first, once());
}
