//! The last seconds of a device, for a screen or for lines.

use std::collections::VecDeque;
use std::time::Duration;

use capture::block::CaptureProgress;
use traces::histograms::LogHistogram;
use traces::results::histograms::{OperationInSecond, SecondOfVm};

use crate::screen::Requests;

/// The seconds that are kept: more than a wide terminal has columns.
const KEPT: usize = 600;

/// The requests of an operation in a line.
fn of_operation(line: &OperationInSecond) -> Requests {
    let mut d2c_ns = LogHistogram::default();
    // Our own capture has stored it.
    let _ = d2c_ns.add_stored(&line.d2c_ns);
    Requests::of(line.requests, line.bytes, line.d2c_sum_ns, line.d2c_max_ns, d2c_ns)
}

/// The requests of a VM in a second.
#[derive(Clone, Debug, Default)]
pub struct OfVm {
    pub name: String,
    pub reads: Requests,
    pub writes: Requests,
    /// Flushes and discards.
    pub others: Requests,
}

impl OfVm {
    fn merge(&mut self, other: &OfVm) {
        self.reads.merge(&other.reads);
        self.writes.merge(&other.writes);
        self.others.merge(&other.others);
    }

    pub fn requests(&self) -> u64 {
        self.reads.count + self.writes.count + self.others.count
    }

    pub fn bytes(&self) -> u64 {
        self.reads.bytes + self.writes.bytes
    }
}

/// A second of the device.
#[derive(Clone, Debug, Default)]
pub struct Second {
    /// In ns since 1970.
    pub start_unix_ns: i64,
    pub length_ns: u64,
    /// The sum of all VMs; it has no name.
    pub all: OfVm,
    pub vms: Vec<OfVm>,
    pub in_flight_ns: u64,
    pub in_flight_max: u64,
}

impl Second {
    fn add(&mut self, line: &SecondOfVm) {
        let mut vm = OfVm { name: line.vm.clone(), ..OfVm::default() };
        let others = &mut vm.others;
        [&line.discard, &line.flush].into_iter().flatten().for_each(|of| others.merge(&of_operation(of)));
        vm.reads = line.read.as_ref().map(of_operation).unwrap_or_default();
        vm.writes = line.write.as_ref().map(of_operation).unwrap_or_default();
        self.all.merge(&vm);
        (self.start_unix_ns, self.length_ns) = (line.start_unix_ns, line.length_ns);
        // Each line of a second has what is known of the device.
        (self.in_flight_ns, self.in_flight_max) = (line.device_in_flight_ns, line.device_in_flight_max);
        if vm.requests() > 0 {
            self.vms.push(vm);
        }
    }

    /// The mean number of requests in flight.
    pub fn in_flight_mean(&self) -> f64 {
        self.in_flight_ns as f64 / self.length_ns.max(1) as f64
    }
}

/// The last seconds of a device.
#[derive(Debug)]
pub struct Recent {
    pub device: String,
    /// The last one at the end.
    pub seconds: VecDeque<Second>,
    /// Seconds that have ended so far.
    ended: u64,
    pub lasted: Duration,
    pub lost: u64,
    pub cpu_percent: f64,
    /// What the user is told when the screen has closed.
    pub notes: Vec<String>,
}

impl Recent {
    pub fn new(device: String) -> Recent {
        Recent {
            device,
            seconds: VecDeque::new(),
            ended: 0,
            lasted: Duration::ZERO,
            lost: 0,
            cpu_percent: 0.0,
            notes: Vec::new(),
        }
    }

    /// Takes over what has ended since the last report.
    pub fn add(&mut self, progress: &CaptureProgress) {
        (self.lasted, self.lost, self.cpu_percent) = (progress.lasted, progress.lost, progress.cpu_percent);
        self.notes.extend_from_slice(&progress.notes);
        for line in &progress.seconds {
            match self.seconds.back_mut() {
                Some(last) if last.start_unix_ns == line.start_unix_ns => last.add(line),
                _ => {
                    let mut second = Second::default();
                    second.add(line);
                    self.seconds.push_back(second);
                    self.ended += 1;
                }
            }
        }
        while self.seconds.len() > KEPT {
            self.seconds.pop_front();
        }
    }

    /// The seconds after the first `before`, as far as they are kept.
    pub fn since(&self, before: u64) -> impl Iterator<Item = &Second> {
        let new = usize::try_from(self.ended.saturating_sub(before)).unwrap_or(usize::MAX);
        self.seconds.range(self.seconds.len().saturating_sub(new)..)
    }

    /// The last `seconds` seconds together, and the time that they took. VMs with the most requests come first.
    pub fn together(&self, seconds: usize) -> (OfVm, Vec<OfVm>, u64) {
        let (mut all, mut vms, mut length_ns): (OfVm, Vec<OfVm>, u64) = Default::default();
        for second in self.seconds.range(self.seconds.len().saturating_sub(seconds)..) {
            all.merge(&second.all);
            length_ns += second.length_ns;
            for vm in &second.vms {
                match vms.iter_mut().find(|known| known.name == vm.name) {
                    Some(known) => known.merge(vm),
                    None => vms.push(vm.clone()),
                }
            }
        }
        vms.sort_by(|a, b| b.requests().cmp(&a.requests()).then_with(|| a.name.cmp(&b.name)));
        (all, vms, length_ns)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn operation(times: &[u64], bytes: u64) -> Option<OperationInSecond> {
        let mut d2c_ns = LogHistogram::default();
        times.iter().for_each(|time| d2c_ns.add(*time));
        (!times.is_empty()).then(|| OperationInSecond {
            requests: times.len() as u64,
            bytes: bytes * times.len() as u64,
            d2c_sum_ns: times.iter().sum(),
            d2c_max_ns: times.iter().copied().max().unwrap_or(0),
            d2c_ns: d2c_ns.stored(),
            sectors: Vec::new(),
        })
    }

    /// A line of a second.
    pub fn line(second: i64, vm: &str, reads: &[u64], writes: &[u64]) -> SecondOfVm {
        SecondOfVm {
            start_unix_ns: second * SECOND as i64,
            length_ns: SECOND,
            device: "sda".to_owned(),
            vm: vm.to_owned(),
            read: operation(reads, 4096),
            write: operation(writes, 1 << 20),
            device_in_flight_ns: SECOND / 4,
            device_in_flight_max: 7,
            ..SecondOfVm::default()
        }
    }

    /// A device of which these lines have been captured.
    pub fn recent(seconds: Vec<SecondOfVm>) -> Recent {
        let mut recent = Recent::new("sda".to_owned());
        recent.add(&CaptureProgress {
            backend: "tracefs",
            lasted: Duration::from_millis(2_900),
            events_per_second: 0,
            events: 0,
            lost: 0,
            written_bytes: 0,
            cpu_percent: 0.4,
            notes: Vec::new(),
            seconds,
        });
        recent
    }

    #[test]
    fn lines_of_one_second_are_one_second() {
        let seconds = vec![
            line(0, "web", &[1_000_000, 3_000_000], &[]),
            line(0, "mail", &[2_000_000], &[8_000_000; 3]),
            line(1, "", &[], &[]),
            line(2, "web", &[], &[5_000_000; 9]),
        ];
        let recent = recent(seconds);
        assert_eq!(recent.seconds.len(), 3);
        let first = &recent.seconds[0];
        assert_eq!((first.all.reads.count, first.all.writes.count, first.vms.len()), (3, 3, 2));
        assert_eq!((first.all.reads.mean_ns(), first.all.reads.max_ns()), (Some(2_000_000.0), Some(3_000_000.0)));
        // The lines have the device's figures twice.
        assert_eq!((first.in_flight_mean(), first.in_flight_max), (0.25, 7));
        assert!(recent.seconds[1].vms.is_empty());
        let (all, vms, length_ns) = recent.together(2);
        assert_eq!((all.writes.count, all.reads.count, vms.len(), length_ns), (9, 0, 1, 2 * SECOND));
        let (_, vms, _) = recent.together(60);
        assert_eq!(
            vms.iter().map(|vm| (vm.name.as_str(), vm.requests())).collect::<Vec<_>>(),
            [("web", 11), ("mail", 4)]
        );
        assert_eq!(
            recent.since(1).map(|second| second.start_unix_ns).collect::<Vec<_>>(),
            [1, 2].map(|at| at * SECOND as i64)
        );
        assert_eq!(recent.since(3).count(), 0);
    }

    #[test]
    fn memory_is_bounded() {
        let many = (0..2 * KEPT as i64).map(|second| line(second, "web", &[1], &[])).collect();
        let recent = recent(many);
        assert_eq!(recent.seconds.len(), KEPT);
        // More are new than are kept.
        assert_eq!(recent.since(0).count(), KEPT);
    }
}
