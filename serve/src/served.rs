//! A served drive: the image, the drive's times, the log.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use drive_models::WriteCache;
use traces::results::SCHEMA_VERSION;
use traces::results::serving::{ServedVm, Serving};
use traces::statistics::Distribution;
use traces::trace::Clock;
use traces::{Flags, Layer, Lba, Observed, Operation, Record, Request, Sectors, StreamId, TraceMeta, VmId};

use crate::checked::{Checked, Parts, ServeError};
use crate::clock::zero_unix_ns;
use crate::description::{Export, VmBy};
use crate::front::Done;
use crate::log::{Log, LogEntry};
use crate::waiting::Waiting;

/// The name of a single virtual machine.
const ONLY_VM: &str = "vm0";
/// The error that a request is logged with whose data failed without one of its own (`EIO`).
const EIO: i32 = 5;

/// An export that a client asked for in vain.
#[derive(Debug, thiserror::Error)]
#[error("there is no export `{asked}`; there are {}", there.join(", "))]
pub struct UnknownExport {
    asked: String,
    there: Vec<String>,
}

/// A drive that clients can use.
pub struct ServedDrive {
    parts: Parts,
    capacity: Sectors,
    write_cache: WriteCache,
    discards: bool,
    waiting: Waiting,
    tally: Mutex<Tally>,
    /// `None` when it is finished or there is none.
    log: Mutex<Option<(Log, PathBuf)>>,
}

/// What is counted, and the names that turned up.
#[derive(Default)]
struct Tally {
    lateness: Distribution,
    response: Distribution,
    vms: Vec<ServedVm>,
    connections: u32,
    failed: u64,
}

/// A client of one export.
pub struct Connection {
    export: usize,
    vm: VmId,
    stream: StreamId,
    log: Option<LogEntry>,
}

impl ServedDrive {
    /// The drive's clock starts.
    pub fn begin(checked: Checked) -> ServedDrive {
        let Checked { parts, front } = checked;
        let vms = match parts.description.vm_by {
            VmBy::Export => parts.exports.iter().map(|export| served_vm(vm_name(export))).collect(),
            VmBy::Connection => Vec::new(),
        };
        ServedDrive {
            parts,
            capacity: front.capacity(),
            write_cache: front.write_cache(),
            discards: front.discards(),
            waiting: Waiting::new(front),
            tally: Mutex::new(Tally { vms, ..Tally::default() }),
            log: Mutex::new(None),
        }
    }

    /// Begins the log, if one was asked for; before the first client connects.
    ///
    /// # Errors
    /// The log's.
    pub fn open_log(&self) -> Result<(), ServeError> {
        if let Some(path) = &self.parts.description.log {
            *self.log() = Some((Log::begin(path)?, path.clone()));
        }
        Ok(())
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        // Counts are counts, whoever has panicked over them.
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self) -> MutexGuard<'_, Option<(Log, PathBuf)>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client asks for an export; the only one goes by the empty name too.
    ///
    /// # Errors
    /// A name that no export has.
    pub fn connect(&self, name: &str) -> Result<Connection, UnknownExport> {
        let by_name = self.parts.exports.iter().position(|export| export.name == name);
        let only = (name.is_empty() && self.parts.exports.len() == 1).then_some(0);
        let export = by_name.or(only).ok_or_else(|| UnknownExport {
            asked: name.to_owned(),
            there: self.parts.exports.iter().map(|export| format!("`{}`", export.name)).collect(),
        })?;
        let mut tally = self.tally();
        let number = tally.connections;
        tally.connections += 1;
        let vm = match self.parts.description.vm_by {
            VmBy::Export => VmId(export as u16),
            VmBy::Connection => {
                // Numbers beyond the last that a trace has share it.
                let vm = number.min(u32::from(u16::MAX)) as u16;
                if usize::from(vm) == tally.vms.len() {
                    tally.vms.push(served_vm(connection_name(number)));
                }
                VmId(vm)
            }
        };
        let log = self.log().as_ref().map(|(log, _)| log.entry());
        Ok(Connection { export, vm, stream: StreamId(number), log })
    }

    /// The length of the connection's export.
    pub fn length(&self, connection: &Connection) -> Sectors {
        self.parts.exports[connection.export].length
    }

    /// What the drive does with written data.
    pub fn write_cache(&self) -> WriteCache {
        self.write_cache
    }

    /// Whether the drive understands discards.
    pub fn discards(&self) -> bool {
        self.discards
    }

    /// Whether there are discs that turn.
    pub fn is_rotational(&self) -> bool {
        self.parts.rotational
    }

    /// Reads `bytes` from `offset` of the export on. Returns when the drive is done; so do the others.
    ///
    /// # Errors
    /// The image's; so for the others.
    pub fn read(&self, connection: &Connection, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let length = bytes.len() as u64;
        let data = |at| self.parts.image.read(bytes, at);
        self.access(connection, Operation::Read, Flags::empty(), (offset, length), data)
    }

    /// Writes `bytes`; `fua` asks for them to be durable.
    ///
    /// # Errors
    /// As [`ServedDrive::read`].
    pub fn write(&self, connection: &Connection, bytes: &[u8], offset: u64, fua: bool) -> io::Result<()> {
        let data = |at| self.parts.image.write(bytes, at);
        self.access(connection, Operation::Write, fua_flag(fua), (offset, bytes.len() as u64), data)
    }

    /// Makes `length` bytes zero: a discard where the client allows it and the drive understands it, else a write.
    ///
    /// # Errors
    /// As [`ServedDrive::read`].
    pub fn zero(&self, connection: &Connection, offset: u64, length: u64, how: Zeroing) -> io::Result<()> {
        let operation = if how.may_discard && self.discards { Operation::Discard } else { Operation::Write };
        let data = |at| self.parts.image.zero(at, length);
        self.access(connection, operation, fua_flag(how.fua), (offset, length), data)
    }

    /// Tells the drive that `length` bytes hold nothing of value; they read as zeros.
    ///
    /// # Errors
    /// As [`ServedDrive::read`].
    pub fn discard(&self, connection: &Connection, offset: u64, length: u64) -> io::Result<()> {
        let data = |at| self.parts.image.zero(at, length);
        self.access(connection, Operation::Discard, Flags::empty(), (offset, length), data)
    }

    /// Waits until everything that was acknowledged is durable by the drive's account. The image itself stays with the
    /// operating system until the end.
    ///
    /// # Errors
    /// As [`ServedDrive::write`].
    pub fn flush(&self, connection: &Connection) -> io::Result<()> {
        let request = self.request(connection, Operation::Flush, Flags::empty(), (Lba::ZERO, Sectors::ZERO));
        if self.write_cache == WriteCache::Through {
            let (number, request) = self.waiting.pass(request);
            let at = Some(request.arrival);
            let observed = Observed { issued: at, completed: at, ..Observed::default() };
            self.note(connection, number, Record { request, observed });
            return Ok(());
        }
        self.serve(connection, request, || Ok(()))
    }

    fn request(
        &self,
        connection: &Connection,
        operation: Operation,
        flags: Flags,
        (lba, sectors): (Lba, Sectors),
    ) -> Request {
        let mut request = Request::new(traces::Timestamp::ZERO, operation, lba, sectors);
        (request.vm, request.stream, request.flags) = (connection.vm, connection.stream, flags);
        request
    }

    fn access(
        &self,
        connection: &Connection,
        operation: Operation,
        flags: Flags,
        (offset, length): (u64, u64),
        data: impl FnOnce(u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let export = &self.parts.exports[connection.export];
        let within = offset.checked_add(length).is_some_and(|end| end <= export.length.bytes());
        if !within {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "beyond the end of the export"));
        }
        if length == 0 {
            return Ok(());
        }
        let at = Sectors::new(export.begin.sector()).bytes() + offset;
        let place = self.parts.description.place.sectors(at, length, self.parts.image.length(), self.capacity);
        let request = self.request(connection, operation, flags, place);
        self.serve(connection, request, || data(at))
    }

    /// The drive takes its time while the data go their own way.
    fn serve(
        &self,
        connection: &Connection,
        request: Request,
        data: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let mut given = request;
        if self.write_cache == WriteCache::Through {
            given.flags.remove(Flags::FUA);
        }
        let ticket = self.waiting.take_in(given);
        let result = data();
        let Done { issued, completion, .. } = self.waiting.wait(ticket);
        let (now, due) = (self.waiting.now(), completion.finished);
        let error = result.as_ref().err().map_or(0, |error| error.raw_os_error().unwrap_or(EIO));
        let mut served = ticket.request;
        served.flags = request.flags;
        let observed = Observed { inserted: None, issued: Some(issued), completed: Some(due), error };
        let mut tally = self.tally();
        tally.lateness.add(now.since(due));
        tally.response.add(due.since(served.arrival));
        tally.failed += u64::from(error != 0);
        drop(tally);
        self.note(connection, ticket.number, Record { request: served, observed });
        result
    }

    /// Counts it and puts it into the log, on the clock that everybody has.
    fn note(&self, connection: &Connection, number: u64, record: Record) {
        let mut tally = self.tally();
        if let Some(vm) = tally.vms.get_mut(usize::from(record.request.vm.0)) {
            count(vm, &record.request);
        }
        drop(tally);
        if let Some(log) = &connection.log {
            let shifted =
                |time: traces::Timestamp| traces::Timestamp::from_ns(time.as_ns() + self.waiting.zero().as_ns());
            let mut record = record;
            record.request.arrival = shifted(record.request.arrival);
            record.observed.issued = record.observed.issued.map(shifted);
            record.observed.completed = record.observed.completed.map(shifted);
            log.put(number, record);
        }
    }

    /// How it goes.
    pub fn report(&self) -> Serving {
        let tally = self.tally();
        Serving {
            schema_version: SCHEMA_VERSION,
            program: program(),
            drive: self.parts.drive.clone(),
            scheduler: self.parts.scheduler.clone(),
            options: self.options(),
            span_ns: self.waiting.now().since(traces::Timestamp::ZERO),
            lateness: tally.lateness.figures(),
            response_time: tally.response.figures(),
            vms: tally.vms.clone(),
            failed: tally.failed,
            logged: None,
            log_error: None,
            image_error: None,
        }
    }

    fn options(&self) -> BTreeMap<String, String> {
        let kept = ["depth", "image", "place", "export", "vm-by-connection"];
        let mut options: BTreeMap<String, String> = BTreeMap::new();
        for (key, value) in self.parts.description.to_pairs() {
            if kept.contains(&key) {
                let all = options.entry(key.to_owned()).or_default();
                *all = if all.is_empty() { value } else { format!("{all} {value}") };
            }
        }
        options
    }

    /// Ends the serving: completes the log and makes the image durable. Requests that come afterwards are served and not
    /// logged. What went wrong is in the report.
    pub fn finish(&self) -> Serving {
        let mut report = self.report();
        let log = self.log().take();
        if let Some((log, path)) = log {
            let meta = self.meta(log.format(), &report);
            match log.finish(&path, meta) {
                Ok(requests) => report.logged = Some(requests),
                Err(error) => report.log_error = Some(error.to_string()),
            }
        }
        report.image_error = self.parts.image.sync().err().map(|error| error.to_string());
        report
    }

    fn meta(&self, format: &str, report: &Serving) -> TraceMeta {
        let mut meta = TraceMeta::new(format, Layer::Wire, "monotonic");
        meta.clock = Clock { name: "monotonic".to_owned(), zero_unix_ns: Some(zero_unix_ns()) };
        meta.capacity_sectors = Some(self.capacity);
        if !report.vms.is_empty() {
            meta.vms = report.vms.iter().map(|vm| vm.vm.clone()).collect();
        }
        let connections = self.tally().connections;
        meta.streams = (0..connections).map(|number| (number, connection_name(number))).collect();
        let mut add = |key: &str, value: String| meta.provenance.insert(key.to_owned(), value);
        add("captured_by", format!("{} serve", report.program));
        add("drive", self.parts.description.drive.to_string());
        add("scheduler", self.parts.description.scheduler.to_string());
        add("times", "completed is the drive's own time; replies were later by the lateness".to_owned());
        add("lost_events", "0".to_owned());
        for (key, value) in &report.options {
            add(&format!("option.{key}"), value.clone());
        }
        for export in &self.parts.exports {
            let at = Sectors::new(export.begin.sector()).bytes();
            let (lba, _) = self.parts.description.place.sectors(at, 1, self.parts.image.length(), self.capacity);
            add(&format!("place_sectors.{}", vm_name(export)), lba.to_string());
        }
        for (name, ns) in &report.lateness.percentiles_ns {
            add(&format!("lateness_{name}_ns"), ns.to_string());
        }
        if let Some(max) = report.lateness.moments.max_ns {
            add("lateness_max_ns", max.to_string());
        }
        meta
    }
}

/// How zeros may be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Zeroing {
    /// The sectors may lose their place.
    pub may_discard: bool,
    /// They are to be durable.
    pub fua: bool,
}

fn fua_flag(fua: bool) -> Flags {
    if fua { Flags::FUA } else { Flags::empty() }
}

fn program() -> String {
    traces::program_version()
}

fn vm_name(export: &Export) -> String {
    if export.name.is_empty() { ONLY_VM.to_owned() } else { export.name.clone() }
}

fn connection_name(number: u32) -> String {
    format!("connection-{number}")
}

fn served_vm(vm: String) -> ServedVm {
    ServedVm { vm, ..ServedVm::default() }
}

fn count(vm: &mut ServedVm, request: &Request) {
    let bytes = request.sectors().bytes();
    match request.operation {
        Operation::Read => {
            vm.reads += 1;
            vm.read_bytes += bytes;
        }
        Operation::Write => {
            vm.writes += 1;
            vm.written_bytes += bytes;
        }
        Operation::Flush => vm.flushes += 1,
        Operation::Discard => vm.discards += 1,
    }
}
