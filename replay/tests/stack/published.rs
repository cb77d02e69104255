//! Shipped stacks against the results of the papers about the systems that they model. Only the direction of the
//! results is checked.

use iocast_replay::ReplayError;
use iocast_replay::metrics::Class;
use iocast_replay::stack::{Counts, Shares, StackSpec};
use iocast_replay::{ActiveTime, Engine, Metrics, Next, Source};
use traces::results::Fairness;
use traces::{Lba, Nanos, Operation, Request, RequestId, Sectors, StreamId, Timestamp, VmId};

use crate::support::{drive, replay_in};

/// VMs that each read their own part of the disk sequentially, with a fixed number of requests of 128 KB outstanding,
/// until the end of the run.
struct Streams {
    end: Timestamp,
    /// The next request number of each VM, and the VMs with a request to send.
    next: Vec<u64>,
    due: Vec<VmId>,
    now: Timestamp,
}

impl Streams {
    fn new(vms: u16, outstanding: usize, seconds: u64) -> Streams {
        let due = (0..outstanding).flat_map(|_| (0..vms).rev().map(VmId)).collect();
        let end = Timestamp::ZERO + Nanos::from_ms(1000 * seconds);
        Streams { end, next: vec![0; usize::from(vms)], due, now: Timestamp::ZERO }
    }
}

impl Source for Streams {
    fn next(&mut self) -> Result<Next, ReplayError> {
        Ok(match self.due.last() {
            Some(_) => Next::At(self.now),
            None if self.now >= self.end => Next::Exhausted,
            None => Next::Blocked,
        })
    }

    fn take(&mut self, now: Timestamp, _id: RequestId) -> Result<Request, ReplayError> {
        let vm = self.due.pop().unwrap();
        let number = &mut self.next[usize::from(vm.0)];
        // The partitions of the VMs lie a tenth of the 500 GB apart.
        let lba = Lba::new(u64::from(vm.0) * 100_000_000 + *number * 256);
        let mut request = Request::new(now, Operation::Read, lba, Sectors::new(256));
        *number += 1;
        (request.vm, request.stream) = (vm, StreamId(1));
        Ok(request)
    }

    fn completed(&mut self, now: Timestamp, _id: RequestId, request: &Request) {
        self.now = now;
        if now < self.end {
            self.due.insert(0, request.vm);
        }
    }
}

/// The throughput of four VMs in 20 s in bytes per second, the counts of the hypervisor layer, and the fairness.
fn four_vms(stack: &str) -> (f64, Counts, Fairness) {
    let stack = StackSpec::of(stack).unwrap();
    let observer = (Metrics::new(), Shares::new(Nanos::from_ms(1000), ActiveTime::of_any(), None));
    let ended = Engine::on(Streams::new(4, 32, 20), stack.build(drive("sata-500")), observer).run().unwrap();
    let (metrics, shares) = ended.observer;
    let per_second = metrics.total(Class::Read).bytes as f64 / metrics.span().as_s_f64();
    (per_second, ended.host.layers()[stack.layer(None).unwrap()].counts(), shares.finish().unwrap())
}

/// Kim, Kang, Choi 2015, Figs. 6 to 9: fewer switches between VMs, shorter seeks, more throughput, one VM at a time,
/// and nearly equal shares over the run.
#[test]
fn bursty_vms_take_long_turns_under_ba_and_short_ones_under_cfq() {
    let (cfq_rate, cfq, cfq_fairness) = four_vms("xen-cfq");
    let (ba_rate, ba, ba_fairness) = four_vms("xen-ba");
    assert!(ba.switches * 2 < cfq.switches, "{} switches, {} under cfq", ba.switches, cfq.switches);
    assert!(ba.seek_sectors * 2 < cfq.seek_sectors, "{} sectors, {} under cfq", ba.seek_sectors, cfq.seek_sectors);
    assert!(ba_rate > 1.05 * cfq_rate, "{ba_rate} bytes a second, {cfq_rate} under cfq");
    assert!(ba_fairness.jain.unwrap() > 0.98 && cfq_fairness.jain.unwrap() > 0.98, "{ba_fairness:?} {cfq_fairness:?}");
    // If one of four VMs has the disk alone for an interval, the index is a quarter.
    assert!(ba_fairness.jain_interval_mean.unwrap() < 0.4, "{ba_fairness:?}");
    assert!(cfq_fairness.jain_interval_mean.unwrap() > 0.9, "{cfq_fairness:?}");
}

/// Casale, Kraft, Krishnamurthy 2011, Fig. 2: the storage has at most 32 requests, of which writes are at most 16, and
/// reads pass writes that wait.
#[test]
fn lun_of_esx_has_at_most_32_requests_and_16_writes() {
    let load: Vec<Request> = (0..200)
        .map(|n| {
            let operation = if n < 100 { Operation::Write } else { Operation::Read };
            let mut request = Request::new(Timestamp::ZERO, operation, Lba::new(n * 1000), Sectors::new(8));
            (request.vm, request.stream) = (VmId((n % 4) as u16), StreamId(n as u32));
            request
        })
        .collect();
    let stack = StackSpec::of("esx-3.5-iscsi").unwrap().with_scheduler(0, &"fifo".parse().unwrap()).unwrap();
    let log = replay_in(&stack, "fixed", &load);
    let (mut reads, mut writes, mut most, mut most_writes) = (0u32, 0u32, 0, 0);
    for (_, letter, request) in &log.events {
        let in_flight = if request.operation == Operation::Read { &mut reads } else { &mut writes };
        match letter {
            'D' => *in_flight += 1,
            'C' => *in_flight -= 1,
            _ => {}
        }
        (most, most_writes) = (most.max(reads + writes), most_writes.max(writes));
    }
    assert_eq!((most, most_writes), (32, 16));
    // At first the 25 writes of each guest take 25 of its 32 slots; the other 7 go to reads, a batch before the writes.
    let first_read = log.events.iter().find(|(_, letter, r)| *letter == 'D' && r.operation == Operation::Read).unwrap();
    assert_eq!(first_read.0, Timestamp::ZERO);
}
