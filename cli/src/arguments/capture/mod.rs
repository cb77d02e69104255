//! The arguments of `iocast capture`. One file per subcommand.

mod block;
mod cleanup;
mod decisions;
mod lab;
mod recover;

use clap::Subcommand;

pub use block::{Block, VmBy};
pub use cleanup::Cleanup;
pub use decisions::Decisions;
pub use lab::Lab;
pub use recover::Recover;

#[derive(Debug, Subcommand)]
pub enum Capture {
    /// Record the requests of block devices while they are in use
    ///
    /// Uses the first backend that works, and says which: the program blktrace, the block layer's tracepoints in a private
    /// instance of tracefs, the kernel's tracer blk. Needs root. What is switched on in the kernel is switched off again
    /// whatever happens; a trace that is cut short is readable up to its last five seconds.
    Block(Block),
    /// Remove what captures that were killed have left on in the kernel
    Cleanup(Cleanup),
    /// Record what a device's scheduler decides, for `iocast validate decisions`
    Decisions(Decisions),
    /// Run virtual machines alone and together after a plan, and record what they do
    Lab(Lab),
    /// Complete a trace whose recording was killed, in place
    Recover(Recover),
    /// Switch tracing off after a capture that was killed
    #[command(hide = true)]
    Supervise,
}
