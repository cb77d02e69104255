//! Shared parts of the published tables of requests: one request of one of several devices a line,
//! perhaps below a title.

use std::path::Path;

use crate::error::Problem;
use crate::formats::Opened;
use crate::formats::check::Bad;
use crate::formats::devices::Devices;
use crate::formats::scale::Scale;
use crate::formats::text::{LineParser, TextFormat, TextReader, first_lines_are, is_title};
use crate::record::{Observed, Record};
use crate::request::{Operation, Request, StreamId};
use crate::trace::{ReadOptions, TraceMeta, UnitOverrides};
use crate::units::Timestamp;

/// A table of requests.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    /// The facts that hold for every trace of the format.
    pub(crate) text: &'static TextFormat,
    /// The columns' names, if a first line of them is to be passed over.
    pub(crate) title: &'static [&'static str],
    /// The fields of a line.
    pub(crate) row: for<'a> fn(&'a [u8], &Scale) -> Result<Row<'a>, Bad>,
}

/// A request as a line says it.
pub(crate) struct Row<'a> {
    /// The name of the device, in parts.
    pub(crate) device: [&'a [u8]; 3],
    /// When it arrived, since the zero of the format's times.
    pub(crate) arrival_ns: u64,
    /// How long it took, where that is known.
    pub(crate) response_ns: Option<u64>,
    /// Its operation.
    pub(crate) operation: Operation,
    /// Its address and its length, in the units of the file.
    pub(crate) address: u64,
    /// See there.
    pub(crate) length: u64,
    /// Number and name of the process.
    pub(crate) process: Option<(u32, &'a [u8])>,
}

impl Rows {
    /// Whether the first lines are all rows that `is_usual` finds to be of the format.
    pub(crate) fn recognise(&self, head: &[u8], is_usual: impl Fn(&Row) -> bool) -> bool {
        let scale = Scale::new(self.text.units, UnitOverrides::default());
        let is_row = |line: &[u8]| (self.row)(line, &scale).is_ok_and(|row| is_usual(&row));
        let mut rows = 0;
        first_lines_are(head, |line| {
            let is = is_row(line);
            rows += usize::from(is);
            is || self.is_title(line)
        }) && rows > 0
    }

    fn is_title(&self, line: &[u8]) -> bool {
        !self.title.is_empty() && is_title(line, self.title)
    }

    /// Opens the table at `path`.
    pub(crate) fn open(self, path: &Path, options: &ReadOptions) -> Opened {
        let devices = Devices::new(options);
        let parser = |scale| Parser { rows: self, scale, devices: devices.clone(), device: Vec::new(), began: false };
        Ok(Box::new(TextReader::open(path, options, self.text, parser)?))
    }
}

struct Parser {
    rows: Rows,
    scale: Scale,
    devices: Devices,
    /// The name of the line's device.
    device: Vec<u8>,
    /// Whether the first line is over, which may be a title.
    began: bool,
}

impl LineParser for Parser {
    fn parse(&mut self, line: &[u8], meta: &mut TraceMeta) -> Result<Option<Record>, Bad> {
        if !std::mem::replace(&mut self.began, true) && self.rows.is_title(line) {
            return Ok(None);
        }
        let row = (self.rows.row)(line, &self.scale)?;
        self.device.clear();
        row.device.iter().for_each(|part| self.device.extend_from_slice(part));
        let Some(vm) = self.devices.named(&self.device, meta)? else { return Ok(None) };
        let (lba, sectors) = self.scale.extent(row.address, row.length)?;
        let completed = row.response_ns.map(|ns| {
            let completed = row.arrival_ns.checked_add(ns).map(Timestamp::from_ns);
            completed.ok_or_else(|| Bad::malformed("a completion that is too late"))
        });
        let mut request = Request::new(Timestamp::from_ns(row.arrival_ns), row.operation, lba, sectors);
        request.vm = vm;
        let observed = Observed { completed: completed.transpose()?, ..Observed::default() };
        if let Some((pid, name)) = row.process {
            request.stream = StreamId(pid);
            meta.streams.entry(pid).or_insert_with(|| String::from_utf8_lossy(name).into_owned());
        }
        Ok(Some(Record { request, observed }))
    }

    fn take_all_devices(&mut self) {
        self.devices = Devices::default();
    }

    fn at_end(&self) -> Result<(), Problem> {
        self.devices.at_end()
    }
}

/// A field that says whether data is read or written.
pub(crate) fn operation(field: &[u8], read: &str, write: &str) -> Result<Operation, Bad> {
    if field == read.as_bytes() {
        Ok(Operation::Read)
    } else if field == write.as_bytes() {
        Ok(Operation::Write)
    } else {
        let found = String::from_utf8_lossy(&field[..field.len().min(40)]);
        Err(Bad::unsupported(format!("expected {read} or {write}, found `{found}`")))
    }
}
