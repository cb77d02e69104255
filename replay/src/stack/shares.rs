//! The bytes served to each VM and their fairness (Jain's index), over the run and in each interval of it.

use traces::results::Fairness;
use traces::results::stack::{VmInterval, VmSeriesWriter};
use traces::{Nanos, Operation, Request, RequestId, Timestamp, VmId, WriteError};

use crate::active_time::ActiveTime;
use crate::observer::Observer;

/// The counts of one VM.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    /// Bytes served over the run.
    bytes: u64,
    /// Reads and writes that have not completed.
    outstanding: u64,
    /// Whether it had any outstanding in the interval.
    active: bool,
    /// Whether it ever had any outstanding.
    seen: bool,
    interval: VmInterval,
}

/// Counts the bytes of reads and writes by VM and time of completion. Intervals without an outstanding request are left
/// out.
pub struct Shares {
    length: Nanos,
    vms: Vec<Share>,
    start: Timestamp,
    outstanding: u64,
    fairness: Fairness,
    sum: f64,
    /// The time for which fairness is measured.
    active: ActiveTime,
    series: Option<VmSeriesWriter>,
    error: Option<WriteError>,
}

impl Shares {
    /// Counts in intervals of this length. Fairness is that of the time `active`; `series` gets every interval of the run.
    ///
    /// # Panics
    /// If the length is zero.
    pub fn new(length: Nanos, active: ActiveTime, series: Option<VmSeriesWriter>) -> Shares {
        assert!(length > Nanos::ZERO, "an interval has a length");
        Shares {
            length,
            vms: Vec::new(),
            start: Timestamp::ZERO,
            outstanding: 0,
            fairness: Fairness { interval_ns: length, ..Fairness::default() },
            sum: 0.0,
            active,
            series,
            error: None,
        }
    }

    /// The fairness indexes, after the run. Completes the series.
    ///
    /// # Errors
    /// The first error of writing the series.
    pub fn finish(mut self) -> Result<Fairness, WriteError> {
        self.close();
        if let Some(error) = self.error {
            return Err(error);
        }
        if let Some(series) = self.series {
            series.finish()?;
        }
        let served = self.vms.iter().filter(|share| share.seen).map(|share| share.bytes);
        self.fairness.jain = jain(served);
        if self.fairness.intervals > 0 {
            self.fairness.jain_interval_mean = Some(self.sum / self.fairness.intervals as f64);
        }
        Ok(self.fairness)
    }

    fn share(&mut self, request: &Request) -> &mut Share {
        let vm = usize::from(request.vm.0);
        if vm >= self.vms.len() {
            self.vms.resize_with(vm + 1, Share::default);
        }
        &mut self.vms[vm]
    }

    /// Ends the interval if `now` lies behind it, and every further interval before `now` in which requests were only
    /// waiting.
    fn at(&mut self, now: Timestamp) {
        while now.since(self.start) >= self.length {
            self.close();
            self.start = if self.outstanding > 0 {
                self.start.saturating_add(self.length)
            } else {
                Timestamp::from_ns(now.as_ns() - now.as_ns() % self.length.as_ns())
            };
        }
    }

    fn close(&mut self) {
        let is_over = self.active.is_over();
        let active = || self.vms.iter().filter(|share| share.active && !is_over);
        let bytes = active().map(|share| share.interval.read_bytes + share.interval.write_bytes);
        if let (true, Some(index)) = (active().nth(1).is_some(), jain(bytes)) {
            self.fairness.intervals += 1;
            self.sum += index;
            self.fairness.jain_interval_min =
                Some(self.fairness.jain_interval_min.map_or(index, |least: f64| least.min(index)));
        }
        for (vm, share) in self.vms.iter_mut().enumerate() {
            if let (true, Some(series), None) = (share.active, &mut self.series, &self.error) {
                self.error = series.write(self.start, vm, &share.interval).err();
            }
            share.interval = VmInterval::default();
            share.active = share.outstanding > 0;
        }
    }
}

impl Observer for Shares {
    fn arrived(&mut self, now: Timestamp, _id: RequestId, request: &Request) {
        if request.operation.moves_data() {
            self.at(now);
            self.outstanding += 1;
            let share = self.share(request);
            share.outstanding += 1;
            (share.active, share.seen) = (true, true);
        }
    }

    fn completed(&mut self, now: Timestamp, _id: RequestId, request: &Request) {
        if !request.operation.moves_data() {
            return;
        }
        self.at(now);
        self.outstanding -= 1;
        let is_over = self.active.is_over();
        let share = self.share(request);
        share.outstanding -= 1;
        let bytes = request.sectors().bytes();
        share.bytes = share.bytes.saturating_add(if is_over { 0 } else { bytes });
        let interval = &mut share.interval;
        interval.requests += 1;
        interval.response_sum_ns = interval.response_sum_ns.saturating_add(now.since(request.arrival).as_ns());
        match request.operation {
            Operation::Read => interval.read_bytes = interval.read_bytes.saturating_add(bytes),
            _ => interval.write_bytes = interval.write_bytes.saturating_add(bytes),
        }
    }

    fn vm_ended(&mut self, now: Timestamp, vm: VmId) {
        self.at(now);
        self.active.vm_ended(now, vm);
    }
}

/// Jain's index of these amounts; `None` where all are zero.
fn jain(amounts: impl Iterator<Item = u64>) -> Option<f64> {
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for amount in amounts {
        let amount = amount as f64;
        n += 1.0;
        sum += amount;
        squares += amount * amount;
    }
    (squares > 0.0).then(|| sum * sum / (n * squares))
}

#[cfg(test)]
mod tests {
    use traces::{Lba, Sectors, VmId};

    use super::*;

    fn read(ms: u64, vm: u16, sectors: u64) -> Request {
        let at = Timestamp::ZERO + Nanos::from_ms(ms);
        let mut request = Request::new(at, Operation::Read, Lba::ZERO, Sectors::new(sectors));
        request.vm = VmId(vm);
        request
    }

    /// Requests with the time of their completion in ms.
    fn watched(requests: &[(Request, u64)]) -> Fairness {
        let mut events: Vec<(u64, bool, Request)> =
            requests.iter().map(|&(request, done)| (done, false, request)).collect();
        events.extend(requests.iter().map(|&(request, _)| (request.arrival.as_ns() / 1_000_000, true, request)));
        events.sort_by_key(|&(ms, arrives, _)| (ms, !arrives));
        let mut shares = Shares::new(Nanos::from_ms(100), ActiveTime::of_any(), None);
        for (ms, arrives, request) in events {
            let now = Timestamp::ZERO + Nanos::from_ms(ms);
            if arrives {
                shares.arrived(now, RequestId(0), &request);
            } else {
                shares.completed(now, RequestId(0), &request);
            }
        }
        shares.finish().unwrap()
    }

    #[test]
    fn the_index_is_one_for_equal_shares_and_one_nth_for_a_monopoly() {
        assert_eq!(jain([5, 5, 5].into_iter()), Some(1.0));
        assert_eq!(jain([0, 8, 0, 0].into_iter()), Some(0.25));
        assert_eq!(jain([1, 3].into_iter()), Some(0.8));
        assert_eq!(jain([0, 0].into_iter()), None);
        assert_eq!(jain([].into_iter()), None);
    }

    #[test]
    fn vms_served_in_alternate_intervals_are_fair_over_the_run_only() {
        let fairness = watched(&[(read(0, 0, 8), 50), (read(0, 1, 8), 150), (read(50, 0, 8), 250)]);
        // 0 to 100 ms: 8 and 0. 100 to 200: 0 and 8. 200 to 300: VM 0 alone.
        assert_eq!((fairness.intervals, fairness.jain_interval_mean), (2, Some(0.5)));
        assert_eq!(fairness.jain_interval_min, Some(0.5));
        assert_eq!(fairness.jain, Some(0.9));
    }

    #[test]
    fn interval_index_counts_waiting_vms_and_leaves_out_idle_ones() {
        // VMs 0 and 2 send nothing; VM 3 waits from 0 to 450 ms.
        let fairness = watched(&[(read(0, 3, 8), 450), (read(10, 1, 8), 50), (read(250, 1, 8), 260)]);
        // In the 2nd and 4th interval nothing is served, in the last VM 3 is alone.
        assert_eq!((fairness.intervals, fairness.jain_interval_min), (2, Some(0.5)));
        assert_eq!(fairness.jain, Some(0.9));
        // An interval without anything outstanding is passed over, however long.
        let fairness = watched(&[(read(0, 0, 8), 10), (read(9_000_000, 1, 8), 9_000_001)]);
        assert_eq!((fairness.intervals, fairness.jain), (0, Some(1.0)));
    }
}
