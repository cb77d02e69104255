//! Runs a capture of block devices and reports its result, for `block` and `decisions`.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use capture::block::{CaptureOptions, CaptureProgress, CaptureSummary, StopReason, Supervisor, record};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::Interrupted;
use crate::output::{Table, print, print_json};
use crate::output_format::OutputFormat;
use crate::quiet;

/// A flag that the signals set which end a program.
pub fn stop_at_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot watch for interrupts")?;
    }
    Ok(stop)
}

/// Runs the capture, beside a supervisor, until the flag is set or a limit is reached.
pub fn record_until(
    options: &CaptureOptions,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&CaptureProgress),
) -> Result<CaptureSummary> {
    let mut command = Command::new("/proc/self/exe");
    command.args(["capture", "supervise"]);
    let supervisor = Supervisor::start(command)?;
    Ok(record(options, supervisor, stop, watch)?)
}

/// Runs the capture and shows its progress on standard error.
pub fn run(options: &CaptureOptions) -> Result<CaptureSummary> {
    let on_terminal = quiet::shows_progress();
    let summary = record_until(options, &*stop_at_signals()?, &mut |progress| show(progress, on_terminal))?;
    if on_terminal {
        eprint!("\r\x1b[K");
    }
    Ok(summary)
}

fn show(progress: &CaptureProgress, on_terminal: bool) {
    if on_terminal {
        eprint!("\r\x1b[K");
    }
    for note in &progress.notes {
        match note.starts_with("warning: ") {
            true => eprintln!("iocast: {note}"),
            false => note!("iocast: {note}"),
        }
    }
    if on_terminal {
        eprint!(
            "{} {:.0} s  {} events/s  {} events  {} lost  {}  CPU {:.1} %",
            progress.backend,
            progress.lasted.as_secs_f64(),
            progress.events_per_second,
            progress.events,
            progress.lost,
            bytes(progress.written_bytes),
            progress.cpu_percent
        );
    }
}

/// Prints the summary on standard output, unless the trace went there, and warnings on standard error. Without a time
/// limit an interrupt is the way to end a capture, and no failure.
pub fn report(summary: &CaptureSummary, options: &CaptureOptions, format: OutputFormat, to_stdout: bool) -> Result<()> {
    note!("iocast: captured by backend {}", summary.backend);
    if summary.lost_events > 0 {
        eprintln!("iocast: warning: {} events were lost; {}", summary.lost_events, remedy(summary));
    }
    for (reason, count) in &summary.skipped {
        eprintln!("iocast: warning: {count} events skipped: {reason}");
    }
    match (to_stdout, format) {
        (false, _) => {}
        (true, OutputFormat::Json) => {
            let mut value = serde_json::to_value(summary)?;
            value["cpu_s_per_million_events"] = json!(summary.cpu_s_per_million_events());
            print_json(&value)?;
        }
        (true, format) => print(&table(summary, options.raw).render(format))?,
    }
    match (summary.stopped_by, &summary.failure) {
        (_, Some(failure)) => bail!("{failure}"),
        (StopReason::Interrupted, None) if options.seconds.is_some() => Err(Interrupted.into()),
        (StopReason::DeviceGone, None) => {
            bail!("{} has vanished; the trace holds the requests until then", summary.devices.join(", "))
        }
        (StopReason::FreeSpace, None) => {
            let place = options.output.name();
            eprintln!("iocast: stopped: less than --min-free is left where {} is", place.display());
            Ok(())
        }
        (StopReason::Size, None) => {
            eprintln!("iocast: stopped: the trace has reached --max-size");
            Ok(())
        }
        _ => Ok(()),
    }
}

/// A hint at how to avoid lost events.
fn remedy(summary: &CaptureSummary) -> String {
    let hint = "a larger --buffer or a higher --max-cpu avoids";
    match summary.above_rate_events {
        0 => format!("{hint} that"),
        above if above == summary.lost_events => "they were above --max-rate".to_owned(),
        above => format!("{above} of them were above --max-rate; {hint} the others"),
    }
}

/// `is_raw`: requests are not counted, since events are stored as they are.
fn table(summary: &CaptureSummary, is_raw: bool) -> Table {
    let mut rows = vec![
        ("backend", summary.backend.to_owned()),
        ("devices", summary.devices.join(", ")),
        ("files", summary.files.join(", ")),
        ("lasted", format!("{:.3} s", summary.lasted_ns as f64 / 1e9)),
        ("events", summary.events.to_string()),
        ("I/Os that the kernel counted", summary.kernel_ios.map_or("-".to_owned(), |ios| ios.to_string())),
        ("lost events", summary.lost_events.to_string()),
        ("written", bytes(summary.written_bytes)),
        ("CPU of the capture", format!("{:.3} s", summary.cpu_ns as f64 / 1e9)),
    ];
    if !is_raw {
        // After a failure, the error says how many are stored.
        let name = if summary.failure.is_some() { "requests seen" } else { "requests" };
        rows.insert(6, (name, summary.requests.to_string()));
    }
    if let Some(cost) = summary.cpu_s_per_million_events() {
        rows.push(("CPU per million events", format!("{cost:.3} s")));
    }
    if let Some(share) = summary.unattributed_share {
        rows.push(("unattributed requests", format!("{:.2} %", share * 100.0)));
    }
    for (kind, count) in &summary.unmatched {
        rows.push(("without a partner", format!("{count} {kind}")));
    }
    if summary.clock_steps > 0 {
        rows.push(("wall clock was set", format!("{} times", summary.clock_steps)));
    }
    Table {
        title: "Captured".to_owned(),
        header: ["", ""].map(str::to_owned).to_vec(),
        rows: rows.into_iter().map(|(what, value)| vec![what.to_owned(), value]).collect(),
        text_columns: 2,
    }
}

fn bytes(bytes: u64) -> String {
    format!("{:.2} MB", bytes as f64 / 1e6)
}
