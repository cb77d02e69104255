//! What machines get of the twin.

use std::cell::Cell;

use crate::isolated_trace::IsolatedTrace;
use crate::predictor::{OperationForecast, VmForecast};
use replay::{Observer, Served};
use traces::results::prediction::FORECAST_PERCENTILES;
use traces::statistics::Distribution;
use traces::{Nanos, Operation, Request, RequestId, Timestamp};

/// A machine's requests that were done within the measured time, by operation.
pub(crate) type Measured = [Distribution; Operation::MOVING_DATA];

/// Watches the device's queue: from when a machine issues a request (D) to when it hears of its completion (C).
pub(crate) struct Meter<'a> {
    /// When each request came to the device, by id.
    issued: Vec<Timestamp>,
    /// What a machine hears of a completion later.
    delay: Nanos,
    from: Timestamp,
    to: &'a Cell<Timestamp>,
    pub(crate) vms: Vec<Measured>,
}

impl<'a> Meter<'a> {
    /// Of requests that are done from `from` on, and before `to`.
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

/// What a recording shows that its machine got alone.
pub(crate) fn measured(trace: &IsolatedTrace) -> VmForecast {
    let mut got = Measured::default();
    for request in trace.requests.iter().filter(|request| request.moves_data()) {
        got[request.operation as usize].add(request.completed.saturating_since(request.issued));
    }
    forecast(&got, trace.span().saturating_since(Timestamp::ZERO))
}

pub(crate) fn forecast(got: &Measured, simulated: Nanos) -> VmForecast {
    let of = |times: &Distribution| OperationForecast {
        iops: (times.count() > 0).then(|| times.count() as f64 / simulated.as_s_f64()),
        response_ns: times.moments().mean_ns,
        percentiles_ns: FORECAST_PERCENTILES.map(|(share, _)| times.percentile_ns(share).map(|ns| ns as f64)),
        spread: None,
    };
    let [reads, writes] = got;
    VmForecast { reads: of(reads), writes: of(writes) }
}
