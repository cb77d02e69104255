//! The trait every drive implements.

use schedulers::AccessCost;
use traces::spec::{Settings, Tunable, Unit};
use traces::{Request, RequestId, Sectors, Timestamp};

/// What a drive does with written data before it is on the medium, which decides what a flush means (Linux
/// `QUEUE_FLAG_WC` and `QUEUE_FLAG_FUA`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteCache {
    /// A completed write is durable: flushes have nothing to do and never reach the drive.
    Through,
    /// A completed write may be lost until it is flushed.
    Volatile {
        /// Whether a single write can ask to be durable on completion (forced unit access).
        fua: bool,
    },
}

impl WriteCache {
    /// The tunable of models whose drives may have either kind.
    pub(crate) const TUNABLE: Tunable = Tunable::new(
        "write_cache",
        Unit::Choice(&["through", "volatile", "volatile-fua"]),
        "through",
        "whether completed writes are durable, need a flush, or may ask for forced unit access",
    );

    /// The value of [`WriteCache::TUNABLE`] among `settings`.
    pub(crate) fn from_settings(settings: &Settings) -> WriteCache {
        match settings.word(WriteCache::TUNABLE.name) {
            "through" => WriteCache::Through,
            word => WriteCache::Volatile { fua: word == "volatile-fua" },
        }
    }

    /// The word that [`WriteCache::TUNABLE`] takes for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            WriteCache::Through => "through",
            WriteCache::Volatile { fua: false } => "volatile",
            WriteCache::Volatile { fua: true } => "volatile-fua",
        }
    }
}

/// A request that the drive has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request.
    pub id: RequestId,
    /// When the drive began to serve it, which is later than it was submitted if others were ahead.
    pub started: Timestamp,
    /// When it was done.
    pub finished: Timestamp,
    /// How far the head moved for it: the distance from the end of the request before to its start; zero for a hit.
    pub seek: Sectors,
    /// Whether it was served from the drive's cache.
    pub hit: bool,
}

/// A drive on a simulated clock. Times passed in never decrease.
pub trait DriveModel: Send {
    /// The drive capacity. No request beyond it is ever submitted.
    fn capacity(&self) -> Sectors;

    /// Whether it accepts `request` now. The stage above may have a smaller depth.
    fn accepts(&self, request: &Request) -> bool;

    /// Hands over a request that it accepts.
    fn submit(&mut self, now: Timestamp, id: RequestId, request: &Request);

    /// A time that no request completes before if nothing else is submitted, such as that of the drive's next event.
    /// Advancing the drive to it brings the next completion nearer.
    fn next_event(&self) -> Option<Timestamp>;

    /// Simulates the drive up to and including `now`, and appends the completions in order.
    fn advance(&mut self, now: Timestamp, completions: &mut Vec<Completion>);

    /// The expected cost of accesses, for schedulers that ask.
    fn cost(&self) -> &dyn AccessCost;

    /// What it does with written data.
    fn write_cache(&self) -> WriteCache;

    /// Whether it understands discards; if not, they are completed before they reach it.
    fn discards(&self) -> bool;
}

/// The methods of a drive that wraps another in its field and changes neither costs nor properties.
#[macro_export]
macro_rules! forward_properties {
    ($inner:tt) => {
        fn cost(&self) -> &dyn $crate::AccessCost {
            self.$inner.cost()
        }

        fn write_cache(&self) -> $crate::WriteCache {
            self.$inner.write_cache()
        }

        fn discards(&self) -> bool {
            self.$inner.discards()
        }
    };
}

/// A boxed or borrowed drive is a drive. A caller that borrows a drive to a replay gets it back afterwards, such as a
/// throttle with its report.
macro_rules! forwards {
    ($pointer:ty) => {
        impl<D: DriveModel + ?Sized> DriveModel for $pointer {
            fn capacity(&self) -> Sectors {
                (**self).capacity()
            }
            fn accepts(&self, request: &Request) -> bool {
                (**self).accepts(request)
            }
            fn submit(&mut self, now: Timestamp, id: RequestId, request: &Request) {
                (**self).submit(now, id, request);
            }
            fn next_event(&self) -> Option<Timestamp> {
                (**self).next_event()
            }
            fn advance(&mut self, now: Timestamp, completions: &mut Vec<Completion>) {
                (**self).advance(now, completions);
            }
            fn cost(&self) -> &dyn AccessCost {
                (**self).cost()
            }
            fn write_cache(&self) -> WriteCache {
                (**self).write_cache()
            }
            fn discards(&self) -> bool {
                (**self).discards()
            }
        }
    };
}

forwards!(Box<D>);
forwards!(&mut D);
