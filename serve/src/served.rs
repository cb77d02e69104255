//! A served drive: an image whose accesses take a modelled drive's times, and leave records in the log.
//!
//! The drive is on a simulated clock ([`SimulatedDrive`]). It is set against `CLOCK_MONOTONIC` here, which it may be k
//! times slower than: a request arrives when it is submitted, and [`ServedDrive::run`] gives the requests whose completion times have passed. The caller
//! moves the data meanwhile, and replies then.

use std::path::{Path, PathBuf};

use drive_models::WriteCache;
use traces::results::serving::Serving;
use traces::{
    Flags, Lba, Observed, Operation, Record, Request, RequestId, Sectors, StreamId, Timestamp, TraceMeta, VmId,
    WriteError,
};

use crate::accounts::Accounts;
use crate::checked::{Checked, ServeError, ServedParts};
use crate::clock::monotonic;
use crate::description::Export;
use crate::image::Image;
use crate::log::{Log, format_of};
use crate::simulated_drive::{FinishedRequest, SimulatedDrive};

/// A drive that clients can read and write.
pub struct ServedDrive {
    pub(crate) parts: ServedParts,
    pub(crate) capacity: Sectors,
    drive: SimulatedDrive,
    /// `CLOCK_MONOTONIC` at the drive's time zero.
    zero: Timestamp,
    /// The requests that have arrived.
    accepted: u64,
    accounts: Accounts,
    /// `None` without a log, and after the log is finished.
    log: Option<(Log, PathBuf)>,
}

/// A client's connection to one export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    export: usize,
    vm: VmId,
    stream: StreamId,
}

/// A request for some bytes of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The operation.
    pub operation: Operation,
    /// With forced unit access.
    pub fua: bool,
    /// The first byte.
    pub offset: u64,
    /// The number of bytes, above zero. The range lies within the export.
    pub length: u64,
}

/// A request that has arrived at the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Its id; given again after [`ServedDrive::complete`].
    pub id: RequestId,
    /// The number of requests that arrived before it.
    number: u64,
    /// The request with its arrival.
    request: Request,
}

impl ServedDrive {
    /// Starts the drive's clock, and begins the log if the description asks for one.
    ///
    /// # Errors
    /// The log cannot be created.
    pub fn begin(checked: Checked) -> Result<ServedDrive, ServeError> {
        let Checked { parts, drive } = checked;
        let accounts = Accounts::new(&parts);
        let (capacity, zero) = (drive.capacity(), monotonic());
        let mut served = ServedDrive { parts, capacity, drive, zero, accepted: 0, accounts, log: None };
        if let Some(path) = served.parts.description.log.clone() {
            served.log = Some((Log::begin(&path, served.meta(&path, &served.report())?)?, path));
        }
        Ok(served)
    }

    fn meta(&self, log: &Path, report: &Serving) -> Result<TraceMeta, WriteError> {
        Ok(self.accounts.meta(format_of(log)?.name, report, &self.parts, self.capacity))
    }

    /// The exports.
    pub fn exports(&self) -> &[Export] {
        &self.parts.exports
    }

    /// The image.
    pub fn image(&self) -> &Image {
        &self.parts.image
    }

    /// The kind of the drive's write cache.
    pub fn write_cache(&self) -> WriteCache {
        self.drive.write_cache()
    }

    /// Whether the drive supports discards.
    pub fn discards(&self) -> bool {
        self.drive.discards()
    }

    /// Whether the drive is a rotating disk.
    pub fn is_rotational(&self) -> bool {
        self.parts.rotational
    }

    /// The time on the drive's clock, which runs k times slower than the host's.
    pub fn now(&self) -> Timestamp {
        let passed = monotonic().saturating_since(self.zero);
        Timestamp::from_ns(self.parts.description.k.real_time(passed).as_ns())
    }

    /// A time of the drive on `CLOCK_MONOTONIC`.
    fn on_host(&self, time: Timestamp) -> Timestamp {
        self.zero.saturating_add(self.parts.description.k.virtual_time(time.saturating_since(Timestamp::ZERO)))
    }

    /// Opens the export with this index for a client.
    pub fn connect(&mut self, export: usize) -> Connection {
        let (vm, stream) = self.accounts.connected(self.parts.description.vm_by, export);
        if let Some((log, _)) = &self.log {
            log.add_vm(vm, self.accounts.vm_name(vm).to_owned());
        }
        Connection { export, vm, stream }
    }

    /// Where a byte of the connection's export lies in the image.
    pub fn in_image(&self, connection: Connection, offset: u64) -> u64 {
        Sectors::new(self.parts.exports[connection.export].begin.sector()).bytes() + offset
    }

    /// Submits a request to the drive now.
    pub fn submit(&mut self, connection: Connection, access: Access) -> Ticket {
        let at = self.in_image(connection, access.offset);
        let image = self.parts.image.length();
        let (lba, sectors) = self.parts.description.placement.sectors(at, access.length, image, self.capacity);
        let flags = if access.fua { Flags::FUA } else { Flags::empty() };
        self.arrive(connection, access.operation, flags, (lba, sectors))
    }

    /// Submits a flush. `None` if the drive has no volatile cache, so that the flush is complete.
    pub fn flush(&mut self, connection: Connection) -> Option<Ticket> {
        let nowhere = (Lba::ZERO, Sectors::ZERO);
        if self.write_cache() != WriteCache::Through {
            return Some(self.arrive(connection, Operation::Flush, Flags::empty(), nowhere));
        }
        let request = requested(connection, Operation::Flush, Flags::empty(), nowhere);
        let request = self.drive.stamp(self.now(), request);
        let at = Some(request.arrival);
        let number = self.number();
        self.record(
            number,
            Record { request, observed: Observed { issued: at, completed: at, ..Observed::default() } },
        );
        None
    }

    fn number(&mut self) -> u64 {
        self.accepted += 1;
        self.accepted - 1
    }

    fn arrive(&mut self, connection: Connection, operation: Operation, flags: Flags, place: (Lba, Sectors)) -> Ticket {
        let mut given = requested(connection, operation, flags, place);
        if self.write_cache() == WriteCache::Through {
            given.flags.remove(Flags::FUA);
        }
        let (id, mut request) = self.drive.arrive(self.now(), given);
        request.flags = flags;
        Ticket { id, number: self.number(), request }
    }

    /// When the drive's next event is, on `CLOCK_MONOTONIC`, if no further request arrives.
    pub fn next_event(&self) -> Option<Timestamp> {
        self.drive.next_event().map(|time| self.on_host(time))
    }

    /// What the scheduler did that no scheduler may do ([`schedulers::Scheduler::fault`]).
    pub fn fault(&self) -> Option<&str> {
        self.drive.fault()
    }

    /// Appends the requests whose completion times have passed to `finished`.
    pub fn run(&mut self, finished: &mut Vec<FinishedRequest>) {
        let now = self.now();
        self.drive.run(now, finished);
    }

    /// Ends a request whose data have been moved as well: frees its id, counts it and logs it. `errno` is the error of
    /// its data, or zero.
    pub fn complete(&mut self, ticket: &Ticket, finished: &FinishedRequest, errno: i32) {
        let due = finished.completion.finished;
        let observed = Observed { inserted: None, issued: Some(finished.issued), completed: Some(due), error: errno };
        let due_on_host = self.on_host(due);
        let response = due_on_host.since(self.on_host(ticket.request.arrival));
        self.accounts.complete(monotonic().since(due_on_host), response, errno != 0);
        self.drive.release(ticket.id);
        self.record(ticket.number, Record { request: ticket.request, observed });
    }

    /// Counts the request and logs it, with its times converted to `CLOCK_MONOTONIC`.
    fn record(&mut self, number: u64, mut record: Record) {
        self.accounts.count(&record.request);
        if self.log.is_some() {
            let observed = &mut record.observed;
            for time in
                [&mut record.request.arrival].into_iter().chain(&mut observed.issued).chain(&mut observed.completed)
            {
                *time = self.on_host(*time);
            }
        }
        if let Some((log, _)) = &mut self.log {
            log.put(number, record);
        }
    }

    /// Makes the log's records so far safe against a kill of the server. It precedes their replies.
    pub fn save_log(&mut self) {
        if let Some((log, _)) = &mut self.log {
            log.save();
        }
    }

    /// The figures so far.
    pub fn report(&self) -> Serving {
        self.accounts.report(&self.parts, monotonic().since(self.zero))
    }

    /// Completes the log and makes the image durable. Later requests are served but not logged. Failures are in the
    /// report.
    pub fn finish(&mut self) -> Serving {
        let mut report = self.report();
        if let Some((log, path)) = self.log.take() {
            match self.meta(&path, &report).and_then(|meta| log.finish(&path, meta)) {
                Ok(requests) => report.logged = Some(requests),
                Err(error) => report.log_error = Some(error.to_string()),
            }
        }
        report.image_error = self.parts.image.sync().err().map(|error| error.to_string());
        report
    }
}

fn requested(connection: Connection, operation: Operation, flags: Flags, (lba, sectors): (Lba, Sectors)) -> Request {
    let mut request = Request::new(Timestamp::ZERO, operation, lba, sectors);
    (request.vm, request.stream, request.flags) = (connection.vm, connection.stream, flags);
    request
}
