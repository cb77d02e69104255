//! Events of the block layer: sources give [`Event`]s in the notation of their format, and the events are paired into
//! the records of a trace. A [`Watch`] sees them on the way.
//!
//! No data of a request is kept once its record has left. So memory does not grow with the capture, except for the
//! names of its processes.

mod arrival;
mod event;
mod index;
mod pairing;
mod reader;
mod ring;
mod units;
mod watch;

use std::path::Path;

pub use event::{Category, Event, action, notify};
pub use reader::{EventReader, PairedReader};
pub use ring::{PENDING_NS, PENDING_RECORDS};
pub use watch::{DeviceRequest, Passage, Watch};

use crate::error::{Place, ReadError};
use crate::trace::{Losses, TraceMeta};

/// An event and where it stands in its input: byte or line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Placed {
    /// The event.
    pub event: Event,
    /// Its place in its file.
    pub at: u64,
}

/// Gives the events of one device, in the order of time.
pub trait EventSource: Send {
    /// Goes to the next run of events; false at the end of the capture.
    ///
    /// # Errors
    /// The first place where the input contradicts its format.
    fn advance(&mut self) -> Result<bool, ReadError>;

    /// The events that [`EventSource::advance`] went to, at least one, or none before the first call
    /// and at the end; and the losses so far, to be added to. Of a split ([`action::SPLIT`]) the
    /// length is that of the first part.
    fn run(&mut self) -> (&[Placed], &mut Losses);

    /// The time of the first event, which is the zero of the trace.
    fn zero(&self) -> u64;

    /// The file, and the place in it, of an event of the current run, by its number there.
    fn place(&self, number: usize) -> (&Path, Place);

    /// Whether malformed events are counted and skipped instead of being an error.
    fn lenient(&self) -> bool;

    /// The losses so far.
    fn losses(&self) -> &Losses;

    /// The same, to be added to.
    fn losses_mut(&mut self) -> &mut Losses;

    /// Adds the facts about the capture to `meta`: called when it is opened and when it `ended`.
    fn describe(&mut self, meta: &mut TraceMeta, ended: bool);

    /// Bytes of (compressed) input consumed so far.
    fn position_bytes(&self) -> u64;
}
