//! Which traces are tuned on, which prove the result, and the windows of both.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, bail, ensure};
use rayon::prelude::*;
use replay::sources::{OneDevice, TimeWindow, extent};
use traces::trace::ReadOptions;
use traces::{Nanos, formats};

use super::draws::{Draws, Purpose};
use crate::arguments::Tune;
use crate::error::UsageError;
use crate::progress::Progress;
use crate::sweep::plan::{WindowOf, fitting, matches};

/// A window has at least this number of requests, if the trace has them evenly: fewer say little of a 99th percentile.
const WINDOW_REQUESTS_MIN: u64 = 1_000;
/// The windows of held-out traces are at least this many, if they have requests enough.
const HELD_OUT_WINDOWS: u64 = 8;

/// A trace, or the part of it that is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its path, relative to the folder in which the command runs.
    pub name: String,
    pub from: Nanos,
    /// Its end, if it is not the end of the trace.
    pub to: Option<Nanos>,
    pub span: Nanos,
    /// Requests; of a part as many as it has if they lie evenly.
    pub requests: u64,
}

/// The traces.
#[derive(Debug, PartialEq, Eq)]
pub struct Split {
    pub tuned_on: Vec<Piece>,
    pub held_out: Vec<Piece>,
}

impl Split {
    /// Finds the traces in `folder`, reads how long they are, and splits them.
    ///
    /// # Errors
    /// No trace, one that cannot be read, none left to tune on, a single one without a span.
    pub fn new(arguments: &Tune, folder: &Path) -> Result<Split> {
        let mut traces = found(folder, &arguments.traces)?;
        let by_name = match &arguments.hold_out[..] {
            [] => None,
            given => Some(held_out(folder, &traces, given)?),
        };
        // Of two names of one file, the first stays.
        by_name.iter().flatten().for_each(|(file, name)| {
            traces.entry(file.clone()).or_insert_with(|| name.clone());
        });
        let mut traces: Vec<(String, PathBuf)> = traces.into_iter().map(|(file, name)| (name, file)).collect();
        traces.sort();
        let (all, files): (Vec<String>, Vec<PathBuf>) = traces.into_iter().unzip();
        let mut pieces = measured(folder, &all)?;
        let is_held_out: Vec<bool> = match by_name {
            Some(held_out) => files.iter().map(|file| held_out.contains_key(file)).collect(),
            None if all.len() == 1 => return split_in_time(pieces.remove(0)),
            None => {
                let mut order: Vec<usize> = (0..all.len()).collect();
                Draws::new(arguments.seed, Purpose::HeldOut).shuffle(&mut order);
                let drawn = &order[..(all.len() / 3).max(1)];
                (0..all.len()).map(|at| drawn.contains(&at)).collect()
            }
        };
        let (held_out, tuned_on): (Vec<_>, Vec<_>) =
            pieces.into_iter().zip(is_held_out).partition(|(_, is_held_out)| *is_held_out);
        let without = |pieces: Vec<(Piece, bool)>| pieces.into_iter().map(|(piece, _)| piece).collect::<Vec<Piece>>();
        let split = Split { tuned_on: without(tuned_on), held_out: without(held_out) };
        ensure!(
            !split.tuned_on.is_empty(),
            UsageError("--hold-out leaves no trace to tune on; name more traces, or hold out fewer".to_owned())
        );
        Ok(split)
    }

    /// The end of the part that is tuned on, if one trace is split in time.
    pub fn in_time(&self) -> Option<Nanos> {
        self.tuned_on.first().and_then(|piece| piece.to)
    }
}

/// Traces by the files that they are, so that one with two names is there once; each with its name.
type Traces = BTreeMap<PathBuf, String>;

/// The traces that the patterns fit.
fn found(folder: &Path, patterns: &[String]) -> Result<Traces> {
    let mut traces = Traces::new();
    for pattern in patterns {
        // A name may hold characters that have a meaning in a pattern.
        let names = if folder.join(pattern).exists() { Ok(vec![pattern.clone()]) } else { matches(folder, pattern) };
        let names = names.map_err(|problem| UsageError(format!("{pattern}: {problem}")))?;
        if names.is_empty() {
            bail!(UsageError(format!(
                "no trace fits `{pattern}`; `*` stands for any part of a name, `**` for any folders"
            )));
        }
        for name in names {
            let file = folder.join(&name).canonicalize().with_context(|| name.clone())?;
            traces.entry(file).or_insert(name);
        }
    }
    Ok(traces)
}

/// The traces that are held out: some of those that are named, or others beside them.
fn held_out(folder: &Path, traces: &Traces, given: &[String]) -> Result<Traces> {
    let names: Vec<String> = traces.values().cloned().collect();
    let mut held_out = Traces::new();
    for pattern in given {
        if let Ok(numbers) = fitting(pattern, &names) {
            let all: Vec<(&PathBuf, &String)> = traces.iter().collect();
            let some = numbers.into_iter().map(|number| all[number as usize]);
            held_out.extend(some.map(|(file, name)| (file.clone(), name.clone())));
        } else {
            held_out.extend(found(folder, std::slice::from_ref(pattern)).context("--hold-out")?);
        }
    }
    Ok(held_out)
}

/// Reads how long each trace is.
fn measured(folder: &Path, names: &[String]) -> Result<Vec<Piece>> {
    let progress = Progress::jobs("reading", names.len() as u64);
    let done = progress.counter(0);
    let of = |name: &String| -> Result<Piece> {
        let path = folder.join(name);
        let mut reader = OneDevice::new(&path, formats::open(&path, &ReadOptions::default())?);
        let extent = extent(&mut reader, TimeWindow::default())?;
        done.fetch_add(1, Ordering::Relaxed);
        let span = extent.last_arrival.saturating_since(extent.first_arrival);
        Ok(Piece { name: name.clone(), from: Nanos::ZERO, to: None, span, requests: extent.records })
    };
    names.par_iter().map(of).collect()
}

/// A single trace: the last third of its time is held out.
///
/// # Errors
/// All requests arrive at one time, so that there is no third.
fn split_in_time(whole: Piece) -> Result<Split> {
    let to = Nanos::from_ns(whole.span.as_ns() / 3 * 2);
    let why = match whole.requests {
        0 => "it has no requests".to_owned(),
        1 => "it has one request only".to_owned(),
        more => format!("all {more} requests arrive within 3 ns"),
    };
    ensure!(
        to > Nanos::ZERO,
        "{}: {why}, so its time has no last third to hold out; name a longer trace, or prove the result on other traces \
         with --hold-out",
        whole.name
    );
    let tuned_on = Piece { to: Some(to), span: to, requests: whole.requests / 3 * 2, ..whole.clone() };
    let span = Nanos::from_ns(whole.span.as_ns() - to.as_ns());
    let held_out = Piece { from: to, span, requests: whole.requests / 3, ..whole };
    Ok(Split { tuned_on: vec![tuned_on], held_out: vec![held_out] })
}

impl Piece {
    /// All of it, as a window of the trace with this number.
    fn whole(&self, number: u32) -> WindowOf {
        WindowOf { start: self.from, end: self.to, limit: None, traces: Some(vec![number]) }
    }

    /// The length of a part of `1/parts` of it, or of one with requests enough; `None` for all of it.
    fn part(&self, parts: u64) -> Option<u64> {
        let span = self.span.as_ns();
        let enough = u128::from(span) * u128::from(WINDOW_REQUESTS_MIN) / u128::from(self.requests.max(1));
        let length = u64::try_from(enough).unwrap_or(u64::MAX).max(span / parts).max(1);
        (length < span).then_some(length)
    }

    /// The requests of a window, if they lie evenly.
    pub fn requests_in(&self, window: &WindowOf) -> u64 {
        let end = window.end.map_or(self.from.as_ns().saturating_add(self.span.as_ns()), Nanos::as_ns);
        let length = u128::from(end.saturating_sub(window.start.as_ns()));
        let requests = u128::from(self.requests) * length / u128::from(self.span.as_ns().max(1));
        u64::try_from(requests).unwrap_or(u64::MAX).min(self.requests)
    }
}

/// A window of `1/parts` of each piece, at a drawn place.
pub fn drawn_windows(pieces: &[Piece], parts: u64, draws: &mut Draws) -> Vec<WindowOf> {
    let window = |(number, piece): (u32, &Piece)| {
        // Drawn also where it is not used, so that no other place depends on it.
        let share = draws.share();
        let Some(length) = piece.part(parts) else { return piece.whole(number) };
        let start = piece.from.as_ns() + (share * (piece.span.as_ns() - length) as f64) as u64;
        let end = Some(Nanos::from_ns(start + length));
        WindowOf { start: Nanos::from_ns(start), end, ..piece.whole(number) }
    };
    (0..).zip(pieces).map(window).collect()
}

/// All of each piece in consecutive windows of one length.
pub fn consecutive_windows(pieces: &[Piece]) -> Vec<WindowOf> {
    let parts = HELD_OUT_WINDOWS.div_ceil(pieces.len().max(1) as u64);
    let mut windows = Vec::new();
    for (number, piece) in (0..).zip(pieces) {
        let (from, span) = (piece.from.as_ns(), piece.span.as_ns());
        let parts = piece.part(parts).map_or(1, |length| span / length);
        for part in 0..parts {
            let at =
                |part: u64| Nanos::from_ns(from + (u128::from(span) * u128::from(part) / u128::from(parts)) as u64);
            let end = if part + 1 == parts { piece.to } else { Some(at(part + 1)) };
            windows.push(WindowOf { start: at(part), end, ..piece.whole(number) });
        }
    }
    windows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(requests: u64) -> Piece {
        Piece { name: "a".to_owned(), from: Nanos::ZERO, to: None, span: Nanos::from_s(90), requests }
    }

    fn ends(windows: &[WindowOf]) -> Vec<[Option<u64>; 2]> {
        windows.iter().map(|of| [Some(of.start.as_ns()), of.end.map(Nanos::as_ns)]).collect()
    }

    #[test]
    fn windows_have_their_length_and_requests_enough() {
        let draws = |round| Draws::new(3, Purpose::Windows(round));
        let windows = drawn_windows(&[piece(90_000), piece(3_000), piece(900)], 9, &mut draws(0));
        let length = |of: &WindowOf| of.end.map(|end| end.as_ns() - of.start.as_ns());
        assert_eq!(windows.iter().map(length).collect::<Vec<_>>(), [Some(10_000_000_000), Some(30_000_000_000), None]);
        assert_eq!(windows.iter().map(|of| of.traces.clone()).collect::<Vec<_>>(), [0, 1, 2].map(|at| Some(vec![at])));
        assert!(windows.iter().all(|of| of.end.is_none_or(|end| end <= Nanos::from_s(90))));
        assert_eq!(piece(90_000).requests_in(&windows[0]), 10_000);
        assert_eq!(piece(900).requests_in(&windows[2]), 900);
        let places = |seed| ends(&drawn_windows(&[piece(90_000)], 9, &mut Draws::new(seed, Purpose::Windows(0))));
        assert_eq!(places(3), ends(&windows[..1]), "a trace more changes no place");
        assert_ne!(places(3), places(4));
        assert_ne!(places(3), ends(&drawn_windows(&[piece(90_000)], 9, &mut draws(1))));
    }

    #[test]
    fn held_out_time_follows_on_the_time_that_is_tuned_on() {
        let Split { tuned_on, held_out } = split_in_time(piece(24_000)).unwrap();
        assert_eq!((tuned_on[0].from, tuned_on[0].to), (Nanos::ZERO, Some(Nanos::from_s(60))));
        assert_eq!((held_out[0].from, held_out[0].to, held_out[0].requests), (Nanos::from_s(60), None, 8_000));
        let windows = consecutive_windows(&held_out);
        let s = |s: u64| Some(s * 1_000_000_000);
        assert_eq!((windows.len(), ends(&windows)[0], ends(&windows)[7][1]), (8, [s(60), Some(63_750_000_000)], None));
        assert!(windows.windows(2).all(|two| two[0].end == Some(two[1].start)));
        // A window of a tuned part never reaches the other part.
        let windows = drawn_windows(&tuned_on, 1, &mut Draws::new(1, Purpose::Windows(0)));
        assert_eq!(ends(&windows), [[s(0), s(60)]]);
        // Two windows of 1,250 requests, not eight.
        assert_eq!(consecutive_windows(&[piece(2_500)]).len(), 2);
        assert_eq!(consecutive_windows(&[piece(24_000), piece(24_000), piece(900)]).len(), 7);
    }
}
