//! `iocast stat`: measures a trace in one pass.

pub mod catalog;
pub mod histograms;
mod live;
pub mod tables;
mod within;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use replay::HistoryRecorder;
use replay::sources::{TimeWindow, each_within};
use traces::events::EventReader;
use traces::formats::{self, Format};
use traces::input::is_reopenable;
use traces::origin::without_folders;
use traces::results::TraceProvenance;
use traces::results::history::History;
use traces::results::statistics::{MeasuredWindow, TraceStatistics};
use traces::statistics::{SeriesWriter, Statistics, Timeline};
use traces::trace::ReadOptions;
use traces::{Nanos, TraceReader};

use within::EventsWithin;

use crate::arguments::{Stat, Window};
use crate::document::print_result;
use crate::error::UsageError;
use crate::files::refuse_existing;
use crate::interrupts::remove_unfinished_outputs;
use crate::progress::Progress;

/// Intervals shorter than this would make a table larger than the trace.
const INTERVAL_MIN: Nanos = Nanos::from_ms(1);

pub fn run(arguments: &Stat) -> Result<()> {
    ensure!(arguments.interval >= INTERVAL_MIN, UsageError(format!("--interval is at least {INTERVAL_MIN}")));
    if arguments.catalog {
        return catalog::run(arguments);
    }
    if arguments.live {
        histograms::refuse_what_has_no_effect(arguments)?;
        return live::run(arguments);
    }
    if let Some(files) = histograms::inputs(arguments)? {
        return histograms::run(arguments, &files);
    }
    let (options, window) = (arguments.reading.options(), arguments.window.checked()?);
    let format = formats::recognise(&arguments.input, &options)?;
    let members = (format.members)(&arguments.input)?;
    let bytes = members.iter().filter_map(|file| Some(std::fs::metadata(file).ok()?.len())).sum();
    let report = arguments.report.planned(arguments.force)?;
    let progress = Progress::new("measuring", bytes, 1);
    let series = match &arguments.series {
        Some(path) => {
            let is_parquet = path.extension().is_none_or(|extension| extension == "parquet");
            ensure!(
                is_parquet,
                UsageError(format!("--series {}: it is a Parquet file; name it .parquet", path.display()))
            );
            if !arguments.force {
                refuse_existing(std::slice::from_ref(path), "another --series")?;
            }
            remove_unfinished_outputs()?;
            Some(SeriesWriter::create(path, arguments.interval)?)
        }
        None => None,
    };
    let history = (arguments.history || arguments.report.is_written()).then(HistoryRecorder::default);
    let pass = Pass { window, series, history, interval: arguments.interval, counter: progress.counter(0) };
    let measured = match format.open_events {
        Some(open) if window == TimeWindow::default() => pass.events(open(&arguments.input, &options)?)?,
        Some(open) => pass.events_within(open(&arguments.input, &options)?)?,
        None => pass.records(format.read(&arguments.input, &options)?)?,
    };
    drop(progress);
    ensure!(measured.records > 0 || window == TimeWindow::default(), Window::IS_EMPTY);
    formats::check_something_read(&arguments.input, measured.records, &measured.losses)?;
    if measured.records == 0 {
        eprintln!("iocast: warning: {} holds no request", arguments.input.display());
    }
    let mut figures = measured.figures(arguments, format, &options)?;
    let mut written = Vec::new();
    report.write(|| Ok(tables::document(&figures, tables::FOR_REPORTS, arguments.top).page()), &mut written)?;
    if !arguments.history {
        figures.history = None;
    }
    let document = tables::document(&figures, arguments.output_format, arguments.top);
    print_result(&figures, &document.blocks, arguments.output_format, &written)?;
    let losses = &figures.trace.losses;
    for (reason, count) in &losses.skipped {
        eprintln!("iocast: warning: {count} records skipped: {reason}");
    }
    for (kind, count) in &losses.impossible {
        eprintln!("iocast: warning: {count} requests with times in an impossible order: {kind}");
    }
    if losses.lost_events > 0 {
        eprintln!("iocast: warning: the capture lost {} events", losses.lost_events);
    }
    Ok(())
}

/// One pass over a trace.
struct Pass {
    window: TimeWindow,
    series: Option<SeriesWriter>,
    history: Option<HistoryRecorder>,
    interval: Nanos,
    counter: std::sync::Arc<AtomicU64>,
}

/// Number of records between two updates of the progress bar.
const RECORDS_PER_LOOK: u64 = 4096;

impl Pass {
    fn statistics(&self, reader: &dyn TraceReader) -> Statistics {
        Statistics::new(reader.meta(), self.series.as_ref().map(|_| self.interval))
    }

    /// Measures a capture of events.
    fn events(mut self, mut reader: Box<dyn EventReader>) -> Result<Measured> {
        let mut statistics = self.statistics(&*reader);
        let mut records = 0u64;
        while let Some(more) = self.next_run(&mut *reader, &mut statistics)? {
            let looks = records / RECORDS_PER_LOOK;
            records += more;
            if records / RECORDS_PER_LOOK > looks {
                self.look(&mut statistics, &*reader)?;
            }
        }
        self.end(records, 0, statistics, &*reader)
    }

    /// Measures the next requests of a capture; how many, and `None` at its end.
    fn next_run(&mut self, reader: &mut dyn EventReader, statistics: &mut Statistics) -> Result<Option<u64>> {
        Ok(match &mut self.history {
            None => reader.measure_run(statistics)?,
            history => reader.next_watched(&mut (statistics, history.as_mut()))?.map(|_| 1),
        })
    }

    /// Measures the part of a capture of events that lies in the window.
    fn events_within(mut self, mut reader: Box<dyn EventReader>) -> Result<Measured> {
        let mut statistics = self.statistics(&*reader);
        let mut within = EventsWithin::new(self.window);
        while !within.is_past() {
            let watch = &mut (&mut statistics, self.history.as_mut());
            if reader.next_watched(&mut within.watch(watch))?.is_none() {
                break;
            }
            if within.records().is_multiple_of(RECORDS_PER_LOOK) {
                self.look(&mut statistics, &*reader)?;
            }
        }
        let records = within.records();
        let left_out = within.finish(&mut (&mut statistics, self.history.as_mut()));
        self.end(records, left_out, statistics, &*reader)
    }

    /// Measures a trace of records.
    fn records(mut self, mut reader: Box<dyn TraceReader>) -> Result<Measured> {
        let mut measured = None;
        let mut timeline = Timeline::default();
        let mut records = 0u64;
        each_within(reader.as_mut(), self.window, |record, reader| {
            // The devices are known from the first record on.
            let statistics = measured.get_or_insert_with(|| self.statistics(reader));
            timeline.record(record, &mut (&mut *statistics, self.history.as_mut()));
            records += 1;
            if records.is_multiple_of(RECORDS_PER_LOOK) {
                self.look(statistics, reader)?;
            }
            Ok::<(), anyhow::Error>(())
        })?;
        let mut statistics = measured.unwrap_or_else(|| self.statistics(&*reader));
        let left_out = timeline.finish(&mut (&mut statistics, self.history.as_mut()));
        self.end(records, left_out, statistics, &*reader)
    }

    /// Updates the progress bar, and writes the intervals that are complete.
    fn look(&mut self, statistics: &mut Statistics, reader: &dyn TraceReader) -> Result<()> {
        self.counter.store(reader.position_bytes(), Ordering::Relaxed);
        self.write_closed(statistics)
    }

    fn write_closed(&mut self, statistics: &mut Statistics) -> Result<()> {
        if let (Some(writer), Some(series)) = (&mut self.series, statistics.series()) {
            while let Some(interval) = series.next_closed() {
                writer.write(&interval)?;
            }
        }
        Ok(())
    }

    fn end(
        mut self,
        records: u64,
        left_out: u64,
        mut statistics: Statistics,
        reader: &dyn TraceReader,
    ) -> Result<Measured> {
        if let Some(series) = statistics.series() {
            series.finish();
        }
        self.write_closed(&mut statistics)?;
        if let Some(writer) = self.series {
            writer.finish()?;
        }
        let mut losses = reader.losses().clone();
        if left_out > 0 {
            losses.unmatched.insert("completion too long after its arrival to be followed".to_owned(), left_out);
        }
        let history = self.history.map(|history| history.finish(&reader.meta().vms));
        Ok(Measured { statistics, history, records, meta: reader.meta().clone(), losses })
    }
}

/// The result of one pass.
struct Measured {
    statistics: Statistics,
    history: Option<History>,
    records: u64,
    meta: traces::TraceMeta,
    losses: traces::Losses,
}

impl Measured {
    fn figures(self, arguments: &Stat, format: &Format, options: &ReadOptions) -> Result<TraceStatistics> {
        let Measured { statistics, history, records, meta, losses } = self;
        let trace = TraceProvenance {
            vm: if meta.vms.len() == 1 { meta.vms[0].clone() } else { format!("{} VMs", meta.vms.len()) },
            path: without_folders(&arguments.input.to_string_lossy()).to_owned(),
            sha256: digest(&arguments.input, format, arguments.digest)?,
            format: format.name.to_owned(),
            layer: options.layer.unwrap_or(meta.layer),
            losses,
            ..TraceProvenance::of(&meta, records)
        };
        let program = traces::program_version();
        let TimeWindow { from, to, limit } = arguments.window.checked()?;
        let window = MeasuredWindow { start_ns: from, end_ns: to, limit };
        let window = (arguments.window.checked()? != TimeWindow::default()).then_some(window);
        Ok(TraceStatistics { window, history, ..statistics.figures(&program, trace, &meta) })
    }
}

/// The digest of the files, if it is asked for and they can be read a second time.
fn digest(path: &Path, format: &Format, wanted: bool) -> Result<String> {
    if !wanted || !is_reopenable(path) {
        return Ok(String::new());
    }
    traces::input::digest(&(format.members)(path)?).context("while computing the digest of the trace")
}
