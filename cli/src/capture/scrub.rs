//! `iocast capture scrub`: removes user data from a capture of iSCSI.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, ensure};
use capture::iscsi::{
    Analysis, AnalysisOptions, PacketReader, PacketWriter, Renamer, ScrubCounts, ScrubOptions, Scrubber,
};
use serde::Serialize;
use traces::input;
use traces::results::SCHEMA_VERSION;
use traces::whole_file::WholeFile;

use crate::arguments::Scrub;
use crate::error::UsageError;
use crate::interrupts::remove_unfinished_outputs;
use crate::output::{self, Table};
use crate::output_format::OutputFormat;
use crate::progress::Progress;
use crate::secret_key;

pub fn run(arguments: &Scrub) -> Result<()> {
    remove_unfinished_outputs()?;
    let path = &arguments.output;
    ensure!(
        arguments.force || !path.is_file(),
        UsageError(format!("{} exists; --force overwrites it", path.display()))
    );
    ensure!(
        !path.to_string_lossy().contains(".pcapng"),
        UsageError(format!("{}: the output is pcap, not pcapng; name it .pcap, .pcap.gz or .pcap.zst", path.display()))
    );
    let key = arguments.rename_key.as_deref();
    let rename = key.map(|key| secret_key::read(key, "--rename-key", Renamer::new)).transpose()?;
    let options = ScrubOptions { keep_login: arguments.keep_login, rename };
    let bytes = std::fs::metadata(&arguments.input).map_or(0, |metadata| metadata.len());
    let progress = Progress::new("scrubbing", bytes, 1);
    let counter = progress.counter(0);
    let input = input::Input::open(&arguments.input)?;
    let consumed = input.counter();
    let mut reader = PacketReader::from_reader(&arguments.input, Box::new(input), arguments.lenient)?;

    let name = || format!("{}: cannot be written", path.display());
    let file = WholeFile::create(path)?;
    let out: Box<dyn Write> = Box::new(BufWriter::with_capacity(1 << 18, file.handle().with_context(name)?));
    let writer = PacketWriter::new(&path.to_string_lossy(), out).with_context(name)?;
    let mut scrubber = Scrubber::new(writer, options);
    let mut analysis = Analysis::new(AnalysisOptions { ports: arguments.ports.clone(), ..AnalysisOptions::default() });
    while let Some(packet) = reader.packet()? {
        scrubber.packet(&packet, &mut analysis).with_context(name)?;
        while analysis.record().is_some() {}
        counter.store(consumed.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    analysis.finish(&mut scrubber);
    let counts = scrubber.finish().with_context(name)?;
    file.finish()?;
    drop(progress);
    let figures = figures(&counts, analysis.figures(reader.counts()).commands.commands, path);
    match arguments.output_format {
        OutputFormat::Json => output::print_json(&figures),
        format => output::print(&table(&figures).render(format)),
    }
}

/// The figures that are printed.
#[derive(Serialize)]
struct Figures {
    schema_version: u32,
    packets: u64,
    packets_left_out: u64,
    commands: u64,
    payload_bytes: u64,
    kept_payload_bytes: u64,
    zeroed_payload_bytes: u64,
    void_checksums: u64,
    hurried_packets: u64,
    output_bytes: u64,
}

fn figures(counts: &ScrubCounts, commands: u64, path: &Path) -> Figures {
    Figures {
        schema_version: SCHEMA_VERSION,
        packets: counts.packets,
        packets_left_out: counts.left_out,
        commands,
        payload_bytes: counts.payload_bytes,
        kept_payload_bytes: counts.kept_bytes,
        zeroed_payload_bytes: counts.payload_bytes - counts.kept_bytes,
        void_checksums: counts.void_checksums,
        hurried_packets: counts.written_undecided,
        output_bytes: std::fs::metadata(path).map_or(0, |metadata| metadata.len()),
    }
}

fn table(figures: &Figures) -> Table {
    let rows = [
        ("packets written", figures.packets),
        ("packets left out: not iSCSI", figures.packets_left_out),
        ("commands", figures.commands),
        ("bytes of payload", figures.payload_bytes),
        ("bytes of payload kept: headers", figures.kept_payload_bytes),
        ("bytes of payload set to zero", figures.zeroed_payload_bytes),
        ("TCP checksums set to zero: packet was cut", figures.void_checksums),
        ("packets written early: headers may be missing", figures.hurried_packets),
        ("bytes of the file", figures.output_bytes),
    ];
    Table {
        title: "Scrubbed".to_owned(),
        header: vec!["what".to_owned(), "count".to_owned()],
        rows: rows.into_iter().map(|(name, count)| vec![name.to_owned(), count.to_string()]).collect(),
        text_columns: 1,
    }
}
