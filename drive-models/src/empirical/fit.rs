//! From the requests of a capture to the cells of an empirical drive.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use traces::{Lba, Nanos, Operation, Request, Sectors, Timestamp};

use crate::empirical::cells::{EmpiricalCell, EmpiricalCells};
use crate::empirical::classes::Condition;
use crate::empirical::quantiles::Quantiles;

/// Samples below which a cell stands back for a coarser one: the rank of its median then has a standard error of 5 %.
pub const SAMPLES_MIN: u64 = 100;

/// The longest time that is kept, 2⁴⁰ ns or 18 minutes; longer ones count as that.
const TIME_NS_MAX: u64 = 1 << 40;

/// Why a request has no service time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmpiricalFitError {
    /// It completed before it was issued.
    #[error("request {nth} completed at {completed}, before it was issued at {issued}")]
    Backwards {
        /// Which, from 1.
        nth: u64,
        /// When it was issued.
        issued: Timestamp,
        /// When it completed.
        completed: Timestamp,
    },
    /// There were no requests.
    #[error("no request has times of issue and completion, so there is nothing to draw from")]
    Empty,
}

/// Takes the requests of a capture one by one, in the order in which they were issued to the drive, and yields the
/// distributions of their times there.
///
/// Memory is bounded whatever the length of the capture. Each of the at most 960 combinations of classes that occur has
/// a histogram of 35 KB, with times to better than 1 %.
#[derive(Clone, Debug, Default)]
pub struct EmpiricalFit {
    histograms: BTreeMap<Condition, Histogram<u64>>,
    position: Lba,
    observed: u64,
    longest_queue: u32,
}

/// The model of a drive that a capture yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FittedCells {
    /// The distributions.
    pub cells: EmpiricalCells,
    /// The most requests that were at the drive at a time: what the model's `depth` should be, since nothing is known
    /// beyond.
    pub depth: u32,
}

impl EmpiricalFit {
    /// Nothing observed yet.
    pub fn new() -> EmpiricalFit {
        EmpiricalFit::default()
    }

    /// Takes one request: when it was issued to the drive and when it completed (D and C), and how many others the
    /// drive had when it was issued.
    ///
    /// # Errors
    /// Times that run backwards. The request is then left out, and others may follow.
    pub fn observe(
        &mut self,
        request: &Request,
        issued: Timestamp,
        completed: Timestamp,
        queue_length: u32,
    ) -> Result<(), EmpiricalFitError> {
        let nth = self.observed + 1;
        let time = completed.checked_since(issued).ok_or(EmpiricalFitError::Backwards { nth, issued, completed })?;
        let distance = match request.operation {
            Operation::Flush => Sectors::ZERO,
            _ => self.position.distance(request.lba),
        };
        self.add(request, distance, time, queue_length);
        if request.operation != Operation::Flush {
            self.position = request.end();
        }
        Ok(())
    }

    /// Takes one request of which the distance and the time at the drive are known, in any order.
    pub(crate) fn add(&mut self, request: &Request, distance: Sectors, time: Nanos, queue_length: u32) {
        let condition = Condition::of(request.operation, request.sectors(), distance, queue_length);
        let histogram = self.histograms.entry(condition).or_insert_with(histogram);
        histogram.saturating_record(time.as_ns().min(TIME_NS_MAX));
        self.longest_queue = self.longest_queue.max(queue_length);
        self.observed += 1;
    }

    /// The distributions: of each condition with at least [`SAMPLES_MIN`] samples, and whatever their number of each
    /// operation and of all.
    ///
    /// # Errors
    /// If nothing was observed.
    pub fn finish(self) -> Result<FittedCells, EmpiricalFitError> {
        let mut histograms: BTreeMap<Condition, Histogram<u64>> = BTreeMap::new();
        for (finest, observed) in &self.histograms {
            for condition in finest.coarser() {
                let sum = histograms.entry(condition).or_insert_with(histogram);
                sum.add(observed).expect("histograms of equal bounds add up");
            }
        }
        let enough = |condition: &Condition, samples| samples >= SAMPLES_MIN || condition.queue.is_none();
        let cells: Vec<EmpiricalCell> = histograms
            .iter()
            .filter(|(condition, histogram)| enough(condition, histogram.len()))
            .map(|(condition, histogram)| EmpiricalCell {
                condition: *condition,
                samples: histogram.len(),
                quantiles: quantiles(histogram),
            })
            .collect();
        let cells = EmpiricalCells::new(cells).ok_or(EmpiricalFitError::Empty)?;
        Ok(FittedCells { cells, depth: self.longest_queue.saturating_add(1) })
    }
}

/// Two significant digits, so that a bucket's middle is within 0.4 % of all that is in it.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, TIME_NS_MAX, 2).expect("the bounds are in order")
}

fn quantiles(histogram: &Histogram<u64>) -> Quantiles {
    let at = |level: f64| histogram.median_equivalent(histogram.value_at_quantile(level));
    let ns = Quantiles::levels().map(at);
    Quantiles::new(&ns).expect("quantiles of a histogram grow")
}
