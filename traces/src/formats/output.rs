//! Shared parts of all writers: text in a file or on standard output, and the account of written and omitted records.

use std::io::{self, BufWriter, Stdout, Write};
use std::path::{Path, PathBuf};

use crate::error::{WriteError, WriteProblem};
use crate::record::Record;
use crate::request::{Operation, VmId};
use crate::trace::{AddressSpace, Extent, TraceMeta, TraceWriter, WriteOptions, Written};
use crate::whole_file::{STANDARD_OUTPUT, WholeFile};

/// Bytes that are collected before they are written.
const BUFFER_BYTES: usize = 1 << 18;

/// Why a format cannot express a record, in the plural: "flushes". One of a few, so that counts
/// add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inexpressible(pub(crate) &'static str);

/// The account of a writer: order, extent, and records left out.
pub(crate) struct Ledger {
    path: PathBuf,
    format: &'static str,
    options: WriteOptions,
    /// The device of a trace whose devices have addresses of their own, in a format of one device.
    only: Option<VmId>,
    one_device: bool,
    last: Option<Record>,
    /// Records given so far, written or left out.
    given: u64,
    written: Written,
}

impl Ledger {
    /// The account of a writer of `format` to `path`.
    pub(crate) fn new(path: &Path, format: &'static str, options: &WriteOptions) -> Ledger {
        Ledger {
            path: path.to_owned(),
            format,
            options: options.clone(),
            only: None,
            one_device: false,
            last: None,
            given: 0,
            written: Written::default(),
        }
    }

    /// For a format without devices: refuses traces of several that have addresses of their own.
    pub(crate) fn of_one_device(mut self) -> Ledger {
        self.one_device = true;
        self
    }

    /// Takes in the next record before it is written.
    ///
    /// # Errors
    /// A record out of order, or of a second device in a format that has one.
    pub(crate) fn admit(&mut self, record: &Record) -> Result<(), WriteError> {
        let arrival = record.request.arrival;
        if let Some(last) = self.last.filter(|last| arrival < last.request.arrival) {
            let last = last.request.arrival;
            let what = format!("record {} arrives at {arrival}, after one at {last}", self.given);
            return Err(self.fail(WriteProblem::OutOfOrder(what)));
        }
        if self.one_device && self.options.address_space == AddressSpace::PerVm {
            let only = *self.only.get_or_insert(record.request.vm);
            if only != record.request.vm {
                return Err(self.fail(WriteProblem::SeveralDevices(self.format)));
            }
        }
        self.last = Some(*record);
        self.given += 1;
        Ok(())
    }

    /// Accounts for the record that was admitted last.
    ///
    /// # Errors
    /// One that the format cannot express, unless such records are left out.
    pub(crate) fn settle(&mut self, expressed: Result<(), Inexpressible>) -> Result<(), WriteError> {
        let Some(record) = &self.last else { return Ok(()) };
        match expressed {
            Ok(()) => widen(&mut self.written.extent, record),
            Err(Inexpressible(what)) if self.options.lossy => {
                *self.written.left_out.entry(what.to_owned()).or_default() += 1;
            }
            Err(Inexpressible(what)) => {
                let (format, number) = (self.format, self.given - 1);
                return Err(self.fail(WriteProblem::Inexpressible { format, record: number, what }));
            }
        }
        Ok(())
    }

    /// The account of the records written so far.
    pub(crate) fn written(&self) -> &Written {
        &self.written
    }

    /// The account at the end.
    pub(crate) fn close(self) -> Written {
        self.written
    }

    /// An error about the output.
    #[cold]
    pub(crate) fn fail(&self, problem: WriteProblem) -> WriteError {
        WriteError::new(&self.path, problem)
    }
}

/// Takes one more record, which arrives no earlier, into the extent.
fn widen(extent: &mut Option<Extent>, record: &Record) {
    let request = &record.request;
    let has_address = request.operation != Operation::Flush;
    let Some(extent) = extent else {
        let (lba_min, lba_end) = if has_address { (request.lba, request.end()) } else { Default::default() };
        *extent = Some(Extent {
            first_arrival: request.arrival,
            last_arrival: request.arrival,
            lba_min,
            lba_end,
            records: 1,
        });
        return;
    };
    extent.last_arrival = request.arrival;
    extent.records += 1;
    if has_address {
        // An end of zero: only flushes so far.
        let first = extent.lba_end.sector() == 0;
        extent.lba_min = if first { request.lba } else { extent.lba_min.min(request.lba) };
        extent.lba_end = extent.lba_end.max(request.end());
    }
}

/// Makes the lines of one format.
pub(crate) trait LineEncoder {
    /// Appends the text before the first record.
    fn begin(&mut self, _out: &mut Vec<u8>) {}

    /// Appends a record's lines, or nothing if it fails.
    fn record(&mut self, record: &Record, out: &mut Vec<u8>) -> Result<(), Inexpressible>;

    /// Appends the text behind the last record.
    fn end(&mut self, _out: &mut Vec<u8>) {}
}

enum Sink {
    File(Box<BufWriter<WholeFile>>),
    Standard(BufWriter<Stdout>),
}

impl Sink {
    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Sink::File(file) => file.as_mut(),
            Sink::Standard(stdout) => stdout,
        }
    }
}

/// Writes a text format, to a file or to standard output (`-`).
pub(crate) struct TextWriter<E> {
    sink: Sink,
    encoder: E,
    ledger: Ledger,
    /// The lines of one record.
    lines: Vec<u8>,
}

impl<E: LineEncoder> TextWriter<E> {
    /// Begins an output.
    ///
    /// # Errors
    /// As [`WholeFile::create`], but for standard output.
    pub(crate) fn create(path: &Path, ledger: Ledger, mut encoder: E) -> Result<TextWriter<E>, WriteError> {
        let sink = if path == Path::new(STANDARD_OUTPUT) {
            Sink::Standard(BufWriter::with_capacity(BUFFER_BYTES, io::stdout()))
        } else {
            Sink::File(Box::new(BufWriter::with_capacity(BUFFER_BYTES, WholeFile::create(path)?)))
        };
        let mut lines = Vec::new();
        encoder.begin(&mut lines);
        let mut writer = TextWriter { sink, encoder, ledger, lines };
        writer.put()?;
        Ok(writer)
    }

    fn put(&mut self) -> Result<(), WriteError> {
        let put = self.sink.writer().write_all(&self.lines);
        put.map_err(|error| self.ledger.fail(WriteProblem::Io(error)))
    }
}

impl<E: LineEncoder> TraceWriter for TextWriter<E> {
    fn write(&mut self, record: &Record) -> Result<(), WriteError> {
        self.ledger.admit(record)?;
        self.lines.clear();
        let expressed = self.encoder.record(record, &mut self.lines);
        self.ledger.settle(expressed)?;
        self.put()
    }

    fn finish(mut self: Box<Self>, _meta: &TraceMeta) -> Result<Written, WriteError> {
        self.lines.clear();
        self.encoder.end(&mut self.lines);
        self.put()?;
        let TextWriter { sink, ledger, .. } = *self;
        let fail = |error| ledger.fail(WriteProblem::Io(error));
        match sink {
            Sink::File(file) => file.into_inner().map_err(|error| fail(error.into_error()))?.finish()?,
            Sink::Standard(mut stdout) => stdout.flush().map_err(fail)?,
        }
        Ok(ledger.close())
    }
}
