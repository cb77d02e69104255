//! The sources of arrivals for a replay. Traces are replayed as recorded or scaled ([`Open`]), as fast as possible
//! ([`Asap`]) or closed over think times ([`Closed`]). [`RandomClosed`] generates random requests.

pub mod addresses;
pub mod asap;
pub mod closed;
pub mod merged_traces;
pub mod open;
pub mod random;

pub use addresses::{AddressMap, Mapping};
pub use asap::Asap;
pub use closed::Closed;
pub use merged_traces::{
    Cursor, MergedTraces, Position, RecordedResponses, TimeWindow, TraceRead, VmTrace, each_within, extent,
};
pub use open::Open;
pub use random::RandomClosed;
