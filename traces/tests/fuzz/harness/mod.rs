//! Runs targets on damaged inputs: no panic, no endless loop, bounded memory.
//!
//! A short, fixed run by default. `make fuzz` gives each target `IOCAST_FUZZ_CPU_SECONDS`, from a seed that depends on
//! the time and is printed (`IOCAST_FUZZ_SEED` repeats it); `IOCAST_FUZZ_TARGET` is one target's name. An input that
//! fails is kept in the temporary folder, and belongs into the corpus.

#![allow(dead_code)] // Each test binary uses some of it.

mod mutate;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

pub(crate) use mutate::Mutator;

/// An input that takes more CPU time hangs. Far above what any takes.
const HANGS_AFTER: Duration = Duration::from_secs(20);

/// An input that takes as long hangs without using a CPU. An idle process may wait long for one.
const STUCK_AFTER: Duration = Duration::from_secs(600);

/// How often time and memory are looked at while an input is worked on.
const LOOKED_AT_EVERY: Duration = Duration::from_millis(50);

/// Address space of this process. An allocation beyond it ends the process, also one that is never touched; the input
/// then lies in a folder `iocast-fuzzing-TARGET-…` below /dev/shm.
const ADDRESSES_BYTES: u64 = 4 << 30;

/// The thread that works on inputs.
const WORKER: &str = "fuzzed";

/// Works on the input at a path, in one of many ways, with any result. Says whether the input was accepted.
pub(crate) type Work = Box<dyn Fn(&Path, usize) -> bool + Send>;

/// What takes damaged inputs.
pub(crate) struct Target {
    pub(crate) name: String,
    /// Inputs that are not damaged.
    pub(crate) seeds: Vec<Vec<u8>>,
    /// How many ways differ much: the seeds are worked on in so many of them.
    pub(crate) ways: usize,
    /// The most memory that the whole process may have resident meanwhile, with the seeds of all targets.
    pub(crate) resident_max_mb: u64,
    /// Inputs of a short run.
    pub(crate) short_run: u64,
    /// Prepares a folder for inputs; the input's path in it.
    pub(crate) place: Box<dyn Fn(&Path) -> PathBuf>,
    /// Makes an input of the seeds.
    pub(crate) damage: fn(&mut Mutator, &[Vec<u8>]) -> Vec<u8>,
    pub(crate) work: Work,
}

impl Target {
    /// A target whose inputs are bytes, in files of this name.
    pub(crate) fn new(
        name: impl Into<String>,
        file: &'static str,
        seeds: Vec<Vec<u8>>,
        short_run: u64,
        work: impl Fn(&Path, usize) -> bool + Send + 'static,
    ) -> Target {
        let name = name.into();
        assert!(!seeds.is_empty(), "{name} has no input to begin with");
        let place = Box::new(move |folder: &Path| folder.join(file));
        Target {
            name,
            seeds,
            ways: 1,
            resident_max_mb: 200,
            short_run,
            place,
            damage: Mutator::input,
            work: Box::new(work),
        }
    }

    /// The same with inputs that are texts.
    pub(crate) fn of_text(self) -> Target {
        Target { damage: Mutator::text, ..self }
    }
}

/// The files in a folder, in order of their names; none if there is no folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect();
    paths.sort();
    paths
}

/// CPU time of this process, and of the programs that it has run (in steps of 10 ms).
fn cpu() -> Duration {
    let own = clock_gettime(ClockId::ProcessCPUTime);
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[13].parse::<u64>().unwrap() + fields[14].parse::<u64>().unwrap();
    Duration::new(own.tv_sec as u64, own.tv_nsec as u32) + Duration::from_millis(10 * ticks)
}

/// Works on inputs on a thread of its own, so that one that hangs is noticed.
struct Watched {
    inputs: mpsc::Sender<usize>,
    outcomes: mpsc::Receiver<Result<bool, String>>,
    path: PathBuf,
    resident_max_mb: u64,
    _folder: tempfile::TempDir,
}

impl Watched {
    fn new(target: &Target, work: Work) -> Watched {
        // A disk would have to write every input.
        let (prefix, memory) = (format!("iocast-fuzzing-{}-", target.name), PathBuf::from("/dev/shm"));
        let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let folder = tempfile::Builder::new().prefix(&prefix).tempdir_in(parent).unwrap();
        let path = (target.place)(folder.path());
        let (inputs, ways) = mpsc::channel::<usize>();
        let (tell, outcomes) = mpsc::channel();
        let input = path.clone();
        let work = move || {
            for way in ways {
                let outcome = catch_unwind(AssertUnwindSafe(|| work(&input, way))).map_err(|panic| {
                    let text = panic.downcast_ref::<String>().cloned();
                    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
                });
                if tell.send(outcome).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name(WORKER.to_owned()).spawn(work).unwrap();
        Watched { inputs, outcomes, path, resident_max_mb: target.resident_max_mb, _folder: folder }
    }

    /// Works on one input. Returns whether it was accepted and how long it took; an error is a panic's text, or what it has
    /// too much of.
    fn try_input(&self, input: &[u8], way: usize) -> Result<(bool, Duration), String> {
        std::fs::write(&self.path, input).unwrap();
        let (begin, mut waited) = (cpu(), Duration::ZERO);
        self.inputs.send(way).unwrap();
        loop {
            match self.outcomes.recv_timeout(LOOKED_AT_EVERY) {
                Ok(outcome) => return outcome.map(|accepted| (accepted, cpu() - begin)),
                Err(RecvTimeoutError::Disconnected) => return Err("its thread has ended".to_owned()),
                Err(RecvTimeoutError::Timeout) => waited += LOOKED_AT_EVERY,
            }
            if cpu() - begin > HANGS_AFTER || waited > STUCK_AFTER {
                return Err("hangs".to_owned());
            }
            resident_mb(self.resident_max_mb)?;
        }
    }
}

/// The most memory that this process had resident since it was counted anew, which is at most `max` MB.
fn resident_mb(max: u64) -> Result<u64, String> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    let resident = line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024 / 1_000_000;
    if resident > max { Err(format!("{resident} MB resident")) } else { Ok(resident) }
}

/// Fuzzes all targets, or the one that is asked for, one after the other.
pub(crate) fn fuzz_all(targets: Vec<Target>) {
    // Panics of the Parquet library are caught by our reader, and ours are reported with their input.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name() != Some(WORKER) {
            usual(panic);
        }
    }));
    let addresses = Rlimit { current: Some(ADDRESSES_BYTES), ..getrlimit(Resource::As) };
    setrlimit(Resource::As, addresses).unwrap();
    let budget = std::env::var("IOCAST_FUZZ_CPU_SECONDS").ok();
    let budget = budget.map(|text| Duration::from_secs_f64(text.parse().unwrap()));
    let seed = match (std::env::var("IOCAST_FUZZ_SEED"), budget) {
        (Ok(text), _) if !text.is_empty() => text.parse().unwrap(),
        (_, None) => 1,
        (_, Some(_)) => std::time::UNIX_EPOCH.elapsed().unwrap().as_secs(),
    };
    let only = std::env::var("IOCAST_FUZZ_TARGET").ok().filter(|name| !name.is_empty());
    for target in targets.into_iter().filter(|target| only.as_ref().is_none_or(|name| *name == target.name)) {
        fuzz(target, seed, budget);
    }
}

/// Fuzzes one target for so long, or with the inputs of a short run.
fn fuzz(mut target: Target, seed: u64, budget: Option<Duration>) {
    // From here on the kernel counts the highest memory anew.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let work = std::mem::replace(&mut target.work, Box::new(|_, _| false));
    let watched = Watched::new(&target, work);
    let Target { name, seeds, ways, short_run, damage, .. } = &target;
    let (begin, mut longest, mut accepted) = (cpu(), Duration::ZERO, 0);
    let mut check = |input: &[u8], way: usize| match watched.try_input(input, way) {
        Ok((is_accepted, time)) => {
            accepted += u64::from(is_accepted);
            longest = longest.max(time);
        }
        Err(why) => {
            let kept = std::env::temp_dir().join(format!("iocast-fuzz-{name}-{seed}"));
            std::fs::write(&kept, input).unwrap();
            panic!("{name}: {why}; the input is {}, to be kept in the corpus (way {way})", kept.display());
        }
    };
    for (number, input) in seeds.iter().enumerate() {
        (number..number + ways).for_each(|way| check(input, way));
    }
    let (mut mutator, mut inputs) = (Mutator::new(seed), 0);
    while budget.map_or(inputs < *short_run, |budget| inputs % 16 != 0 || cpu() - begin < budget) {
        let way = mutator.below(1 << 16);
        check(&damage(&mut mutator, seeds), way);
        inputs += 1;
    }
    let resident = resident_mb(target.resident_max_mb).unwrap_or_else(|why| panic!("{name}: {why}"));
    assert!(accepted > 0, "{name}: no input was accepted, so that nothing behind the first check was tried");
    println!(
        "{name}: {inputs} inputs, {accepted} of them and of {} undamaged ones accepted, {:.0} CPU seconds, seed {seed}, longest {:.0} ms, {resident} MB resident at most",
        seeds.len() * ways,
        (cpu() - begin).as_secs_f64(),
        longest.as_secs_f64() * 1e3,
    );
}
