//! Progress and remaining time on standard error, only where that is a terminal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};

use crate::quiet;

const BYTES: &str = "{msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec}{left}";
const COUNTED: &str = "{msg} {bar:20} {pos}/{len}{left}";
const SIMULATED: &str = "{msg} {bar:30} {percent} % of the time simulated{left}";
const REQUESTS: &str = "{msg} {bar:20} {pos}/{len} requests{left}";
const REQUESTS_SO_FAR: &str = "{msg} {spinner} {pos} requests{left}";
const EVENTS: &str = "{msg} {spinner} {pos} of at most {len} events, until precise";
const PROBES: &str = "{msg} {spinner} {pos} probes{left}";
const GROUPS: &str = "{msg} {spinner} {pos} groups of VMs tried{left}";

/// Writes the remaining time, once it can be estimated and is at least a second. Before that, and where the total is
/// unknown, it writes the time so far.
fn left(state: &ProgressState, out: &mut dyn std::fmt::Write) {
    let second = Duration::from_secs(1);
    // A bar that cannot be drawn is not worth an error.
    let _ = match (state.pos(), state.len()) {
        (1.., Some(_)) if state.eta() >= second => write!(out, ", {} left", HumanDuration(state.eta())),
        (0, _) | (_, None) if state.elapsed() >= second => write!(out, ", {} so far", HumanDuration(state.elapsed())),
        _ => Ok(()),
    };
}

/// A progress bar that shows the sum of several counters.
pub struct Progress {
    counters: Vec<Arc<AtomicU64>>,
    stop: Arc<AtomicBool>,
    painter: Option<JoinHandle<()>>,
}

impl Progress {
    /// A bar over `total` bytes, counted by `readers` counters.
    pub fn new(what: &'static str, total: u64, readers: usize) -> Progress {
        Progress::drawn(what, Some(total), readers, BYTES)
    }

    /// A bar over `total` reads.
    pub fn reads(what: &'static str, total: u64) -> Progress {
        Progress::drawn(what, Some(total), 1, COUNTED)
    }

    /// A bar over `total` jobs.
    pub fn jobs(what: &'static str, total: u64) -> Progress {
        Progress::drawn(what, Some(total), 1, COUNTED)
    }

    /// A bar over `total` milliseconds of simulated time, of several replays together.
    pub fn simulated(what: &'static str, total: u64, replays: usize) -> Progress {
        Progress::drawn(what, Some(total), replays, SIMULATED)
    }

    /// A bar over `total` requests of several replays, or a plain count if the total is unknown.
    pub fn requests(what: &'static str, total: Option<u64>, replays: usize) -> Progress {
        Progress::drawn(what, total, replays, if total.is_some() { REQUESTS } else { REQUESTS_SO_FAR })
    }

    /// A count of events, of which there may be fewer than `most`.
    pub fn events(what: &'static str, most: u64) -> Progress {
        Progress::drawn(what, Some(most), 1, EVENTS)
    }

    /// A count of probes, whose total is unknown.
    pub fn probes(what: &'static str) -> Progress {
        Progress::drawn(what, None, 1, PROBES)
    }

    /// A count of groups of VMs, whose total is unknown.
    pub fn groups(what: &'static str) -> Progress {
        Progress::drawn(what, None, 1, GROUPS)
    }

    /// Counters that are shown elsewhere.
    pub fn unseen(readers: usize) -> Progress {
        let counters = (0..readers).map(|_| Arc::default()).collect();
        Progress { counters, stop: Arc::default(), painter: None }
    }

    fn drawn(what: &'static str, total: Option<u64>, readers: usize, template: &'static str) -> Progress {
        let counters: Vec<Arc<AtomicU64>> = (0..readers).map(|_| Arc::default()).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let painter = quiet::shows_progress().then(|| {
            let (counters, stop) = (counters.clone(), Arc::clone(&stop));
            thread::spawn(move || {
                let style =
                    ProgressStyle::with_template(template).expect("the template is valid").with_key("left", left);
                let bar = total.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
                let bar = bar.with_message(what).with_style(style);
                while !stop.load(Ordering::Relaxed) {
                    bar.set_position(counters.iter().map(|counter| counter.load(Ordering::Relaxed)).sum());
                    thread::sleep(Duration::from_millis(100));
                }
                bar.finish_and_clear();
            })
        });
        Progress { counters, stop, painter }
    }

    /// The counter of one reader.
    pub fn counter(&self, reader: usize) -> Arc<AtomicU64> {
        Arc::clone(&self.counters[reader])
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(painter) = self.painter.take() {
            // The painter only sleeps and paints; if it has panicked, there is nothing to clear.
            let _ = painter.join();
        }
    }
}
