//! The sources of arrivals for a replay. Traces are replayed as recorded or scaled ([`Open`]), as fast as possible
//! ([`Asap`]) or closed over think times ([`Closed`]). [`RandomClosed`] generates random requests.

pub mod addresses;
pub mod asap;
pub mod closed;
pub mod merged_traces;
pub mod one_device;
pub mod open;
pub mod paced;
pub mod random;

pub use addresses::{AddressMap, Mapping};
pub use asap::Asap;
pub use closed::{Closed, StreamRoles};
pub use merged_traces::{
    Cursor, MergedTraces, Position, RecordedResponses, TimeWindow, TraceRead, VmTrace, each_within, extent,
};
pub use one_device::OneDevice;
pub use open::Open;
pub use paced::{Pacing, ReplaySource, paced};
pub use random::RandomClosed;
