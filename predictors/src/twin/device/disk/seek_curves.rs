//! What longer seeks cost than short ones.
//!
//! A machine alone moves the arm within its own place. What it costs to go to another's is not in its recording, and no formula of
//! few parameters carries a seek curve from a hundredth of the stroke to half of it. Real arms are alike, though: eight drives of
//! six makes whose positioning times were measured (the profiles of this suite's drives that were) give eight shapes, and in turns of the platter these
//! hardly differ: a third of the stroke takes about one. Each is fitted to what the recordings show, beside what is to be expected
//! by its turn and that of the recordings' drive, and weighs by how well it fits there.

use drive_models::DriveModel;
use traces::{Lba, Sectors};

/// The measured drives, with the time of a turn in ms. Drives that the suite's own examples and rooms ([`crate::synthetic::SYNTHETIC_SETUPS`]) are
/// made with are not among them: a forecast for these would know the answer.
const DRIVES: [(&str, f64); 8] = [
    ("atlas-iii", 8.334),
    ("cheetah-4lp", 5.981),
    ("dec-rz26", 11.193),
    ("hp-c2247a", 11.115),
    ("hp-c2490a", 9.378),
    ("hp-c3323a", 11.119),
    ("ibm-18es", 8.229),
    ("st41601n", 11.117),
];

/// Distances as shares of the capacity, 2^-20 to 1, two to an octave.
const STEPS: usize = 41;
/// The arm starts at these eighths of the capacity.
const ORIGINS: [u64; 4] = [0, 2, 4, 7];

/// A drive's positioning time over the distance, in seconds; only its shape is used.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SeekCurve {
    /// Seconds that its own drive's platter takes for a turn.
    pub(crate) turn: f64,
    times: [f64; STEPS],
}

impl SeekCurve {
    /// The time over a `share` of the capacity.
    pub(crate) fn at(&self, share: f64) -> f64 {
        let last = (STEPS - 1) as f64;
        let step = (2.0 * share.max(f64::MIN_POSITIVE).log2() + last).clamp(0.0, last);
        let below = (step as usize).min(STEPS - 2);
        let part = step - below as f64;
        self.times[below] * (1.0 - part) + self.times[below + 1] * part
    }

    /// Of the time over a `share`, what it is up to `reach`, and what it is further.
    pub(crate) fn parts(&self, share: f64, reach: f64) -> [f64; 2] {
        let near = self.at(share.min(reach));
        [near, (self.at(share) - near).max(0.0)]
    }

    fn of(drive: &dyn DriveModel, turn: f64) -> SeekCurve {
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
        SeekCurve { turn, times: std::array::from_fn(time) }
    }
}

/// All of them.
pub(crate) fn seek_curves() -> Vec<SeekCurve> {
    let curve = |&(name, turn_ms): &(&str, f64)| {
        let built = drive_models::build(&name.parse().ok()?).ok()?;
        Some(SeekCurve::of(&*built.drive, turn_ms / 1e3))
    };
    DRIVES.iter().filter_map(curve).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_drive_has_a_shape_that_grows() {
        let seek_curves = seek_curves();
        assert_eq!(seek_curves.len(), DRIVES.len());
        for (curve, (drive, _)) in seek_curves.iter().zip(DRIVES) {
            assert!(curve.at(0.01) > 0.0 && curve.at(0.01) < curve.at(0.1) && curve.at(0.1) < curve.at(0.9), "{drive}");
            assert_eq!(curve.at(2.0), curve.at(1.0));
            assert_eq!(curve.at(0.0), curve.times[0]);
        }
    }

    #[test]
    fn turns_are_the_profiles_own() {
        for (name, turn_ms) in DRIVES {
            let text = drive_models::PROFILES.iter().find(|(profile, _)| *profile == name).unwrap().1;
            let line = text.lines().find(|line| line.starts_with("period_ps")).unwrap();
            let period_ps: f64 = line.split('"').nth(1).unwrap().parse().unwrap();
            assert!((period_ps / 1e9 - turn_ms).abs() < 1e-3, "{name}: {period_ps}");
        }
    }

    #[test]
    fn in_turns_drives_are_alike() {
        for (curve, (drive, _)) in seek_curves().iter().zip(DRIVES) {
            let turns = curve.at(1.0 / 3.0) / curve.turn;
            assert!((0.9..1.5).contains(&turns), "{drive}: {turns}");
        }
    }

    #[test]
    fn what_a_sector_takes_is_the_middle_of_the_profiles() {
        use crate::twin::device::disk::regression::SECTOR_TURNS;

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
        let mut turns = DRIVES.map(turns);
        turns.sort_by(f64::total_cmp);
        assert!(turns[0] > 13.0 && turns[7] < 25.0, "{turns:?}");
        assert!(((turns[3] + turns[4]) / 2.0 - SECTOR_TURNS).abs() < 0.5, "{turns:?}");
    }
}
