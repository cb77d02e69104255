//! The vocabulary of iocast: integer units, [`Request`]s, what was observed about them, traces and
//! the formats they are read from and written to, and the schemas of stored results.
//!
//! Everything else in the suite imports this crate and it imports none of the others.

pub mod align;
pub mod anonymise;
pub mod described;
pub mod error;
pub mod events;
pub mod formats;
pub mod histograms;
pub mod in_memory;
pub mod input;
pub mod origin;
pub mod printable;
pub mod quantity;
pub mod random;
pub mod record;
pub mod request;
pub mod results;
pub mod shared;
pub mod spec;
pub mod statistics;
pub mod text_file;
pub mod trace;
pub mod units;
mod version;
pub mod whole_file;

pub use described::DescriptionError;
pub use error::{Place, Problem, ReadError, WriteError, WriteProblem};
pub use in_memory::InMemoryTrace;
pub use record::{Observed, Record};
pub use request::{Flags, Operation, Priority, Request, RequestId, StreamId, VmId};
pub use text_file::read_text;
pub use trace::{Clock, Layer, Losses, TraceMeta, TraceReader};
pub use units::{Lba, Nanos, SECTOR_BYTES, Sectors, Timestamp};
pub use version::{VERSION, program_version};
