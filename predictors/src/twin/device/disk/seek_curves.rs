//! Seek curves of measured drives, from which seeks longer than those in isolated traces are inferred.
//!
//! A VM alone moves the arm within its own addresses only. Its trace does not contain seeks to other VMs' addresses,
//! and no formula of few parameters carries a seek curve from a hundredth of the stroke to half of it. Real arms are
//! alike, though. The curves are those of eight drives of six makes with measured positioning times (this project's
//! drive profiles). In turns of the platter they hardly differ: a third of the stroke takes about one turn.
//! [`super::regression`] fits each curve to the traces, with a prior from the turns of both drives, and weighs it by
//! how well it fits.

use drive_models::DriveModel;
use traces::{Lba, Sectors};

/// The profiles of the measured drives, with the time of a turn in ms. Drives that examples and synthetic setups
/// ([`crate::synthetic::SYNTHETIC_SETUPS`]) use are not among them: a forecast for these would know the answer.
const MEASURED_DRIVES_TURN_MS: [(&str, f64); 8] = [
    ("atlas-iii", 8.334),
    ("cheetah-4lp", 5.981),
    ("dec-rz26", 11.193),
    ("hp-c2247a", 11.115),
    ("hp-c2490a", 9.378),
    ("hp-c3323a", 11.119),
    ("ibm-18es", 8.229),
    ("st41601n", 11.117),
];

/// The number of points of a curve: distances from 2^-20 of the capacity to all of it, two to an octave. Set by
/// judgement; not varied.
const CURVE_POINTS: usize = 41;
/// Each point is the mean over seeks that start at these eighths of the capacity. Set by judgement; not varied.
const ORIGINS_EIGHTHS: [u64; 4] = [0, 2, 4, 7];

/// A drive's positioning time over the seek distance, in seconds. Only its shape is used.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SeekCurve {
    /// The turn of that drive's platter; seconds.
    pub(crate) turn: f64,
    /// The time at each point.
    times: [f64; CURVE_POINTS],
}

/// Between which points of every curve a distance lies: the point below it, and the part of the way to the next one.
#[derive(Clone, Copy, Debug)]
struct Place {
    below: usize,
    part: f64,
}

impl Place {
    /// The place of a `share` of the capacity.
    fn of(share: f64) -> Place {
        let last = (CURVE_POINTS - 1) as f64;
        let step = (2.0 * share.max(f64::MIN_POSITIVE).log2() + last).clamp(0.0, last);
        let below = (step as usize).min(CURVE_POINTS - 2);
        Place { below, part: step - below as f64 }
    }
}

/// A seek distance on all curves: its logarithm is taken once for all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Distance {
    whole: Place,
    /// Its part up to the reach.
    near: Place,
}

impl Distance {
    /// The distance of a `share` of the capacity, of which the near part ends at `reach`.
    pub(crate) fn of(share: f64, reach: f64) -> Distance {
        let whole = Place::of(share);
        Distance { whole, near: if share <= reach { whole } else { Place::of(reach) } }
    }
}

impl SeekCurve {
    /// The time at a place, interpolated.
    fn at(&self, Place { below, part }: Place) -> f64 {
        self.times[below] * (1.0 - part) + self.times[below + 1] * part
    }

    /// Splits the time over a distance into the part up to the reach and the part beyond.
    pub(crate) fn parts(&self, distance: &Distance) -> [f64; 2] {
        let near = self.at(distance.near);
        [near, (self.at(distance.whole) - near).max(0.0)]
    }

    /// The curve of a drive model.
    fn of(drive: &dyn DriveModel, turn: f64) -> SeekCurve {
        let capacity = drive.capacity().count();
        let time = |step: usize| {
            let share = ((step as f64 - (CURVE_POINTS - 1) as f64) / 2.0).exp2();
            let distance = ((share * capacity as f64) as u64).min(capacity - 1);
            let mut sum = 0.0;
            let mut count = 0.0;
            for origin in ORIGINS_EIGHTHS.map(|eighths| capacity / 8 * eighths) {
                for to in [origin.checked_sub(distance), origin.checked_add(distance).filter(|&to| to < capacity)] {
                    let Some(to) = to else { continue };
                    let time = drive.cost().between(Lba::new(origin), Lba::new(to), Sectors::ZERO);
                    sum += time.as_ns() as f64 / 1e9;
                    count += 1.0;
                }
            }
            sum / count
        };
        SeekCurve { turn, times: std::array::from_fn(time) }
    }
}

/// The curves of all measured drives.
pub(crate) fn seek_curves() -> Vec<SeekCurve> {
    let curve = |&(name, turn_ms): &(&str, f64)| {
        let built = drive_models::build(&name.parse().ok()?).ok()?;
        Some(SeekCurve::of(&*built.drive, turn_ms / 1e3))
    };
    MEASURED_DRIVES_TURN_MS.iter().filter_map(curve).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_curve_grows_with_distance() {
        let seek_curves = seek_curves();
        assert_eq!(seek_curves.len(), MEASURED_DRIVES_TURN_MS.len());
        for (curve, (drive, _)) in seek_curves.iter().zip(MEASURED_DRIVES_TURN_MS) {
            let at = |share: f64| curve.at(Place::of(share));
            assert!(at(0.01) > 0.0 && at(0.01) < at(0.1) && at(0.1) < at(0.9), "{drive}");
            assert_eq!(at(2.0), at(1.0));
            assert_eq!(at(0.0), curve.times[0]);
            assert_eq!(curve.parts(&Distance::of(0.1, 0.01)), [at(0.01), at(0.1) - at(0.01)]);
            assert_eq!(curve.parts(&Distance::of(0.01, 0.1)), [at(0.01), 0.0]);
        }
    }

    #[test]
    fn turns_equal_those_of_the_profiles() {
        for (name, turn_ms) in MEASURED_DRIVES_TURN_MS {
            let text = drive_models::PROFILES.iter().find(|(profile, _)| *profile == name).unwrap().1;
            let line = text.lines().find(|line| line.starts_with("period_ps")).unwrap();
            let period_ps: f64 = line.split('"').nth(1).unwrap().parse().unwrap();
            assert!((period_ps / 1e9 - turn_ms).abs() < 1e-3, "{name}: {period_ps}");
        }
    }

    #[test]
    fn a_third_of_the_stroke_takes_about_one_turn_with_every_drive() {
        for (curve, (drive, _)) in seek_curves().iter().zip(MEASURED_DRIVES_TURN_MS) {
            let turns = curve.at(Place::of(1.0 / 3.0)) / curve.turn;
            assert!((0.9..1.5).contains(&turns), "{drive}: {turns}");
        }
    }

    #[test]
    fn expected_sector_time_is_the_median_of_the_profiles() {
        use crate::twin::device::disk::regression::SECTOR_TURNS_BY_ROOT_CAPACITY;

        let turns = |(name, _): (&str, f64)| {
            let text = drive_models::PROFILES.iter().find(|(profile, _)| *profile == name).unwrap().1;
            let layout = &text.parse::<toml::Table>().unwrap()["layout"];
            let (mut sectors, mut cylinders) = (0.0, 0.0);
            for zone in layout["zones"].as_array().unwrap() {
                let of = |key: &str| zone[key].as_integer().unwrap() as f64;
                sectors += of("sectors_per_track") * of("cylinders");
                cylinders += of("cylinders");
            }
            let capacity = layout["capacity_sectors"].as_integer().unwrap() as f64;
            capacity.sqrt() / (sectors / cylinders)
        };
        let mut turns = MEASURED_DRIVES_TURN_MS.map(turns);
        turns.sort_by(f64::total_cmp);
        assert!(turns[0] > 13.0 && turns[7] < 25.0, "{turns:?}");
        assert!(((turns[3] + turns[4]) / 2.0 - SECTOR_TURNS_BY_ROOT_CAPACITY).abs() < 0.5, "{turns:?}");
    }
}
