//! A served drive: clients read and write the image, wait for the modelled completion times, and leave records in the
//! log.

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

use crate::checked::{Checked, ServeError, ServedParts};
use crate::clock::zero_unix_ns;
use crate::description::{Export, VmBy};
use crate::live_queue::LiveQueue;
use crate::log::{Log, LogEntry};
use crate::simulated_drive::FinishedRequest;

/// The VM's name if there is one unnamed export.
const ONLY_VM: &str = "vm0";
/// The error number (`EIO`) that is logged for a request whose data access failed without an error number.
const EIO: i32 = 5;

/// A client asked for an export that does not exist.
#[derive(Debug, thiserror::Error)]
#[error("there is no export `{requested}`; there are {}", existing.join(", "))]
pub struct UnknownExport {
    requested: String,
    existing: Vec<String>,
}

/// A drive that clients can read and write.
pub struct ServedDrive {
    parts: ServedParts,
    capacity: Sectors,
    write_cache: WriteCache,
    discards: bool,
    live_queue: LiveQueue,
    tally: Mutex<Tally>,
    /// `None` without a log, and after the log is finished.
    log: Mutex<Option<(Log, PathBuf)>>,
}

/// Counts, and the VMs seen so far.
#[derive(Default)]
struct Tally {
    lateness: Distribution,
    response: Distribution,
    vms: Vec<ServedVm>,
    connections: u32,
    failed: u64,
}

/// A client's connection to one export.
pub struct Connection {
    export: usize,
    vm: VmId,
    stream: StreamId,
    log: Option<LogEntry>,
}

impl ServedDrive {
    /// Starts the drive's clock.
    pub fn begin(checked: Checked) -> ServedDrive {
        let Checked { parts, drive_queue } = checked;
        let vms = match parts.description.vm_by {
            VmBy::Export => parts.exports.iter().map(|export| served_vm(vm_name(export))).collect(),
            VmBy::Connection => Vec::new(),
        };
        ServedDrive {
            parts,
            capacity: drive_queue.capacity(),
            write_cache: drive_queue.write_cache(),
            discards: drive_queue.discards(),
            live_queue: LiveQueue::new(drive_queue),
            tally: Mutex::new(Tally { vms, ..Tally::default() }),
            log: Mutex::new(None),
        }
    }

    /// Begins the log if the description asks for one. Must be called before the first client connects.
    ///
    /// # Errors
    /// The log cannot be created.
    pub fn open_log(&self) -> Result<(), ServeError> {
        if let Some(path) = &self.parts.description.log {
            *self.log() = Some((Log::begin(path)?, path.clone()));
        }
        Ok(())
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        // A thread that panicked leaves no count half written.
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self) -> MutexGuard<'_, Option<(Log, PathBuf)>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens an export for a client. The empty name also opens a single export.
    ///
    /// # Errors
    /// No export has this name.
    pub fn connect(&self, name: &str) -> Result<Connection, UnknownExport> {
        let by_name = self.parts.exports.iter().position(|export| export.name == name);
        let only = (name.is_empty() && self.parts.exports.len() == 1).then_some(0);
        let export = by_name.or(only).ok_or_else(|| UnknownExport {
            requested: name.to_owned(),
            existing: self.parts.exports.iter().map(|export| format!("`{}`", export.name)).collect(),
        })?;
        let mut tally = self.tally();
        let number = tally.connections;
        tally.connections += 1;
        let vm = match self.parts.description.vm_by {
            VmBy::Export => VmId(export as u16),
            VmBy::Connection => {
                // Connections beyond the last VM id share that id.
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

    /// The kind of the drive's write cache.
    pub fn write_cache(&self) -> WriteCache {
        self.write_cache
    }

    /// Whether the drive supports discards.
    pub fn discards(&self) -> bool {
        self.discards
    }

    /// Whether the drive is a rotating disk.
    pub fn is_rotational(&self) -> bool {
        self.parts.rotational
    }

    /// Reads the export from `offset` on into `bytes`. Like the other operations, it returns at the request's modelled
    /// completion time.
    ///
    /// # Errors
    /// The range leaves the export, or the image reports an error.
    pub fn read(&self, connection: &Connection, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let length = bytes.len() as u64;
        let data = |at| self.parts.image.read(bytes, at);
        self.access(connection, Operation::Read, Flags::empty(), (offset, length), data)
    }

    /// Writes `bytes`; `fua` requests forced unit access.
    ///
    /// # Errors
    /// As [`ServedDrive::read`].
    pub fn write(&self, connection: &Connection, bytes: &[u8], offset: u64, fua: bool) -> io::Result<()> {
        let data = |at| self.parts.image.write(bytes, at);
        self.access(connection, Operation::Write, fua_flag(fua), (offset, bytes.len() as u64), data)
    }

    /// Zeroes `length` bytes: by a discard if the client permits it and the drive supports it, else by a write.
    ///
    /// # Errors
    /// As [`ServedDrive::read`].
    pub fn zero(&self, connection: &Connection, offset: u64, length: u64, how: Zeroing) -> io::Result<()> {
        let operation = if how.may_discard && self.discards { Operation::Discard } else { Operation::Write };
        let data = |at| self.parts.image.zero(at, length);
        self.access(connection, operation, fua_flag(how.fua), (offset, length), data)
    }

    /// Discards `length` bytes; they read as zeros afterwards.
    ///
    /// # Errors
    /// As [`ServedDrive::read`].
    pub fn discard(&self, connection: &Connection, offset: u64, length: u64) -> io::Result<()> {
        let data = |at| self.parts.image.zero(at, length);
        self.access(connection, Operation::Discard, Flags::empty(), (offset, length), data)
    }

    /// Returns when the drive model has made all acknowledged writes durable. The image file itself is synced only at
    /// the end of serving.
    ///
    /// # Errors
    /// As [`ServedDrive::write`].
    pub fn flush(&self, connection: &Connection) -> io::Result<()> {
        let request = self.request(connection, Operation::Flush, Flags::empty(), (Lba::ZERO, Sectors::ZERO));
        if self.write_cache == WriteCache::Through {
            let (number, request) = self.live_queue.number_only(request);
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
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the request extends beyond the end of the export",
            ));
        }
        if length == 0 {
            return Ok(());
        }
        let at = Sectors::new(export.begin.sector()).bytes() + offset;
        let place = self.parts.description.placement.sectors(at, length, self.parts.image.length(), self.capacity);
        let request = self.request(connection, operation, flags, place);
        self.serve(connection, request, || data(at))
    }

    /// Submits the request to the drive model, accesses the data meanwhile, and waits for the completion time.
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
        let ticket = self.live_queue.submit(given);
        let result = data();
        let FinishedRequest { issued, completion, .. } = self.live_queue.wait(ticket);
        let (now, due) = (self.live_queue.now(), completion.finished);
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

    /// Counts the request and logs it, with its times converted to `CLOCK_MONOTONIC`.
    fn note(&self, connection: &Connection, number: u64, record: Record) {
        let mut tally = self.tally();
        if let Some(vm) = tally.vms.get_mut(usize::from(record.request.vm.0)) {
            count(vm, &record.request);
        }
        drop(tally);
        if let Some(log) = &connection.log {
            let shifted =
                |time: traces::Timestamp| traces::Timestamp::from_ns(time.as_ns() + self.live_queue.zero().as_ns());
            let mut record = record;
            record.request.arrival = shifted(record.request.arrival);
            record.observed.issued = record.observed.issued.map(shifted);
            record.observed.completed = record.observed.completed.map(shifted);
            log.put(number, record);
        }
    }

    /// The figures so far.
    pub fn report(&self) -> Serving {
        let tally = self.tally();
        Serving {
            schema_version: SCHEMA_VERSION,
            program: program(),
            drive: self.parts.drive.clone(),
            scheduler: self.parts.scheduler.clone(),
            options: self.options(),
            span_ns: self.live_queue.now().since(traces::Timestamp::ZERO),
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

    /// Completes the log and makes the image durable. Later requests are served but not logged. Failures are in the
    /// report.
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
            let (lba, _) = self.parts.description.placement.sectors(at, 1, self.parts.image.length(), self.capacity);
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

/// How a range may be zeroed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Zeroing {
    /// A discard is permitted.
    pub may_discard: bool,
    /// Forced unit access is requested.
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
