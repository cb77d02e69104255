//! The text of the kernel's trace buffer with the block layer's tracepoints, as tracefs gives it in
//! `trace` and `trace_pipe` and as `trace-cmd report` prints it:
//!
//! ```text
//! # tracer: nop
//!              fio-4690    [000] d..1.  5620.047194: block_rq_insert: 7,0 R 4096 () 0 + 8 be,0,4 [fio]
//! ```
//!
//! task and process id, CPU, state of the CPU (may be missing), seconds of the trace clock, the
//! tracepoint, and its text. Source: Linux 6.1 and 6.18, `kernel/trace/trace_output.c`
//! (`trace_print_context`), `kernel/trace/trace.c` (headers, lost events) and
//! `include/trace/events/block.h`; trace-cmd, `trace-read.c` and `trace-input.c`.
//!
//! *Time.* The kernel prints microseconds, rounded from nanoseconds; `trace-cmd report -t`
//! nanoseconds. Events of one microsecond stay in the order of the file. Clocks that do not count
//! seconds (`counter`, `x86-tsc`, `uptime`) are refused.
//!
//! *Losses.* `CPU:1 [LOST 5 EVENTS]`, and a header with fewer entries in the buffer than written.
//! Only `per_cpu/cpu*/stats` counts the events that a full buffer which does not overwrite had no capacity for.
//!
//! *Beside the events.* Lines of other tracepoints, of tracers and of stack traces are counted.
//!
//! Flushes and passed-through commands: see `formats/capture/tracepoint.rs`.

mod line;

use std::path::Path;

use crate::error::ReadError;
use crate::events::PairedReader;
use crate::formats::capture::Capture;
use crate::formats::capture::lines::LineFile;
use crate::formats::check::Takes;
use crate::formats::{EventsOpened, Format, Opened};
use crate::trace::ReadOptions;
use line::Text;

/// The format's row in [`crate::formats::FORMATS`].
pub const FORMAT: Format = Format {
    name: "ftrace",
    summary: "text of tracefs (trace, trace_pipe) or trace-cmd report with the block layer's tracepoints",
    units: "s with six or nine decimals; 512-byte sectors",
    traps: "Times in seconds of the trace clock, mostly rounded to microseconds, so that events of one microsecond \
            have no order but the file's. Arrivals are block_bio_queue (bios before merging and splitting), or \
            block_rq_issue with --at issued: the capture must hold them. Zeroing prints N, as do commands that are \
            passed through. Output of perf script is another format.",
    holds_issues: true,
    recognises,
    open,
    open_events: Some(open_events),
    ..Format::READ_ONLY
};

fn paired(path: &Path, options: &ReadOptions) -> Result<PairedReader<Capture<LineFile<Text>>>, ReadError> {
    Takes { device: true, ..Takes::default() }.check(path, FORMAT.name, options)?;
    let files = [LineFile::open(path, Text::default())];
    let capture = Capture::new(FORMAT.name, path, options, files)?;
    Ok(PairedReader::new(capture, FORMAT.name, "trace clock", options))
}

fn open(path: &Path, options: &ReadOptions) -> Opened {
    Ok(Box::new(paired(path, options)?))
}

fn open_events(path: &Path, options: &ReadOptions) -> EventsOpened {
    Ok(Box::new(paired(path, options)?))
}

/// Whether the header is tracefs's, or an event of the block layer is among the first lines.
fn recognises(_path: &Path, head: &[u8]) -> bool {
    head.starts_with(b"# tracer: ") || head.split(|byte| *byte == b'\n').any(line::is_block_event)
}
