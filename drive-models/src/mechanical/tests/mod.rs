//! The drive as a whole, on a layout small enough to work out by hand, and the profile's checks.

use traces::spec::Spec;

use super::*;
use crate::profile::Profile;

mod buffer;
mod buffer_reference;
mod choice;

/// 2 heads, 4 cylinders of 10 sectors a track, a turn of 10 ms (1 ms a sector), seeks of 2 ms and more.
const SMALL: &str = r#"model = "mechanical"
summary = "s"
validation = "v"
[settings]
period_ps = { value = "10000000000", source = "test" }
phase = { value = "0ms", source = "test" }
read_overhead = { value = "100us", source = "test" }
write_overhead = { value = "300us", source = "test" }
head_switch = { value = "1ms", source = "test" }
write_settle = { value = "500us", source = "test" }
bus_byte_ps = { value = "100000", source = "test" }
read_watermark = { value = "1", source = "test" }
read_completion = { value = "10us", source = "test" }
write_completion = { value = "20us", source = "test" }
read_after_read = { value = "0ms", source = "test" }
write_after_read = { value = "0ms", source = "test" }
write_watermark = { value = "0", source = "test" }
segments = { value = "0", source = "test" }
segment_sectors = { value = "256", source = "test" }
segment_replacement = { value = "lru", source = "test" }
read_ahead_sectors = { value = "0", source = "test" }
read_ahead_least = { value = "0", source = "test" }
read_ahead_on_hit = { value = "on", source = "test" }
read_ahead_needs_sequence = { value = "off", source = "test" }
read_ahead_within_track = { value = "off", source = "test" }
read_whole_track = { value = "off", source = "test" }
keeps_read = { value = "on", source = "test" }
read_hits_written = { value = "off", source = "test" }
read_hit = { value = "500us", source = "test" }
read_hit_sequential = { value = "500us", source = "test" }
write_cache = { value = "through", source = "test" }
write_hit = { value = "500us", source = "test" }
write_hit_sequential = { value = "500us", source = "test" }
sequential_pause = { value = "1000s", source = "test" }
dirty_runs = { value = "16", source = "test" }
dirty_sectors = { value = "1024", source = "test" }
destage_delay = { value = "0ms", source = "test" }
[seek]
source = "test"
points_us = [[1, 2000.0], [3, 2500.0]]
[layout]
source = "test"
heads = 2
capacity_sectors = 80
zones = [
  { first_lbn = 0, first_cylinder = 0, cylinders = 4, sectors_per_track = 10, head_skew = 0.2, cylinder_skew = 0.3 },
]
"#;

fn small() -> Mechanical {
    small_with(&[])
}

fn small_with(settings: &[(&str, &str)]) -> Mechanical {
    drive_of(&Profile::parse("small", SMALL).unwrap(), settings)
}

fn drive_of(profile: &Profile, settings: &[(&str, &str)]) -> Mechanical {
    let given = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let spec = Spec { name: "small".to_owned(), given };
    let settings = profile.resolve(&MODEL, &spec).unwrap();
    Mechanical::new(&settings, profile.description.downcast_ref().unwrap())
}

fn read(lba: u64, sectors: u64) -> Request {
    request(Operation::Read, lba, sectors)
}

fn write(lba: u64, sectors: u64) -> Request {
    request(Operation::Write, lba, sectors)
}

fn request(operation: Operation, lba: u64, sectors: u64) -> Request {
    Request::new(Timestamp::ZERO, operation, Lba::new(lba), Sectors::new(sectors))
}

/// Serves one request from `at_us` on and gives the time in µs, whose last digits rounding may move.
fn time(drive: &mut Mechanical, at_us: u64, request: &Request) -> u64 {
    let at = Timestamp::from_ns(at_us * 1000);
    let expected = drive.access(at, request);
    let time = drive.serve(at, request).time;
    assert_eq!(time, expected, "asking and serving agree");
    (time.as_ns() + 500) / 1000
}

#[test]
fn a_read_waits_for_its_sector_and_then_for_the_bus() {
    // Sector 3 begins at 3 ms; two sectors, 2 × 51.2 us of bus, 10 us completion.
    assert_eq!(time(&mut small(), 0, &request(Operation::Read, 3, 2)), 3000 + 2000 + 102 + 10);
    // At 2.95 ms it is too late for it, as the command takes 100 us.
    assert_eq!(time(&mut small(), 2950, &request(Operation::Read, 3, 1)), 13_000 - 2950 + 1000 + 51 + 10);
}

#[test]
fn a_seek_and_a_head_switch_run_side_by_side_and_writes_settle_longer() {
    // Cylinder 3, head 1, sector 0: track 7 begins 4 × 0.2 + 3 × 0.3 turns on, at 7 ms.
    let there = |operation| time(&mut small(), 0, &request(operation, 70, 1));
    assert_eq!(there(Operation::Read), 7000 + 1000 + 51 + 10);
    assert_eq!(there(Operation::Write), 7000 + 1000 + 20);
    // Ready at 100 + 2500 us from 4.39 ms on is just in time. A write is at 300 + 2500, but for the settling, from 4.15
    // ms on.
    assert_eq!(time(&mut small(), 4390, &request(Operation::Read, 70, 1)), 7000 - 4390 + 1000 + 51 + 10);
    assert_eq!(time(&mut small(), 4150, &request(Operation::Write, 70, 1)), 17_000 - 4150 + 1000 + 20);
}

#[test]
fn the_skew_of_a_group_stands_in_place_of_that_of_a_cylinder() {
    let group = |cylinder_skew: &str, group_skew: &str| {
        let zone = format!("cylinder_skew = {cylinder_skew}, spare_tracks = 4, group_skew = {group_skew}");
        let profile = Profile::parse("small", &SMALL.replace("cylinder_skew = 0.3", &zone)).unwrap();
        drive_of(&profile, &[])
    };
    // 39 ends the second cylinder and 40 begins the next group; seek of 2 ms, as a cylinder needs 0.2 turns.
    for (cylinder, group_skew, between) in [
        ("0.3", "0.6", 6000),
        ("0.3", "0.25", 2500),
        ("0.3", "0.1", 11_000),
        ("0.1", "0.6", 6000),
        ("0.1", "0.1", 11_000),
    ] {
        let drive = group(cylinder, group_skew);
        let turned = |lbn, sectors| drive.arm.rotation.time(drive.arm.mechanics.layout.extent(lbn, sectors).turned);
        assert_eq!((turned(39, 2).as_ns() + 500) / 1000, 2000 + between, "{cylinder} {group_skew}");
        let within = if cylinder == "0.3" { 3000 } else { 11_000 };
        assert_eq!((turned(19, 2).as_ns() + 500) / 1000, 2000 + within, "{cylinder} {group_skew}");
    }
    let few = SMALL.replace("cylinder_skew = 0.3", "cylinder_skew = 0.3, spare_tracks = 3, group_skew = 0.5");
    let error = Profile::parse("x", &few).unwrap_err().to_string();
    assert!(error.ends_with("zone 0: group_skew needs spare_tracks = 3 to be a multiple of 2"), "{error}");
}

#[test]
fn arm_stays_where_the_last_request_ended() {
    let mut drive = small();
    // Ends on head 1: 10 sectors, 2 ms of skew, 1 sector.
    assert_eq!(time(&mut drive, 0, &request(Operation::Read, 0, 11)), 10_000 + 10_000 + 2000 + 1000 + 563 + 10);
    assert_eq!((drive.standing.heads.cylinder, drive.standing.heads.head, drive.position().sector()), (0, 1, 11));
}

#[test]
fn no_request_panics() {
    let mut drive = small();
    for (lba, sectors) in [(0, 0), (79, 1), (80, 5), (u64::MAX >> 10, 1), (0, 1 << 20)] {
        drive.serve(Timestamp::MAX, &request(Operation::Write, lba, sectors));
        drive.between(Lba::new(lba), Lba::ZERO, Sectors::new(sectors));
    }
}

#[test]
fn a_bad_description_is_refused_with_its_line() {
    let refused = |from: &str, to: &str| {
        assert!(SMALL.contains(from), "{from}");
        Profile::parse("x", &SMALL.replacen(from, to, 1)).unwrap_err().to_string()
    };
    let at = |line: usize, problem: &str| format!("drive profile x at line {line}: {problem}");
    for (from, to, message) in [
        ("heads = 2", "heads = 0", at(43, "heads = 0 is not from 1 to 256")),
        ("heads = 2", "heads = -2", at(43, "invalid value: integer `-2`")),
        ("capacity_sectors = 80", "capacity_sectors = 81", at(46, "zone 0: addresses 0 to 81 do not fit 8 tracks")),
        ("head_skew = 0.2", "head_skew = 1.2", at(46, "zone 0: head_skew = 1.2 is not from 0 to below 1 turn")),
        ("head_skew = 0.2, ", "", at(46, "missing field `head_skew`")),
        ("first_lbn = 0", "first_lbn = 8", at(46, "zone 0: the first zone begins at address 0, not 8")),
        ("sectors_per_track = 10", "sectors_per_track = 0", at(46, "zone 0: sectors_per_track = 0 is not from 1")),
        ("cylinders = 4", "cylinders = 4, band_cylinders = 3", at(46, "zone 0: cylinders = 4 is not a multiple")),
        ("cylinders = 4", "cylinders = 4, band_cylinders = 2", at(46, "zone 0: band_skew is missing")),
        ("cylinders = 4", "cylinders = 4, band_skew = 0.1", at(46, "zone 0: band_skew without bands")),
        ("cylinders = 4", "cylinders = 4, spare_sectors = 10", at(46, "zone 0: spare_sectors = 10 leave nothing")),
        ("cylinders = 4", "cylinders = 4, slips = [[5, 1], [5, 2]]", at(46, "zone 0: slips must be")),
        ("cylinders = 4", "cylinders = 134217729", at(46, "zone 0: more than 268435456 tracks or")),
        ("first_cylinder = 0", "first_cylinder = 268435453", at(46, "zone 0: more than 268435456 tracks or")),
        ("[3, 2500.0]", "[3, 1500.0]", at(40, "points_us must be [cylinders, us]")),
        ("[1, 2000.0], ", "", at(40, "points_us must be [cylinders, us]")),
        ("2000.0", "-2000.0", at(40, "points_us must be [cylinders, us]")),
        ("[layout]\nsource = \"test\"", "[layout]\nsource = \" \"", at(42, "the source is empty")),
    ] {
        let error = refused(from, to);
        assert!(error.starts_with(&message), "{to}: {error}");
    }
    let zone = "  { first_lbn = 60, first_cylinder = 3, cylinders = 4, sectors_per_track = 10, head_skew = 0, \
                cylinder_skew = 0 },";
    let error = refused("cylinder_skew = 0.3 },", &format!("cylinder_skew = 0.3 }},\n{zone}"));
    assert_eq!(error, at(47, "zone 1: it begins at cylinder 3, inside the zone before"));
    // All zones count.
    let many = SMALL.replace("cylinders = 4", "cylinders = 134217725");
    let next = zone.replace("first_cylinder = 3", "first_cylinder = 134217725");
    let error = Profile::parse("x", &many.replacen("0.3 },", &format!("0.3 }},\n{next}"), 1)).unwrap_err().to_string();
    assert!(error.starts_with(&at(47, "zone 1: more than 268435456 tracks or")), "{error}");
    // Places beyond 2^64: of a zone far behind the one before, and of one that is nearly all spares.
    let far =
        format!("cylinder_skew = 0.3 }},\n{}", zone.replace("first_lbn = 60", "first_lbn = 18446744073709551615"));
    assert!(
        refused("cylinder_skew = 0.3 },", &far)
            .starts_with(&at(46, "zone 0: addresses 0 to 18446744073709551615 do not fit"))
    );
    let spares = SMALL
        .replace("capacity_sectors = 80", "capacity_sectors = 10000000000")
        .replace("cylinders = 4", "cylinders = 134217725, spare_tracks = 65535, spare_sectors = 4294901759")
        .replace("sectors_per_track = 10", "sectors_per_track = 65536");
    let error = Profile::parse("x", &spares).unwrap_err().to_string();
    assert!(error.starts_with(&at(46, "zone 0: addresses 0 to 10000000000 do not fit")), "{error}");
    let none = SMALL.split("zones = [").next().unwrap().to_owned() + "zones = []";
    let error = Profile::parse("x", &none).unwrap_err().to_string();
    assert_eq!(error, at(45, "a layout needs at least one zone"));
    let without = SMALL.split("[seek]").next().unwrap();
    let error = Profile::parse("x", without).unwrap_err().to_string();
    assert_eq!(error, "drive profile x at line 1: [seek] is missing: a mechanical drive needs it");
}
