//! `iocast convert`: any trace that can be read, as Parquet.

use anyhow::{Context, Result, ensure};
use replay::sources::{Cursor, Position, TimeWindow};
use traces::anonymise::Anonymiser;
use traces::formats::{self, parquet};
use traces::input::is_reopenable;
use traces::trace::{ReadOptions, WriteOptions};
use traces::{Lba, Record, Sectors, TraceMeta, TraceReader};

use crate::arguments::{Convert, UsageError};
use crate::progress::Progress;

pub fn run(arguments: &Convert) -> Result<()> {
    let (options, window) = (arguments.reading.options(), arguments.window.checked()?);
    let provenance = provenance(&arguments.provenance)?;
    let output = &arguments.output;
    ensure!(
        arguments.force || !output.exists(),
        UsageError(format!("{} exists; --force overwrites it", output.display()))
    );
    let mut anonymiser = anonymiser(arguments, &options, window)?;
    let bytes = std::fs::metadata(&arguments.input).map_or(0, |metadata| metadata.len());
    let progress = Progress::new("converting", bytes, 1);
    let counter = progress.counter(0);

    let mut reader = formats::open(&arguments.input, &options)?;
    let mut writer = (parquet::FORMAT.create.expect("a format that is written"))(output, &WriteOptions::default())?;
    each_record(reader.as_mut(), window, |record, position| {
        counter.store(position, std::sync::atomic::Ordering::Relaxed);
        match &mut anonymiser {
            Some(anonymiser) => writer.write(&anonymiser.record(record)?)?,
            None => writer.write(record)?,
        }
        Ok(())
    })?;
    let mut meta = reader.meta().clone();
    describe(&mut meta, arguments, reader.as_ref())?;
    if let Some(anonymiser) = &anonymiser {
        meta = anonymiser.meta(&meta);
    }
    meta.provenance.extend(provenance);
    let written = writer.finish(&meta)?;
    drop(progress);

    let requests = written.extent.map_or(0, |extent| extent.records);
    eprintln!(
        "iocast: {} → {}: {requests} requests, layer {}",
        arguments.input.display(),
        output.display(),
        meta.layer
    );
    report_losses(reader.as_ref());
    Ok(())
}

/// Calls `each` with every record within the window and the bytes consumed so far.
fn each_record(
    reader: &mut dyn TraceReader,
    window: TimeWindow,
    mut each: impl FnMut(&Record, u64) -> Result<()>,
) -> Result<()> {
    let mut cursor = Cursor::default();
    let mut taken = 0;
    while window.limit.is_none_or(|limit| taken < limit) {
        let Some(record) = reader.next()? else { break };
        match cursor.position(record.request.arrival, window) {
            Position::Before => continue,
            Position::Within(_) => {}
            Position::After => break,
        }
        taken += 1;
        each(&record, reader.position_bytes())?;
    }
    Ok(())
}

fn anonymiser(arguments: &Convert, options: &ReadOptions, window: TimeWindow) -> Result<Option<Anonymiser>> {
    let Some(key) = &arguments.anonymise else { return Ok(None) };
    let mut anonymiser = Anonymiser::new(key.as_bytes()).map_err(UsageError::from_display)?;
    if arguments.anonymise_lba {
        ensure!(
            is_reopenable(&arguments.input),
            UsageError("--anonymise-lba reads the trace twice, so not from standard input or a pipe".to_owned())
        );
        let mut reader = formats::open(&arguments.input, options)?;
        let (mut end, mut longest) = (Lba::ZERO, Sectors::ZERO);
        each_record(reader.as_mut(), window, |record, _| {
            end = end.max(record.request.end());
            longest = longest.max(record.request.sectors());
            Ok(())
        })?;
        anonymiser = anonymiser.with_addresses(end, longest)?;
    }
    Ok(Some(anonymiser))
}

fn provenance(given: &[String]) -> Result<Vec<(String, String)>, UsageError> {
    let pair = |text: &String| {
        let (key, value) = text.split_once('=')?;
        (!key.is_empty()).then(|| (key.to_owned(), value.to_owned()))
    };
    given
        .iter()
        .map(|text| pair(text).ok_or_else(|| UsageError(format!("--provenance {text}: expected KEY=VALUE"))))
        .collect()
}

/// Adds where the trace comes from.
fn describe(meta: &mut TraceMeta, arguments: &Convert, reader: &dyn TraceReader) -> Result<()> {
    if let Some(name) = &arguments.vm {
        ensure!(meta.vms.len() == 1, UsageError(format!("--vm names one VM, the trace has {}", meta.vms.len())));
        meta.vms[0].clone_from(name);
    }
    let mut add = |key: &str, value: String| meta.provenance.insert(key.to_owned(), value);
    add("converted_by", format!("iocast {}", env!("CARGO_PKG_VERSION")));
    if is_reopenable(&arguments.input) {
        let name = arguments.input.file_name().map(|name| name.to_string_lossy().into_owned());
        add("converted_from", name.unwrap_or_default());
        let format = formats::recognise(&arguments.input, &arguments.reading.options())?;
        let members = (format.members)(&arguments.input)?;
        let sha256 = traces::input::digest(&members).context("while computing the digest of the input")?;
        add("converted_from_sha256", sha256);
    }
    add("lost_events", reader.losses().lost_events.to_string());
    add("skipped_records", reader.losses().skipped.values().sum::<u64>().to_string());
    Ok(())
}

fn report_losses(reader: &dyn TraceReader) {
    let losses = reader.losses();
    if losses.lost_events > 0 {
        eprintln!("iocast: warning: the capture had lost {} events", losses.lost_events);
    }
    for (reason, count) in &losses.skipped {
        eprintln!("iocast: warning: {count} records skipped: {reason}");
    }
    for (kind, count) in &losses.unmatched {
        eprintln!("iocast: note: {count} {kind}");
    }
}
