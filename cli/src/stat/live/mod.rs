//! `iocast stat --live`: what a block device does now, second by second, as histograms of the kernel's events.

mod lines;
mod recent;
mod view;

use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Result, bail};
use capture::block::{BlockDevice, CaptureOptions, CaptureProgress, CaptureSummary, Output, StopReason};
use traces::histograms::Summary;
use traces::results::histograms::HistogramStatistics;

use crate::arguments::Stat;
use crate::arguments::capture::VmBy;
use crate::capture::running;
use crate::document::present;
use crate::error::Interrupted;
use crate::needs::{self, uses};
use crate::output::{print, terminal_width};
use crate::output_format::OutputFormat;
use crate::screen::{self, Screen};
use crate::stat::histograms;
use recent::Recent;

/// Shows a device until the user or --seconds ends it, and prints the summary.
pub fn run(arguments: &Stat) -> Result<()> {
    let device = BlockDevice::find(&arguments.input)?;
    needs::check(&[uses::STAT_LIVE])?;
    let report = arguments.report.planned(arguments.force)?;
    let (options, name) = (options(arguments, device.clone()), device.name);
    let stop = running::stop_at_signals()?;
    let recent = Arc::new(Mutex::new(Recent::new(name)));
    // A pipe gets lines, so that other programs can read them.
    let has_screen = screen::is_possible() && std::io::stdout().is_terminal();
    let screen = if has_screen { Some(open(&recent, &stop)?) } else { None };
    let mut sum = Summary::new(arguments.top);
    let mut shown = Lines::default();
    let mut failure = None;
    let summary = running::record_until(&options, &stop, &mut |progress| {
        let added = add(&recent, progress, &mut sum, screen.is_some());
        let told = added.and_then(|()| if screen.is_some() { Ok(()) } else { shown.print(&lock(&recent), arguments) });
        if let Err(error) = told {
            stop.store(true, Ordering::Relaxed);
            failure.get_or_insert(error);
        }
    });
    drop(screen);
    for note in &lock(&recent).notes {
        note!("iocast: {note}");
    }
    if let Some(failure) = failure {
        return Err(failure);
    }
    let (summary, figures) = (summary?, sum.figures());
    present(&figures, &histograms::document(&figures, arguments.top), arguments.output_format, &report, Vec::new())?;
    ended(&summary, &figures, arguments)
}

fn options(arguments: &Stat, device: BlockDevice) -> CaptureOptions {
    CaptureOptions {
        // The only backend that supplies some of the events only.
        backend: Some("tracefs".to_owned()),
        histograms: true,
        vm_by: arguments.vm_by.unwrap_or(VmBy::Process).into(),
        seconds: arguments.seconds.map(|time| std::time::Duration::from_nanos(time.as_ns())),
        ..CaptureOptions::new(vec![device], Output::Watcher)
    }
}

fn lock(recent: &Mutex<Recent>) -> MutexGuard<'_, Recent> {
    recent.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open(recent: &Arc<Mutex<Recent>>, stop: &Arc<AtomicBool>) -> Result<Screen> {
    let (shown, stop) = (Arc::clone(recent), Arc::clone(stop));
    Screen::open(move |frame| view::draw(frame, &lock(&shown)), move |_| stop.store(true, Ordering::Relaxed))
}

/// Takes over what has ended since the last report. Behind a screen the notes wait for its end.
fn add(recent: &Mutex<Recent>, progress: &CaptureProgress, sum: &mut Summary, is_behind: bool) -> Result<()> {
    let mut recent = lock(recent);
    recent.add(progress);
    for line in &progress.seconds {
        if let Err(why) = sum.add(line) {
            bail!("{why}");
        }
    }
    if !is_behind {
        for note in recent.notes.drain(..) {
            note!("iocast: {note}");
        }
    }
    Ok(())
}

/// The seconds that were printed as lines.
#[derive(Default)]
struct Lines {
    printed: u64,
}

impl Lines {
    /// Prints the seconds that are new, with their heading now and then.
    fn print(&mut self, recent: &Recent, arguments: &Stat) -> Result<()> {
        // The other forms of the result are one document.
        if arguments.output_format != OutputFormat::Table {
            return Ok(());
        }
        let mut text = String::new();
        for second in recent.since(self.printed) {
            if self.printed.is_multiple_of(lines::SECONDS_PER_HEADING) {
                text.push_str(&lines::heading());
            }
            text.push_str(&lines::line(second, terminal_width()));
            self.printed += 1;
        }
        print(&text)
    }
}

/// Says how the capture ended. Without --seconds an interrupt is the way to end it.
fn ended(summary: &CaptureSummary, figures: &HistogramStatistics, arguments: &Stat) -> Result<()> {
    histograms::warn(figures);
    match (summary.stopped_by, &summary.failure) {
        (_, Some(failure)) => bail!("{failure}"),
        (StopReason::Interrupted, None) if arguments.seconds.is_some() => Err(Interrupted.into()),
        (StopReason::DeviceGone, None) => bail!("{} has vanished", summary.devices.join(", ")),
        _ => Ok(()),
    }
}
