//! The line of Geist, Jones and Westall 2010, section 5. The times of random reads are sorted by distance, and each is
//! replaced by the mean of up to 1001 points centred at it. X = a + b·d/D is the least-squares line through the result.
//!
//! "Up to": towards the ends the window shrinks on both sides, so that it stays centred and a line stays a line. Among
//! equal distances the times decide which neighbours count, so that the result does not depend on the order of
//! measuring.

use traces::results::calibration::Parameter;
use traces::{Nanos, Sectors};

use super::{FitError, FitEvidence, FittedModel, MeasuredDevice, ModelFit, ProfileText};

/// Points of a window, the paper's.
pub const WINDOW: usize = 1001;

/// The table's row.
pub(super) const FIT: ModelFit =
    ModelFit { name: "linear", summary: "least-squares line through the smoothed times of random reads", fit };

/// Reads sorted by distance, and the mean time around each in ns.
#[derive(Clone, Debug)]
pub struct Smoothed {
    /// Distance and time.
    pub points: Vec<(Sectors, Nanos)>,
    /// The mean time around each, in ns.
    pub means_ns: Vec<f64>,
}

impl Smoothed {
    /// Sorts and smooths.
    pub fn new(mut points: Vec<(Sectors, Nanos)>) -> Smoothed {
        points.sort_unstable();
        let mut sums = Vec::with_capacity(points.len() + 1);
        sums.push(0u128);
        for (_, time) in &points {
            sums.push(sums[sums.len() - 1] + u128::from(time.as_ns()));
        }
        let mean = |index: usize| {
            let reach = (WINDOW / 2).min(index).min(points.len() - 1 - index);
            let sum = sums[index + reach + 1] - sums[index - reach];
            sum as f64 / (2 * reach + 1) as f64
        };
        let means_ns = (0..points.len()).map(mean).collect();
        Smoothed { points, means_ns }
    }

    /// The least-squares line; level if all distances are equal.
    pub fn line(&self) -> DistanceLine {
        DistanceLine::through(
            self.points.iter().map(|(distance, _)| distance.count() as f64).zip(self.means_ns.iter().copied()),
        )
    }
}

/// Time as a line over distance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DistanceLine {
    /// At distance zero, in ns.
    pub at_zero_ns: f64,
    /// In ns a sector.
    pub ns_per_sector: f64,
}

impl DistanceLine {
    /// The least-squares line through pairs of distance and time, level if all distances are equal.
    pub fn through(points: impl Iterator<Item = (f64, f64)> + Clone) -> DistanceLine {
        let (mut n, mut x, mut y) = (0.0, 0.0, 0.0);
        for (distance, time) in points.clone() {
            (n, x, y) = (n + 1.0, x + distance, y + time);
        }
        let (x, y) = if n > 0.0 { (x / n, y / n) } else { (0.0, 0.0) };
        let (mut xx, mut xy) = (0.0, 0.0);
        for (distance, time) in points {
            xx += (distance - x) * (distance - x);
            xy += (distance - x) * (time - y);
        }
        let ns_per_sector = if xx > 0.0 { xy / xx } else { 0.0 };
        DistanceLine { at_zero_ns: y - ns_per_sector * x, ns_per_sector }
    }

    /// The time at a distance, in ns.
    pub fn at(&self, distance: Sectors) -> f64 {
        self.at_zero_ns + self.ns_per_sector * distance.count() as f64
    }
}

fn fit(evidence: &FitEvidence, _: Option<&mut dyn MeasuredDevice>) -> Result<FittedModel, FitError> {
    if !evidence.depends_on_distance && !evidence.force_linear {
        return Err(FitError::NotFitted(
            "the times do not depend on distance, so a line would say nothing that the mean does not; \
             --force-linear fits it all the same"
                .to_owned(),
        ));
    }
    let smoothed = Smoothed::new(evidence.reads.half(true));
    let line = smoothed.line();
    let capacity = evidence.capacity.count();
    let (a, b) = (line.at_zero_ns.round().max(0.0), (line.ns_per_sector * capacity as f64).round().max(0.0));
    let origin = evidence.origin;
    let fitted = format!(
        "fitted on {} reads of {origin}: least squares through means of up to {WINDOW} by distance",
        smoothed.points.len()
    );
    let furthest = smoothed.points.last().map_or(0, |(distance, _)| distance.count());
    let mut notes = Vec::new();
    if smoothed.points.len() < 10 * WINDOW {
        notes.push(format!(
            "a window of {WINDOW} is a large part of {} reads: the paper took 100,000 in all",
            smoothed.points.len()
        ));
    }
    if line.at_zero_ns < 0.0 || line.ns_per_sector < 0.0 {
        notes.push("the line falls below zero or with distance; negative values count as zero".to_owned());
    }
    if furthest * 2 < capacity {
        notes.push(format!(
            "distances reach {:.1} % of the capacity; beyond, the line is an extrapolation",
            furthest as f64 / capacity as f64 * 100.0
        ));
    }
    let unused = "not measured; unused while the cache is off";
    let profile = ProfileText::new("linear", &format!("line fitted to reads of {origin}"))
        .setting("a", &format!("{a}ns"), &fitted)
        .setting("b", &format!("{b}ns"), &fitted)
        .setting("capacity", &evidence.capacity.bytes().to_string(), "as measured or given")
        .setting("per_byte_ps", "0", "the model has no transfer term (Geist et al. 2010, section 3)")
        .setting("cache", "off", "not measured: reads at random places do not hit")
        .setting("segments", "64", unused)
        .setting("segment_sectors", "221", unused)
        .setting("prefetch_sectors", "64", unused)
        .setting("fill_on_hit", "on", unused)
        .setting("hit", "250us", unused);
    let parameters =
        vec![Parameter::new("a_ns", a, "access without a seek"), Parameter::new("b_ns", b, "seek over the capacity")];
    Ok(FittedModel { profile, parameters, notes })
}
