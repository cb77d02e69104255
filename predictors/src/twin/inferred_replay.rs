//! The replay of a VM's trace on another device, by the workload that the twin infers from the whole trace.
//!
//! `--pacing closed` reads a trace record by record and knows one stream at a time. Here the whole trace is read first:
//! a request waits for one event of any process of its VM, such as the journal's commit that a sync waits for, and
//! processes are kept out while the journal writes.

use std::cell::Cell;

use replay::{Engine, Host, Observer, ReplayError};
use traces::Timestamp;

use super::simulation::source::VmSource;
use super::simulation::vm::VmExcerpt;
use super::workload::{Workload, infer};
use crate::isolated_trace::IsolatedTrace;

/// The replay of a VM's trace, by its inferred workload.
pub struct InferredReplay<'a> {
    trace: &'a IsolatedTrace,
    workload: Workload,
}

impl InferredReplay<'_> {
    /// Infers the workload of the VM that `trace` was recorded of.
    pub fn of(trace: &IsolatedTrace) -> InferredReplay<'_> {
        InferredReplay { trace, workload: infer(trace) }
    }

    /// Replays on `host` until the time `end`, or until the last request has been sent. Returns the observer and when it
    /// ended.
    ///
    /// # Errors
    /// A request that does not fit the host's drive.
    pub fn run<H: Host, O: Observer>(
        &self,
        host: H,
        observer: O,
        end: Timestamp,
    ) -> Result<(O, Timestamp), ReplayError> {
        let Workload { dependencies, journal_waits, flush_ends, background_depth, .. } = &self.workload;
        let excerpt = VmExcerpt {
            requests: &self.trace.requests,
            dependencies,
            flush_ends,
            journal_waits,
            // That several completions are reported together is the work of the host that the trace comes from.
            coalesced_share: 0.0,
            background_depth: *background_depth,
        };
        let until = Cell::new(end);
        let excerpts = [excerpt];
        let ended = Engine::on(VmSource::new(&excerpts, &until, 0), host, observer).run()?;
        Ok((ended.observer, until.get()))
    }
}

#[cfg(test)]
mod tests {
    use replay::host::Single;
    use replay::{Limits, Stage};
    use traces::{Flags, Lba, Nanos, Observed, Operation, Record, Request, RequestId, Sectors, StreamId};

    use super::*;
    use crate::isolated_trace::IsolatedTraceBuilder;

    /// When each read of the program arrived.
    #[derive(Default)]
    struct Reads(Vec<Timestamp>);

    impl Observer for Reads {
        fn arrived(&mut self, now: Timestamp, _id: RequestId, request: &Request) {
            if request.operation == Operation::Read {
                self.0.push(now);
            }
        }
    }

    /// A program reads; 0.1 ms later its journal's thread commits; 0.2 ms after the commit the program reads again. The
    /// drive takes 1 to 5 ms for each: with equal times nobody could tell what the program waits for.
    fn recorded(rounds: u64) -> IsolatedTrace {
        let mut builder = IsolatedTraceBuilder::new(Sectors::ZERO, None);
        let mut now_us = 0;
        for round in 0..rounds {
            for (operation, stream, think_us) in [(Operation::Read, 1, 200), (Operation::Write, 2, 100)] {
                let at = |us: u64| Timestamp::ZERO + Nanos::from_us(us);
                let service_us = 1_000 + (2 * round + u64::from(stream)) * 7_919 % 4_001;
                let (came, done) = (now_us + think_us, now_us + think_us + service_us);
                let mut request = Request::new(at(came), operation, Lba::new(round * 800), Sectors::new(8));
                (request.stream, request.flags) = (StreamId(stream), Flags::SYNC);
                let observed = Observed { issued: Some(at(came)), completed: Some(at(done)), ..Observed::default() };
                builder.record(&Record { request, observed });
                now_us = done;
            }
        }
        builder.finish()
    }

    #[test]
    fn a_program_waits_for_its_journal_on_another_device_too() {
        let trace = recorded(500);
        let drive = drive_models::build(&"fixed:service=6ms".parse().unwrap()).unwrap().drive;
        let host = Single::new(Stage::new(crate::twin::device::policy::shipped("fifo"), Limits::default()), drive);
        let end = Timestamp::ZERO + Nanos::from_s(60);
        let (reads, ended) = InferredReplay::of(&trace).run(host, Reads::default(), end).unwrap();
        assert_eq!(reads.0.len(), 500);
        // Two services of 6 ms, and both think times. A replay that knows one process at a time would keep the recorded
        // time from the program's own completion to its next read.
        let apart = |pair: &[Timestamp]| pair[1].since(pair[0]);
        let other = reads.0.windows(2).map(apart).find(|apart| *apart != Nanos::from_us(12_300));
        assert_eq!(other, None);
        assert!(ended < end);
        // It ends when it is told to.
        let drive = drive_models::build(&"fixed:service=6ms".parse().unwrap()).unwrap().drive;
        let host = Single::new(Stage::new(crate::twin::device::policy::shipped("fifo"), Limits::default()), drive);
        let soon = Timestamp::ZERO + Nanos::from_s(1);
        let (reads, ended) = InferredReplay::of(&trace).run(host, Reads::default(), soon).unwrap();
        assert!(ended == soon && reads.0.len() == 82, "{ended:?}, {} reads", reads.0.len());
    }
}
