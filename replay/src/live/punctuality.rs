//! Measures how punctually a live replay hands on its arrivals.

use traces::statistics::Distribution;
use traces::{Nanos, Request, RequestId, Timestamp, VmId};

use crate::source::{Next, ReplayError, Source};

/// An arrival that is handed on later than this after its time counts as late.
pub const LATE: Nanos = Nanos::from_ns(1_000_000);

/// The issue-time errors of a replay. The *issue-time error* of an arrival runs from the time at which the source
/// wanted it to the time at which the replay had handed it on: to the scheduler, and through it to the device if the
/// scheduler let it pass at once.
#[derive(Clone, Debug, Default)]
pub struct Punctuality {
    /// The errors.
    pub error: Distribution,
    /// Arrivals with an error above [`LATE`] while the bound on outstanding arrivals was reached: the device was too
    /// slow.
    pub late_by_device: u64,
    /// Other arrivals with an error above [`LATE`]: this host was too slow or did not run the replay.
    pub late_by_host: u64,
    first: Option<Timestamp>,
    last: Timestamp,
    // Sums for the straight line through the errors, with times in µs and errors in ns.
    sum_time: u128,
    sum_time_squared: u128,
    sum_product: u128,
}

impl Punctuality {
    /// Counts an arrival that was due at `due` and handed on at `handed_on`. `was_held_back`: the bound on outstanding
    /// arrivals was reached in between.
    pub fn add(&mut self, due: Timestamp, handed_on: Timestamp, was_held_back: bool) {
        let error = handed_on.saturating_since(due);
        self.error.add(error);
        match (error > LATE, was_held_back) {
            (true, true) => self.late_by_device += 1,
            (true, false) => self.late_by_host += 1,
            (false, _) => {}
        }
        self.first.get_or_insert(due);
        self.last = due;
        let time = u128::from(due.as_ns() / 1000);
        self.sum_time += time;
        self.sum_time_squared += time * time;
        self.sum_product += time * u128::from(error.as_ns());
    }

    /// From the first time that was asked for to the last.
    pub fn span(&self) -> Nanos {
        self.first.map_or(Nanos::ZERO, |first| self.last.saturating_since(first))
    }

    /// How much the issue-time error grew per time: the slope of the straight line through all errors (least squares).
    /// `None` if all arrivals were due at one time.
    pub fn drift_share(&self) -> Option<f64> {
        let count = self.error.count() as f64;
        let mean = |sum: u128| sum as f64 / count;
        let variance = mean(self.sum_time_squared) - mean(self.sum_time).powi(2);
        let covariance = mean(self.sum_product) - mean(self.sum_time) * mean(self.error.sum_ns());
        (count > 1.0 && variance > 0.0).then(|| covariance / variance / 1000.0)
    }

    /// How much the issue-time error grew from the first arrival to the last, in ns.
    pub fn drift_ns(&self) -> Option<f64> {
        self.drift_share().map(|share| share * self.span().as_ns() as f64)
    }
}

/// A source whose arrivals are timed. It stands between the engine and the source of a live replay.
pub(crate) struct TimedSource<S> {
    pub(crate) source: S,
    pub(crate) punctuality: Punctuality,
    announced: Timestamp,
    /// The due times of the arrivals that were taken since [`TimedSource::handed_on`].
    taken: Vec<Timestamp>,
    /// Until when the bound on outstanding arrivals was reached.
    full_until: Option<Timestamp>,
    /// Arrivals whose time came while the bound was reached.
    pub(crate) held_back: u64,
}

impl<S> TimedSource<S> {
    pub(crate) fn new(source: S) -> TimedSource<S> {
        TimedSource {
            source,
            punctuality: Punctuality::default(),
            announced: Timestamp::ZERO,
            taken: Vec::new(),
            full_until: None,
            held_back: 0,
        }
    }

    /// Until now no arrival was taken, since too many were outstanding.
    pub(crate) fn full(&mut self, now: Timestamp) {
        self.full_until = Some(now);
    }

    /// All arrivals that were taken have been handed on.
    pub(crate) fn handed_on(&mut self, now: Timestamp) {
        for due in self.taken.drain(..) {
            let was_held_back = self.full_until.is_some_and(|full| due <= full);
            self.held_back += u64::from(was_held_back);
            self.punctuality.add(due, now, was_held_back);
        }
    }
}

impl<S: Source> Source for TimedSource<S> {
    fn next(&mut self) -> Result<Next, ReplayError> {
        let next = self.source.next()?;
        if let Next::At(time) = next {
            self.announced = time;
        }
        Ok(next)
    }

    fn advance(&mut self, now: Timestamp) -> Result<(), ReplayError> {
        self.source.advance(now)
    }

    fn take(&mut self, now: Timestamp, id: RequestId) -> Result<Request, ReplayError> {
        self.taken.push(self.announced);
        self.source.take(now, id)
    }

    fn completed(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.source.completed(now, id, request);
    }

    fn ended_vm(&mut self) -> Option<VmId> {
        self.source.ended_vm()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn punctuality(errors_us: impl Iterator<Item = (u64, u64)>) -> Punctuality {
        let mut punctuality = Punctuality::default();
        for (due, error) in errors_us {
            let due = Timestamp::from_ns(due * 1000);
            punctuality.add(due, due + Nanos::from_ns(error * 1000), false);
        }
        punctuality
    }

    #[test]
    fn drift_is_the_slope_of_the_errors() {
        // 1 ms more per second, and a jitter that is not correlated with time.
        let growing = punctuality((0..60_000).map(|ms| (ms * 1000, 50 + ms + ms % 7)));
        assert!((growing.drift_share().unwrap() - 0.001).abs() < 1e-6, "{:?}", growing.drift_share());
        assert!((growing.drift_ns().unwrap() - 6e7).abs() < 1e5);
        let steady = punctuality((0..60_000).map(|ms| (ms * 1000, 50 + ms % 7)));
        assert!(steady.drift_share().unwrap().abs() < 1e-6, "{:?}", steady.drift_share());
        assert_eq!(punctuality([(5, 1), (5, 9)].into_iter()).drift_share(), None);
    }

    #[test]
    fn late_arrivals_are_laid_to_the_device_while_too_many_are_outstanding() {
        let mut punctuality = Punctuality::default();
        let ms = |ms: u64| Timestamp::from_ns(ms * 1_000_000);
        for (due, handed_on, held_back) in [(0, 1, true), (0, 2, true), (0, 2, false), (7, 7, false), (9, 10, false)] {
            punctuality.add(ms(due), ms(handed_on), held_back);
        }
        assert_eq!((punctuality.late_by_device, punctuality.late_by_host), (1, 1));
        assert_eq!(punctuality.error.moments().max_ns, Some(2_000_000));
    }
}
