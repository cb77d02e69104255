//! Writes a row of the table of requests for each arrival of a replay.

use traces::results::requests::{RequestPart, RequestRow, Service, WrittenPart};
use traces::{Request, RequestId, Timestamp, VmId, WriteError};

use crate::active_time::ActiveTime;
use crate::observer::{Observer, Served};

/// An arrival that has not completed.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    number: u64,
    service: Option<Service>,
}

/// Collects the rows of one replay. Memory grows with the number of outstanding arrivals, beside one row group.
pub struct RequestRows {
    part: RequestPart,
    /// By id.
    outstanding: Vec<Outstanding>,
    arrived: u64,
    /// The time for which VMs are measured.
    active: ActiveTime,
    error: Option<WriteError>,
}

impl RequestRows {
    /// Writes to `part`, whose names have all VMs of the replay.
    pub fn new(part: RequestPart, active: ActiveTime) -> RequestRows {
        RequestRows { part, outstanding: Vec::new(), arrived: 0, active, error: None }
    }

    /// Completes the rows, after the replay.
    ///
    /// # Errors
    /// The first error of writing.
    pub fn finish(self) -> Result<WrittenPart, WriteError> {
        match self.error {
            Some(error) => Err(error),
            None => self.part.finish(),
        }
    }
}

impl Observer for RequestRows {
    fn arrived(&mut self, _now: Timestamp, id: RequestId, _request: &Request) {
        let outstanding = Outstanding { number: self.arrived, service: None };
        self.arrived += 1;
        if id.index() >= self.outstanding.len() {
            self.outstanding.resize(id.index() + 1, outstanding);
        }
        self.outstanding[id.index()] = outstanding;
    }

    fn served_arrival(&mut self, id: RequestId, served: &Served) {
        let Served { dispatched, issued, started, seek, hit, .. } = *served;
        let part = Service { dispatched, issued, started, seek, hit };
        let service = &mut self.outstanding[id.index()].service;
        *service = Some(service.map_or(part, |others| others.with(part)));
    }

    fn completed(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        if self.error.is_some() {
            return;
        }
        let Outstanding { number, service } = self.outstanding[id.index()];
        let all_active = !self.active.is_over();
        let row = RequestRow { number, request: *request, service, completed: now, all_active };
        self.error = self.part.push(&row).err();
    }

    fn vm_ended(&mut self, now: Timestamp, vm: VmId) {
        self.active.vm_ended(now, vm);
    }
}
