//! The sources that replay traces: as recorded or scaled ([`Open`]), as fast as possible ([`Asap`]), closed over think times
//! ([`Closed`]); and a source of random requests ([`RandomClosed`]).

pub mod addresses;
pub mod asap;
pub mod closed;
pub mod merged_traces;
pub mod open;
pub mod random;

pub use addresses::{AddressMap, Mapping};
pub use asap::Asap;
pub use closed::Closed;
pub use merged_traces::{Cursor, MergedTraces, Position, TimeWindow, TraceRead, VmTrace, extent};
pub use open::Open;
pub use random::RandomClosed;
