//! `iocast convert`: reads a trace in any format, and writes it in any format that has a writer.

mod align;
mod catalog;
mod catalog_days;
mod catalog_names;
mod replay_hint;

use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, bail, ensure};
use replay::sources::{TimeWindow, each_within};
use traces::anonymise::{Anonymiser, is_name};
use traces::error::WriteProblem;
use traces::formats::{self, Created, Format, parquet};
use traces::input::is_reopenable;
use traces::trace::{TraceWriter, WriteOptions};
use traces::{Lba, Losses, Sectors, TraceMeta, TraceReader, WriteError};

use crate::arguments::{Convert, Window};
use crate::error::UsageError;
use crate::interrupts::remove_unfinished_outputs;
use crate::progress::Progress;
use crate::secret_key;

/// The name of standard output.
const STANDARD_OUTPUT: &str = "-";
/// The most devices that an error names if the user must choose one.
const NAMED_MAX: usize = 5;

pub fn run(arguments: &Convert) -> Result<()> {
    remove_unfinished_outputs()?;
    if let Some(folder) = &arguments.catalog {
        return catalog::run(arguments, folder);
    }
    let [output] = arguments.output.as_slice() else {
        bail!(UsageError("one trace is converted into one file; several go into a folder with --catalog".to_owned()));
    };
    let (options, window) = (arguments.reading.options(), arguments.window.checked()?);
    let notes = provenance(&arguments.provenance)?;
    let (target, create) = target(output, arguments.to.as_deref())?;
    check_kept(arguments, target)?;
    replay_hint::check(arguments, output, target)?;
    ensure!(
        arguments.force || !output.is_file() || output == Path::new(STANDARD_OUTPUT),
        UsageError(format!("{} exists; --force overwrites it", output.display()))
    );
    let mut anonymiser = anonymiser(arguments)?
        .map(|anonymiser| with_addresses(anonymiser, arguments, &arguments.input, window))
        .transpose()?;
    let alignment =
        arguments.align.as_deref().map(|reference| align::Alignment::of(arguments, reference)).transpose()?;
    let bytes = std::fs::metadata(&arguments.input).map_or(0, |metadata| metadata.len());
    let progress = Progress::new("converting", bytes, 1);
    let counter = progress.counter(0);

    let mut reader = formats::open(&arguments.input, &options)?;
    let begin = |meta: &TraceMeta| {
        let (lossy, address_space) = (arguments.lossy, meta.address_space);
        create(output, &WriteOptions { lossy, address_space, replay_device: arguments.replay_device.clone() })
    };
    // The writer begins at the first record; only then does every reader know its devices.
    let mut writer: Option<Box<dyn TraceWriter>> = None;
    each_within(reader.as_mut(), window, |record, reader| {
        counter.store(reader.position_bytes(), Ordering::Relaxed);
        let writer = match &mut writer {
            Some(writer) => writer,
            none => none.insert(begin(reader.meta())?),
        };
        let aligned = alignment.as_ref().map(|alignment| alignment.record(record)).transpose()?;
        let record = aligned.as_ref().unwrap_or(record);
        match &mut anonymiser {
            Some(anonymiser) => writer.write(&anonymiser.record(record)?),
            None => writer.write(record),
        }
        .map_err(|error| with_names(error, reader.meta()))
    })?;
    let writer = match writer {
        Some(writer) => writer,
        None => begin(reader.meta())?,
    };
    let mut meta = reader.meta().clone();
    describe(&mut meta, arguments, &arguments.input, reader.as_ref())?;
    if let (Some(alignment), Some(reference)) = (&alignment, &arguments.align) {
        alignment.describe(&mut meta, reference);
    }
    let meta = noted(meta, &notes, anonymiser.as_ref());
    let written = writer.finish(&meta)?;
    drop(progress);
    let requests = written.extent.map_or(0, |extent| extent.records);
    note!(
        "iocast: {} → {}: {requests} requests as {}, layer {}",
        arguments.input.display(),
        output.display(),
        target.name,
        meta.layer
    );
    warn_of_losses(reader.losses());
    for (what, count) in &written.left_out {
        eprintln!("iocast: warning: {count} records left out: {} cannot express {what}", target.name);
    }
    if written.extent.is_none() {
        warn_of_nothing(&arguments.input, window);
    }
    let replay = replay_hint::print(arguments, output, target, &meta, &written)?;
    match &alignment {
        Some(alignment) if output != Path::new(STANDARD_OUTPUT) => {
            alignment.print(arguments.output_format, replay.as_deref())
        }
        _ => Ok(()),
    }
}

fn endings(format: &Format) -> String {
    let endings: Vec<String> = format.extensions.iter().map(|extension| format!(".{extension}")).collect();
    format!("{} ({})", format.name, endings.join(", "))
}

/// A format with the function that begins to write it.
pub(crate) type Target = (&'static Format, fn(&Path, &WriteOptions) -> Created);

/// The format to write: the one of --to, or the one of the output's file extension, or Parquet.
pub(crate) fn target(output: &Path, named: Option<&str>) -> Result<Target> {
    let written: Vec<_> =
        formats::FORMATS.iter().filter_map(|format| format.create.map(|create| (format, create))).collect();
    let there_are = || written.iter().map(|(format, _)| endings(format)).collect::<Vec<_>>().join(", ");
    if let Some(name) = named {
        let found = written.iter().find(|(format, _)| format.name == name);
        let only_read =
            if formats::FORMATS.iter().any(|format| format.name == name) { "is only read" } else { "is unknown" };
        let unknown = || UsageError(format!("--to {name}: that format {only_read}; iocast writes {}", there_are()));
        return Ok(*found.ok_or_else(unknown)?);
    }
    ensure!(
        output != Path::new(STANDARD_OUTPUT),
        UsageError(format!("standard output has no file extension; name the format with --to: {}", there_are()))
    );
    let name = output.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let ends = |format: &Format| format.extensions.iter().any(|extension| name.ends_with(&format!(".{extension}")));
    let by_ending = written.iter().find(|(format, _)| ends(format));
    let parquet = || written.iter().find(|(format, _)| format.name == parquet::FORMAT.name);
    let found = if output.extension().is_some() { by_ending } else { by_ending.or_else(parquet) };
    let unknown = || {
        let what = format!("no writable format has the file extension of {}", output.display());
        UsageError(format!("{what}; name a format with --to, or give the output an extension of {}", there_are()))
    };
    Ok(*found.ok_or_else(unknown)?)
}

/// Refuses options that only Parquet can store if another format is written.
fn check_kept(arguments: &Convert, target: &Format) -> Result<()> {
    for (given, option) in [(!arguments.provenance.is_empty(), "--provenance"), (arguments.vm.is_some(), "--vm")] {
        ensure!(
            !given || target.name == parquet::FORMAT.name,
            UsageError(format!("only Parquet stores {option}; leave it out to write {}", target.name))
        );
    }
    Ok(())
}

/// Adds the names of the devices to an error that asks the user to choose one.
fn with_names(error: WriteError, meta: &TraceMeta) -> anyhow::Error {
    if !matches!(error.problem, WriteProblem::SeveralDevices(_)) {
        return error.into();
    }
    let names: Vec<&str> = meta.vms.iter().take(NAMED_MAX).map(String::as_str).collect();
    anyhow::Error::from(error).context(format!("the trace's first devices are {}", names.join(", ")))
}

/// What makes traces anonymous, if that is asked for. Reads the key.
fn anonymiser(arguments: &Convert) -> Result<Option<Anonymiser>> {
    let Some(path) = &arguments.anonymise else { return Ok(None) };
    ensure!(
        *path != arguments.input || is_reopenable(path),
        UsageError(
            "the trace and the key of --anonymise cannot come from one pipe; put the key into a file".to_owned()
        )
    );
    secret_key::read(path, "--anonymise", Anonymiser::new).map(Some)
}

/// The same with the addresses of the trace at `input`, if they are to change, too.
fn with_addresses(anonymiser: Anonymiser, arguments: &Convert, input: &Path, window: TimeWindow) -> Result<Anonymiser> {
    if !arguments.anonymise_lba {
        return Ok(anonymiser);
    }
    ensure!(
        is_reopenable(input),
        UsageError("--anonymise-lba reads the trace twice, so it cannot come from standard input or a pipe".to_owned())
    );
    let mut reader = formats::open(input, &arguments.reading.options())?;
    let (mut end, mut longest) = (Lba::ZERO, Sectors::ZERO);
    each_within(reader.as_mut(), window, |record, _| {
        end = end.max(record.request.end());
        longest = longest.max(record.request.sectors());
        Ok::<(), anyhow::Error>(())
    })?;
    Ok(anonymiser.with_addresses(end, longest)?)
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

/// Adds the trace's origin to the metadata.
fn describe(meta: &mut TraceMeta, arguments: &Convert, input: &Path, reader: &dyn TraceReader) -> Result<()> {
    if let Some(name) = &arguments.vm {
        ensure!(meta.vms.len() == 1, UsageError(format!("--vm names one VM, but the trace has {}", meta.vms.len())));
        meta.vms[0].clone_from(name);
    }
    let mut add = |key: &str, value: String| meta.provenance.insert(key.to_owned(), value);
    add("converted_by", traces::program_version());
    if is_reopenable(input) {
        let name = input.file_name().map(|name| name.to_string_lossy().into_owned());
        add("converted_from", name.unwrap_or_default());
        let format = formats::recognise(input, &arguments.reading.options())?;
        let members = (format.members)(input)?;
        let sha256 = traces::input::digest(&members).context("while computing the digest of the input")?;
        add("converted_from_sha256", sha256);
    }
    add("lost_events", reader.losses().lost_events.to_string());
    add("skipped_records", reader.losses().skipped.values().sum::<u64>().to_string());
    Ok(())
}

/// The metadata as they are written, with the notes of the command line. Names in notes are names of the trace, so they
/// become pseudonyms in an anonymous one; other notes are the user's choice.
fn noted(mut meta: TraceMeta, notes: &[(String, String)], anonymiser: Option<&Anonymiser>) -> TraceMeta {
    let (names, others): (Vec<_>, Vec<_>) = notes.iter().cloned().partition(|(key, _)| is_name(key));
    meta.provenance.extend(names);
    if let Some(anonymiser) = anonymiser {
        meta = anonymiser.meta(&meta);
    }
    meta.provenance.extend(others);
    meta
}

/// Says why there is no request to write.
fn warn_of_nothing(input: &Path, window: TimeWindow) {
    let input = input.display();
    match window == TimeWindow::default() {
        true => eprintln!("iocast: warning: {input} holds no request"),
        false => eprintln!("iocast: warning: {input}: {}", Window::IS_EMPTY),
    }
}

/// Says what was lost on the way from the trace.
fn warn_of_losses(losses: &Losses) {
    if losses.lost_events > 0 {
        eprintln!("iocast: warning: the capture lost {} events", losses.lost_events);
    }
    for (reason, count) in &losses.skipped {
        eprintln!("iocast: warning: {count} records skipped: {reason}");
    }
    for (kind, count) in &losses.impossible {
        eprintln!("iocast: warning: {count} requests with times in an impossible order: {kind}");
    }
    for (kind, count) in &losses.unmatched {
        note!("iocast: note: {count} {kind}");
    }
}
