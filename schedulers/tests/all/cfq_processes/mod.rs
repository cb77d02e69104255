//! A driver of cfq for several processes with priorities. A process is a stream; requests have 8 sectors.

use iocast_schedulers::Dispatch;
use traces::{Lba, Operation, Priority, Request, RequestId, Sectors, StreamId};

use crate::driver::Driver;

pub(crate) fn cfq(tunables: &str) -> Driver {
    Driver::new(&if tunables.is_empty() { "cfq".to_owned() } else { format!("cfq:{tunables}") })
}

pub(crate) fn send(id: u32) -> Dispatch {
    Dispatch::Send(RequestId(id))
}

pub(crate) const RT: u8 = 1;
pub(crate) const BE: u8 = 2;
pub(crate) const IDLE: u8 = 3;

/// A request of a stream with a priority.
pub(crate) fn ask(driver: &mut Driver, operation: Operation, start: u64, stream: u32, class: u8, level: u8) -> u32 {
    let mut request = Request::new(driver.now, operation, Lba::new(start), Sectors::new(8));
    request.stream = StreamId(stream);
    request.priority = Priority::new(class, level).expect("a class of Linux");
    driver.insert(request).0
}

pub(crate) fn read(driver: &mut Driver, start: u64, stream: u32) -> u32 {
    ask(driver, Operation::Read, start, stream, 0, 0)
}

pub(crate) fn write(driver: &mut Driver, start: u64, stream: u32) -> u32 {
    ask(driver, Operation::Write, start, stream, 0, 0)
}
