//! From the units of a file to nanoseconds and 512-byte sectors, exactly or not at all.

use crate::error::Problem;
use crate::formats::check::{self, Bad};
use crate::formats::number::{self, decimal};
use crate::trace::{TimeUnit, UnitOverrides};
use crate::units::{Lba, SECTOR_BYTES, Sectors};

/// The units of a format, unless a user gives others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Units {
    /// Of points and spans of time.
    pub(crate) time: TimeUnit,
    /// Of addresses, in bytes.
    pub(crate) address_bytes: u32,
    /// Of lengths, in bytes.
    pub(crate) length_bytes: u32,
}

/// The units in which one trace is read, and which of them its user gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    units: Units,
    given: UnitOverrides,
}

impl Scale {
    /// A format's own units, but for those that are given.
    pub(crate) fn new(own: Units, given: UnitOverrides) -> Scale {
        let units = Units {
            time: given.time.unwrap_or(own.time),
            address_bytes: given.address_bytes.unwrap_or(own.address_bytes),
            length_bytes: given.length_bytes.unwrap_or(own.length_bytes),
        };
        Scale { units, given }
    }

    /// The units in use.
    pub(crate) fn units(&self) -> Units {
        self.units
    }

    /// Those of them that were given, which are not doubted.
    pub(crate) fn given(&self) -> UnitOverrides {
        self.given
    }

    /// The same with times in another unit.
    pub(crate) fn with_time(mut self, unit: TimeUnit) -> Scale {
        self.units.time = unit;
        self
    }

    /// A field that holds a point or a span of time: its nanoseconds.
    #[inline]
    pub(crate) fn time(&self, name: &str, field: &[u8]) -> Result<u64, Bad> {
        self.fine_time(name, field, 0)
    }

    /// The same in units of 10^-`more` ns.
    #[inline]
    pub(crate) fn fine_time(&self, name: &str, field: &[u8], more: u32) -> Result<u64, Bad> {
        decimal(name, field, self.units.time.decimals() + more).map_err(|bad| self.time_bad(bad))
    }

    /// The nanoseconds of a time in whole units.
    #[inline]
    pub(crate) fn whole_time(&self, name: &str, units: u64) -> Result<u64, Bad> {
        let ns = units.checked_mul(10u64.pow(self.units.time.decimals()));
        ns.ok_or_else(|| self.time_bad(number::too_large(name, &units.to_string())))
    }

    /// Says of a time that is too large which option may help.
    #[cold]
    fn time_bad(&self, bad: Bad) -> Bad {
        if bad.reason != Bad::TOO_LARGE {
            return bad;
        }
        let what = format!("{} in {} (--time-unit says what it is in)", bad.problem, self.units.time.name());
        Bad { problem: Problem::Malformed(what), reason: Bad::NO_TIME }
    }

    /// The sectors of a request from its address and length as they stand in the file.
    #[inline]
    pub(crate) fn extent(&self, address: u64, length: u64) -> Result<(Lba, Sectors), Bad> {
        let lba = sectors(address, self.units.address_bytes).map_err(|what| what.bad("address", address))?;
        let sectors = sectors(length, self.units.length_bytes).map_err(|what| what.bad("length", length))?;
        check::extent(lba, sectors)
    }
}

/// Why a number of units is no number of sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoSectors {
    /// It ends within a sector.
    Partial,
    /// There are more than can be counted.
    TooMany,
}

impl NoSectors {
    #[cold]
    fn bad(self, what: &str, value: u64) -> Bad {
        match self {
            NoSectors::Partial => Bad {
                reason: Bad::NO_SECTORS,
                ..Bad::malformed(format!(
                    "{what} {value} is no whole number of {SECTOR_BYTES}-byte sectors (--{what}-unit says what it is \
                     in: bytes, sectors or a block's size)"
                ))
            },
            NoSectors::TooMany => Bad::malformed(format!("{what} {value} is too large")),
        }
    }
}

/// The sectors in `value` units of `unit_bytes`.
#[inline]
fn sectors(value: u64, unit_bytes: u32) -> Result<u64, NoSectors> {
    let sector_bytes = SECTOR_BYTES as u32;
    if unit_bytes == 1 {
        return if value.is_multiple_of(SECTOR_BYTES) { Ok(value / SECTOR_BYTES) } else { Err(NoSectors::Partial) };
    }
    if unit_bytes.is_multiple_of(sector_bytes) {
        return value.checked_mul(u64::from(unit_bytes / sector_bytes)).ok_or(NoSectors::TooMany);
    }
    let bytes = u128::from(value) * u128::from(unit_bytes);
    if !bytes.is_multiple_of(u128::from(SECTOR_BYTES)) {
        return Err(NoSectors::Partial);
    }
    u64::try_from(bytes / u128::from(SECTOR_BYTES)).map_err(|_| NoSectors::TooMany)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_become_sectors_exactly_or_not_at_all() {
        for (value, unit_bytes, expected) in [
            (0, 1, Ok(0)),
            (512, 1, Ok(1)),
            (u64::MAX - 511, 1, Ok(u64::MAX >> 9)),
            (511, 1, Err(NoSectors::Partial)),
            (513, 1, Err(NoSectors::Partial)),
            (7, 512, Ok(7)),
            (u64::MAX, 512, Ok(u64::MAX)),
            (7, 4096, Ok(56)),
            (u64::MAX >> 3, 4096, Ok(u64::MAX - 7)),
            ((u64::MAX >> 3) + 1, 4096, Err(NoSectors::TooMany)),
            // Not offered by the command line, but nothing to fall over.
            (3, 1000, Err(NoSectors::Partial)),
            (64, 1000, Ok(125)),
            (u64::MAX - 63, 1000, Err(NoSectors::TooMany)),
            (8, 0, Ok(0)),
        ] {
            assert_eq!(sectors(value, unit_bytes), expected, "{value} of {unit_bytes} bytes");
        }
    }

    #[test]
    fn given_units_override_those_of_the_format() {
        let own = Units { time: TimeUnit::Seconds, address_bytes: 512, length_bytes: 1 };
        let scale = Scale::new(own, UnitOverrides::default());
        assert_eq!(scale.units(), own);
        assert_eq!(scale.time("t", b"1.5").unwrap(), 1_500_000_000);
        assert_eq!(scale.extent(8, 4096).unwrap(), (Lba::new(8), Sectors::new(8)));
        let given =
            UnitOverrides { time: Some(TimeUnit::HundredNanoseconds), address_bytes: Some(1), length_bytes: Some(512) };
        let scale = Scale::new(own, given);
        assert_eq!(scale.time("t", b"15").unwrap(), 1_500);
        assert_eq!(scale.whole_time("t", 15).unwrap(), 1_500);
        assert!(scale.whole_time("t", u64::MAX / 100 + 1).is_err());
        assert_eq!(scale.extent(4096, 8).unwrap(), (Lba::new(8), Sectors::new(8)));
    }

    #[test]
    fn the_error_names_the_option_that_helps() {
        let own = Units { time: TimeUnit::Seconds, address_bytes: 1, length_bytes: 1 };
        let scale = Scale::new(own, UnitOverrides::default());
        let address = scale.extent(8, 512).unwrap_err();
        assert!(address.problem.to_string().contains("--address-unit"), "{}", address.problem);
        let length = scale.extent(512, 8).unwrap_err();
        assert!(length.problem.to_string().contains("--length-unit"), "{}", length.problem);
        assert_eq!((address.reason, length.reason), (Bad::NO_SECTORS, Bad::NO_SECTORS));
    }
}
