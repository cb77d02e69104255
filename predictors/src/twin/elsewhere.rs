//! A VM's requests sent again on another device, by the workload that the twin infers from its whole trace.
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

/// A VM that runs on any device.
pub struct Elsewhere<'a> {
    trace: &'a IsolatedTrace,
    workload: Workload,
}

impl Elsewhere<'_> {
    /// Infers the workload of the VM that `trace` was recorded of.
    pub fn of(trace: &IsolatedTrace) -> Elsewhere<'_> {
        Elsewhere { trace, workload: infer(trace) }
    }

    /// Sends its requests to `host` until the time `end`, or until the last one has been sent. Returns the observer and
    /// when it ended.
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
