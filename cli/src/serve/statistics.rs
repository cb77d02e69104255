//! The figures of a running server, a line of JSON every second (`--statistics`).
//!
//! A thread of its own writes them: a slow disk, or a pipe that nobody reads, must not delay replies. Lines that it has
//! no time for are left out and counted.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use traces::results::serving::{Serving, ServingSample};

/// The name that stands for standard output.
pub const STANDARD_OUTPUT: &str = "-";
/// The most lines that wait to be written.
const WAITING_LINES_MAX: usize = 16;
/// How long the end of serving waits for the lines that are left.
const END_TIMEOUT: Duration = Duration::from_secs(2);

pub struct Statistics {
    path: PathBuf,
    samples: SyncSender<ServingSample>,
    /// The writer's end: the first error.
    ended: Receiver<io::Result<()>>,
    left_out: u64,
}

impl Statistics {
    /// Creates the file and starts the writer.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn begin(path: &Path) -> Result<Statistics> {
        let out: Box<dyn Write + Send> = match path == Path::new(STANDARD_OUTPUT) {
            true => Box::new(io::stdout()),
            false => Box::new(File::create(path).with_context(|| format!("--statistics {}", path.display()))?),
        };
        Ok(Statistics::to(path, out))
    }

    fn to(path: &Path, mut out: Box<dyn Write + Send>) -> Statistics {
        let (samples, received) = sync_channel(WAITING_LINES_MAX);
        let (end, ended) = sync_channel(1);
        thread::spawn(move || {
            let written = received.iter().try_for_each(|sample| write_line(&mut out, &sample));
            // The receiver may have given up.
            let _ = end.send(written);
        });
        Statistics { path: path.to_owned(), samples, ended, left_out: 0 }
    }

    /// Adds a line with the figures so far. Never waits.
    pub fn add(&mut self, report: &Serving) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let sample = ServingSample::new(report, i64::try_from(now.as_nanos()).unwrap_or(i64::MAX));
        self.left_out += u64::from(self.samples.try_send(sample).is_err());
    }

    /// Adds a last line and ends the writer. Returns the problem if not all lines are written.
    pub fn finish(mut self, report: &Serving) -> Option<String> {
        self.add(report);
        let Statistics { path, samples, ended, left_out } = self;
        drop(samples);
        let path = path.display();
        match ended.recv_timeout(END_TIMEOUT) {
            Ok(Ok(())) if left_out == 0 => None,
            Ok(Ok(())) => Some(format!("{path} was too slow: {left_out} lines were left out")),
            Ok(Err(error)) => Some(format!("{path} has no lines after an error: {error}")),
            Err(RecvTimeoutError::Timeout) => Some(format!("{path}: nobody reads it; lines were left out")),
            Err(RecvTimeoutError::Disconnected) => Some(format!("{path}: the writing thread has failed")),
        }
    }
}

fn write_line(out: &mut dyn Write, sample: &ServingSample) -> io::Result<()> {
    let mut line = serde_json::to_vec(sample)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier, Mutex};

    use traces::Nanos;
    use traces::results::{Part, SCHEMA_VERSION, SpanFigures};

    use super::*;

    fn serving(seconds: u64) -> Serving {
        let part = Part { name: String::new(), model: String::new(), settings: Default::default() };
        Serving {
            schema_version: SCHEMA_VERSION,
            program: String::new(),
            drive: part.clone(),
            scheduler: part,
            options: Default::default(),
            span_ns: Nanos::from_ms(seconds * 1000),
            lateness: SpanFigures::default(),
            response_time: SpanFigures::default(),
            vms: Vec::new(),
            failed: 0,
            logged: None,
            log_error: None,
            image_error: None,
        }
    }

    /// Keeps the written bytes.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn every_second_and_the_end_have_a_line() {
        let kept = Kept::default();
        let mut statistics = Statistics::to(Path::new("x"), Box::new(kept.clone()));
        statistics.add(&serving(1));
        statistics.add(&serving(2));
        assert_eq!(statistics.finish(&serving(3)), None);
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<ServingSample> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.iter().map(|line| line.span_ns.as_ns() / 1_000_000_000).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(lines.is_sorted_by_key(|line| line.time_unix_ns) && lines[0].time_unix_ns > 0);
    }

    /// Fails, or waits until the test ends.
    enum Stuck {
        Fails,
        Waits(Arc<Barrier>),
    }

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match self {
                Stuck::Fails => Err(io::ErrorKind::StorageFull.into()),
                Stuck::Waits(barrier) => {
                    barrier.wait();
                    Ok(bytes.len())
                }
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn output_that_fails_or_hangs_delays_nothing_and_is_reported_at_the_end() {
        let mut statistics = Statistics::to(Path::new("full"), Box::new(Stuck::Fails));
        (0..100).for_each(|second| statistics.add(&serving(second)));
        let problem = statistics.finish(&serving(100)).unwrap();
        assert!(problem.starts_with("full has no lines after an error: "), "{problem}");
        let barrier = Arc::new(Barrier::new(2));
        let mut statistics = Statistics::to(Path::new("pipe"), Box::new(Stuck::Waits(Arc::clone(&barrier))));
        (0..100).for_each(|second| statistics.add(&serving(second)));
        assert!(statistics.left_out >= 100 - WAITING_LINES_MAX as u64 - 1);
        assert_eq!(statistics.finish(&serving(100)).unwrap(), "pipe: nobody reads it; lines were left out");
    }
}
