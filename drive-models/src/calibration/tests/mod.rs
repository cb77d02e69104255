//! Calibration against drives of our own, whose parameters are known, and its errors if there is nothing to find.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::{Lba, Nanos, Observed, Operation, Record, Request, Timestamp};

use super::*;
use crate::mechanical::Mechanics;
use crate::{Profile, build, build_profile};

mod empirical_fit;
mod flash_fit;

/// Four zones of equal capacity, four heads, a turn of 4.0057 ms.
const KNOWN: &str = include_str!("../known.toml");

fn simulated(drive: &str) -> SimulatedDevice {
    SimulatedDevice::new(build(&drive.parse().unwrap()).unwrap().drive)
}

fn known() -> SimulatedDevice {
    let profile = Profile::parse("known", KNOWN).unwrap();
    SimulatedDevice::new(build_profile(profile).unwrap().drive)
}

fn measured(device: &mut dyn MeasuredDevice, reads: u64) -> CalibrationReads {
    RandomReads { reads, seed: 5 }.measure(device).unwrap()
}

fn fitted(name: &str, reads: &CalibrationReads, device: &mut dyn MeasuredDevice) -> Result<FittedModel, FitError> {
    let evidence = FitEvidence {
        reads,
        capacity: device.capacity(),
        origin: "a \"known\" drive",
        depends_on_distance: dependence(reads, 5).depends_on_distance,
        force_linear: false,
        heads: None,
        seed: 5,
    };
    let row = FITS.iter().find(|row| row.name == name).unwrap();
    (row.fit)(&evidence, Some(device))
}

fn parameter(fitted: &FittedModel, name: &str) -> f64 {
    fitted.parameters.iter().find(|parameter| parameter.name == name).unwrap_or_else(|| panic!("{name}")).value
}

fn judged(fitted: &FittedModel, reads: &CalibrationReads) -> traces::results::calibration::Goodness {
    let profile = Profile::parse("fitted", &fitted.profile.render("none")).unwrap();
    goodness(reads, &mut *build_profile(profile).unwrap().drive)
}

#[track_caller]
fn within(found: f64, known: f64, share: f64) {
    assert!((found - known).abs() <= share * known, "found {found}, known {known}");
}

#[test]
fn a_bus_slower_than_the_platter_is_found_over_whole_turns() {
    let text = KNOWN.replacen("\"4000\"", "\"150000\"", 1);
    let profile = Profile::parse("slow bus", &text).unwrap();
    let mut drive = SimulatedDevice::new(build_profile(profile).unwrap().drive);
    let reads = measured(&mut drive, 2_000);
    let found = fitted("mechanical", &reads, &mut drive).unwrap();
    // 56 sectors take more than a turn.
    within(parameter(&found, "bus_byte_ps"), 150_000.0, 0.01);
    within(parameter(&found, "read_overhead_ns"), 230_000.0, 0.01);
}

#[test]
fn a_line_of_our_own_is_found_again() {
    let mut drive = simulated("linear:a=3ms,b=7ms,capacity=10g,cache=off");
    let reads = measured(&mut drive, 100_000);
    let found = fitted("linear", &reads, &mut drive).unwrap();
    // Distances thin out towards the far end, so a window's mean lies a little nearer than its middle.
    within(parameter(&found, "a_ns"), 3e6, 0.005);
    within(parameter(&found, "b_ns"), 7e6, 0.005);
    assert_eq!(found.notes, Vec::<String>::new());
    let judged = judged(&found, &reads);
    assert!(judged.r_squared > 0.999 && judged.distribution.relative_rms < 0.005, "{judged:?}");
    assert_eq!(judged.reads, 50_000);
}

#[test]
fn a_drive_of_our_own_is_found_again_by_its_mechanics() {
    let mut drive = known();
    let reads = measured(&mut drive, 4_000);
    let found = fitted("mechanical", &reads, &mut drive).unwrap();
    within(parameter(&found, "period_ps"), 4_005_700_000.0, 1e-6);
    within(parameter(&found, "read_overhead_ns"), 230_000.0, 0.01);
    within(parameter(&found, "bus_byte_ps"), 4_000.0, 0.01);
    within(parameter(&found, "head_switch_ns"), 600_000.0, 0.01);
    within(parameter(&found, "head_skew_turns"), 0.19, 0.01);
    within(parameter(&found, "cylinder_skew_turns"), 0.26, 0.01);
    assert_eq!(parameter(&found, "heads"), 4.0);
    assert_eq!(parameter(&found, "outer_track_sectors"), 900.0);
    assert_eq!(parameter(&found, "inner_track_sectors"), 600.0);
    let profile = Profile::parse("known", KNOWN).unwrap();
    let curve = &profile.description.downcast_ref::<Mechanics>().unwrap().seek;
    let seeks = found.parameters.iter().filter_map(|parameter| {
        let cylinders = parameter.name.strip_prefix("seek_")?.strip_suffix("_cylinders_ns")?;
        Some((cylinders.parse().unwrap(), parameter.value))
    });
    let mut points = 0;
    for (cylinders, ns) in seeks {
        within(ns, curve.time(cylinders).as_ns() as f64, 0.01);
        points += 1;
    }
    assert!(points > 20, "{points}");
    let judged = judged(&found, &reads);
    assert!(judged.distribution.relative_rms < 0.01 && judged.r_squared > 0.3, "{judged:?}");
}

#[test]
fn a_given_number_of_heads_is_taken() {
    let mut drive = known();
    let reads = measured(&mut drive, 400);
    let evidence = FitEvidence {
        reads: &reads,
        capacity: drive.capacity(),
        origin: "a drive",
        depends_on_distance: true,
        force_linear: false,
        heads: Some(4),
        seed: 5,
    };
    let found = (mechanical::FIT.fit)(&evidence, Some(&mut drive)).unwrap();
    assert_eq!(parameter(&found, "heads"), 4.0);
    within(parameter(&found, "cylinder_skew_turns"), 0.26, 0.01);
}

#[test]
fn noise_is_fitted_neither_as_rotation_nor_as_a_line() {
    let mut drive = Noise { now: Timestamp::ZERO, random: Xoshiro256PlusPlus::seed_from_u64(1) };
    let reads = measured(&mut drive, 4_000);
    let found = dependence(&reads, 5);
    assert!(!found.depends_on_distance && found.by_chance_low <= found.by_chance_high, "{found:?}");
    let refused = fitted("linear", &reads, &mut drive).unwrap_err().to_string();
    assert!(refused.starts_with("the times do not depend on distance"), "{refused}");
    let refused = fitted("mechanical", &reads, &mut drive).unwrap_err().to_string();
    assert!(refused.starts_with("no rotation found"), "{refused}");
    let mean = fitted("fixed", &reads, &mut drive).unwrap();
    within(parameter(&mean, "service_ns"), 5e6, 0.05);
}

#[test]
fn dependence_below_five_percent_is_none() {
    // Every time is the same but for a line of 1 % of the noise's deviation: with many reads it is significant, and it
    // explains a ten-thousandth.
    let mut drive = simulated("linear:a=3ms,b=7ms,capacity=10g,cache=off");
    let mut reads = measured(&mut drive, 20_000);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
    for point in &mut reads.points {
        let noise: u64 = (0..4).map(|_| random.random_range(0..1_000_000)).sum();
        point.time = Nanos::from_ns(noise + point.distance.count() / 100);
    }
    let found = dependence(&reads, 5);
    assert!(found.explained_share > found.by_chance_high, "{found:?}");
    assert!(found.explained_share < 0.05 && !found.depends_on_distance, "{found:?}");
}

#[test]
fn dependence_within_the_interval_of_chance_is_none() {
    // With 100 held-out reads the interval of chance ends above the 5 % that a dependence must explain.
    let reads = measured(&mut simulated("fixed"), 200);
    let mut between = 0;
    for seed in 0..200 {
        let mut reads = reads.clone();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        for point in &mut reads.points {
            point.time = Nanos::from_ns(random.random_range(0..4_000_000) + point.distance.count() / 2_000);
        }
        let found = dependence(&reads, seed);
        if (0.05..=found.by_chance_high).contains(&found.explained_share) {
            between += 1;
            assert!(!found.depends_on_distance, "{found:?}");
        }
    }
    assert!(between > 0);
}

#[test]
fn goodness_is_judged_on_the_half_that_was_not_fitted() {
    let mut drive = simulated("fixed");
    let mut reads = measured(&mut drive, 400);
    for point in reads.points.iter_mut().filter(|point| !point.fitted) {
        point.time = Nanos::from_ms(3);
    }
    let judged = judged(&fitted("fixed", &reads, &mut drive).unwrap(), &reads);
    assert_eq!((judged.mean_abs_error_ns, judged.distribution.rms_ns), (2e6, 2e6));
    assert_eq!(judged.distribution.relative_rms, 2.0 / 3.0);
}

#[test]
fn permutations_give_the_interval_of_chance() {
    let reads = measured(&mut simulated("cheetah-15k4:cache=off"), 2_000);
    let found = dependence(&reads, 5);
    assert!(found.depends_on_distance && found.explained_share > 0.99, "{found:?}");
    // A correlation of 1,000 pairs that have nothing to do with one another deviates by 1/√1000: 99 % of its squares
    // are within 2.58²/1000.
    let expected = 0.0067;
    assert!(
        (found.by_chance_high - expected).abs() < 0.003 && (found.by_chance_low + expected).abs() < 0.003,
        "{found:?}"
    );
    assert_eq!(dependence(&reads, 5), found);
}

#[test]
fn linear_drive_has_no_rotation() {
    let mut drive = simulated("cheetah-15k4:cache=off");
    let reads = measured(&mut drive, 400);
    let refused = fitted("mechanical", &reads, &mut drive).unwrap_err().to_string();
    assert!(refused.contains("not whole turns apart"), "{refused}");
}

#[test]
fn smoothing_is_the_slow_mean_and_keeps_a_line() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    let random_points = (0..3_000)
        .map(|_| (Sectors::new(random.random_range(0..1 << 30)), Nanos::from_ns(random.random_range(0..9_000_000))));
    let smoothed = linear::Smoothed::new(random_points.collect());
    assert!(smoothed.points.is_sorted());
    for index in [0, 1, 7, 499, 500, 1_500, 2_400, 2_998, 2_999] {
        let reach = index.min(2_999 - index).min(500);
        let window = &smoothed.points[index - reach..=index + reach];
        let slow = window.iter().map(|(_, time)| time.as_ns() as f64).sum::<f64>() / window.len() as f64;
        assert!((smoothed.means_ns[index] - slow).abs() < 1e-3, "{index}");
    }
    let line = linear::Smoothed::new((0..3_000).map(|d| (Sectors::new(d), Nanos::from_ns(100 + 3 * d))).collect());
    assert_eq!(line.line().at(Sectors::new(10_000)).round(), 30_100.0);
    let level = linear::Smoothed::new(vec![(Sectors::new(8), Nanos::from_us(1)); 10]).line();
    assert_eq!((level.at_zero_ns, level.ns_per_sector), (1000.0, 0.0));
}

#[test]
fn split_gives_equal_halves_and_repeats_with_its_seed() {
    let reads = measured(&mut simulated("cheetah-15k4"), 1_001);
    assert_eq!((reads.half(true).len(), reads.half(false).len()), (500, 501));
    let again = measured(&mut simulated("cheetah-15k4"), 1_001);
    assert_eq!(reads.points, again.points);
    // Each point starts from where the read before it ended.
    for point in &reads.points {
        assert_eq!(point.from, reads.measurements[point.index - 1].request.end());
    }
}

/// A record of `operation` at `lba` from `issued` to `completed` (µs), arrived with its issue.
fn record(operation: Operation, lba: u64, issued: u64, completed: u64) -> Record {
    let at = |us: u64| Timestamp::from_ns(us * 1000);
    let observed = Observed { issued: Some(at(issued)), completed: Some(at(completed)), ..Observed::default() };
    Record { request: Request::new(at(issued), operation, Lba::new(lba), Sectors::new(8)), observed }
}

#[test]
fn only_reads_that_had_the_device_to_themselves_are_fitted() {
    let mut trace = TraceReads::new(1);
    for (operation, lba, issued, completed) in [
        (Operation::Read, 100, 0, 5),    // nothing is known of the arm
        (Operation::Read, 200, 10, 20),  // alone, from 108
        (Operation::Write, 300, 30, 40), // no read
        (Operation::Read, 400, 50, 90),  // overlaps the next
        (Operation::Read, 500, 60, 80),
        (Operation::Read, 600, 100, 110), // alone, from 408, which completed last
        (Operation::Flush, 0, 120, 130),  // moves no arm
        (Operation::Read, 700, 140, 150), // alone, from 608
    ] {
        trace.push(&record(operation, lba, issued, completed));
    }
    let mut more = 200;
    while trace.usable() < reads::READS_MIN {
        trace.push(&record(Operation::Read, more, more * 10, more * 10 + 5));
        more += 1;
    }
    let reads = trace.finish().unwrap();
    let found: Vec<(u64, u64)> = reads.points[..3].iter().map(|p| (p.from.sector(), p.time.as_ns() / 1000)).collect();
    assert_eq!(found, [(108, 10), (408, 10), (608, 10)]);
}

#[test]
fn request_issued_before_an_earlier_queued_one_is_recognised() {
    let mut trace = TraceReads::new(1);
    trace.push(&record(Operation::Read, 100, 0, 5));
    trace.push(&record(Operation::Read, 200, 10, 30));
    // Issued later, while one that arrived after it was served inside of the candidate.
    let mut late = record(Operation::Read, 300, 40, 50);
    late.request.arrival = Timestamp::from_ns(11_000);
    trace.push(&late);
    trace.push(&record(Operation::Read, 400, 15, 25));
    trace.push(&record(Operation::Read, 500, 60, 70));
    assert_eq!(trace.usable(), 0);
    let error = trace.finish().unwrap_err().to_string();
    assert!(error.starts_with("1 of 5 requests are reads"), "{error}");
}

#[test]
fn without_completions_there_is_nothing_to_fit() {
    let mut trace = TraceReads::new(1);
    for lba in 0..1_000 {
        let request = Request::new(Timestamp::from_ns(lba), Operation::Read, Lba::new(lba), Sectors::new(8));
        trace.push(&Record::arrived(request));
    }
    assert_eq!((trace.usable(), trace.untimed()), (0, 1_000));
    assert!(trace.finish().unwrap_err().to_string().contains("a fit needs 200"));
}

#[test]
fn too_small_device_and_read_beyond_the_end_are_errors() {
    let error = RandomReads { reads: 10, seed: 1 }.measure(&mut simulated("fixed:capacity=64k")).unwrap_err();
    assert!(error.to_string().starts_with("it holds 128 sectors"), "{error}");
    let mut drive = simulated("fixed:capacity=1m");
    let error = drive.read(Timestamp::ZERO, Lba::new(2048), Sectors::new(1)).unwrap_err();
    assert_eq!(error.to_string(), "reading 1 sectors at sector 2048: it ends beyond the drive");
}

#[test]
fn every_row_is_a_model_and_its_profile_parses() {
    for (drive, name) in
        [("cheetah-15k4:cache=off", "linear"), ("cheetah-15k4:cache=off", "fixed"), ("fixed", "empirical")]
    {
        let mut drive = simulated(drive);
        let reads = measured(&mut drive, 400);
        let text = fitted(name, &reads, &mut drive).unwrap().profile.render("against \\ \"itself\"\n");
        let profile = Profile::parse(name, &text).unwrap();
        assert_eq!((profile.model.as_str(), profile.validation.as_str()), (name, "against \\ \"itself\"?"));
    }
    assert!(FITS.iter().all(|row| crate::MODELS.iter().any(|model| model.name == row.name)));
}

/// A device whose times depend on nothing: 0 to 10 ms.
struct Noise {
    now: Timestamp,
    random: Xoshiro256PlusPlus,
}

impl MeasuredDevice for Noise {
    fn capacity(&self) -> Sectors {
        Sectors::new(1 << 24)
    }

    fn granule(&self) -> Sectors {
        Sectors::new(8)
    }

    fn now(&self) -> Timestamp {
        self.now
    }

    fn read(&mut self, at: Timestamp, lba: Lba, sectors: Sectors) -> Result<Measurement, DeviceError> {
        let issued = self.now.max(at);
        let service = Nanos::from_ns(self.random.random_range(0..10_000_000));
        self.now = issued.saturating_add(service);
        Ok(Measurement { request: Request::new(issued, Operation::Read, lba, sectors), issued, service })
    }
}
