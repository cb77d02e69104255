//! The link between the guests of a lab and its drive, from the figures of the VMs alone.

use traces::Nanos;
use traces::results::lab::LabRun;

use crate::validate::guest_queue::Link;

/// The rates that are tried, up to that of the steepest line. Set by judgement; not varied.
const RATES: u32 = 256;
/// The highest share of time in which a link is taken to carry data. Set by judgement; not varied.
const BUSY_MAX: f64 = 0.95;

/// What the link did for the reads of a VM.
#[derive(Clone, Copy, Debug)]
struct Carried {
    /// Mean size, bytes.
    size: f64,
    /// Reads per second.
    rate: f64,
    /// Mean time at the disk beyond the drive's, ns.
    time: f64,
}

impl Carried {
    /// The mean time that the link carries the data of a read, and makes it wait for those of others, ns: requests of
    /// one size that come at random (M/D/1).
    fn on_link(&self, ns_per_byte: f64) -> f64 {
        let carries = ns_per_byte * self.size;
        let busy = (self.rate * carries / 1e9).min(BUSY_MAX);
        carries * (1.0 + busy / (2.0 * (1.0 - busy)))
    }
}

/// The link, without what the VM `without` shows, whose figures are the truth.
pub(super) fn link(runs: &[LabRun], without: &str) -> Link {
    let alone = runs.iter().filter(|run| run.vms.len() == 1).flat_map(|run| &run.vms);
    let carried = alone.filter(|vm| vm.vm != without && vm.drive.reads.requests > 0).filter_map(|vm| {
        let reads = &vm.guest.reads;
        Some(Carried {
            size: vm.drive.reads.bytes as f64 / vm.drive.reads.requests as f64,
            rate: vm.drive.reads.iops,
            time: reads.mean_device_ns? - vm.drive.reads.mean_response_ns,
        })
    });
    through(&carried.collect::<Vec<_>>())
}

/// The delay and bandwidth with the smallest deviations, in the sum of their amounts.
fn through(carried: &[Carried]) -> Link {
    // A link on which no read waits for another would be so slow.
    let slowest = slope(carried);
    let rates = (0..=RATES).map(|step| slowest * f64::from(step) / f64::from(RATES));
    let fit = |ns_per_byte: f64| {
        let rest: Vec<f64> = carried.iter().map(|of| of.time - of.on_link(ns_per_byte)).collect();
        let delay = median(&rest).max(0.0);
        let deviation: f64 = rest.iter().map(|rest| (rest - delay).abs()).sum();
        (deviation, delay, ns_per_byte)
    };
    let best = rates.map(fit).min_by(|a, b| a.0.total_cmp(&b.0));
    let (_, delay, ns_per_byte) = best.unwrap_or_default();
    let bandwidth = if ns_per_byte > 0.0 { (1e9 / ns_per_byte).round() as u64 } else { 0 };
    Link { delay: Nanos::from_ns(delay.round() as u64), bandwidth }
}

/// The slope of the line by least squares through sizes and times, ns per byte; 0 if times do not grow with sizes, or all
/// have one size. VMs of nearly one size say little of larger requests. So the slope b with the standard error e is
/// shrunk to b b² / (b² + e²), which has the smallest mean square error among multiples of it. A bound of two standard
/// errors, and no bound, were worse on train and on the older labs.
fn slope(carried: &[Carried]) -> f64 {
    let count = carried.len() as f64;
    let mean = |of: &dyn Fn(&Carried) -> f64| carried.iter().map(of).sum::<f64>() / count.max(1.0);
    let (size, time) = (mean(&|of| of.size), mean(&|of| of.time));
    let spread = mean(&|of| (of.size - size).powi(2));
    if spread <= 0.0 {
        return 0.0;
    }
    let slope = (mean(&|of| (of.size - size) * (of.time - time)) / spread).max(0.0);
    let off = mean(&|of| (of.time - time - slope * (of.size - size)).powi(2));
    let standard_error_squared = off / spread / (count - 2.0).max(1.0);
    let squared = slope.powi(2);
    if squared > 0.0 { slope * squared / (squared + standard_error_squared) } else { 0.0 }
}

/// The middle of the values, or 0 if there are none.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        count => (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reads of a VM on a link of 1 ms and 20 ns for each byte.
    fn carried(size: f64, rate: f64) -> Carried {
        let reads = Carried { size, rate, time: 0.0 };
        Carried { time: 1e6 + reads.on_link(20.0), ..reads }
    }

    #[test]
    fn delay_and_bandwidth_are_found_behind_the_waits_on_a_busy_link() {
        // 10 reads per second of 250 kB take 5 ms each on the link, 150 of them wait as well.
        let small = [carried(4e3, 200.0), carried(8e3, 100.0), carried(16e3, 300.0)];
        for rate in [10.0, 60.0, 150.0] {
            let vms: Vec<Carried> = small.into_iter().chain([carried(250e3, rate)]).collect();
            let Link { delay, bandwidth } = through(&vms);
            assert!(bandwidth.abs_diff(50_000_000) < 2_000_000, "{bandwidth} with {rate}");
            assert!(delay.as_ns().abs_diff(1_000_000) < 20_000, "{delay} with {rate}");
        }
    }

    #[test]
    fn sizes_that_hardly_differ_say_little_of_larger_requests() {
        let of = |times: [f64; 6]| {
            let sizes = [8e3, 13e3, 18e3, 8e3, 13e3, 18e3];
            let carried = sizes.into_iter().zip(times).map(|(size, time)| Carried { size, rate: 1.0, time });
            through(&carried.collect::<Vec<_>>()).bandwidth
        };
        // Both lines have 20 ns for each byte, 50 MB/s.
        let clear = of([0.7e6, 0.8e6, 0.9e6, 0.7e6, 0.8e6, 0.9e6]);
        assert!(clear.abs_diff(50_000_000) < 500_000, "{clear}");
        let unclear = of([0.3e6, 1.6e6, 0.5e6, 1.1e6, 0.0, 1.3e6]);
        assert!(unclear > 250_000_000, "{unclear}");
    }

    #[test]
    fn link_is_never_faster_for_large_requests_and_takes_no_negative_time() {
        let of = |points: &[(f64, f64)]| {
            through(&points.iter().map(|&(size, time)| Carried { size, rate: 1.0, time }).collect::<Vec<_>>())
        };
        let delay_only = Link { delay: Nanos::from_us(800), bandwidth: 0 };
        assert_eq!(of(&[(4e3, 900e3), (64e3, 700e3)]), delay_only);
        assert_eq!(of(&[(4e3, -5.0)]), Link::default());
        assert_eq!(of(&[]), Link::default());
    }
}
