//! What a machine's kernel tells of its block devices while they are in use.
//!
//! A *backend* ([`BACKENDS`]) gives the block layer's events in the order of time: pages of a private trace
//! instance (`backends/tracefs.rs`), the tracer `blk` (`backends/blk_tracer.rs`), the program `blktrace`
//! (`backends/blktrace.rs`). The events are paired by the code that reads captures from files
//! ([`traces::events::PairedReader`]), one for each device, and their records are merged by arrival
//! (`gather.rs`), given to a virtual machine (`attribution.rs`) and stored by a thread of its own
//! (`store.rs`), so that a slow disk does not keep the kernel's buffers from being read. Whatever is
//! switched on in the kernel is told to a [`Supervisor`] first.

mod attribution;
mod backends;
mod clocks;
mod decisions;
mod device;
mod error;
mod limits;
mod merge;
mod output;
mod record;
mod restore;
mod store;
mod summary;
mod supervisor;

pub use attribution::AttributeBy;
pub use backends::{BACKENDS, Backend, BackendRow, BackendSetup};
pub use clocks::ClockReading;
pub use decisions::describe_queue;
pub use device::BlockDevice;
pub use error::CaptureError;
pub use output::Output;
pub use record::{CaptureOptions, CaptureProgress, record};
pub use restore::{Cleaned, clean_up};
pub use store::Rotate;
pub use summary::{CaptureSummary, StopReason};
pub use supervisor::{Supervisor, supervise};
