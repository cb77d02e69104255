//! Captures the block layer's events of a host's or guest's own devices while they are in use.
//!
//! A *backend* ([`BACKENDS`]) supplies the block layer's events in order of time. Its source is pages of a private
//! trace instance (`backends/tracefs/`), the tracer `blk` (`backends/blk_tracer.rs`), or the program `blktrace`
//! (`backends/blktrace.rs`). For each device, a reader pairs the events with the same code that reads captures from
//! files ([`traces::events::PairedReader`]). The records are merged by arrival (`merge.rs`) and attributed to a VM
//! (`attribution.rs`). A separate thread writes them (`store.rs`), so that a slow disk does not delay reading the
//! kernel's buffers. Of histograms, only the counts of each second are kept and written (`histograms/`). Before a
//! backend switches anything on in the kernel, it registers it with a [`Supervisor`].

mod attribution;
mod backends;
mod clocks;
mod counters;
mod decisions;
mod device;
mod error;
mod histograms;
mod limits;
mod merge;
mod open_files;
mod options;
mod output;
mod pieces;
mod record;
mod restore;
mod store;
mod summary;
mod supervisor;

pub use attribution::AttributeBy;
pub use backends::{BACKENDS, Backend, BackendRow, BackendSetup, EventsNeeded};
pub use clocks::ClockReading;
pub use counters::completed as completed_ios;
pub use decisions::describe_queue;
pub use device::BlockDevice;
pub use error::CaptureError;
pub use options::{CaptureOptions, CaptureProgress};
pub use output::{Output, free_bytes};
pub use record::record;
pub use restore::{Cleaned, clean_up};
pub use store::Rotate;
pub use summary::{CaptureSummary, StopReason};
pub use supervisor::{Supervisor, supervise};
