//! Progress and remaining time on standard error, only where that is a terminal.

use std::io::{IsTerminal, stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over bytes that several readers count up.
pub struct Progress {
    counters: Vec<Arc<AtomicU64>>,
    stop: Arc<AtomicBool>,
    painter: Option<JoinHandle<()>>,
}

impl Progress {
    /// A bar over `total` bytes, counted by `readers` counters.
    pub fn new(what: &'static str, total: u64, readers: usize) -> Progress {
        let counters: Vec<Arc<AtomicU64>> = (0..readers).map(|_| Arc::default()).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let painter = stderr().is_terminal().then(|| {
            let (counters, stop) = (counters.clone(), Arc::clone(&stop));
            thread::spawn(move || {
                let style =
                    ProgressStyle::with_template("{msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} eta {eta}")
                        .expect("the template is valid");
                let bar = ProgressBar::new(total).with_message(what).with_style(style);
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
            // The painter only sleeps and paints; if it has panicked there is nothing to clear.
            let _ = painter.join();
        }
    }
}
