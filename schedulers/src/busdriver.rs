//! The busdriver delay of Geist, Steele and Westall 2005, as Geist et al. 2010, section 2.2, describe it. The scheduler
//! waits a while after a completion, even with requests waiting, because the process just served is likely to send a
//! nearby request. The papers do not define the end of the wait. Here:
//!
//! - it begins with the completion of a request that a process waits for: every read, and writes marked synchronous.
//!   After other completions no process sends a request.
//! - it ends after the delay, or with the next request of the process just served (the stream of the completed
//!   request), wherever that is.

use traces::{Nanos, Request, StreamId, Timestamp, VmId};

/// The wait after a completion.
#[derive(Debug)]
pub struct Busdriver {
    delay: Nanos,
    /// Whose request was completed, and until when to wait for its next.
    stop: Option<(VmId, StreamId, Timestamp)>,
}

impl Busdriver {
    /// A busdriver that waits up to `delay`.
    pub fn new(delay: Nanos) -> Busdriver {
        Busdriver { delay, stop: None }
    }

    /// A request has completed.
    pub fn completed(&mut self, now: Timestamp, request: &Request) {
        if request.is_sync() {
            self.stop = Some((request.vm, request.stream, now.saturating_add(self.delay)));
        }
    }

    /// A request arrives.
    pub fn arrived(&mut self, request: &Request) {
        self.stop = self.stop.filter(|&(vm, stream, _)| (vm, stream) != (request.vm, request.stream));
    }

    /// Until when to wait, if it is not yet then.
    pub fn waits_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.stop.map(|(_, _, until)| until).filter(|&until| until > now)
    }
}

#[cfg(test)]
mod tests {
    use traces::{Lba, Operation, Sectors};

    use super::*;

    fn request(operation: Operation, stream: u32) -> Request {
        let mut request = Request::new(Timestamp::ZERO, operation, Lba::ZERO, Sectors::new(8));
        request.stream = StreamId(stream);
        request
    }

    #[test]
    fn it_waits_for_the_process_just_served_and_for_no_longer_than_the_delay() {
        let at = |ms: u64| Timestamp::from_ns(ms * 1_000_000);
        let mut busdriver = Busdriver::new(Nanos::from_ms(7));
        assert_eq!(busdriver.waits_until(at(0)), None);
        busdriver.completed(at(1), &request(Operation::Read, 1));
        busdriver.arrived(&request(Operation::Read, 2));
        assert_eq!(busdriver.waits_until(at(7)), Some(at(8)));
        assert_eq!(busdriver.waits_until(at(8)), None);
        busdriver.completed(at(9), &request(Operation::Read, 1));
        busdriver.arrived(&request(Operation::Write, 1));
        assert_eq!(busdriver.waits_until(at(9)), None);
        busdriver.completed(at(10), &request(Operation::Write, 3));
        assert_eq!(busdriver.waits_until(at(10)), None);
    }
}
