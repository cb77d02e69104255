//! A capture in pieces: read by its stem it is the capture that was cut.

use std::path::Path;

use iocast_traces::formats::trace_pipe_raw::{piece_stem, pieces};

use crate::whole::{bytes, copy, data, lenient, read, strict};

const PAGE_BYTES: usize = 4096;

fn named(stem: &Path, ending: &str) -> std::path::PathBuf {
    let mut name = stem.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// The real capture `loop`, each CPU's pages cut after `cut` pages: two pieces of `web` in `folder`.
fn cut(folder: &Path, cut: usize) -> std::path::PathBuf {
    let stem = folder.join("web");
    for number in [1, 2] {
        copy(&data("trace-pipe-raw/loop.formats"), &named(&piece_stem(&stem, number), ".formats"));
    }
    for cpu in [0, 1] {
        let whole = bytes(&format!("trace-pipe-raw/loop.trace_raw.{cpu}.gz"));
        let (before, after) = whole.split_at((cut * PAGE_BYTES).min(whole.len()));
        for (number, part) in [(1, before), (2, after)] {
            let file = named(&piece_stem(&stem, number), &format!(".trace_raw.{cpu}"));
            // A CPU that came later has no file in the first piece.
            if !part.is_empty() {
                std::fs::write(file, part).unwrap();
            }
        }
    }
    stem
}

#[test]
fn pieces_read_by_their_stem_are_the_whole_capture() {
    let whole = read(&data("trace-pipe-raw/loop"), &strict()).unwrap();
    for pages in 0..=4 {
        let folder = tempfile::tempdir().unwrap();
        let stem = cut(folder.path(), pages);
        let parts = read(&stem, &strict()).unwrap();
        assert_eq!((parts.events.len(), &parts.records), (whole.events.len(), &whole.records), "{pages} pages");
        assert_eq!((&parts.losses, &parts.meta.streams), (&whole.losses, &whole.meta.streams));
        assert_eq!(pieces(&stem).unwrap(), [piece_stem(&stem, 1), piece_stem(&stem, 2)]);
    }
}

#[test]
fn piece_is_read_by_itself_under_its_own_stem() {
    let folder = tempfile::tempdir().unwrap();
    let stem = cut(folder.path(), 1);
    let [first, second] = [1, 2].map(|number| read(&piece_stem(&stem, number), &lenient()).unwrap().events.len());
    assert!(first > 0 && second > 0);
    assert_eq!(first + second, read(&stem, &strict()).unwrap().events.len());
}

#[test]
fn missing_piece_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let stem = cut(folder.path(), 1);
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().replace("web.0002", "web.0003");
        std::fs::rename(&path, folder.path().join(name)).unwrap();
    }
    let error = read(&stem, &strict()).unwrap_err().to_string();
    assert!(error.contains("web.0002 between ") && error.contains("read each side by itself"), "{error}");
}

#[test]
fn dropped_events_of_all_pieces_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let stem = cut(folder.path(), 1);
    for (number, dropped) in [(1, 3), (2, 4)] {
        let stats = named(&piece_stem(&stem, number), ".formats").join("stats.0");
        std::fs::write(stats, format!("dropped events: {dropped}\n")).unwrap();
    }
    assert_eq!(read(&stem, &lenient()).unwrap().losses.lost_events, 7);
}

#[test]
fn page_cut_at_the_end_of_a_piece_does_not_hide_the_next_piece() {
    let folder = tempfile::tempdir().unwrap();
    let stem = cut(folder.path(), 1);
    let file = named(&piece_stem(&stem, 1), ".trace_raw.0");
    let pages = std::fs::read(&file).unwrap();
    std::fs::write(&file, [&pages[..], &[0; 100]].concat()).unwrap();
    let error = read(&stem, &strict()).unwrap_err().to_string();
    assert!(error.contains("web.*.trace_raw.0") && error.contains("--lenient"), "{error}");
    let parts = read(&stem, &lenient()).unwrap();
    assert_eq!(parts.losses.skipped.values().sum::<u64>(), 1);
    assert_eq!(parts.events.len(), read(&data("trace-pipe-raw/loop"), &strict()).unwrap().events.len());
}
