//! Mechanics found through the disturbances between a program and a real platter: late clocks, now and then a long
//! delay, and reads of 4 KiB only.

use rand::RngExt;
use traces::{Lba, Nanos, Operation, Request, Sectors, Timestamp};

use super::*;
use crate::calibration::{CalibrationReads, DeviceError, Measurement, RandomReads, SimulatedDevice};
use crate::{Profile, build_profile};

/// A drive of our own behind a rough host.
struct Rough {
    drive: SimulatedDevice,
    granule: u64,
    jitter_ns: u64,
    /// One in this number of reads is another 700 µs late.
    disturbed: u32,
    random: Xoshiro256PlusPlus,
    now: Timestamp,
}

impl Rough {
    fn new(granule: u64, jitter_ns: u64, disturbed: u32) -> Rough {
        let known = Profile::parse("known", include_str!("../known.toml")).unwrap();
        let drive = SimulatedDevice::new(build_profile(known).unwrap().drive);
        let random = Xoshiro256PlusPlus::seed_from_u64(11);
        Rough { drive, granule, jitter_ns, disturbed, random, now: Timestamp::ZERO }
    }
}

impl MeasuredDevice for Rough {
    fn capacity(&self) -> Sectors {
        self.drive.capacity()
    }

    fn granule(&self) -> Sectors {
        Sectors::new(self.granule)
    }

    fn now(&self) -> Timestamp {
        self.now
    }

    fn read(&mut self, at: Timestamp, lba: Lba, sectors: Sectors) -> Result<Measurement, DeviceError> {
        assert!(lba.sector().is_multiple_of(self.granule) && sectors.count().is_multiple_of(self.granule));
        let issued = self.now.max(at).saturating_add(Nanos::from_ns(self.random.random_range(0..=self.jitter_ns / 4)));
        let measured = self.drive.read(issued, lba, sectors)?;
        let disturbance = if self.random.random_range(0..self.disturbed) == 0 { 700_000 } else { 0 };
        let late = Nanos::from_ns(self.random.random_range(0..=self.jitter_ns) + disturbance);
        self.now = issued.saturating_add(measured.service).saturating_add(late);
        let request = Request::new(issued, Operation::Read, lba, sectors);
        Ok(Measurement { request, issued, service: self.now.saturating_since(issued) })
    }
}

fn found(device: &mut Rough) -> FittedModel {
    let reads: CalibrationReads = RandomReads { reads: 400, seed: 5 }.measure(device).unwrap();
    let evidence = FitEvidence {
        reads: &reads,
        capacity: device.capacity(),
        origin: "a drive",
        depends_on_distance: true,
        force_linear: false,
        heads: None,
        seed: 5,
    };
    fit(&evidence, Some(device)).unwrap()
}

#[track_caller]
fn within(fitted: &FittedModel, name: &str, known: f64, off: f64) {
    let value = fitted.parameters.iter().find(|parameter| parameter.name == name).unwrap().value;
    assert!((value - known).abs() <= off, "{name}: found {value}, known {known}");
}

#[test]
fn late_clocks_and_disturbances_leave_the_mechanics_recognisable() {
    let fitted = found(&mut Rough::new(1, 20_000, 100));
    within(&fitted, "period_ps", 4_005_700_000.0, 1_000_000.0);
    within(&fitted, "heads", 4.0, 0.0);
    within(&fitted, "outer_track_sectors", 900.0, 0.0);
    within(&fitted, "inner_track_sectors", 600.0, 0.0);
    within(&fitted, "head_skew_turns", 0.19, 0.005);
    within(&fitted, "cylinder_skew_turns", 0.26, 0.005);
    // Half of the lateness is in every completion.
    within(&fitted, "read_overhead_ns", 240_000.0, 15_000.0);
    within(&fitted, "head_switch_ns", 600_000.0, 20_000.0);
    within(&fitted, "seek_1_cylinders_ns", 500_000.0, 20_000.0);
    within(&fitted, "seek_10_cylinders_ns", 800_000.0, 20_000.0);
}

#[test]
fn reads_of_pages_find_tracks_to_a_page() {
    let fitted = found(&mut Rough::new(8, 0, u32::MAX));
    within(&fitted, "period_ps", 4_005_700_000.0, 10.0);
    within(&fitted, "outer_track_sectors", 900.0, 8.0);
    within(&fitted, "inner_track_sectors", 600.0, 8.0);
    assert!(fitted.notes.iter().any(|note| note.contains("in steps of 8 sectors")), "{:?}", fitted.notes);
}
