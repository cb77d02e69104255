//! Merges lines of histograms into figures of each VM.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::{ERROR_SHARE, LineReader, LogHistogram};
use crate::error::{Problem, ReadError};
use crate::origin::without_folders;
use crate::program_version;
use crate::results::histograms::{
    BusySecond, HistogramDevice, HistogramFigures, HistogramStatistics, HistogramVm, OperationInSecond, SecondOfVm,
};
use crate::results::{PERCENTILES, SCHEMA_VERSION};

/// The most VMs on devices. A capture tells 4,096 VMs apart.
const VMS_MAX: usize = 8192;
/// The most kinds of unmatched or skipped events; a capture has a dozen.
const KINDS_MAX: usize = 64;
/// The operations, by the keys that they have in results.
const OPERATIONS: [&str; 4] = ["read", "write", "discard", "flush"];

/// Reads and merges files in their order. `top` of the busiest seconds are kept; `read` counts bytes, for progress.
///
/// # Errors
/// A file that cannot be read, or is malformed; more VMs than a capture can have.
pub fn summarise(
    files: &[PathBuf],
    lenient: bool,
    top: usize,
    read: &AtomicU64,
) -> Result<HistogramStatistics, ReadError> {
    let mut sum = Summary::new(top);
    let mut before = 0;
    for path in files {
        let mut reader = match LineReader::open(path, lenient) {
            // A capture was killed when it had just begun the piece.
            Err(error) if files.len() > 1 && matches!(error.problem, Problem::Empty) => {
                sum.statistics.cut_lines += 1;
                continue;
            }
            opened => opened?,
        };
        while let Some(second) = reader.next_line()? {
            if let Err(why) = sum.add(&second) {
                reader.refuse("line of one VM too many", why)?;
            }
            read.store(before + reader.consumed_bytes(), Ordering::Relaxed);
        }
        before += reader.consumed_bytes();
        sum.end_file(path, &reader);
    }
    Ok(sum.figures())
}

/// The requests of one operation.
#[derive(Default)]
struct OperationSum {
    requests: u64,
    bytes: u64,
    d2c_sum_ns: u128,
    d2c_max_ns: u64,
    d2c_ns: LogHistogram,
    sectors: LogHistogram,
}

impl OperationSum {
    fn add(&mut self, of: &OperationInSecond) {
        self.requests = self.requests.saturating_add(of.requests);
        self.bytes = self.bytes.saturating_add(of.bytes);
        self.d2c_sum_ns = self.d2c_sum_ns.saturating_add(u128::from(of.d2c_sum_ns));
        self.d2c_max_ns = self.d2c_max_ns.max(of.d2c_max_ns);
        // The reader has checked both.
        let _ = self.d2c_ns.add_stored(&of.d2c_ns);
        let _ = self.sectors.add_stored(&of.sectors);
    }

    fn figures(&self, captured_ns: u64) -> HistogramFigures {
        let per_s = |amount: u64| amount as f64 * 1e9 / captured_ns.max(1) as f64;
        HistogramFigures {
            requests: self.requests,
            bytes: self.bytes,
            iops: per_s(self.requests),
            bytes_per_s: per_s(self.bytes),
            d2c_mean_ns: self.d2c_sum_ns as f64 / self.requests.max(1) as f64,
            d2c_max_ns: self.d2c_max_ns,
            // The middle of the highest bucket may lie above the largest time.
            d2c_percentiles_ns: percentiles(&self.d2c_ns, self.d2c_max_ns),
            sectors_percentiles: percentiles(&self.sectors, u64::MAX),
        }
    }
}

fn percentiles(histogram: &LogHistogram, most: u64) -> BTreeMap<String, u64> {
    let named = |&(of, name): &(u32, &str)| Some((name.to_owned(), histogram.percentile(of)?.min(most)));
    PERCENTILES.iter().filter_map(named).collect()
}

#[derive(Default)]
struct VmSum {
    active_seconds: u64,
    operations: [OperationSum; OPERATIONS.len()],
}

/// A device, over runs of seconds without a gap.
struct DeviceSum {
    start_unix_ns: i64,
    /// The current run.
    from: i64,
    until: i64,
    /// The time of the runs before.
    captured_ns: u64,
    /// The start of the second whose requests in flight were counted last; each of its lines has them.
    counted: i64,
    in_flight_ns: u128,
    in_flight_max: u64,
    passed_through: u64,
}

impl DeviceSum {
    fn new(second: &SecondOfVm) -> DeviceSum {
        let start = second.start_unix_ns;
        DeviceSum {
            start_unix_ns: start,
            from: start,
            until: start,
            captured_ns: 0,
            counted: i64::MIN,
            in_flight_ns: 0,
            in_flight_max: 0,
            passed_through: 0,
        }
    }

    fn add(&mut self, second: &SecondOfVm) {
        let start = second.start_unix_ns;
        let is_other_run = start < self.from || (second.begins && start >= self.until);
        if is_other_run {
            self.captured_ns = self.captured_ns();
            (self.from, self.until) = (start, start);
            self.start_unix_ns = self.start_unix_ns.min(start);
        }
        self.until = self.until.max(start.saturating_add_unsigned(second.length_ns));
        if self.counted != start {
            self.counted = start;
            self.in_flight_ns = self.in_flight_ns.saturating_add(u128::from(second.device_in_flight_ns));
        }
        self.in_flight_max = self.in_flight_max.max(second.device_in_flight_max);
        self.passed_through = self.passed_through.saturating_add(second.passed_through);
    }

    fn captured_ns(&self) -> u64 {
        self.captured_ns.saturating_add(self.until.saturating_sub(self.from).unsigned_abs())
    }
}

/// The sum of lines, given one by one.
pub struct Summary {
    top: usize,
    statistics: HistogramStatistics,
    devices: BTreeMap<String, DeviceSum>,
    vms: BTreeMap<(String, String), VmSum>,
}

impl Summary {
    /// A sum of no line; `top` of the busiest seconds are kept.
    pub fn new(top: usize) -> Summary {
        let statistics = HistogramStatistics {
            schema_version: SCHEMA_VERSION,
            program: program_version(),
            error_share: ERROR_SHARE,
            ..HistogramStatistics::default()
        };
        Summary { top, statistics, devices: BTreeMap::new(), vms: BTreeMap::new() }
    }

    /// Adds a line.
    ///
    /// # Errors
    /// Its VM is one too many.
    pub fn add(&mut self, second: &SecondOfVm) -> Result<(), String> {
        let key = (second.device.clone(), second.vm.clone());
        if self.vms.len() >= VMS_MAX && !self.vms.contains_key(&key) {
            return Err(format!("more than {VMS_MAX} VMs on devices, of which a capture has at most 4096"));
        }
        let operations = [&second.read, &second.write, &second.discard, &second.flush];
        let vm = self.vms.entry(key).or_default();
        vm.active_seconds += u64::from(operations.iter().any(|of| of.is_some()));
        for (sum, of) in vm.operations.iter_mut().zip(operations) {
            of.iter().for_each(|of| sum.add(of));
        }
        self.devices.entry(second.device.clone()).or_insert_with(|| DeviceSum::new(second)).add(second);
        let all = &mut self.statistics;
        all.lines += 1;
        all.lost_events = all.lost_events.saturating_add(second.lost_events);
        add_kinds(&mut all.unmatched, &second.unmatched);
        add_kinds(&mut all.skipped_events, &second.skipped);
        self.note_if_busy(second);
        Ok(())
    }

    /// Keeps the second if it is among the busiest so far; of equal ones the earlier.
    fn note_if_busy(&mut self, second: &SecondOfVm) {
        let operations = || [&second.read, &second.write, &second.discard, &second.flush].into_iter().flatten();
        let requests = operations().fold(0, |sum: u64, of| sum.saturating_add(of.requests));
        let busiest = &mut self.statistics.busiest;
        let at = busiest.partition_point(|busy| busy.requests >= requests);
        if requests == 0 || at >= self.top {
            return;
        }
        let mut d2c_ns = LogHistogram::default();
        for of in operations() {
            // The reader has checked it.
            let _ = d2c_ns.add_stored(&of.d2c_ns);
        }
        let most = operations().map(|of| of.d2c_max_ns).max().unwrap_or(0);
        let busy = BusySecond {
            start_unix_ns: second.start_unix_ns,
            length_ns: second.length_ns,
            device: second.device.clone(),
            vm: second.vm.clone(),
            requests,
            bytes: operations().fold(0, |sum: u64, of| sum.saturating_add(of.bytes)),
            device_in_flight_mean: second.device_in_flight_ns as f64 / second.length_ns as f64,
            d2c_p99_ns: d2c_ns.percentile(9_900).unwrap_or(0).min(most),
        };
        busiest.truncate(self.top - 1);
        busiest.insert(at, busy);
    }

    fn end_file(&mut self, path: &Path, reader: &LineReader) {
        self.statistics.files.push(without_folders(&path.to_string_lossy()).to_owned());
        self.statistics.cut_lines += u64::from(reader.is_cut());
        add_kinds(&mut self.statistics.skipped_lines, reader.skipped());
    }

    /// The figures of all lines.
    pub fn figures(mut self) -> HistogramStatistics {
        for ((device, vm), sum) in self.vms {
            let captured_ns = self.devices.get(&device).map_or(0, DeviceSum::captured_ns);
            let operations = OPERATIONS.iter().zip(&sum.operations).filter(|(_, of)| of.requests > 0);
            let operations = operations.map(|(name, of)| ((*name).to_owned(), of.figures(captured_ns))).collect();
            let active_seconds = sum.active_seconds;
            self.statistics.vms.push(HistogramVm { device, vm, active_seconds, operations });
        }
        for (device, sum) in self.devices {
            let captured_ns = sum.captured_ns();
            self.statistics.devices.push(HistogramDevice {
                device,
                start_unix_ns: sum.start_unix_ns,
                captured_ns,
                in_flight_mean: sum.in_flight_ns as f64 / captured_ns.max(1) as f64,
                in_flight_max: sum.in_flight_max,
                passed_through: sum.passed_through,
            });
        }
        self.statistics
    }
}

/// Adds counts by kind. A kind beyond [`KINDS_MAX`] counts as `others`.
fn add_kinds(to: &mut BTreeMap<String, u64>, more: &BTreeMap<String, u64>) {
    for (kind, count) in more {
        let kind = if to.len() < KINDS_MAX || to.contains_key(kind) { kind } else { "others" };
        let sum = to.entry(kind.to_owned()).or_default();
        *sum = sum.saturating_add(*count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::histograms::HISTOGRAMS_VERSION;

    const SECOND: u64 = 1_000_000_000;

    fn of_times(times: &[u64]) -> OperationInSecond {
        let (mut d2c_ns, mut sectors) = (LogHistogram::default(), LogHistogram::default());
        for time in times {
            d2c_ns.add(*time);
            sectors.add(8);
        }
        OperationInSecond {
            requests: times.len() as u64,
            bytes: 4096 * times.len() as u64,
            d2c_sum_ns: times.iter().sum(),
            d2c_max_ns: times.iter().copied().max().unwrap_or(0),
            d2c_ns: d2c_ns.stored(),
            sectors: sectors.stored(),
        }
    }

    fn second(start: i64, vm: &str, reads: &[u64]) -> SecondOfVm {
        SecondOfVm {
            histograms_version: HISTOGRAMS_VERSION,
            start_unix_ns: start * SECOND as i64,
            length_ns: SECOND,
            device: "sda".to_owned(),
            vm: vm.to_owned(),
            read: (!reads.is_empty()).then(|| of_times(reads)),
            device_in_flight_ns: SECOND / 2,
            device_in_flight_max: 3,
            ..SecondOfVm::default()
        }
    }

    fn figures(seconds: &[SecondOfVm], top: usize) -> HistogramStatistics {
        let mut sum = Summary::new(top);
        seconds.iter().for_each(|second| sum.add(second).unwrap());
        sum.figures()
    }

    #[test]
    fn seconds_and_pieces_merge_into_the_figures_of_all_requests() {
        let web = |start, reads: &[u64]| second(start, "web", reads);
        let begins = |second: SecondOfVm| SecondOfVm { begins: true, ..second };
        let seconds = [
            begins(web(100, &[100, 200])),
            begins(second(100, "mail", &[5_000])),
            web(103, &[300]),
            // The capture was begun again after a gap of ten seconds.
            begins(web(114, &[400; 7])),
            SecondOfVm { lost_events: 5, passed_through: 2, ..web(115, &[]) },
        ];
        let found = figures(&seconds, 2);
        let device = &found.devices[0];
        assert_eq!((device.captured_ns, device.in_flight_max, device.passed_through), (6 * SECOND, 3, 2));
        // Two lines are of one second.
        assert_eq!(device.in_flight_mean, 4.0 * 0.5 / 6.0);
        assert_eq!((found.lost_events, found.lines), (5, 5));
        let of = |at: usize| &found.vms[at].operations["read"];
        assert_eq!((found.vms[0].vm.as_str(), of(0).requests, of(0).d2c_max_ns), ("mail", 1, 5_000));
        assert_eq!((found.vms[1].active_seconds, of(1).requests, of(1).bytes), (3, 10, 40_960));
        assert_eq!((of(1).iops, of(1).d2c_mean_ns), (10.0 / 6.0, 340.0));
        assert_eq!((of(1).d2c_percentiles_ns["p50"], of(1).sectors_percentiles["p99"]), (400, 8));
        assert_eq!(of(1).d2c_percentiles_ns["p99.9"], 400);
        let busiest: Vec<(i64, u64)> =
            found.busiest.iter().map(|busy| (busy.start_unix_ns / SECOND as i64, busy.requests)).collect();
        assert_eq!(busiest, [(114, 7), (100, 2)]);
        assert_eq!(found.busiest[0].d2c_p99_ns, 400);
    }

    #[test]
    fn hostile_lines_take_little_memory_and_overflow_nothing() {
        let absurd = OperationInSecond {
            requests: u64::MAX,
            bytes: u64::MAX,
            d2c_sum_ns: u64::MAX,
            d2c_max_ns: u64::MAX,
            d2c_ns: vec![(0, 1), (1 << 63, u64::MAX - 1)],
            sectors: vec![(1 << 63, u64::MAX)],
        };
        let mut sum = Summary::new(usize::MAX);
        for number in 0..VMS_MAX as i64 + 2 {
            let mut line = second(0, &number.to_string(), &[]);
            line.start_unix_ns = if number % 2 == 0 { i64::MAX } else { i64::MIN };
            (line.read, line.write) = (Some(absurd.clone()), Some(absurd.clone()));
            (line.lost_events, line.device_in_flight_ns) = (u64::MAX, u64::MAX);
            line.unmatched = BTreeMap::from([(format!("kind {number}"), u64::MAX)]);
            assert_eq!(sum.add(&line).is_ok(), number < VMS_MAX as i64, "{number}");
            let vm = "0".to_owned();
            assert!(sum.add(&SecondOfVm { vm, ..line }).is_ok());
        }
        let found = sum.figures();
        assert_eq!(found.vms.len(), VMS_MAX);
        assert_eq!(found.unmatched.len(), KINDS_MAX + 1);
        assert!(found.vms.iter().all(|vm| vm.operations["read"].iops.is_finite()));
    }
}
