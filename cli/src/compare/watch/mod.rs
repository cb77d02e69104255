//! `iocast compare --watch`: what the replays do while they run, on a screen, or in lines where there is no terminal.

mod seen;
mod view;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::process::{Signal, getpid, kill_process};

use crate::screen::{self, Left, Screen};
pub use seen::Watched;
use seen::{Seen, Shared};

/// The time between two lines of a replay.
const BETWEEN_LINES: Duration = Duration::from_secs(1);
/// The time between two looks at whether the replays have ended.
const LOOK: Duration = Duration::from_millis(50);

/// A replay that is watched.
pub struct Replay {
    /// The scheduler or stack, with the drive if there are several.
    pub name: String,
    /// How much of the input is done.
    pub done: Arc<AtomicU64>,
}

/// The replays of a comparison.
pub struct Replays {
    /// What is replayed, and on which drive.
    pub what: String,
    /// How much input each has, if that is known.
    pub whole: Option<u64>,
    /// Names of the VMs, by their numbers.
    pub vms: Vec<String>,
    pub replays: Vec<Replay>,
}

impl Replays {
    /// The part of the input of a replay that is done, from 0 to 1; `None` if it is not known.
    fn done(&self, replay: usize) -> Option<f64> {
        let whole = self.whole.filter(|&whole| whole > 0)?;
        let done = self.replays.get(replay)?.done.load(Ordering::Relaxed);
        Some((done as f64 / whole as f64).min(1.0))
    }
}

/// Shows the replays until it is dropped.
pub struct Watch {
    shared: Vec<Arc<Shared>>,
    is_over: Arc<AtomicBool>,
    _screen: Option<Screen>,
    lines: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins to show replays that have not begun yet.
    ///
    /// # Errors
    /// The terminal refuses a screen.
    pub fn begin(replays: Replays) -> Result<Watch> {
        let shared: Vec<Arc<Shared>> = replays.replays.iter().map(|_| Arc::default()).collect();
        let is_over = Arc::new(AtomicBool::new(false));
        let (seen_by, begun) = (shared.clone(), Instant::now());
        if screen::is_possible() {
            let draw = move |frame: &mut ratatui::Frame<'_>| {
                view::draw(frame, &replays, &latest(&seen_by), begun.elapsed());
            };
            return Ok(Watch { shared, is_over, _screen: Some(Screen::open(draw, left)?), lines: None });
        }
        let asked_to_end = Arc::clone(&is_over);
        let lines = thread::spawn(move || print_lines(&replays, &seen_by, &asked_to_end));
        Ok(Watch { shared, is_over, _screen: None, lines: Some(lines) })
    }

    /// The observer of a replay.
    pub fn observer(&self, replay: usize) -> Watched {
        Watched::new(Arc::clone(&self.shared[replay]))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(lines) = self.lines.take() {
            // It only prints.
            let _ = lines.join();
        }
    }
}

/// What has been seen of each replay, and asks for more.
fn latest(shared: &[Arc<Shared>]) -> Vec<Seen> {
    shared.iter().map(|shared| shared.latest()).collect()
}

/// Without a screen the replays go on; Ctrl-C ends the program as it does elsewhere.
fn left(how: Left) {
    if how == Left::Interrupted {
        // A process may send signals to itself.
        let _ = kill_process(getpid(), Signal::INT);
    }
}

/// Prints a line of each replay every second, and one at its end.
fn print_lines(replays: &Replays, shared: &[Arc<Shared>], is_over: &AtomicBool) {
    let mut is_told = vec![false; shared.len()];
    let mut printed = Instant::now();
    // Asks for the first.
    latest(shared);
    loop {
        let ends = is_over.load(Ordering::Relaxed);
        let is_due = printed.elapsed() >= BETWEEN_LINES;
        if is_due {
            printed = Instant::now();
        }
        for (replay, of) in shared.iter().enumerate() {
            let has_ended = of.has_ended();
            if !is_told[replay] && (has_ended || is_due) {
                is_told[replay] = has_ended;
                note!("iocast: {}", view::line(replays, replay, &of.latest()));
            }
        }
        if ends {
            return;
        }
        thread::sleep(LOOK);
    }
}
