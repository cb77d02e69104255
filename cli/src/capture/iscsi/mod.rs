//! `iocast capture iscsi`: makes a trace of iSCSI on the wire, live or from files.

mod tables;

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use capture::Silence;
use capture::iscsi::{
    Analysis, AnalysisOptions, Digests, LiveCapture, PacketReader, PacketWriter, ScrubCounts, ScrubOptions, Scrubber,
    TsharkAnalysis,
};
use traces::results::wire::WireCapture;
use traces::trace::{TraceWriter, WriteOptions};
use traces::{Record, TraceMeta, input};

use crate::arguments::{DigestsArgument, Engine, Iscsi};
use crate::convert::{self, Target};
use crate::error::UsageError;
use crate::interrupts::remove_unfinished_outputs;
use crate::needs::{self, uses};
use crate::output;
use crate::output_format::OutputFormat;
use crate::progress::Progress;

/// The interval at which a live capture flushes its packets to the file.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);
/// The interval at which a live capture checks whether to end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub fn run(arguments: &Iscsi) -> Result<()> {
    let outputs = Outputs::planned(arguments)?;
    let is_live = arguments.read.is_none() && arguments.interface.is_some();
    let runs =
        [(is_live, uses::CAPTURE_ISCSI_INTERFACE), (arguments.engine == Engine::Tshark, uses::CAPTURE_ISCSI_TSHARK)];
    needs::check(&runs.iter().filter(|(is, _)| *is).map(|(_, one)| *one).collect::<Vec<_>>())?;
    let (figures, silence) = match (&arguments.read, &arguments.interface) {
        (Some(path), _) => from_file(arguments, path, &outputs)?,
        (None, Some(interface)) => live(arguments, interface, &outputs)?,
        (None, None) => return Err(UsageError("give --interface or --read".to_owned()).into()),
    };
    if arguments.output.as_deref() != Some(Path::new("-")) {
        match arguments.output_format {
            OutputFormat::Json => output::print_json(&figures)?,
            format => tables::print(&figures, format)?,
        }
    }
    match silence {
        None => Ok(()),
        Some(Silence::Harmless(why)) => {
            eprintln!("iocast: warning: {why}");
            Ok(())
        }
        Some(Silence::Missed(why)) => bail!(why),
    }
}

/// The files to write besides the figures.
struct Outputs<'a> {
    trace: Option<(&'a Path, Target)>,
    raw: Option<&'a Path>,
}

impl<'a> Outputs<'a> {
    /// Checks the outputs before any work.
    fn planned(arguments: &'a Iscsi) -> Result<Outputs<'a>> {
        for path in arguments.output.iter().chain(&arguments.raw) {
            ensure!(
                arguments.force || !path.is_file(),
                UsageError(format!("{} exists; --force overwrites it", path.display()))
            );
        }
        ensure!(
            arguments.interface.is_none() || arguments.output.is_some() || arguments.raw.is_some(),
            UsageError("a live capture needs an output: give --output for a trace, --raw for packets, or both".into())
        );
        ensure!(
            arguments.engine == Engine::Iocast || arguments.raw.is_none(),
            UsageError("only the engine iocast writes --raw".to_owned())
        );
        let trace = match &arguments.output {
            Some(path) => Some((path.as_path(), convert::target(path, arguments.to.as_deref())?)),
            None => None,
        };
        Ok(Outputs { trace, raw: arguments.raw.as_deref() })
    }
}

fn options(arguments: &Iscsi) -> AnalysisOptions {
    let digests = |header, data| Digests { header: Some(header), data: Some(data) };
    let digests = match arguments.digests {
        DigestsArgument::Auto => Digests::default(),
        DigestsArgument::None => digests(false, false),
        DigestsArgument::Header => digests(true, false),
        DigestsArgument::Data => digests(false, true),
        DigestsArgument::Both => digests(true, true),
    };
    AnalysisOptions { ports: arguments.ports.clone(), digests }
}

/// Writes a trace's records as they come.
struct TraceOutput<'a> {
    path: &'a Path,
    target: Target,
    writer: Option<Box<dyn TraceWriter>>,
}

impl TraceOutput<'_> {
    fn drain(&mut self, analysis: &mut Analysis) -> Result<()> {
        while let Some(record) = analysis.record() {
            self.write(&record, || analysis.meta())?;
        }
        Ok(())
    }

    fn write(&mut self, record: &Record, meta: impl FnOnce() -> TraceMeta) -> Result<()> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(begin(self.path, &self.target, &meta())?),
        };
        writer.write(record)?;
        Ok(())
    }

    fn finish(self, meta: &TraceMeta) -> Result<()> {
        let writer = match self.writer {
            Some(writer) => writer,
            None => begin(self.path, &self.target, meta)?,
        };
        writer.finish(meta)?;
        Ok(())
    }
}

fn begin(path: &Path, target: &Target, meta: &TraceMeta) -> Result<Box<dyn TraceWriter>> {
    Ok((target.1)(path, &WriteOptions { address_space: meta.address_space, ..WriteOptions::default() })?)
}

/// The figures of a capture, and what it means if it holds no iSCSI.
type Captured = (WireCapture, Option<Silence>);

fn from_file(arguments: &Iscsi, path: &Path, outputs: &Outputs<'_>) -> Result<Captured> {
    remove_unfinished_outputs()?;
    let bytes = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    let progress = Progress::new("reading", bytes, 1);
    let counter = progress.counter(0);
    let input = input::Input::open(path)?;
    let consumed = input.counter();
    let each = |_| counter.store(consumed.load(Ordering::Relaxed), Ordering::Relaxed);
    let source = Source { path, input: Box::new(input), lenient: arguments.lenient };
    let mut made = analyse(arguments, source, outputs, each)?;
    drop(progress);
    if input::is_reopenable(path) {
        let sha256 = input::digest(&[path.to_owned()])?;
        made.provenance.push(("captured_from_sha256", sha256));
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    made.provenance.push(("captured_from", name));
    let figures = made.close()?;
    let silence = match figures.tcp.connections {
        0 => Some(Silence::of_file(&path.display().to_string(), &arguments.ports, figures.packets.packets)),
        _ => without_commands(&figures),
    };
    Ok((figures, silence))
}

/// The source of packets.
struct Source<'a> {
    /// Its name in messages.
    path: &'a Path,
    input: Box<dyn Read + Send>,
    lenient: bool,
}

/// Analyses packets by the chosen engine. `each` receives the number of bytes read so far.
fn analyse<'a>(
    arguments: &Iscsi,
    Source { path, input, lenient }: Source<'_>,
    outputs: &Outputs<'a>,
    each: impl FnMut(u64),
) -> Result<OpenResult<'a>> {
    match arguments.engine {
        Engine::Iocast => by_iocast(arguments, PacketReader::from_reader(path, input, lenient)?, outputs, each),
        Engine::Tshark => by_tshark(arguments, Source { path, input, lenient }, outputs, each),
    }
}

fn by_tshark<'a>(
    arguments: &Iscsi,
    Source { path, input, lenient }: Source<'_>,
    outputs: &Outputs<'a>,
    mut each: impl FnMut(u64),
) -> Result<OpenResult<'a>> {
    let mut trace = outputs.trace.map(|(path, target)| TraceOutput { path, target, writer: None });
    let mut analysis = TsharkAnalysis::default();
    let counts = analysis.run(path, input, lenient, &arguments.ports, |analysis| -> Result<()> {
        while let Some(record) = analysis.record() {
            if let Some(trace) = &mut trace {
                trace.write(&record, || analysis.meta())?;
            }
        }
        each(analysis.position_bytes());
        Ok(())
    })?;
    Ok(OpenResult { meta: analysis.meta(), trace, figures: analysis.figures(&counts), provenance: Vec::new() })
}

/// A complete analysis whose trace is still open.
struct OpenResult<'a> {
    meta: TraceMeta,
    trace: Option<TraceOutput<'a>>,
    figures: WireCapture,
    provenance: Vec<(&'static str, String)>,
}

impl OpenResult<'_> {
    fn close(self) -> Result<WireCapture> {
        let OpenResult { mut meta, trace, figures, provenance } = self;
        let mut add = |key: &str, value: String| meta.provenance.insert(key.to_owned(), value);
        add("captured_by", format!("{} (iscsi, engine {})", traces::program_version(), figures.engine));
        add("source_format", "iscsi".to_owned());
        add("lost_events", (figures.commands.lost + figures.packets.dropped).to_string());
        for (key, value) in provenance {
            add(key, value);
        }
        if let Some(trace) = trace {
            trace.finish(&meta)?;
        }
        tables::warn(&figures);
        Ok(figures)
    }
}

fn by_iocast<'a>(
    arguments: &Iscsi,
    mut reader: PacketReader,
    outputs: &Outputs<'a>,
    mut each: impl FnMut(u64),
) -> Result<OpenResult<'a>> {
    let mut analysis = Analysis::new(options(arguments));
    let mut trace = outputs.trace.map(|(path, target)| TraceOutput { path, target, writer: None });
    let mut raw = outputs.raw.map(scrubber).transpose()?;
    let mut flushed = Instant::now();
    while let Some(packet) = reader.packet()? {
        match &mut raw {
            Some(scrubber) => {
                scrubber.packet(&packet, &mut analysis)?;
                if flushed.elapsed() >= FLUSH_INTERVAL && arguments.interface.is_some() {
                    scrubber.flush()?;
                    flushed = Instant::now();
                }
            }
            None => _ = analysis.packet(&packet, &mut ()),
        }
        match &mut trace {
            Some(trace) => trace.drain(&mut analysis)?,
            None => while analysis.record().is_some() {},
        }
        each(reader.position_bytes());
    }
    match &mut raw {
        Some(scrubber) => analysis.finish(scrubber),
        None => analysis.finish(&mut ()),
    }
    match &mut trace {
        Some(trace) => trace.drain(&mut analysis)?,
        None => while analysis.record().is_some() {},
    }
    if let (Some(scrubber), Some(path)) = (raw, outputs.raw) {
        let ScrubCounts { payload_bytes, kept_bytes, .. } = scrubber.finish()?;
        let zeroed = payload_bytes - kept_bytes;
        note!("iocast: {}: kept {kept_bytes} bytes of payload (headers), set {zeroed} to zero", path.display());
    }
    let figures = analysis.figures(reader.counts());
    Ok(OpenResult { meta: analysis.meta(), trace, figures, provenance: Vec::new() })
}

/// Packets are written directly to their file, so that they survive if the program is killed.
fn scrubber(path: &Path) -> Result<Scrubber> {
    let name = || format!("{}: cannot be written", path.display());
    let file = std::fs::File::create(path).with_context(name)?;
    let out: Box<dyn Write> = Box::new(std::io::BufWriter::with_capacity(1 << 18, file));
    let writer = PacketWriter::new(&path.to_string_lossy(), out).with_context(name)?;
    Ok(Scrubber::new(writer, ScrubOptions::default()))
}

/// A reader that records whether its input has ended.
struct EndWatch<R> {
    input: R,
    ended: Arc<AtomicBool>,
}

impl<R: Read> Read for EndWatch<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.input.read(buffer)?;
        if bytes == 0 && !buffer.is_empty() {
            self.ended.store(true, Ordering::Relaxed);
        }
        Ok(bytes)
    }
}

fn live(arguments: &Iscsi, interface: &str, outputs: &Outputs<'_>) -> Result<Captured> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let (capture, output) = LiveCapture::begin(interface, &arguments.ports, arguments.snaplen)?;
    let ender = end_when(capture.process(), Arc::clone(&stop), arguments.seconds.map(|span| span.as_ns()));
    let progress = Progress::new("capturing", 0, 1);
    let counter = progress.counter(0);
    let each = |bytes| counter.store(bytes, Ordering::Relaxed);
    let ended = Arc::new(AtomicBool::new(false));
    let input = Box::new(EndWatch { input: output, ended: Arc::clone(&ended) });
    let made = analyse(arguments, Source { path: Path::new(interface), input, lenient: true }, outputs, each);
    drop(progress);
    stop.store(true, Ordering::Relaxed);
    // The thread only waits and sends a signal.
    let _ = ender.join();
    let silence = capture.silence();
    // Report the first failure. dumpcap fails if its output has no reader; without dumpcap's packets the analysis
    // fails.
    if made.is_ok() || ended.load(Ordering::Relaxed) {
        capture.finish()?;
    }
    let mut made = made?;
    made.provenance.push(("captured_on", interface.to_owned()));
    let figures = made.close()?;
    let silence = if figures.packets.packets == 0 { Some(silence) } else { without_commands(&figures) };
    Ok((figures, silence))
}

/// A capture of packets without a SCSI command.
fn without_commands(figures: &WireCapture) -> Option<Silence> {
    let hint = match figures.pdus.pdus {
        0 => "nor any iSCSI PDU; --port names the target's port, if this is another",
        _ => "only other PDUs, such as logins and pings: the initiator was idle",
    };
    let packets = figures.packets.packets;
    let why = || Silence::Harmless(format!("the {packets} packets hold no SCSI command, {hint}"));
    (figures.commands.commands == 0).then(why)
}

/// Ends the capturing program when a signal comes or the time is over. The program then writes its counts.
fn end_when(process: u32, stop: Arc<AtomicBool>, span_ns: Option<u64>) -> std::thread::JoinHandle<()> {
    let begun = Instant::now();
    std::thread::spawn(move || {
        let over = || span_ns.is_some_and(|span| begun.elapsed() >= Duration::from_nanos(span));
        while !stop.load(Ordering::Relaxed) && !over() {
            std::thread::sleep(POLL_INTERVAL);
        }
        capture::iscsi::interrupt(process);
    })
}
