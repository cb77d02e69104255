//! Doubts about units. A mistake by a factor of a thousand shows at once in the figures of the first records, and
//! nowhere else until a wrong forecast has been believed.
//!
//! The rules are few and wide, so that a unit that they refuse is almost surely wrong. A trace that is right all the
//! same is read with its unit given, since a given unit is not doubted. Each rule needs [`RECORDS_MIN`] records.

use std::fmt::Write as _;
use std::ops::{Range, RangeInclusive};
use std::path::Path;

use crate::error::{Place, ReadError};
use crate::formats::check::Bad;
use crate::formats::scale::Scale;
use crate::record::Record;
use crate::trace::TimeUnit;
use crate::units::{Nanos, SECTOR_BYTES};

/// Fewer records show too little: a handful of requests may well lie a minute apart, or be all large.
const RECORDS_MIN: usize = 16;
/// Mean gap between arrivals at most. A disk is worth tracing only when it does something. A second taken for a
/// millisecond's unit makes gaps of 1 to 100 ms into gaps of 1 to 100 s.
const GAP_MAX: Nanos = Nanos::from_s(10);
/// Mean gap at least: ten million requests a second, more than any single device takes.
const GAP_MIN: Nanos = Nanos::from_ns(100);
/// Median response at most: SCSI and NVMe commands time out after 30 to 60 s, a few retries fit.
const RESPONSE_MAX: Nanos = Nanos::from_s(600);
/// Median response at least: not even memory behind a hypervisor answers a request in 100 ns.
const RESPONSE_MIN: Nanos = Nanos::from_ns(100);
/// Median length from which bytes may have been taken for sectors. Requests are split at 1,280 KiB by Linux's default
/// and at 1 or 2 MiB by most hypervisors. One page, taken for sectors, is 4096 of them.
const LENGTH_SUSPECT_SECTORS: u64 = (2 << 20) / SECTOR_BYTES;
/// Every length is a multiple of this many units if it is in bytes: those of a sector.
const LENGTH_STEP_UNITS: u64 = SECTOR_BYTES;
/// Every address is a multiple of this many units if it is in bytes of a file system's pages. In
/// sectors that is 2 MiB, to which hardly anybody aligns shorter requests.
const ADDRESS_STEP_UNITS: u64 = 4096;
/// Unix times of 1 January 1995 and 2100, between which traces are taken. Any two units of time differ by a factor of
/// ten at least, and the ends of this century by five. A date in this century is therefore no date in it in another
/// unit.
pub(crate) const DATES_S: Range<i128> = 788_918_400..4_102_444_800;

/// Figures of the first records of a trace.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    arrivals: Vec<u64>,
    responses: Vec<u64>,
    /// First sectors and sectors of the records that have any.
    extents: Vec<(u64, u64)>,
    /// Records refused because their address or length is no whole number of sectors.
    no_sectors: usize,
    /// Records refused because their time cannot be counted in nanoseconds.
    no_times: usize,
}

/// A unit that looks wrong.
#[derive(Debug, PartialEq, Eq)]
struct Doubt {
    what: String,
    remedy: String,
}

/// Doubts a unit of `scale` that was not given. `sample` takes the first records in the units it is
/// given; `epoch_unix_s` is the Unix time of the zero of arrivals that are dates.
///
/// # Errors
/// The doubt, with its figures and the option that overrides it.
pub(crate) fn judge(
    path: &Path,
    scale: &Scale,
    epoch_unix_s: Option<i64>,
    sample: impl Fn(Scale) -> Sample,
) -> Result<(), ReadError> {
    let first = sample(*scale);
    let doubt = if first.is_beyond() {
        let fits = TimeUnit::ALL.into_iter().find(|&unit| {
            let scale = scale.with_time(unit);
            let again = sample(scale);
            !again.is_beyond() && again.times(&scale, epoch_unix_s).is_none()
        });
        let used = scale.units().time;
        let what = format!(
            "the time unit looks wrong: in {} the first requests arrive after more than 580 years",
            used.name()
        );
        Some(Doubt { what, remedy: time_remedy(used, fits) })
    } else {
        first.doubt(scale, epoch_unix_s)
    };
    match doubt {
        None => Ok(()),
        Some(Doubt { what, remedy }) => Err(ReadError::malformed(path, Place::Whole, what).remedy(remedy)),
    }
}

impl Sample {
    /// Looks at one more record, or at why there is none.
    pub(crate) fn add(&mut self, parsed: &Result<Option<Record>, Bad>) {
        match parsed {
            Ok(Some(record)) => {
                self.arrivals.push(record.request.arrival.as_ns());
                self.responses.extend(record.response_time().map(Nanos::as_ns));
                let sectors = record.request.sectors().count();
                if sectors > 0 {
                    self.extents.push((record.request.lba.sector(), sectors));
                }
            }
            Err(bad) if bad.reason == Bad::NO_SECTORS => self.no_sectors += 1,
            Err(bad) if bad.reason == Bad::NO_TIME => self.no_times += 1,
            Ok(None) | Err(_) => {}
        }
    }

    /// A doubt about a unit of `scale` that was not given.
    fn doubt(&self, scale: &Scale, epoch_unix_s: Option<i64>) -> Option<Doubt> {
        let given = scale.given();
        (given.time.is_none().then(|| self.times(scale, epoch_unix_s)).flatten())
            .or_else(|| self.partial_sectors(scale))
            .or_else(|| given.length_bytes.is_none().then(|| self.lengths(scale)).flatten())
            .or_else(|| given.address_bytes.is_none().then(|| self.addresses(scale)).flatten())
    }

    fn times(&self, scale: &Scale, epoch_unix_s: Option<i64>) -> Option<Doubt> {
        let arrivals = match epoch_unix_s {
            Some(epoch) => self.dates(scale, epoch),
            None => self.gaps(scale),
        };
        arrivals.or_else(|| self.responses(scale))
    }

    /// Whether most of the records have times too large to be counted.
    fn is_beyond(&self) -> bool {
        let all = self.no_times + self.arrivals.len();
        all >= RECORDS_MIN && self.no_times * 2 > all
    }

    /// The mean gap, but for the longest: a disk that then sleeps over the night is no doubt.
    fn gaps(&self, scale: &Scale) -> Option<Doubt> {
        if self.arrivals.len() < RECORDS_MIN {
            return None;
        }
        let mut arrivals = self.arrivals.clone();
        arrivals.sort_unstable();
        let gaps = arrivals.windows(2).map(|pair| pair[1] - pair[0]);
        let number = arrivals.len() as u64 - 2;
        let sum = gaps.clone().sum::<u64>() - gaps.max()?;
        // All (but for one gap) in one tick of a coarse clock says nothing.
        let mean = sum / number;
        let usual = GAP_MIN.as_ns()..=GAP_MAX.as_ns();
        let what = format!("the first {} requests arrive {} apart in the mean", arrivals.len(), span(mean));
        (sum > 0 && !usual.contains(&mean)).then(|| time_doubt(scale, &what, mean, &usual))
    }

    fn responses(&self, scale: &Scale) -> Option<Doubt> {
        let median = median(self.responses.iter().copied())?;
        let usual = RESPONSE_MIN.as_ns()..=RESPONSE_MAX.as_ns();
        let what =
            format!("the median response time of the first {} requests is {}", self.responses.len(), span(median));
        (median > 0 && !usual.contains(&median)).then(|| time_doubt(scale, &what, median, &usual))
    }

    /// The median date: one bad record does not make it.
    fn dates(&self, scale: &Scale, epoch_unix_s: i64) -> Option<Doubt> {
        let median = u128::from(median(self.arrivals.iter().copied())?);
        let used = scale.units().time;
        let date_s = |unit: TimeUnit| {
            let ns = median * 10u128.pow(unit.decimals()) / 10u128.pow(used.decimals());
            (ns / 1_000_000_000) as i128 + i128::from(epoch_unix_s)
        };
        if DATES_S.contains(&date_s(used)) {
            return None;
        }
        let year = |unit| 1970 + date_s(unit).div_euclid(31_556_952);
        let mut what = format!(
            "the time unit looks wrong: in {} the first requests arrive in the year {}",
            used.name(),
            year(used)
        );
        let fits = TimeUnit::ALL.into_iter().find(|&unit| DATES_S.contains(&date_s(unit)));
        if let Some(unit) = fits {
            let _ = write!(what, ", in {} in {}", unit.name(), year(unit));
        }
        Some(Doubt { what, remedy: time_remedy(used, fits) })
    }

    /// Numbers of bytes that are no sectors are most likely numbers of something else.
    fn partial_sectors(&self, scale: &Scale) -> Option<Doubt> {
        let all = self.no_sectors + self.arrivals.len();
        if all < RECORDS_MIN || self.no_sectors * 2 <= all {
            return None;
        }
        let units = scale.units();
        let what = format!(
            "the unit of addresses ({}) or lengths ({}) looks wrong: {} of the first {all} requests do not begin and end \
             at whole {SECTOR_BYTES}-byte sectors",
            data_unit(units.address_bytes),
            data_unit(units.length_bytes),
            self.no_sectors
        );
        Some(Doubt { what, remedy: "say what they are in with --address-unit and --length-unit".to_owned() })
    }

    fn lengths(&self, scale: &Scale) -> Option<Doubt> {
        let unit = u64::from(scale.units().length_bytes);
        let median = median(self.extents.iter().map(|&(_, sectors)| sectors))?;
        let in_steps = |&(_, sectors): &(u64, u64)| (sectors * SECTOR_BYTES).is_multiple_of(LENGTH_STEP_UNITS * unit);
        if unit == 1 || median < LENGTH_SUSPECT_SECTORS || !self.extents.iter().all(in_steps) {
            return None;
        }
        let what = format!(
            "the unit of lengths looks wrong: in {} the median of the first {} is {} KiB, and all are whole multiples of \
             {LENGTH_STEP_UNITS}, as lengths in bytes are",
            data_unit(scale.units().length_bytes),
            self.extents.len(),
            median * SECTOR_BYTES / 1024
        );
        Some(Doubt { what, remedy: data_remedy("--length-unit", scale.units().length_bytes) })
    }

    fn addresses(&self, scale: &Scale) -> Option<Doubt> {
        let unit = u128::from(scale.units().address_bytes);
        let step = u128::from(ADDRESS_STEP_UNITS) * unit;
        let bytes = |sectors: u64| u128::from(sectors) * u128::from(SECTOR_BYTES);
        let mut addresses: Vec<u64> = self.extents.iter().map(|&(lba, _)| lba).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let in_steps = addresses.iter().all(|&lba| bytes(lba).is_multiple_of(step));
        let shorter = self.extents.iter().any(|&(_, sectors)| bytes(sectors) < step);
        if unit == 1 || addresses.len() < RECORDS_MIN || !in_steps || !shorter {
            return None;
        }
        let what = format!(
            "the unit of addresses looks wrong: in {} the first {} different ones are all whole multiples of \
             {ADDRESS_STEP_UNITS}, as addresses in bytes are, while requests are shorter than that",
            data_unit(scale.units().address_bytes),
            addresses.len()
        );
        Some(Doubt { what, remedy: data_remedy("--address-unit", scale.units().address_bytes) })
    }
}

/// The middle value, the lower of two, of enough values.
fn median(values: impl Iterator<Item = u64>) -> Option<u64> {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    if values.len() < RECORDS_MIN { None } else { Some(values[(values.len() - 1) / 2]) }
}

/// A doubt about a span of `ns` that is not within the `usual` range.
fn time_doubt(scale: &Scale, what: &str, ns: u64, usual: &RangeInclusive<u64>) -> Doubt {
    let used = scale.units().time;
    let in_unit = |unit: TimeUnit| u128::from(ns) * 10u128.pow(unit.decimals()) / 10u128.pow(used.decimals());
    let fits = |unit: &TimeUnit| u64::try_from(in_unit(*unit)).is_ok_and(|ns| usual.contains(&ns));
    // The nearest unit that fits: a shorter one where the span is too long. 100 ns are Windows' alone.
    let mut usual_units = TimeUnit::ALL.into_iter().filter(|&unit| unit != TimeUnit::HundredNanoseconds);
    let fitting = if ns > *usual.end() { usual_units.find(fits) } else { usual_units.rfind(fits) };
    let mut what = format!("the time unit looks wrong: in {} {what}", used.name());
    if let Some(unit) = fitting {
        let ns = u64::try_from(in_unit(unit)).unwrap_or(u64::MAX);
        let _ = write!(what, ", in {} it would be {}", unit.name(), span(ns));
    }
    Doubt { what, remedy: time_remedy(used, fitting) }
}

fn time_remedy(used: TimeUnit, fits: Option<TimeUnit>) -> String {
    let keep = format!("--time-unit {} if it is right all the same", used.name());
    fits.map_or(keep.clone(), |unit| format!("read it with --time-unit {}, or {keep}", unit.name()))
}

fn data_remedy(option: &str, used: u32) -> String {
    format!("read it with {option} bytes, or {option} {} if it is right all the same", data_unit(used))
}

fn data_unit(bytes: u32) -> String {
    match bytes {
        1 => "bytes".to_owned(),
        512 => "sectors".to_owned(),
        _ if bytes.is_multiple_of(1024) => format!("{}k", bytes / 1024),
        _ => bytes.to_string(),
    }
}

/// A span for people: three digits and a unit.
fn span(ns: u64) -> String {
    let (unit, name) = match ns {
        0..1_000 => (1.0, "ns"),
        1_000..1_000_000 => (1e3, "us"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let value = ns as f64 / unit;
    let decimals = if value >= 100.0 || name == "ns" { 0 } else { 1 };
    format!("{value:.decimals$} {name}")
}

#[cfg(test)]
mod tests;
