//! Measures response times (D2C) and throughput, by VM and operation.
//!
//! [`Meter`] measures a simulation, [`measured`] an isolated trace. Both give the same figures, so that they can be
//! compared.

use std::cell::Cell;

use crate::isolated_trace::IsolatedTrace;
use crate::predictor::{OperationForecast, VmForecast};
use replay::{Observer, Served};
use traces::results::prediction::FORECAST_PERCENTILES;
use traces::statistics::Distribution;
use traces::{Nanos, Operation, Request, RequestId, Timestamp};

/// Response times of a VM's requests that completed within the measured time, by operation.
pub(crate) type Measured = [Distribution; Operation::MOVING_DATA];

/// Observes the device's stage. A response time runs from the issue of a request by the VM (D) to when its completion
/// reaches the VM (C).
pub(crate) struct Meter<'a> {
    /// By id: when each request reached the device.
    issued: Vec<Timestamp>,
    /// From the completion at the device to the VM.
    delay: Nanos,
    /// Beginning of the measured time.
    from: Timestamp,
    /// End of the measured time, which the source may set earlier.
    to: &'a Cell<Timestamp>,
    pub(crate) vms: Vec<Measured>,
}

impl<'a> Meter<'a> {
    /// A meter of requests that complete from `from` on and before `to`.
    pub(crate) fn new(vms: usize, delay: Nanos, from: Timestamp, to: &'a Cell<Timestamp>) -> Meter<'a> {
        Meter { issued: Vec::new(), delay, from, to, vms: vec![Measured::default(); vms] }
    }
}

impl Observer for Meter<'_> {
    fn inserted(&mut self, now: Timestamp, id: RequestId, _request: &Request) {
        if id.index() >= self.issued.len() {
            self.issued.resize(id.index() + 1, Timestamp::ZERO);
        }
        self.issued[id.index()] = now;
    }

    fn served(&mut self, served: &Served) {
        if served.finished < self.from || served.finished >= self.to.get() {
            return;
        }
        let response = served.finished.saturating_since(self.issued[served.id.index()]) + self.delay;
        self.vms[usize::from(served.request.vm.0)][served.request.operation as usize].add(response);
    }
}

/// The figures of the VM of `trace` alone.
pub(crate) fn measured(trace: &IsolatedTrace) -> VmForecast {
    let mut measured = Measured::default();
    for request in trace.requests.iter().filter(|request| request.moves_data()) {
        measured[request.operation as usize].add(request.completed.saturating_since(request.issued));
    }
    let VmForecast { reads, writes } = forecast(&measured, trace.span().saturating_since(Timestamp::ZERO));
    let counted = |of: OperationForecast, operation: Operation| {
        let requests = Some(measured[operation as usize].count());
        OperationForecast { requests, ..of }
    };
    VmForecast { reads: counted(reads, Operation::Read), writes: counted(writes, Operation::Write) }
}

/// The figures measured in `simulated` time, as a forecast.
pub(crate) fn forecast(measured: &Measured, simulated: Nanos) -> VmForecast {
    let of = |times: &Distribution| OperationForecast {
        iops: (times.count() > 0).then(|| times.count() as f64 / simulated.as_s_f64()),
        response_ns: times.moments().mean_ns,
        percentiles_ns: FORECAST_PERCENTILES.map(|(share, _)| times.percentile_ns(share).map(|ns| ns as f64)),
        requests: None,
        spread: None,
    };
    let [reads, writes] = measured;
    VmForecast { reads: of(reads), writes: of(writes) }
}
