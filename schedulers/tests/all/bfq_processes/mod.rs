//! A driver of bfq for several processes with priorities. A process is a stream.

use iocast_schedulers::Dispatch;
use traces::{Lba, Nanos, Operation, Priority, Request, Sectors, StreamId};

use crate::driver::Driver;

/// Best effort, by level.
pub(crate) fn be(level: u8) -> Priority {
    Priority::new(2, level).expect("a level of Linux")
}

/// A driver of bfq without weight raising.
pub(crate) fn bfq(tunables: &str) -> Driver {
    Driver::new(&format!("bfq:low_latency=off{}{tunables}", if tunables.is_empty() { "" } else { "," }))
}

pub(crate) trait Processes {
    /// A read of a process at a priority.
    fn read(&mut self, stream: u32, priority: Priority, start: u64, sectors: u64) -> u32;
    /// Serves `count` requests one after another, each in a time of `each`; returns their streams.
    fn served(&mut self, count: usize, each: Nanos) -> Vec<u32>;
    /// Lets processes begin a second apart, so that each has a queue of its own. Each process sends one request, and is
    /// then waited for in vain.
    fn begin(&mut self, processes: &[(u32, Priority)]) -> &mut Self;
}

impl Processes for Driver {
    fn read(&mut self, stream: u32, priority: Priority, start: u64, sectors: u64) -> u32 {
        let mut request = Request::new(self.now, Operation::Read, Lba::new(start), Sectors::new(sectors));
        (request.stream, request.priority) = (StreamId(stream), priority);
        self.insert(request).0
    }

    fn served(&mut self, count: usize, each: Nanos) -> Vec<u32> {
        let mut streams = Vec::new();
        while streams.len() < count {
            match self.dispatch() {
                Dispatch::Send(id) => {
                    self.now += each;
                    self.complete(id.0);
                    streams.push(self.requests[id.index()].stream.0);
                }
                Dispatch::WaitUntil(until) => self.now = until,
                Dispatch::Idle => break,
            }
        }
        streams
    }

    fn begin(&mut self, processes: &[(u32, Priority)]) -> &mut Self {
        for &(stream, priority) in processes {
            let id = self.read(stream, priority, u64::from(stream) * 1_000_000, 8);
            assert_eq!(self.next(), id);
            self.now += Nanos::from_ms(1);
            self.complete(id);
            self.now += Nanos::from_ms(1000);
            self.dispatch();
        }
        self
    }
}
