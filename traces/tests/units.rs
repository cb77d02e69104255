//! Units in which a trace is read: those that are given are used, those that look wrong are refused,
//! and what a format has no use for is an error.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod support;

use iocast_traces::trace::{ReadOptions, ThinkTime, TimeUnit, UnitOverrides};
use iocast_traces::{Operation, VmId};
use support::published::{PUBLISHED, Published, ZERO_UNIX_NS, device, of, read, regular};
use support::{FIXTURES, data, read_as};

#[test]
fn what_a_format_has_no_use_for_is_refused() {
    let unit = |unit: fn(&mut UnitOverrides)| {
        let mut units = UnitOverrides::default();
        unit(&mut units);
        ReadOptions { units, ..ReadOptions::default() }
    };
    let choices = [
        ("--device", vec![device("nobody")]),
        ("--op", vec![ReadOptions { operation: Some(Operation::Write), ..ReadOptions::default() }]),
        // One of them at least is not the format's own.
        (
            "--time-unit",
            vec![
                unit(|units| units.time = Some(TimeUnit::Nanoseconds)),
                unit(|units| units.time = Some(TimeUnit::Milliseconds)),
            ],
        ),
        ("--address-unit", vec![unit(|units| units.address_bytes = Some(4096))]),
        ("--length-unit", vec![unit(|units| units.length_bytes = Some(4096))]),
        ("--think-time", vec![ReadOptions { think_time: Some(ThinkTime::Before), ..ReadOptions::default() }]),
    ];
    for (format, fixture) in FIXTURES {
        let plain = read_as(format, &data(fixture), &ReadOptions::default()).unwrap().records;
        for (option, variants) in &choices {
            // Of use if something is another, or cannot be read; else refused by name.
            let is_noticed = |options| match read_as(format, &data(fixture), options) {
                Ok(read) => read.records != plain,
                Err(error) => !error.to_string().contains("has no meaning") || error.to_string().contains(option),
            };
            assert!(variants.iter().any(is_noticed), "{format} takes {option} and does nothing with it");
        }
    }
}

#[test]
fn units_that_are_given_are_used() {
    for published in &PUBLISHED {
        let records = regular(4, 1_000_000_000);
        let bytes = published.write(&records, ZERO_UNIX_NS);
        let with = |change: fn(&mut UnitOverrides)| {
            let mut units = published.units();
            change(&mut units);
            read(published.format, &bytes, &ReadOptions { units, ..ReadOptions::default() })
        };
        let own = with(|_| ()).unwrap().records;
        let plain = read(published.format, &bytes, &ReadOptions::default()).unwrap().records;
        assert_eq!(own, plain, "{}", published.format);

        // Addresses and lengths of bytes are cut by 4096 without a remainder only where they are 4-KiB blocks.
        let blocks =
            with(|units| (units.address_bytes, units.length_bytes) = (Some(4096), Some(4096))).unwrap().records;
        for (own, blocks) in own.iter().zip(&blocks) {
            let times = |unit: u32| 4096 / u64::from(unit);
            let expected = own.request.lba.sector() * times(published.address_bytes);
            assert_eq!(blocks.request.lba.sector(), expected, "{}", published.format);
            let expected = own.request.sectors().count() * times(published.length_bytes);
            assert_eq!(blocks.request.sectors().count(), expected, "{}", published.format);
        }
        let bytes_again = with(|units| units.address_bytes = Some(1));
        match published.address_bytes {
            1 => assert_eq!(bytes_again.unwrap().records, own, "{}", published.format),
            _ => assert!(bytes_again.unwrap_err().to_string().contains("--address-unit"), "{}", published.format),
        }
    }
}

#[test]
fn a_time_unit_that_is_given_is_used() {
    for published in &PUBLISHED {
        let records = regular(4, 1_000_000_000);
        // Small numbers, so that nothing is too late in any unit; a given unit is not doubted.
        let bytes = Published { zero_to_unix_ns: None, ..*published }.write(&records, 0);
        for unit in TimeUnit::ALL.into_iter().filter(|_| published.format != "spc") {
            let units = UnitOverrides { time: Some(unit), ..UnitOverrides::default() };
            let whole = read(published.format, &bytes, &ReadOptions { units, ..ReadOptions::default() });
            let whole = whole.unwrap_or_else(|error| panic!("{} {}: {error}", published.format, unit.name()));
            let seconds = 10u64.pow(TimeUnit::Seconds.decimals() - published.time.decimals());
            let step = seconds * 10u64.pow(unit.decimals());
            let arrivals: Vec<u64> = whole.records.iter().map(|record| record.request.arrival.as_ns()).collect();
            assert_eq!(arrivals, (0..4).map(|at| at * step).collect::<Vec<_>>(), "{}", published.format);
        }
    }
}

/// A file of the format with its times in another unit.
fn timed(published: &Published, unit: TimeUnit, step_ns: u64) -> Vec<u8> {
    let records = regular(64, step_ns);
    Published { time: unit, ..*published }.write(&records, ZERO_UNIX_NS)
}

#[test]
fn a_wrong_unit_of_time_is_refused_whether_lenient_or_not() {
    use TimeUnit::{HundredNanoseconds, Microseconds, Milliseconds, Nanoseconds, Seconds};
    for (format, unit, step_ns, doubt, fits) in [
        ("msr", Microseconds, 1_000_000, "in the year 1642", "us"),
        ("msr", Nanoseconds, 1_000_000, "after more than 580 years", "ns"),
        ("alibaba", Milliseconds, 1_000_000, "in the year 1970", "ms"),
        ("alibaba", Nanoseconds, 1_000_000, "after more than 580 years", "ns"),
        ("tencent", Milliseconds, 1_000_000, "after more than 580 years", "ms"),
        ("fiu", Seconds, 1_000_000_000, "arrive 1 ns apart", "us"),
        ("fiu", HundredNanoseconds, 1_000_000, "arrive 1.0 us apart", ""),
        ("oracle-general", Milliseconds, 100_000_000, "arrive 100 s apart", "ms"),
    ] {
        let published = of(format);
        let bytes = timed(published, unit, step_ns);
        if fits.is_empty() {
            // A factor of 100 that lies within the range of disks: no doubt is possible.
            assert!(read(format, &bytes, &ReadOptions::default()).is_ok(), "{format} in {}: {doubt}", unit.name());
            continue;
        }
        for lenient in [false, true] {
            let error = read(format, &bytes, &ReadOptions { lenient, ..ReadOptions::default() }).unwrap_err();
            let message = error.to_string();
            assert!(message.contains(doubt), "{format} in {}: {message}", unit.name());
            assert!(message.contains(&format!("read it with --time-unit {fits}, or --time-unit ")), "{message}");
        }
        let units = UnitOverrides { time: Some(unit), ..UnitOverrides::default() };
        let whole = read(format, &bytes, &ReadOptions { units, ..ReadOptions::default() }).unwrap();
        assert_eq!(whole.records[1].request.arrival.since(whole.records[0].request.arrival).as_ns(), step_ns);
    }
}

#[test]
fn a_wrong_unit_of_lengths_or_addresses_is_refused_whether_lenient_or_not() {
    for (format, address_bytes, length_bytes, doubt) in [
        ("msr", 1, 512, "the unit of addresses (bytes) or lengths (bytes) looks wrong"),
        ("msr", 512, 1, "the unit of addresses (bytes) or lengths (bytes) looks wrong"),
        ("alibaba", 512, 512, "the unit of addresses (bytes) or lengths (bytes) looks wrong"),
        ("oracle-general", 512, 1, "the unit of addresses (bytes) or lengths (bytes) looks wrong"),
        ("spc", 512, 512, "the unit of addresses (sectors) or lengths (bytes) looks wrong"),
        ("spc", 1, 1, "the unit of addresses looks wrong: in sectors"),
        ("fiu", 512, 1, "the unit of lengths looks wrong: in sectors"),
        ("fiu", 1, 512, "the unit of addresses looks wrong: in sectors"),
        ("tencent", 512, 1, "the unit of lengths looks wrong: in sectors"),
        ("tencent", 1, 512, "the unit of addresses looks wrong: in sectors"),
    ] {
        let published = of(format);
        let units = UnitOverrides { time: None, address_bytes: Some(address_bytes), length_bytes: Some(length_bytes) };
        let records = regular(64, 2_000_000_000);
        let bytes = Published { address_bytes, length_bytes, ..*published }.write(&records, ZERO_UNIX_NS);
        for lenient in [false, true] {
            let error = read(format, &bytes, &ReadOptions { lenient, ..ReadOptions::default() }).unwrap_err();
            assert!(error.to_string().contains(doubt), "{format}: {error}");
        }
        let whole = read(format, &bytes, &ReadOptions { units, ..ReadOptions::default() }).unwrap();
        let expected = read(format, &published.write(&records, ZERO_UNIX_NS), &ReadOptions::default()).unwrap();
        assert_eq!(whole.records, expected.records, "{format}");
    }
}

#[test]
fn a_device_that_is_asked_for_does_not_hide_a_wrong_unit() {
    // One request of the device among many of others.
    for published in PUBLISHED.iter().filter(|published| published.has_devices) {
        let mut records = regular(64, 2_000_000_000);
        records[40].request.vm = VmId(9);
        let bytes = Published { address_bytes: 1, length_bytes: 1, ..*published };
        let bytes = if published.address_bytes == 1 { Published { address_bytes: 512, ..bytes } } else { bytes };
        let bytes = bytes.write(&records, ZERO_UNIX_NS);
        let error = read(published.format, &bytes, &device(&published.device(9))).unwrap_err().to_string();
        assert!(error.contains("looks wrong"), "{error}");
    }
}
