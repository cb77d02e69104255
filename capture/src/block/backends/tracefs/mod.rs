//! The block layer's tracepoints in a private instance of tracefs: a ring buffer for each CPU that no other program
//! uses. Its pages are read as they are. Source: Linux 6.18, `Documentation/trace/ftrace.rst` (instances,
//! `per_cpu/cpuN/trace_pipe_raw`, `stats`), `kernel/trace/trace.c` (`tracing_buffers_read`).

mod instance;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use rustix::time::Timespec;
use traces::Losses;
use traces::events::Placed;
use traces::formats::trace_pipe_raw::{FORMAT, LivePages};

use self::instance::{EVENTS, Instance, enable, save_formats, set};
use super::raw_pages::RawPages;
use super::{Backend, BackendSetup, EventsNeeded, sleep};
use crate::block::clocks::monotonic;
use crate::block::error::CaptureError;
use crate::block::restore::{INSTANCE_PREFIX, Owner, remove_instance};
use crate::block::supervisor::Supervisor;
use crate::scratch::Scratch;

/// The longest time from an event's timestamp until it can be read, in nanoseconds. Newer events are not emitted yet.
/// The kernel writes an event with preemption off in well under a microsecond, unless an interrupt or a VM's host
/// intervenes.
pub(in crate::block) const EVENT_SETTLING_NS: u64 = 50_000_000;
/// Pages that are read and decoded at once.
const PAGES_PER_READ: usize = 64;
/// The interval between two checks of counters and CPUs.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Raw pages that are not full stay in the kernel's buffer for this long.
const PARTIAL_PAGES_INTERVAL: Duration = Duration::from_secs(5);
/// How full a buffer is when the kernel wakes a raw capture, in percent (Linux 5.0 and later).
const WAKING_PERCENT: &str = "25";
/// The shortest pause. A kernel without that setting says that a buffer is readable as soon as it holds an event.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// The mount point of tracefs.
///
/// # Errors
/// tracefs is not mounted.
pub(in crate::block) fn find_root() -> Result<PathBuf, CaptureError> {
    let usual = Path::new("/sys/kernel/tracing");
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut mounted = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (point, kind) = (words.next()?, words.next()?);
        (kind == "tracefs").then(|| PathBuf::from(point))
    });
    let first = mounted.next().ok_or(CaptureError::NoTracefs)?;
    Ok(if first == usual || mounted.any(|point| point == usual) { usual.to_owned() } else { first })
}

pub(super) fn probe(_setup: &BackendSetup) -> Result<(), String> {
    let root = find_root().map_err(|error| error.to_string())?;
    let instances = root.join("instances");
    fs::read_dir(&instances).map_err(|error| CaptureError::io(&instances, error).to_string())?;
    let event = root.join("events/block/block_rq_issue/format");
    fs::read(&event).map(drop).map_err(|error| CaptureError::io(&event, error).to_string())
}

pub(super) fn open(setup: &BackendSetup, supervisor: &mut Supervisor) -> Result<Box<dyn Backend>, CaptureError> {
    let root = find_root()?;
    Ok(Box::new(Tracefs::begin(&root, setup, supervisor)?))
}

/// The buffer of one CPU.
struct CpuBuffer {
    number: u32,
    path: PathBuf,
    pipe: File,
    stats: PathBuf,
    /// Dropped events in its stats, when last read.
    dropped: u64,
    /// Of these, events not yet reported to the decoder.
    unreported: u64,
    /// Events that had been read from it then.
    read: u64,
}

struct Tracefs {
    // Declared before the instance, which cannot be removed while its files are open.
    cpus: BTreeMap<u32, CpuBuffer>,
    instance: Instance,
    pages: LivePages,
    raw: Option<RawPages>,
    decode: bool,
    /// A pause lasts until the kernel says that much waits.
    sleeps_long: bool,
    /// The folder with the saved format descriptions.
    formats: PathBuf,
    /// That folder, if it is not kept with raw pages.
    _temporary: Option<Scratch>,
    buffer: Vec<u8>,
    /// The most pages in a CPU's buffer.
    pages_max: usize,
    checked: Instant,
    /// When pages that were not full were last read.
    read_partial: Instant,
    online: String,
    notes: Vec<String>,
    /// Events that were read, when the counters were last read.
    read_in_all: u64,
    lost: u64,
}

impl Tracefs {
    fn begin(root: &Path, setup: &BackendSetup, supervisor: &mut Supervisor) -> Result<Tracefs, CaptureError> {
        let name = format!("{INSTANCE_PREFIX}{}", Owner::this().name());
        let path = root.join("instances").join(name);
        let fail = |error| CaptureError::io(&path, error);
        supervisor.instance(&path).map_err(fail)?;
        fs::create_dir(&path).map_err(fail)?;
        let instance = Instance(path.clone());
        set(&path, "tracing_on", "0")?;
        set(&path, "trace_clock", "mono")?;
        // If the buffer is full, new events are dropped and counted; recorded events are not overwritten.
        set(&path, "options/overwrite", "0")?;
        set(&path, "buffer_size_kb", &setup.buffer_kib.to_string())?;
        // Older kernels lack the setting.
        let _ = set(&path, "buffer_percent", WAKING_PERCENT);
        let raw = setup.raw.as_deref().map(RawPages::begin).transpose()?;
        let (formats, kept) = match &raw {
            Some(raw) => (raw.formats(), None),
            None => {
                let folder = Scratch::new().map_err(|error| CaptureError::io(&std::env::temp_dir(), error))?;
                (folder.path().join("formats"), Some(folder))
            }
        };
        save_formats(&path, &formats)?;
        let mut pages = LivePages::new(&formats)?;
        let is_of_histograms =
            matches!(setup.events, EventsNeeded::DeviceRequests | EventsNeeded::QueuedDeviceRequests);
        if is_of_histograms {
            pages = pages.without_names();
        }
        let mut backend = Tracefs {
            cpus: BTreeMap::new(),
            instance,
            buffer: vec![0; pages.page_bytes() * PAGES_PER_READ],
            pages_max: usize::try_from(setup.buffer_kib).unwrap_or(usize::MAX) * 1024 / pages.page_bytes() + 2,
            pages,
            raw,
            decode: setup.decode,
            sleeps_long: is_of_histograms || !setup.decode,
            formats,
            _temporary: kept,
            checked: Instant::now(),
            read_partial: Instant::now(),
            online: online(),
            notes: Vec::new(),
            read_in_all: 0,
            lost: 0,
        };
        backend.find_cpus()?;
        enable(&path, setup)?;
        set(&path, "tracing_on", "1")?;
        Ok(backend)
    }

    /// Opens the buffers of CPUs that are not open yet.
    fn find_cpus(&mut self) -> Result<(), CaptureError> {
        for (number, folder) in cpu_folders(&self.instance.0.join("per_cpu"))? {
            if self.cpus.contains_key(&number) {
                continue;
            }
            let path = folder.join("trace_pipe_raw");
            let fail = |error| CaptureError::io(&path, error);
            let flags = OFlags::NONBLOCK.bits().cast_signed();
            let pipe = OpenOptions::new().read(true).custom_flags(flags).open(&path).map_err(fail)?;
            if let Some(raw) = &mut self.raw {
                raw.add_cpu(number, 0)?;
            }
            let stats = folder.join("stats");
            self.cpus.insert(number, CpuBuffer { number, pipe, stats, dropped: 0, unreported: 0, read: 0, path });
        }
        Ok(())
    }

    /// Moves the full pages of the buffers to the raw files. Returns false if the kernel cannot.
    fn splice(&mut self) -> Result<bool, CaptureError> {
        let Some(raw) = self.raw.as_mut().filter(|_| !self.decode) else { return Ok(false) };
        let bytes_max = self.pages_max * self.pages.page_bytes();
        for cpu in self.cpus.values() {
            if !raw.splice(cpu.number, &cpu.pipe, bytes_max)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads the buffers.
    fn read(&mut self) -> Result<(), CaptureError> {
        let page_bytes = self.pages.page_bytes();
        for cpu in self.cpus.values_mut() {
            let mut left = self.pages_max;
            loop {
                let mut filled = 0;
                while filled < self.buffer.len() && left > 0 {
                    match cpu.pipe.read(&mut self.buffer[filled..filled + page_bytes]) {
                        Ok(0) => break,
                        Ok(bytes) => filled += bytes,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                        Err(error) => return Err(CaptureError::io(&cpu.path, error)),
                    }
                    left -= 1;
                }
                let dropped = std::mem::take(&mut cpu.unreported);
                if filled == 0 && dropped == 0 {
                    break;
                }
                if let Some(raw) = &mut self.raw {
                    raw.write(cpu.number, &self.buffer[..filled])?;
                }
                if self.decode {
                    self.pages.hand(cpu.number, &cpu.path, &self.buffer[..filled], dropped)?;
                }
                if filled < self.buffer.len() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Reads the counters, and opens the buffers of new CPUs.
    fn check(&mut self) -> Result<(), CaptureError> {
        self.checked = Instant::now();
        for cpu in self.cpus.values_mut() {
            // The counters of a removed CPU are gone.
            let Ok(stats) = fs::read_to_string(&cpu.stats) else { continue };
            let dropped = lost(&stats);
            let more = dropped.saturating_sub(cpu.dropped);
            (cpu.dropped, cpu.unreported, self.lost) = (dropped, cpu.unreported + more, self.lost + more);
            cpu.read = counter(&stats, "read events:").and_then(|count| count.parse().ok()).unwrap_or(cpu.read);
        }
        self.read_in_all = self.cpus.values().map(|cpu| cpu.read).sum();
        let online = online();
        if online != self.online {
            self.notes.push(format!("the CPUs in use changed from {} to {online}", self.online));
            self.online = online;
        }
        self.find_cpus()
    }

    /// The text of the buffers' counters.
    fn stats(&self) -> Result<BTreeMap<u32, String>, CaptureError> {
        let read =
            |cpu: &CpuBuffer| fs::read_to_string(&cpu.stats).map_err(|error| CaptureError::io(&cpu.stats, error));
        self.cpus.values().map(|cpu| Ok((cpu.number, read(cpu)?))).collect()
    }
}

impl Backend for Tracefs {
    fn sweep(&mut self, events: &mut Vec<Placed>) -> Result<(), CaptureError> {
        // All events with an earlier timestamp are in the buffers now.
        let complete = monotonic().saturating_sub(EVENT_SETTLING_NS);
        if self.checked.elapsed() >= CHECK_INTERVAL {
            self.check()?;
        }
        let has_spliced = self.splice()?;
        if !has_spliced || self.read_partial.elapsed() >= PARTIAL_PAGES_INTERVAL {
            self.read_partial = Instant::now();
            self.read()?;
        }
        self.pages.release(complete, events);
        Ok(())
    }

    fn wait(&mut self, longest: Duration) {
        if !self.sleeps_long {
            return sleep(longest);
        }
        let from = Instant::now();
        sleep(longest.min(PAUSE_MIN));
        let mut pipes: Vec<PollFd> = self.cpus.values().map(|cpu| PollFd::new(&cpu.pipe, PollFlags::IN)).collect();
        let left = Timespec::try_from(longest.saturating_sub(from.elapsed())).ok();
        // After a signal the caller looks at what it said; an error shows when the buffer is read.
        let _ = poll(&mut pipes, left.as_ref());
    }

    fn next_piece(&mut self, stem: &Path) -> Result<(), CaptureError> {
        let (stats, cpus) = (self.stats()?, &self.cpus);
        let Some(raw) = &mut self.raw else { return Ok(()) };
        raw.next(stem, &stats, |cpu| cpus.get(&cpu).and_then(|_| Some(lost(stats.get(&cpu)?))).unwrap_or(0))?;
        self.formats = raw.formats();
        Ok(())
    }

    fn stop(&mut self, events: &mut Vec<Placed>) -> Result<(), CaptureError> {
        set(&self.instance.0, "tracing_on", "0")?;
        set(&self.instance.0, "events/enable", "0")?;
        self.check()?;
        self.splice()?;
        self.read()?;
        self.pages.release(u64::MAX, events);
        // The counters of all that was read now.
        self.check()?;
        let stats = self.stats()?;
        if let Some(raw) = &mut self.raw {
            raw.end(&stats)?;
        }
        self.cpus.clear();
        remove_instance(&self.instance.0).map_err(|error| CaptureError::io(&self.instance.0, error))
    }

    fn format(&self) -> (&'static str, String) {
        (FORMAT.name, self.pages.clock().to_owned())
    }

    fn losses(&self) -> Losses {
        let mut losses = self.pages.losses().clone();
        if !self.decode {
            losses.lost_events = self.lost;
        }
        losses
    }

    fn names(&self) -> BTreeMap<u32, String> {
        self.pages.names().clone()
    }

    fn describe(&self, add: &mut dyn FnMut(&str, String)) {
        self.pages.describe(add);
        // The event formats are stored with the trace, so that its decoding can be verified.
        for event in EVENTS {
            if let Ok(text) = fs::read_to_string(self.formats.join("block").join(event).join("format")) {
                add(&format!("format.{event}"), text);
            }
        }
    }

    fn trace_now(&self) -> Option<u64> {
        let stats = fs::read_to_string(&self.cpus.values().next()?.stats).ok()?;
        let (seconds, micros) = counter(&stats, "now ts:")?.split_once('.')?;
        Some(seconds.parse::<u64>().ok()? * 1_000_000_000 + micros.parse::<u64>().ok()? * 1_000)
    }

    fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    fn raw_written(&self) -> (u64, u64) {
        self.raw.as_ref().map_or((0, 0), |raw| (raw.bytes(), self.read_in_all))
    }
}

/// The folders of CPUs by their number: `cpu0`, `cpu1`, …
fn cpu_folders(folder: &Path) -> Result<BTreeMap<u32, PathBuf>, CaptureError> {
    let fail = |error| CaptureError::io(folder, error);
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if let Some(number) = name.strip_prefix("cpu").and_then(|number| number.parse().ok()) {
            found.insert(number, path.clone());
        }
    }
    Ok(found)
}

/// The online CPUs, as the kernel lists them: `0-3,5`.
fn online() -> String {
    fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default().trim().to_owned()
}

/// A counter of a buffer's `stats`.
fn counter<'a>(stats: &'a str, key: &str) -> Option<&'a str> {
    stats.lines().find_map(|line| line.strip_prefix(key)).map(str::trim)
}

/// Events that a buffer could not hold.
pub(super) fn lost(stats: &str) -> u64 {
    let number = |key| counter(stats, key).and_then(|number| number.parse::<u64>().ok()).unwrap_or(0);
    number("dropped events:") + number("overrun:") + number("commit overrun:")
}

/// `stem` with `ending` appended.
pub(in crate::block) fn with_ending(stem: &Path, ending: &str) -> PathBuf {
    let mut name = stem.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_by_name() {
        let stats = "entries: 0\noverrun: 3\ncommit overrun: 1\nbytes: 0\noldest event ts:     0.000000\n\
                     now ts: 69554.822497\ndropped events: 5\nread events: 7\n";
        assert_eq!(lost(stats), 9);
        assert_eq!(counter(stats, "now ts:"), Some("69554.822497"));
        assert_eq!(lost(""), 0);
    }

    #[test]
    fn folder_of_a_new_cpu_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let numbers = |folder: &Path| cpu_folders(folder).unwrap().into_keys().collect::<Vec<u32>>();
        fs::create_dir(folder.path().join("cpu0")).unwrap();
        fs::create_dir(folder.path().join("cpufreq")).unwrap();
        assert_eq!(numbers(folder.path()), [0]);
        fs::create_dir(folder.path().join("cpu12")).unwrap();
        assert_eq!(numbers(folder.path()), [0, 12]);
    }
}
