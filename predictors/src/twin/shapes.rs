//! What longer seeks cost than short ones.
//!
//! A machine alone moves the arm within its own place. What it costs to go to another's is not in its recording, and no formula of
//! few parameters carries a seek curve from a hundredth of the stroke to half of it. Real arms are alike, though: eleven drives of
//! eight makes whose positioning times were measured (the profiles of this suite's drives that were) give eleven shapes. Each is fitted to what
//! the recordings show, and weighs by how well it fits there.

use drive_models::DriveModel;
use traces::{Lba, Sectors};

/// The measured drives. Drives that the suite's own examples are made with are not among them: a forecast for these would know
/// the answer.
const DRIVES: [&str; 11] = [
    "atlas-10k",
    "atlas-iii",
    "barracuda",
    "cheetah-4lp",
    "cheetah-9lp",
    "dec-rz26",
    "hp-c2247a",
    "hp-c2490a",
    "hp-c3323a",
    "ibm-18es",
    "st41601n",
];

/// Distances as shares of the capacity, 2^-20 to 1, two to an octave.
const STEPS: usize = 41;
/// The arm starts at these eighths of the capacity.
const ORIGINS: [u64; 4] = [0, 2, 4, 7];

/// A drive's positioning time over the distance, in seconds; only its shape is used.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shape {
    times: [f64; STEPS],
}

impl Shape {
    /// The time over a `share` of the capacity.
    pub(super) fn at(&self, share: f64) -> f64 {
        let last = (STEPS - 1) as f64;
        let step = (2.0 * share.max(f64::MIN_POSITIVE).log2() + last).clamp(0.0, last);
        let below = (step as usize).min(STEPS - 2);
        let part = step - below as f64;
        self.times[below] * (1.0 - part) + self.times[below + 1] * part
    }

    fn of(drive: &dyn DriveModel) -> Shape {
        let capacity = drive.capacity().count();
        let time = |step: usize| {
            let share = ((step as f64 - (STEPS - 1) as f64) / 2.0).exp2();
            let distance = ((share * capacity as f64) as u64).min(capacity - 1);
            let mut sum = 0.0;
            let mut count = 0.0;
            for origin in ORIGINS.map(|eighths| capacity / 8 * eighths) {
                for to in [origin.checked_sub(distance), origin.checked_add(distance).filter(|&to| to < capacity)] {
                    let Some(to) = to else { continue };
                    let time = drive.cost().between(Lba::new(origin), Lba::new(to), Sectors::ZERO);
                    sum += time.as_ns() as f64 / 1e9;
                    count += 1.0;
                }
            }
            sum / count
        };
        Shape { times: std::array::from_fn(time) }
    }
}

/// All of them.
pub(super) fn shapes() -> Vec<Shape> {
    let built = |name: &&str| drive_models::build(&name.parse().ok()?).ok();
    DRIVES.iter().filter_map(built).map(|built| Shape::of(&*built.drive)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_drive_has_a_shape_that_grows() {
        let shapes = shapes();
        assert_eq!(shapes.len(), DRIVES.len());
        for (shape, drive) in shapes.iter().zip(DRIVES) {
            assert!(shape.at(0.01) > 0.0 && shape.at(0.01) < shape.at(0.1) && shape.at(0.1) < shape.at(0.9), "{drive}");
            assert_eq!(shape.at(2.0), shape.at(1.0));
            assert_eq!(shape.at(0.0), shape.times[0]);
        }
    }
}
