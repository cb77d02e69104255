//! Damaged inputs of every format: no panic, no endless loop, bounded memory, and statistics that
//! stand whatever is read. Seeds are the fixtures and `tests/data/corpus/FORMAT/`, which also holds
//! every input that ever failed.
//!
//! A short, fixed run by default. `IOCAST_FUZZ_CPU_SECONDS=600 cargo test --release -p iocast-traces --test
//! fuzz -- --nocapture` gives each format so many CPU seconds, from a seed that depends on the time
//! and is printed (`IOCAST_FUZZ_SEED` repeats it); `IOCAST_FUZZ_FORMAT` is one format's name.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod mutate;
#[path = "../support/mod.rs"]
mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use iocast_traces::formats::{FORMATS, Format};
use iocast_traces::statistics::{Statistics, Timeline};
use iocast_traces::trace::{ArrivalPoint, ReadOptions, TimeUnit, UnitOverrides};
use iocast_traces::{Nanos, Operation};
use mutate::Mutator;

/// Inputs per format in a short run.
const SHORT_RUN: u64 = 800;

/// Records after which reading an input ends: a small file may hold very many (run lengths).
const RECORDS_MAX: u64 = 1_000_000;

/// An input that takes longer hangs. Far above what any takes.
const HANGS_AFTER: Duration = Duration::from_secs(60);

/// The most memory that the whole process may have resident, of a debug build with all its seeds.
const RESIDENT_MAX_KIB: u64 = 400_000;

/// The seeds of a format.
fn seeds(format: &Format) -> Vec<Vec<u8>> {
    let fixtures = support::FIXTURES.iter().filter(|(of, _)| *of == format.name).map(|(_, name)| support::data(name));
    let mut paths: Vec<PathBuf> = fixtures.collect();
    for folder in [support::data("corpus").join(format.name), support::data(format.name)] {
        if let Ok(entries) = std::fs::read_dir(folder) {
            paths.extend(entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()));
        }
    }
    paths.retain(|path| path.extension().is_none_or(|ending| ending != "md" && ending != "golden"));
    paths.sort();
    let plain = |path: &PathBuf| {
        let mut bytes = Vec::new();
        std::io::copy(&mut iocast_traces::input::Input::open(path).unwrap(), &mut bytes).unwrap();
        bytes
    };
    paths.iter().map(plain).collect()
}

/// Reads an input in every way, with any result.
fn read_all_ways(format: &Format, path: &Path, way: usize) {
    let units = UnitOverrides { time: Some(TimeUnit::ALL[way % 5]), address_bytes: Some(512), length_bytes: Some(1) };
    let options = ReadOptions {
        lenient: way.is_multiple_of(2),
        arrivals: if way.is_multiple_of(7) && format.holds_issues {
            ArrivalPoint::Issued
        } else {
            ArrivalPoint::Queued
        },
        device: way.is_multiple_of(11).then(|| "0".to_owned()),
        operation: format.name.starts_with("oracle").then_some(Operation::Read),
        units: if way.is_multiple_of(3) { units } else { UnitOverrides::default() },
        ..ReadOptions::default()
    };
    let _ = (format.recognises)(path, &std::fs::read(path).unwrap_or_default());
    if let Some(open_events) = format.open_events {
        let Ok(mut reader) = open_events(path, &options) else { return };
        let mut statistics = Statistics::new(reader.meta(), Some(Nanos::from_ms(10)));
        let mut records = 0;
        while let Ok(Some(_)) = reader.next_watched(&mut statistics) {
            records += 1;
            statistics.series().into_iter().for_each(|series| while series.next_closed().is_some() {});
            if records == RECORDS_MAX {
                return;
            }
        }
        measured(&statistics, &*reader, records);
    }
    let Ok(mut reader) = (format.open)(path, &options) else { return };
    let mut statistics = Statistics::new(reader.meta(), Some(Nanos::from_ms(10)));
    let mut timeline = Timeline::default();
    let (mut records, mut last) = (0, None);
    while let Ok(Some(record)) = reader.next() {
        assert!(last <= Some(record.request.arrival), "arrivals decrease");
        last = Some(record.request.arrival);
        assert!(usize::from(record.request.vm.0) < reader.meta().vms.len(), "a VM without a name");
        timeline.record(&record, &mut statistics);
        statistics.series().into_iter().for_each(|series| while series.next_closed().is_some() {});
        records += 1;
        if records == RECORDS_MAX {
            return;
        }
    }
    timeline.finish(&mut statistics);
    measured(&statistics, &*reader, records);
}

/// The figures can be computed, and count the records read.
fn measured(statistics: &Statistics, reader: &dyn iocast_traces::TraceReader, records: u64) {
    let trace = support::provenance(reader, records);
    let figures = statistics.figures("fuzz", trace, reader.meta());
    let arrived: u64 = figures.arrivals.values().map(|of| of.requests).sum();
    assert!(arrived >= records, "{records} records, but {arrived} arrivals");
}

fn resident_max_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// CPU seconds of this process.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

const WORKER: &str = "fuzzed";

/// Where inputs of a format are put. Pages of a trace buffer are recognised by their name, and need the
/// descriptions of their layout beside them.
fn place(format: &Format, folder: &Path) -> PathBuf {
    if format.name != "trace-pipe-raw" {
        return folder.join("input");
    }
    let formats = support::data("trace-pipe-raw").join("loop.formats");
    let copied = folder.join("input.formats");
    for description in (format.members)(&formats).unwrap() {
        if let Ok(name) = description.strip_prefix(&formats) {
            std::fs::create_dir_all(copied.join(name).parent().unwrap()).unwrap();
            std::fs::copy(&description, copied.join(name)).unwrap();
        }
    }
    folder.join("input.trace_raw.0")
}

/// Reads inputs on a thread of its own, so that one that hangs is noticed.
struct Watched {
    inputs: mpsc::Sender<usize>,
    outcomes: mpsc::Receiver<Result<(), String>>,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Watched {
    fn new(format: &'static Format) -> Watched {
        let folder = tempfile::tempdir().unwrap();
        let path = place(format, folder.path());
        let (inputs, ways) = mpsc::channel::<usize>();
        let (tell, outcomes) = mpsc::channel();
        let input = path.clone();
        let work = move || {
            for way in ways {
                let outcome = catch_unwind(AssertUnwindSafe(|| read_all_ways(format, &input, way)));
                let outcome = outcome.map_err(|panic| {
                    let text = panic.downcast_ref::<String>().cloned();
                    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
                });
                if tell.send(outcome).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name(WORKER.to_owned()).spawn(work).unwrap();
        Watched { inputs, outcomes, path, _folder: folder }
    }

    /// Reads one input; an error is a panic's text, or that it hangs.
    fn read(&self, input: &[u8], way: usize) -> Result<(), String> {
        std::fs::write(&self.path, input).unwrap();
        self.inputs.send(way).unwrap();
        self.outcomes.recv_timeout(HANGS_AFTER).unwrap_or_else(|_| Err("hangs".to_owned()))
    }
}

/// Fuzzes one format while `more` says so; returns the number of inputs.
fn fuzz(format: &'static Format, seed: u64, more: impl Fn(u64) -> bool) -> u64 {
    let seeds = seeds(format);
    assert!(!seeds.is_empty(), "{} has no fixture to begin with", format.name);
    let watched = Watched::new(format);
    let mut mutator = Mutator::new(seed);
    let check = |input: &[u8], way: usize| {
        if let Err(why) = watched.read(input, way) {
            let kept = std::env::temp_dir().join(format!("iocast-fuzz-{}-{seed}", format.name));
            std::fs::write(&kept, input).unwrap();
            let kept = kept.display();
            panic!(
                "{}: {why}; the input is {kept}, to be kept in tests/data/corpus/{} (way {way})",
                format.name, format.name
            );
        }
    };
    // The corpus itself, every way that differs.
    for input in &seeds {
        (0..12).for_each(|way| check(input, way));
    }
    let mut inputs = 0;
    while more(inputs) {
        let way = mutator.below(1 << 16);
        check(&mutator.input(&seeds), way);
        inputs += 1;
    }
    inputs
}

#[test]
fn no_input_panics_hangs_or_fills_the_memory() {
    // Panics of the Parquet library are caught by our reader, and ours are reported with their input.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name() != Some(WORKER) {
            usual(panic);
        }
    }));
    let budget: Option<f64> = std::env::var("IOCAST_FUZZ_CPU_SECONDS").ok().map(|text| text.parse().unwrap());
    let only = std::env::var("IOCAST_FUZZ_FORMAT").ok();
    let seed = match (std::env::var("IOCAST_FUZZ_SEED"), budget) {
        (Ok(text), _) => text.parse().unwrap(),
        (Err(_), None) => 1,
        (Err(_), Some(_)) => std::time::UNIX_EPOCH.elapsed().unwrap().as_secs(),
    };
    let formats: Vec<&Format> =
        FORMATS.iter().filter(|format| only.as_deref().is_none_or(|name| name == format.name)).collect();
    // A budget counts the CPU seconds of the process, so its formats follow one another.
    let threads = if budget.is_some() { 1 } else { std::thread::available_parallelism().unwrap().get() };
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(format) = formats.get(next.fetch_add(1, Ordering::Relaxed)) {
                    fuzz_and_report(format, seed, budget);
                }
            });
        }
    });
}

fn fuzz_and_report(format: &'static Format, seed: u64, budget: Option<f64>) {
    let begin = cpu_seconds();
    let inputs = fuzz(format, seed, |inputs| match budget {
        None => inputs < SHORT_RUN,
        Some(seconds) => inputs % 64 != 0 || cpu_seconds() - begin < seconds,
    });
    let resident = resident_max_kib();
    println!(
        "{}: {inputs} inputs, {:.0} CPU seconds of this process, seed {seed}, {} MB resident at most",
        format.name,
        cpu_seconds() - begin,
        resident / 1000
    );
    assert!(resident < RESIDENT_MAX_KIB, "{}: {resident} KiB resident", format.name);
}
