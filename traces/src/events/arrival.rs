//! The requests that events of arrival stand for, and the events that stand for none.

use super::event::{Category, Event};
use crate::request::{Operation, Request, StreamId};
use crate::units::{Lba, Sectors, Timestamp};

/// Addresses from here on do not fit the index; no device is that large (2 ZiB).
const SECTORS_END: u64 = 1 << 62;

/// Events that are no part of a block request's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Aside {
    pub(super) remaps: u64,
    pub(super) bounces: u64,
    pub(super) passthrough: u64,
    pub(super) requeues: u64,
    pub(super) splits: u64,
    pub(super) merges: u64,
    /// Queued or issued without data and without a flush, e.g. zone commands.
    pub(super) without_data: u64,
    pub(super) driver_data: u64,
}

pub(super) fn operation(event: &Event) -> Operation {
    if event.is(Category::DISCARD) {
        Operation::Discard
    } else if event.is(Category::WRITE) {
        Operation::Write
    } else {
        Operation::Read
    }
}

/// The fault in the address or the length of an event of arrival, if there is one.
#[inline(always)]
pub(super) fn check(event: &Event) -> Result<(), String> {
    if !event.bytes.is_multiple_of(512) {
        return Err(format!("a request of {} bytes, expected a multiple of 512", event.bytes));
    }
    if event.end() >= SECTORS_END {
        return Err(format!("a request at sector {}, expected one below {SECTORS_END}", event.sector));
    }
    Ok(())
}

/// The request that an event of arrival stands for, once it was found in order.
#[inline(always)]
pub(super) fn request(event: &Event, operation: Operation, now: u64) -> Request {
    let lba = if operation == Operation::Flush { Lba::ZERO } else { Lba::new(event.sector) };
    let mut request = Request::new(Timestamp::from_ns(now), operation, lba, Sectors::new(event.sectors()));
    request.flags = event.flags();
    // Streams refuse larger numbers.
    request.cpu = u16::try_from(event.cpu).unwrap_or(u16::MAX);
    request.stream = StreamId(event.pid);
    request.priority = event.priority;
    request
}
