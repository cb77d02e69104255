//! `iocast convert --align`: converts a trace's times to the clock of another trace of the same run.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use traces::align::{self, ClockMap, Sample};
use traces::formats;
use traces::results::alignment::AlignmentFigures;
use traces::trace::{ArrivalPoint, ReadOptions};
use traces::{Nanos, Record, Timestamp, TraceMeta};

use crate::arguments::Convert;
use crate::error::UsageError;
use crate::output::{self, Table};
use crate::output_format::OutputFormat;
use crate::units::span;

/// The alignment of two clocks, and the trace of the reference clock.
pub struct Alignment {
    map: ClockMap,
    figures: AlignmentFigures,
    reference: TraceMeta,
}

impl Alignment {
    /// Aligns the clocks of two traces.
    ///
    /// # Errors
    /// A trace that cannot be read; traces without common requests.
    pub fn of(arguments: &Convert, reference: &Path) -> Result<Alignment> {
        if !traces::input::is_reopenable(&arguments.input) {
            let error = "--align reads the trace twice, so it cannot come from standard input or a pipe";
            return Err(UsageError(error.to_owned()).into());
        }
        let own = arguments.reading.options();
        // Of the options, only --lenient applies to the reference; all else follows from its own format.
        let others = ReadOptions { lenient: own.lenient, ..ReadOptions::default() };
        let (left, meta) = samples(reference, &others)?;
        let (right, _) = samples(&arguments.input, &own)?;
        let both = || format!("{} and {} cannot be aligned", reference.display(), arguments.input.display());
        let (map, figures) = align::align(&left, &right).with_context(both)?;
        Ok(Alignment { map, figures, reference: meta })
    }

    /// Converts a record's times to the reference's clock.
    ///
    /// # Errors
    /// A record before the zero of that clock.
    pub fn record(&self, record: &Record) -> Result<Record> {
        let mut mapped = *record;
        let arrival = record.request.arrival;
        if self.map.exact(arrival.as_ns()) < 0 {
            let early = Nanos::from_ns(u64::try_from(-self.map.exact(arrival.as_ns())).unwrap_or(u64::MAX));
            bail!(
                "the request at {arrival} is {early} before the zero of the reference's clock; leave earlier \
                 requests out with --start, or align the other trace to this one"
            );
        }
        mapped.request.arrival = self.time(arrival);
        let observed = &mut mapped.observed;
        for time in [&mut observed.inserted, &mut observed.issued, &mut observed.completed] {
            *time = time.map(|time| self.time(time));
        }
        Ok(mapped)
    }

    fn time(&self, time: Timestamp) -> Timestamp {
        Timestamp::from_ns(self.map.apply(time.as_ns()))
    }

    /// Notes the reference and the alignment in the metadata.
    pub fn describe(&self, meta: &mut TraceMeta, reference: &Path) {
        meta.clock = self.reference.clock.clone();
        let AlignmentFigures {
            matched,
            unmatched_reference,
            unmatched_input,
            offset_ns,
            offset_at_input_ns,
            drift_ppb,
            residual_p50_ns,
            residual_p95_ns,
            residual_max_ns,
            ..
        } = self.figures;
        let name = reference.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let rows = [
            ("reference", name),
            ("matched", matched.to_string()),
            ("unmatched_reference", unmatched_reference.to_string()),
            ("unmatched_input", unmatched_input.to_string()),
            ("offset_ns", offset_ns.to_string()),
            ("offset_at_input_ns", offset_at_input_ns.to_string()),
            ("drift_ppb", drift_ppb.to_string()),
            ("residual_p50_ns", residual_p50_ns.to_string()),
            ("residual_p95_ns", residual_p95_ns.to_string()),
            ("residual_max_ns", residual_max_ns.to_string()),
        ];
        for (key, value) in rows {
            meta.provenance.insert(format!("align.{key}"), value);
        }
    }

    /// Prints the alignment; JSON also has the command line that replays the output.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn print(&self, format: OutputFormat, replay_command: Option<&str>) -> Result<()> {
        if format == OutputFormat::Json {
            return output::print_json(&Printed { figures: &self.figures, replay_command });
        }
        let found = &self.figures;
        let seconds = |ns: i64| format!("{:.6} s", ns as f64 / 1e9);
        let mut rows = vec![
            ("requests of the reference", found.reference_requests.to_string()),
            ("requests of the input", found.input_requests.to_string()),
            ("matched requests", found.matched.to_string()),
            ("  matched uniquely", found.matched_uniquely.to_string()),
            ("in the reference only", found.unmatched_reference.to_string()),
            ("in the input only", found.unmatched_input.to_string()),
            ("longest run of matches", found.longest_run.to_string()),
            ("one enclosed in the other in time", found.nested.to_string()),
            ("offset", seconds(found.offset_ns)),
            ("offset by issues alone", seconds(found.issue_offset_ns)),
            ("drift", format!("{:.1} ppb", found.drift_ppb)),
            ("residual p50", span(found.residual_p50_ns as f64)),
            ("residual p95", span(found.residual_p95_ns as f64)),
            ("residual max", span(found.residual_max_ns as f64)),
        ];
        if let Some(offset) = found.completion_offset_ns {
            rows.insert(10, ("offset by completions alone", seconds(offset)));
        }
        let table = Table {
            title: "Alignment".to_owned(),
            header: vec!["figure".to_owned(), "value".to_owned()],
            rows: rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect(),
            text_columns: 1,
        };
        output::print(&table.render(format))
    }
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Printed<'a> {
    #[serde(flatten)]
    figures: &'a AlignmentFigures,
    #[serde(skip_serializing_if = "Option::is_none")]
    replay_command: Option<&'a str>,
}

/// The requests of a trace that move data, in the order of their issues if the trace records issues.
fn samples(path: &Path, options: &ReadOptions) -> Result<(Vec<Sample>, TraceMeta)> {
    let format = formats::recognise(path, &ReadOptions { arrivals: ArrivalPoint::Queued, ..options.clone() })?;
    let arrivals = if format.holds_issues { ArrivalPoint::Issued } else { ArrivalPoint::Queued };
    let mut reader = formats::open(path, &ReadOptions { arrivals, ..options.clone() })?;
    let mut samples = Vec::new();
    while let Some(record) = reader.next()? {
        samples.extend(Sample::of(&record));
    }
    // A record may be issued after the next one that arrives.
    samples.sort_by_key(|sample| sample.issued);
    Ok((samples, reader.meta().clone()))
}
