//! Each rule on both sides of its bound.

use super::*;
use crate::formats::scale::Units;
use crate::record::Observed;
use crate::request::{Operation, Request};
use crate::trace::UnitOverrides;
use crate::units::{Lba, Sectors, Timestamp};

const BYTES: u32 = 1;
const SECTORS: u32 = 512;
const N: u64 = RECORDS_MIN as u64;

fn scale(address_bytes: u32, length_bytes: u32) -> Scale {
    Scale::new(Units { time: TimeUnit::Seconds, address_bytes, length_bytes }, UnitOverrides::default())
}

/// Records of 8 sectors at odd addresses, 1 ms apart, changed as the test wants.
fn sample(count: u64, change: impl Fn(u64, &mut Record)) -> Sample {
    let mut sample = Sample::default();
    for at in 0..count {
        let arrival = Timestamp::from_ns(at * 1_000_000);
        let request = Request::new(arrival, Operation::Read, Lba::new(2 * at + 1), Sectors::new(8));
        let mut record = Record::arrived(request);
        change(at, &mut record);
        sample.add(&Ok(Some(record)));
    }
    sample
}

fn arriving(arrival_ns: impl Fn(u64) -> u64) -> Sample {
    sample(N, |at, record| record.request.arrival = Timestamp::from_ns(arrival_ns(at)))
}

fn doubt(sample: &Sample, scale: &Scale) -> String {
    sample.doubt(scale, None).map(|Doubt { what, remedy }| format!("{what}; {remedy}")).unwrap_or_default()
}

#[test]
fn gaps_of_a_disk_that_works_are_not_doubted() {
    let scale = scale(SECTORS, SECTORS);
    for gap in [GAP_MIN.as_ns(), 1_000_000, GAP_MAX.as_ns()] {
        assert_eq!(doubt(&arriving(|at| at * gap), &scale), "", "{gap}");
    }
    let beyond = doubt(&arriving(|at| at * (GAP_MAX.as_ns() + 1)), &scale);
    assert_eq!(
        beyond,
        "the time unit looks wrong: in s the first 16 requests arrive 10.0 s apart in the mean, in ms it would be \
         10.0 ms; read it with --time-unit ms, or --time-unit s if it is right all the same"
    );
    let below = doubt(&arriving(|at| at * (GAP_MIN.as_ns() - 1)), &scale);
    assert!(below.contains("99 ns apart") && below.contains("--time-unit s if"), "{below}");
    let fine = scale.with_time(TimeUnit::Nanoseconds);
    let below = doubt(&arriving(|at| at * (GAP_MIN.as_ns() - 1)), &fine);
    assert!(below.contains("in us it would be 99.0 us; read it with --time-unit us"), "{below}");
}

#[test]
fn one_long_gap_one_tick_and_few_records_say_nothing() {
    let scale = scale(SECTORS, SECTORS);
    let night = 40_000_000_000_000;
    assert_eq!(doubt(&arriving(|at| at * 1_000 + if at > 8 { night } else { 0 }), &scale), "");
    assert_eq!(doubt(&arriving(|_| 5), &scale), "");
    assert_eq!(doubt(&arriving(|at| at / 8), &scale), "");
    let few = sample(N - 1, |at, record| record.request.arrival = Timestamp::from_ns(at * night));
    assert_eq!(doubt(&few, &scale), "");
}

#[test]
fn response_times_of_a_device_are_not_doubted() {
    let scale = scale(SECTORS, SECTORS);
    let answering = |ns: u64| {
        sample(N, move |at, record| {
            // One in three is something else; the median is not.
            let ns = if at % 3 == 0 { 1_000 } else { ns };
            let completed = Some(record.request.arrival + Nanos::from_ns(ns));
            record.observed = Observed { completed, ..Observed::default() };
        })
    };
    for ns in [0, RESPONSE_MIN.as_ns(), RESPONSE_MAX.as_ns()] {
        assert_eq!(doubt(&answering(ns), &scale), "", "{ns}");
    }
    let beyond = doubt(&answering(RESPONSE_MAX.as_ns() + 1), &scale);
    assert!(beyond.contains("response time of the first 16 requests is 600 s, in ms"), "{beyond}");
    assert!(doubt(&answering(RESPONSE_MIN.as_ns() - 1), &scale).contains("is 99 ns"));
}

#[test]
fn dates_are_of_this_time_or_the_unit_is_named_in_which_they_are() {
    let at = |seconds: u64| arriving(move |_| seconds * 1_000_000_000);
    let scale = scale(SECTORS, SECTORS);
    let of = |sample: Sample, scale: Scale| {
        let doubt = sample.doubt(&scale, Some(0));
        doubt.map(|Doubt { what, remedy }| format!("{what}; {remedy}")).unwrap_or_default()
    };
    // 1 January 1995 and 2100.
    let (first, end) = (788_918_400, 4_102_444_800);
    for seconds in [first, end - 1] {
        assert_eq!(of(at(seconds), scale), "", "{seconds}");
    }
    for seconds in [0, first - 1, end] {
        assert!(of(at(seconds), scale).contains("the time unit looks wrong"), "{seconds}");
    }
    let thousandth = of(at(1_577_808), scale.with_time(TimeUnit::Microseconds));
    assert!(thousandth.contains("in us the first requests arrive in the year 1970, in ms in 2019"), "{thousandth}");
    assert!(thousandth.contains("read it with --time-unit ms, or --time-unit us"), "{thousandth}");
    // One bad record is another's business.
    let one_bad = arriving(|at| if at == 0 { 0 } else { first * 1_000_000_000 });
    assert_eq!(of(one_bad, scale), "");
    // Windows file time begins in 1601.
    let windows = at(12_816_637_200).doubt(&scale, Some(-11_644_473_600));
    assert_eq!(windows, None);
}

#[test]
fn dates_beyond_what_can_be_counted_are_read_again_in_other_units() {
    let used = scale(SECTORS, SECTORS);
    let micros = |scale: Scale| {
        let mut sample = Sample::default();
        for at in 0..N {
            let time = scale.whole_time("t", 1_577_808_000_000_000 + at).map(Timestamp::from_ns);
            let record = time.map(|time| Request::new(time, Operation::Read, Lba::ZERO, Sectors::new(8)));
            sample.add(&record.map(|request| Some(Record::arrived(request))));
        }
        sample
    };
    let error = judge(Path::new("x"), &used, Some(0), micros).unwrap_err().to_string();
    assert!(error.contains("in s the first requests arrive after more than 580 years"), "{error}");
    assert!(error.contains("read it with --time-unit us"), "{error}");
    let right = used.with_time(TimeUnit::Microseconds);
    assert!(judge(Path::new("x"), &right, Some(0), micros).is_ok());
}

#[test]
fn long_lengths_in_steps_of_512_are_bytes() {
    let lengths = |sectors: u64, one: u64| {
        sample(N, move |at, record| record.request.set_sectors(Sectors::new(if at == 3 { one } else { sectors })))
    };
    let suspect = doubt(&lengths(4096, 8192), &scale(SECTORS, SECTORS));
    assert!(suspect.contains("in sectors the median of the first 16 is 2048 KiB"), "{suspect}");
    assert!(suspect.contains("--length-unit bytes, or --length-unit sectors"), "{suspect}");
    assert_eq!(doubt(&lengths(3584, 8192), &scale(SECTORS, SECTORS)), "");
    assert_eq!(doubt(&lengths(4096, 4097), &scale(SECTORS, SECTORS)), "");
    assert_eq!(doubt(&lengths(4096, 8192), &scale(SECTORS, BYTES)), "");
    assert!(doubt(&lengths(8 * 4096, 8 * 512), &scale(SECTORS, 4096)).contains("in 4k the median"));
}

#[test]
fn addresses_in_steps_of_4096_under_short_requests_are_bytes() {
    let addresses = |step: u64, sectors: u64| {
        sample(N, move |at, record| {
            record.request.lba = Lba::new(at * step);
            record.request.set_sectors(Sectors::new(sectors));
        })
    };
    let suspect = doubt(&addresses(4096, 4095), &scale(SECTORS, BYTES));
    assert!(suspect.contains("the first 16 different ones are all whole multiples of 4096"), "{suspect}");
    assert!(suspect.contains("--address-unit bytes, or --address-unit sectors"), "{suspect}");
    assert_eq!(doubt(&addresses(4096, 4096), &scale(SECTORS, BYTES)), "");
    assert_eq!(doubt(&addresses(2048, 8), &scale(SECTORS, BYTES)), "");
    assert_eq!(doubt(&addresses(4096, 8), &scale(BYTES, BYTES)), "");
    let same = sample(2 * N, |at, record| record.request.lba = Lba::new(at % (N - 1) * 4096));
    assert_eq!(doubt(&same, &scale(SECTORS, BYTES)), "");
}

#[test]
fn most_records_within_sectors_are_in_another_unit() {
    let mixed = |bad: u64, good: u64| {
        let mut sample = sample(good, |_, _| ());
        for _ in 0..bad {
            let scale = scale(BYTES, BYTES);
            sample.add(&scale.extent(8, 8).map(|_| None));
        }
        sample
    };
    let suspect = doubt(&mixed(9, 7), &scale(BYTES, BYTES));
    assert!(suspect.contains("9 of the first 16 requests"), "{suspect}");
    assert_eq!(doubt(&mixed(8, 8), &scale(BYTES, BYTES)), "");
    assert_eq!(doubt(&mixed(N - 1, 0), &scale(BYTES, BYTES)), "");
}

#[test]
fn a_unit_that_is_given_is_not_doubted() {
    let own = Units { time: TimeUnit::Seconds, address_bytes: SECTORS, length_bytes: SECTORS };
    let slow = arriving(|at| at * 1_000_000_000_000);
    let long = sample(N, |_, record| record.request.set_sectors(Sectors::new(4096)));
    let apart = sample(N, |at, record| record.request.lba = Lba::new(at * 4096));
    for (sample, given) in [
        (slow, UnitOverrides { time: Some(TimeUnit::Seconds), ..UnitOverrides::default() }),
        (long, UnitOverrides { length_bytes: Some(SECTORS), ..UnitOverrides::default() }),
        (apart, UnitOverrides { address_bytes: Some(SECTORS), ..UnitOverrides::default() }),
    ] {
        assert_ne!(sample.doubt(&Scale::new(own, UnitOverrides::default()), None), None);
        assert_eq!(sample.doubt(&Scale::new(own, given), None), None);
    }
}
