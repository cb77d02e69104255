//! A trace over time, as its recorder saw it.

use traces::events::{DeviceRequest, Passage, Watch};
use traces::{Operation, Request, Timestamp};

use super::{HistoryRecorder, class_of};

/// What a trace does not tell, it does not count: without completions there are no response times, and addresses are
/// counted at arrival; without issues there are no seeks. The device serves one request at a time, from its issue or the
/// completion before it, whichever is later.
impl Watch for HistoryRecorder {
    fn queued(&mut self, now: Timestamp, request: &Request) {
        self.arrival(now, request.operation);
    }

    fn issued(&mut self, request: &DeviceRequest) {
        if class_of(request.operation).is_some() && request.sectors.count() > 0 {
            if let Some(end) = self.device.end {
                self.moved(request.lba.distance(end));
            }
            self.device.end = Some(request.lba + request.sectors);
        }
    }

    fn completed(&mut self, now: Timestamp, request: &DeviceRequest) {
        let DeviceRequest { issued, operation, lba, sectors, vm, .. } = *request;
        let before = self.device.completed.replace(now).unwrap_or(issued);
        let Some(class) = class_of(operation).filter(|_| self.first_arrival.is_some()) else { return };
        let mut served = Request::new(issued, operation, lba, sectors);
        served.vm = vm;
        self.served_request(class, &served, [issued, issued.max(before), now]);
    }

    fn finished(&mut self, now: Timestamp, request: &Request) {
        self.completion(now, request.arrival, request.operation);
    }

    fn given_up(&mut self, now: Timestamp, operation: Operation) {
        self.column(now);
        self.left(operation);
    }

    fn passed(&mut self, passage: &Passage) {
        let request = &passage.record.request;
        let Some(class) = class_of(request.operation) else { return };
        let column = self.column_of(passage.record.observed.completed.unwrap_or(request.arrival));
        self.completed_of_vm(column, class, request);
    }
}
