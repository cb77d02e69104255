//! Brings the records of a trace into the order in which things happened, so that a trace without
//! events can be watched as one with them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::events::{DeviceRequest, Passage, Watch};
use crate::record::Record;
use crate::request::{Operation, Request, StreamId, VmId};
use crate::units::{Lba, Sectors, Timestamp};

/// What may lie ahead of the last arrival; further records are watched without their completion.
const AHEAD_MAX: usize = 1 << 19;

/// What follows an arrival. At one time completions come first: what arrives then finds less.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Completed(Device),
    Finished(Arrival),
    Issued(Device),
}

/// A request at the device, ordered so that the parts of one merged request are neighbours.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Device {
    issued: Timestamp,
    completed: Timestamp,
    vm: VmId,
    operation: Operation,
    lba: Lba,
    sectors: Sectors,
    stream: StreamId,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    arrival: Timestamp,
    operation: Operation,
}

/// Shows records to a [`Watch`]. Records that were issued and completed at the very same times and
/// lie one behind the other were one request at the device.
#[derive(Default)]
pub struct Timeline {
    steps: BinaryHeap<Reverse<(Timestamp, Step)>>,
    /// Records whose completion was not watched because too much lay ahead.
    left_out: u64,
}

impl Timeline {
    /// The next record of a trace.
    pub fn record(&mut self, record: &Record, watch: &mut impl Watch) {
        self.passage(&Passage::of(*record), watch);
    }

    /// The next record of a trace, with all that is known of its passage.
    pub fn passage(&mut self, passage: &Passage, watch: &mut impl Watch) {
        let Record { request, observed } = &passage.record;
        let now = request.arrival;
        self.until(Some(now), watch);
        watch.queued(now, request);
        let fits = self.steps.len() + 3 <= AHEAD_MAX;
        match observed.completed.filter(|completed| *completed >= now) {
            Some(completed) if fits => {
                let arrival = Arrival { arrival: now, operation: request.operation };
                self.steps.push(Reverse((completed, Step::Finished(arrival))));
                if let Some(issued) = observed.issued.filter(|issued| *issued >= now && *issued <= completed) {
                    let device = device(request, issued, completed);
                    self.steps.push(Reverse((issued, Step::Issued(device))));
                }
            }
            other => {
                self.left_out += u64::from(other.is_some());
                watch.given_up(now, request.operation);
            }
        }
        watch.passed(passage);
    }

    /// The end of the trace. Returns how many records were watched without their completion,
    /// because more than half a million steps lay ahead of the last arrival.
    pub fn finish(&mut self, watch: &mut impl Watch) -> u64 {
        self.until(None, watch);
        self.left_out
    }

    /// Everything that happened before or at the time of an arrival.
    fn until(&mut self, arrival: Option<Timestamp>, watch: &mut impl Watch) {
        while let Some(Reverse((now, step))) = self.steps.peek().copied()
            && arrival.is_none_or(|arrival| now <= arrival)
        {
            self.steps.pop();
            match step {
                Step::Completed(device) => watch.completed(now, &device.request()),
                Step::Finished(Arrival { arrival, operation }) => {
                    watch.finished(now, &Request::new(arrival, operation, Lba::ZERO, Sectors::ZERO));
                }
                Step::Issued(device) => self.issue(device, watch),
            }
        }
    }

    /// A request is issued, with all that was merged into it.
    fn issue(&mut self, mut device: Device, watch: &mut impl Watch) {
        while let Some(Reverse((_, Step::Issued(next)))) = self.steps.peek().copied()
            && next.joins(&device)
        {
            self.steps.pop();
            device.sectors += next.sectors;
        }
        watch.issued(&device.request());
        self.steps.push(Reverse((device.completed, Step::Completed(device))));
    }
}

fn device(request: &Request, issued: Timestamp, completed: Timestamp) -> Device {
    let Request { vm, operation, lba, stream, .. } = *request;
    Device { issued, completed, vm, operation, lba, sectors: request.sectors(), stream }
}

impl Device {
    /// Whether it lies behind `before` in one request.
    fn joins(&self, before: &Device) -> bool {
        let Device { issued, completed, vm, operation, .. } = *self;
        let same = issued == before.issued && completed == before.completed && completed != issued;
        same && vm == before.vm
            && operation == before.operation
            && operation != Operation::Flush
            && self.lba == before.lba.saturating_add(before.sectors)
    }

    fn request(&self) -> DeviceRequest {
        let Device { issued, operation, lba, sectors, vm, stream, .. } = *self;
        DeviceRequest { issued, operation, lba, sectors, vm, stream }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Observed;

    /// Writes down what it sees.
    #[derive(Default)]
    struct Log(Vec<String>);

    impl Watch for Log {
        fn queued(&mut self, now: Timestamp, request: &Request) {
            self.0.push(format!("{} Q {}", now.as_ns(), request.lba));
        }

        fn issued(&mut self, request: &DeviceRequest) {
            self.0.push(format!("{} D {}+{}", request.issued.as_ns(), request.lba, request.sectors));
        }

        fn completed(&mut self, now: Timestamp, request: &DeviceRequest) {
            self.0.push(format!("{} C {}+{}", now.as_ns(), request.lba, request.sectors));
        }

        fn finished(&mut self, now: Timestamp, request: &Request) {
            self.0.push(format!("{} finished {}", now.as_ns(), request.arrival.as_ns()));
        }

        fn given_up(&mut self, now: Timestamp, _operation: Operation) {
            self.0.push(format!("{} given up", now.as_ns()));
        }
    }

    fn record(arrival: u64, lba: u64, issued: Option<u64>, completed: Option<u64>) -> Record {
        let at = |ns: Option<u64>| ns.map(Timestamp::from_ns);
        let request = Request::new(Timestamp::from_ns(arrival), Operation::Write, Lba::new(lba), Sectors::new(8));
        let observed = Observed { issued: at(issued), completed: at(completed), ..Observed::default() };
        Record { request, observed }
    }

    fn watched(records: &[Record]) -> Vec<String> {
        let (mut timeline, mut log) = (Timeline::default(), Log::default());
        for record in records {
            timeline.record(record, &mut log);
        }
        assert_eq!(timeline.finish(&mut log), 0);
        log.0
    }

    #[test]
    fn what_happens_is_seen_in_the_order_of_time_and_completions_first() {
        let records = [
            record(0, 0, Some(10), Some(30)),
            record(5, 100, Some(30), Some(30)),
            record(30, 200, None, Some(40)),
            record(31, 300, Some(32), None),
            record(35, 400, Some(34), Some(50)), // issued before it came: no time to believe
        ];
        let seen = [
            "0 Q 0",
            "5 Q 100",
            "10 D 0+8",
            "30 C 0+8",
            "30 finished 0",
            "30 finished 5",
            "30 D 100+8",
            "30 C 100+8",
            "30 Q 200",
            "31 Q 300",
            "31 given up",
            "35 Q 400",
            "40 finished 30",
            "50 finished 35",
        ];
        assert_eq!(watched(&records), seen);
    }

    #[test]
    fn records_with_the_same_times_that_lie_one_behind_the_other_are_one_request() {
        let records = [
            record(0, 108, Some(10), Some(20)),
            record(1, 100, Some(10), Some(20)),
            record(2, 116, Some(10), Some(20)),
            record(3, 132, Some(10), Some(20)), // a gap before it
            record(4, 124, Some(10), Some(21)), // in the gap, but completed later
        ];
        let seen = watched(&records);
        let device: Vec<&String> = seen.iter().filter(|line| line.contains(" D ")).collect();
        assert_eq!(device, ["10 D 100+24", "10 D 132+8", "10 D 124+8"]);
    }

    #[test]
    fn what_lies_too_far_ahead_is_counted_and_not_followed() {
        let (mut timeline, mut log) = (Timeline::default(), Log::default());
        for at in 0..AHEAD_MAX as u64 {
            timeline.record(&record(at, 0, None, Some(u64::MAX)), &mut log);
        }
        let left_out = timeline.finish(&mut log);
        assert_eq!(left_out, 2);
        assert_eq!(log.0.iter().filter(|line| line.ends_with("given up")).count(), 2);
    }
}
