//! A device that completes every request at once and moves no data. It measures what the replay itself costs.

use std::io;
use std::time::Duration;

use traces::{Nanos, Request, RequestId, Sectors};

use super::device::{Finished, LiveDevice};

/// A device without any data.
#[derive(Debug)]
pub struct NullDevice {
    capacity: Sectors,
    finished: Vec<Finished>,
}

impl NullDevice {
    /// A device of `capacity`.
    pub fn new(capacity: Sectors) -> NullDevice {
        NullDevice { capacity, finished: Vec::new() }
    }
}

impl LiveDevice for NullDevice {
    fn capacity(&self) -> Sectors {
        self.capacity
    }

    fn accepts(&self, _request: &Request) -> bool {
        true
    }

    fn submit(&mut self, id: RequestId, _request: &Request) {
        self.finished.push(Finished { id, failure: None });
    }

    fn start(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn poll(&mut self, finished: &mut Vec<Finished>) {
        finished.append(&mut self.finished);
    }

    fn wait(&mut self, timeout: Nanos) -> io::Result<()> {
        if self.finished.is_empty() {
            std::thread::sleep(Duration::from_nanos(timeout.as_ns()));
        }
        Ok(())
    }
}
