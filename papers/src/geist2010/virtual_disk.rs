//! The VM's columns of Tables 2 and 3 on real virtual disks behind the throttle, beside the simulated columns.
//!
//! Processes, file system and schedulers are those of the simulated columns ([`super::run`]), with the same seed. The
//! disk is real: a file or a block device, whose completions the throttle holds back at the paper's k. The clock of the
//! run is slowed by k, so that all times are in the real disk's scale. A run therefore takes k times as long as the
//! captured requests would take on the Cheetah: 20 to 50 minutes.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use drive_models::throttle::Throttle;
use drive_models::{DriveModel, WriteCache};
use replay::live::{Clock, DeviceDrive, End, Finished, LONGEST_REQUEST, LiveDevice, LiveEngine, MonotonicClock};
use replay::live::{ServiceTimes, Throttled};
use replay::observer::Completed;
use traces::results::reproduction::{Cell, Reproduction, Source};
use traces::{Lba, Nanos, Request, RequestId, Sectors};

use super::choices::Choices;
use super::numbers::{REQUESTS, SCHEDULERS};
use super::results::{ROWS, TABLES, evidence};
use super::run::{K, Measured, Parts, Prepared, Setting, Setup, System, run, setup};
use super::{FILES, prepared, throttled};
use crate::ReproduceError;
use crate::estimate::cell;

/// Arrivals of all runs together, for a progress bar. Each run sends a tenth more than it captures.
pub const ARRIVALS: u64 = (REQUESTS + REQUESTS / 10) * RUNS as u64;

const RUNS: usize = TABLES.len() * SCHEDULERS.len();

/// A virtual disk in the place of the larger modelled disk: an address beyond its end wraps to its beginning. The
/// throttle sees the addresses before that.
struct Wrapped<'a> {
    device: &'a mut dyn LiveDevice,
    capacity: Sectors,
}

impl LiveDevice for Wrapped<'_> {
    fn capacity(&self) -> Sectors {
        self.capacity
    }
    fn write_cache(&self) -> WriteCache {
        self.device.write_cache()
    }
    fn discards(&self) -> bool {
        self.device.discards()
    }
    fn accepts(&self, request: &Request) -> bool {
        self.device.accepts(request)
    }
    fn submit(&mut self, id: RequestId, request: &Request) {
        const PAGE: u64 = 8;
        let space = (self.device.capacity().count() - request.sectors().count()) / PAGE * PAGE;
        let mut wrapped = *request;
        wrapped.lba = Lba::new(request.lba.sector() % space.max(PAGE));
        self.device.submit(id, &wrapped);
    }
    fn start(&mut self) -> io::Result<()> {
        self.device.start()
    }
    fn poll(&mut self, finished: &mut Vec<Finished>) {
        self.device.poll(finished);
    }
    fn is_gone(&mut self) -> bool {
        self.device.is_gone()
    }
    fn wait(&mut self, timeout: Nanos) -> io::Result<()> {
        self.device.wait(timeout)
    }
}

/// A run on a virtual disk.
#[derive(Clone, Debug)]
struct OnDisk {
    measured: Measured,
    /// Completions that the virtual disk made too late for the throttle, of all completions.
    late: [u64; 2],
    service: ServiceTimes,
}

/// Checks that a disk is large enough.
///
/// # Errors
/// It is not.
pub fn check(device: &dyn LiveDevice) -> Result<(), ReproduceError> {
    if device.capacity() <= LONGEST_REQUEST {
        let needed = LONGEST_REQUEST.bytes() >> 20;
        return Err(ReproduceError::VirtualDisk(format!("a virtual disk must have more than {needed} MiB")));
    }
    Ok(())
}

/// Runs one table's workload under a scheduler on `device`.
fn run_on_disk<C: Clock>(
    setting: &Setting,
    setup: &Setup,
    device: &mut dyn LiveDevice,
    (clock, spin): (C, Option<Nanos>),
    (progress, stop): (&Arc<AtomicU64>, &Arc<AtomicBool>),
) -> Result<OnDisk, ReproduceError> {
    check(device)?;
    let capacity = drive_models::build(&Choices::FROZEN.drive(System::Virtual).parse()?)?.drive.capacity();
    let settings = throttled::settings("")?.on_slowed_clock();
    let mut throttle = Throttle::new(DeviceDrive::new(Wrapped { device, capacity }), &settings);
    let Parts { source, stage, capture } = Parts::new(setting, &setup.scheduler)?;
    let observer = (capture, Completed(Arc::clone(progress)));
    let engine = LiveEngine::new(source, stage, Throttled::new(&mut throttle), observer, clock).stop(Arc::clone(stop));
    let ended = spin.into_iter().fold(engine, LiveEngine::spin).run()?;
    if let Some((failure, count)) = ended.failures.first_key_value() {
        let error = io::Error::from_raw_os_error(failure.errno());
        return Err(ReproduceError::VirtualDisk(format!("{count} requests failed on the virtual disk: {error}")));
    }
    if ended.end != End::Complete {
        return Err(ReproduceError::Interrupted);
    }
    let rules = schedulers::registry::find(&setup.scheduler.name)?.rules;
    let rules = replay::figures::rules(rules, [&ended.sent_by_rule[..]]);
    let (measured, service) = (Measured { rules, ..ended.observer.0.measured() }, ended.drive.all());
    let report = throttle.report();
    Ok(OnDisk { measured, late: [report.late, report.completions], service })
}

/// Adds the VM's columns as measured on `disks`, each beside its simulation with the same seed, and says so in the
/// statements. Each disk has one run at a time, and its addresses wrap. Counts completed arrivals, of which there are
/// [`ARRIVALS`]. Nothing is written to the disks.
///
/// # Errors
/// A disk that is too small, fails or disappears; a run that `stop` has ended.
pub fn add(
    reproduction: &mut Reproduction,
    seed: u64,
    disks: &mut [Box<dyn LiveDevice>],
    progress: &Arc<AtomicU64>,
    stop: &Arc<AtomicBool>,
) -> Result<(), ReproduceError> {
    let prepared = prepared(seed, FILES, &Choices::FROZEN)?;
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Result<OnDisk, ReproduceError>)>> = Mutex::default();
    let runs_of = |device: &mut dyn LiveDevice| {
        loop {
            let nth = next.fetch_add(1, Ordering::Relaxed);
            if nth >= RUNS || stop.load(Ordering::Relaxed) {
                return;
            }
            let made = of_run(nth, &prepared, seed).and_then(|(setting, setup)| {
                run_on_disk(&setting, &setup, device, (MonotonicClock::new(), None), (progress, stop))
            });
            stop.fetch_or(made.is_err(), Ordering::Relaxed);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((nth, made));
        }
    };
    let count = disks.len();
    std::thread::scope(|scope| {
        for device in disks {
            scope.spawn(|| runs_of(device));
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    // The error that stopped the others comes first.
    done.sort_by_key(|(nth, made)| (matches!(made, Err(ReproduceError::Interrupted)), *nth));
    let on_disk: Vec<OnDisk> = done.into_iter().map(|(_, made)| made).collect::<Result<_, _>>()?;
    if on_disk.len() < RUNS {
        return Err(ReproduceError::Interrupted);
    }
    for (nth, on_disk) in on_disk.iter().enumerate() {
        let (setting, setup) = of_run(nth, &prepared, seed)?;
        let simulated = run(&prepared, &setup, setting.direct, seed)?;
        reproduction.cells.extend(cells(nth, &simulated, on_disk));
    }
    reproduction.statements.push(format!(
        "On a virtual disk: the VM's processes with seed {seed}, their reads on {count} real virtual disks behind the \
         throttle at k = {K}, one run at a time on each. An address beyond the end of a disk wraps to its beginning, \
         and the throttle computes seeks before that. Simulated: the same seed on the line. A late completion came \
         after the time that the throttle had for it."
    ));
    Ok(())
}

/// The table and the scheduler of a run.
fn named(nth: usize) -> (usize, usize) {
    (nth / SCHEDULERS.len(), nth % SCHEDULERS.len())
}

fn of_run(nth: usize, prepared: &Prepared, seed: u64) -> Result<(Setting<'_>, Setup), ReproduceError> {
    let (table, scheduler) = named(nth);
    let setup = setup(System::Virtual, SCHEDULERS[scheduler], &Choices::FROZEN)?;
    Ok((Setting::of(prepared, &setup, table == 0, seed), setup))
}

/// The cells of a run: the paper's quantities simulated and on the disk, and what the throttle achieved.
fn cells(nth: usize, simulated: &Measured, on_disk: &OnDisk) -> Vec<Cell> {
    let (table, scheduler) = named(nth);
    let (number, columns) = &TABLES[table];
    let (name, scheduler_name) = (format!("{number}, on a virtual disk"), SCHEDULERS[scheduler]);
    let mut cells = Vec::new();
    for row in &ROWS {
        let paper = Some((row.paper)(&columns[1])[scheduler]);
        for (column, measured) in [("simulated", simulated), ("on the disk", &on_disk.measured)] {
            let column = format!("{scheduler_name}, {column}");
            let ours = &[(row.ours)(measured)];
            let of_row = cell([&name, row.name, &column], row.unit, paper, ours, false);
            cells.push(of_row.by(evidence(table, System::Virtual)));
        }
    }
    let [late, completions] = on_disk.late;
    let ServiceTimes { modelled_ns, achieved_ns, .. } = on_disk.service;
    let column = format!("{scheduler_name}, on the disk");
    let throttle = [
        ("late completions", late as f64 / completions as f64),
        ("service above the model's", achieved_ns as f64 / modelled_ns as f64 - 1.0),
    ];
    for (row, share) in throttle {
        cells.push(cell([&name, row, &column], "share", None, &[share], false));
    }
    for cell in cells.iter_mut().filter(|cell| cell.column.ends_with("on the disk")) {
        cell.source = Source::Measured;
    }
    cells
}

#[cfg(test)]
mod tests {
    use traces::Timestamp;

    use super::*;

    /// A clock that stands still while the run computes, and a disk that moves it.
    #[derive(Clone, Default)]
    struct ManualClock(Arc<AtomicU64>);

    impl Clock for ManualClock {
        fn start(&mut self) {}
        fn now(&self) -> Timestamp {
            Timestamp::from_ns(self.0.load(Ordering::Relaxed))
        }
    }

    /// A disk that completes a request within 2 ms, sooner or later by its address.
    struct Disk {
        clock: ManualClock,
        in_flight: Vec<(Timestamp, RequestId)>,
        seen: Vec<Request>,
        errno: Option<i32>,
    }

    impl Disk {
        fn new(errno: Option<i32>) -> Disk {
            Disk { clock: ManualClock::default(), in_flight: Vec::new(), seen: Vec::new(), errno }
        }
    }

    impl LiveDevice for Disk {
        fn capacity(&self) -> Sectors {
            Sectors::new(20_001)
        }
        fn accepts(&self, _: &Request) -> bool {
            true
        }
        fn submit(&mut self, id: RequestId, request: &Request) {
            let takes = Nanos::from_us(request.lba.sector() % 2000);
            self.in_flight.push((self.clock.now() + takes, id));
            self.seen.push(*request);
        }
        fn start(&mut self) -> io::Result<()> {
            Ok(())
        }
        fn poll(&mut self, finished: &mut Vec<Finished>) {
            let now = self.clock.now();
            for (_, id) in self.in_flight.extract_if(.., |(at, _)| *at <= now) {
                let failure = self.errno.map(replay::live::Failure::Errno);
                finished.push(Finished { id, failure });
            }
        }
        fn wait(&mut self, timeout: Nanos) -> io::Result<()> {
            let until = self.in_flight.iter().map(|(at, _)| *at).fold(self.clock.now() + timeout, Timestamp::min);
            self.clock.0.store(until.as_ns(), Ordering::Relaxed);
            Ok(())
        }
    }

    fn run_with(disk: &mut Disk, setting: &Setting, setup: &Setup) -> Result<OnDisk, ReproduceError> {
        let clock = (disk.clock.clone(), Some(Nanos::ZERO));
        run_on_disk(setting, setup, disk, clock, (&Arc::default(), &Arc::default()))
    }

    #[test]
    fn a_virtual_disk_that_is_never_late_has_the_figures_of_the_simulation() {
        let prepared = prepared(1, 40_000, &Choices::FROZEN).unwrap();
        for nth in 0..RUNS {
            let (setting, setup) = of_run(nth, &prepared, 1).unwrap();
            let setting = Setting { requests: 2000, ..setting };
            let drive = drive_models::build(&Choices::FROZEN.drive(System::Virtual).parse().unwrap()).unwrap().drive;
            let simulated = super::super::run::run_on(&setting, &setup.scheduler, drive).unwrap();
            let mut disk = Disk::new(None);
            let on_disk = run_with(&mut disk, &setting, &setup).unwrap();
            assert_eq!(format!("{:?}", on_disk.measured), format!("{simulated:?}"), "{:?}", named(nth));
            assert_eq!((on_disk.late[0], on_disk.service.achieved_ns), (0, on_disk.service.modelled_ns));
            assert!(disk.seen.len() >= 2000 && disk.seen.iter().all(|request| request.end().sector() <= 20_001));
            assert!(disk.seen.iter().any(|request| request.lba.sector() > 10_000), "addresses wrap");
            let cells = cells(nth, &simulated, &on_disk);
            assert_eq!(cells.len(), 12);
            assert_eq!(cells.iter().filter(|cell| cell.source == Source::Measured).count(), 7);
        }
    }

    #[test]
    fn a_disk_that_fails_or_is_too_small_is_an_error() {
        let prepared = prepared(1, 40_000, &Choices::FROZEN).unwrap();
        let (setting, setup) = of_run(0, &prepared, 1).unwrap();
        let setting = Setting { requests: 100, ..setting };
        let error = run_with(&mut Disk::new(Some(5)), &setting, &setup).unwrap_err().to_string();
        assert!(error.contains("failed on the virtual disk: Input/output error"), "{error}");
        let mut small = replay::live::NullDevice::new(LONGEST_REQUEST);
        let clock = (MonotonicClock::new(), None);
        let error = run_on_disk(&setting, &setup, &mut small, clock, (&Arc::default(), &Arc::default())).unwrap_err();
        assert!(error.to_string().contains("more than 8 MiB"), "{error}");
    }
}
