//! The trait [`LiveDevice`], and the adapter that puts a device in the place of a drive model below a stage.

use std::collections::BTreeMap;
use std::io;

use drive_models::throttle::ThrottleScale;
use drive_models::{Completion, DriveModel, WriteCache};
use schedulers::{AccessCost, DistanceCost};
use traces::{Lba, Nanos, Request, RequestId, Sectors, Timestamp};

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// The device answered with this error number.
    Errno(i32),
    /// The device transferred less than the whole request.
    Short,
}

const EIO: i32 = 5;
/// `ENXIO`, `ENODEV` and, of FUSE, `ENOTCONN`: the device does not exist any more.
const GONE: [i32; 3] = [6, 19, 107];

impl Failure {
    /// The error number; `EIO` for a short transfer, which has none.
    pub fn errno(self) -> i32 {
        match self {
            Failure::Errno(number) => number,
            Failure::Short => EIO,
        }
    }

    /// Whether the error says that the device has disappeared.
    pub fn is_gone(self) -> bool {
        matches!(self, Failure::Errno(number) if GONE.contains(&number))
    }
}

/// A request that the device has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The request.
    pub id: RequestId,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
}

/// A device that serves requests on the real clock.
pub trait LiveDevice: Send {
    /// The size of the device.
    fn capacity(&self) -> Sectors;

    /// What it does with written data before it is durable.
    fn write_cache(&self) -> WriteCache {
        WriteCache::Volatile { fua: true }
    }

    /// Whether discards reach it.
    fn discards(&self) -> bool {
        true
    }

    /// Whether it has capacity for `request` now.
    fn accepts(&self, request: &Request) -> bool;

    /// Queues a request that it accepts for the next [`LiveDevice::start`].
    fn submit(&mut self, id: RequestId, request: &Request);

    /// Hands all queued requests to the device.
    ///
    /// # Errors
    /// The device cannot be used any more.
    fn start(&mut self) -> io::Result<()>;

    /// Appends the requests that have completed, in order of completion. Does not wait.
    fn poll(&mut self, finished: &mut Vec<Finished>);

    /// Whether the device has disappeared. The replay asks after a failure, since a device that disappears may fail
    /// requests with `EIO` as well.
    fn is_gone(&mut self) -> bool {
        false
    }

    /// Waits for a completion, at most for `timeout`. May return early.
    ///
    /// # Errors
    /// The device cannot be used any more.
    fn wait(&mut self, timeout: Nanos) -> io::Result<()>;
}

impl<D: LiveDevice + ?Sized> LiveDevice for Box<D> {
    fn capacity(&self) -> Sectors {
        (**self).capacity()
    }
    fn write_cache(&self) -> WriteCache {
        (**self).write_cache()
    }
    fn discards(&self) -> bool {
        (**self).discards()
    }
    fn accepts(&self, request: &Request) -> bool {
        (**self).accepts(request)
    }
    fn submit(&mut self, id: RequestId, request: &Request) {
        (**self).submit(id, request);
    }
    fn start(&mut self) -> io::Result<()> {
        (**self).start()
    }
    fn poll(&mut self, finished: &mut Vec<Finished>) {
        (**self).poll(finished);
    }
    fn is_gone(&mut self) -> bool {
        (**self).is_gone()
    }
    fn wait(&mut self, timeout: Nanos) -> io::Result<()> {
        (**self).wait(timeout)
    }
}

/// A device as the drive below a stage. The cost of an access is the distance, since nothing else is known of a real
/// device in advance.
pub struct DeviceDrive<D> {
    pub(crate) device: D,
    cost: DistanceCost,
    /// By id: when a request was submitted, and how far from the one before.
    submitted: Vec<(Timestamp, Sectors)>,
    finished: Vec<Finished>,
    /// When those were found.
    found_at: Timestamp,
    pub(crate) in_flight: usize,
    pub(crate) failures: BTreeMap<Failure, u64>,
}

impl<D: LiveDevice> DeviceDrive<D> {
    /// A device on which nothing is in flight.
    pub fn new(device: D) -> DeviceDrive<D> {
        let cost = DistanceCost { position: Lba::ZERO, capacity: device.capacity() };
        DeviceDrive {
            device,
            cost,
            submitted: Vec::new(),
            finished: Vec::new(),
            found_at: Timestamp::ZERO,
            in_flight: 0,
            failures: BTreeMap::new(),
        }
    }

    /// The requests that have failed among those that [`DeviceDrive::poll`] has found.
    pub(crate) fn failed(&self) -> impl Iterator<Item = (RequestId, Failure)> + '_ {
        self.finished.iter().filter_map(|finished| Some((finished.id, finished.failure?)))
    }

    /// Asks the device for completions, and returns whether there are any.
    pub(crate) fn poll(&mut self) -> bool {
        self.device.poll(&mut self.finished);
        !self.finished.is_empty()
    }

    /// States the time at which [`DeviceDrive::poll`] has looked.
    pub(crate) fn looked_at(&mut self, now: Timestamp) {
        self.found_at = now;
    }
}

/// A drive of a live replay: a device, or a drive model that wraps one.
pub trait LiveDrive: DriveModel {
    /// The device.
    type Device: LiveDevice;

    /// The device as a drive.
    fn device(&mut self) -> &mut DeviceDrive<Self::Device>;

    /// How many times slower than real time the clock of the replay runs from now on.
    fn clock_scale(&self) -> ThrottleScale {
        ThrottleScale::ONE
    }
}

impl<D: LiveDevice> LiveDrive for DeviceDrive<D> {
    type Device = D;

    fn device(&mut self) -> &mut DeviceDrive<D> {
        self
    }
}

impl<D: LiveDevice> DriveModel for DeviceDrive<D> {
    fn capacity(&self) -> Sectors {
        self.device.capacity()
    }

    fn accepts(&self, request: &Request) -> bool {
        self.device.accepts(request)
    }

    fn submit(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        let mut seek = Sectors::ZERO;
        if request.sectors() > Sectors::ZERO {
            seek = self.cost.position.distance(request.lba);
            self.cost.position = request.end();
        }
        if id.index() >= self.submitted.len() {
            self.submitted.resize(id.index() + 1, (Timestamp::ZERO, Sectors::ZERO));
        }
        self.submitted[id.index()] = (now, seek);
        self.in_flight += 1;
        self.device.submit(id, request);
    }

    /// The completions that have been found. Others are not known in advance.
    fn next_event(&self) -> Option<Timestamp> {
        (!self.finished.is_empty()).then_some(self.found_at)
    }

    fn advance(&mut self, now: Timestamp, completions: &mut Vec<Completion>) {
        for Finished { id, failure } in self.finished.drain(..) {
            let (started, seek) = self.submitted[id.index()];
            self.in_flight -= 1;
            if let Some(failure) = failure {
                *self.failures.entry(failure).or_default() += 1;
            }
            completions.push(Completion { id, started, finished: now, seek, hit: false });
        }
    }

    fn cost(&self) -> &dyn AccessCost {
        &self.cost
    }

    fn write_cache(&self) -> WriteCache {
        self.device.write_cache()
    }

    fn discards(&self) -> bool {
        self.device.discards()
    }
}
