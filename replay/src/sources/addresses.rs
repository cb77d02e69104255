//! Maps the addresses of a trace to addresses on a drive.

use traces::{Lba, Request, Sectors};

/// The mapping that `--map` selects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mapping {
    /// Addresses stay as they are, shifted to the place of the VM. An address beyond the drive is an error.
    #[default]
    Exact,
    /// Addresses are taken modulo the drive capacity.
    Wrap,
    /// Addresses shrink in proportion if they do not fit.
    Scale,
    /// The footprint of each VM is moved as a whole, so that distances within it do not change.
    Remap,
}

/// Addresses are scaled in units of this many sectors (1 MiB): within a unit neighbours stay
/// neighbours, so that sequential runs survive.
const SCALE_UNIT: u64 = 2048;

/// The mapping of the addresses of one VM to the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressMap {
    /// Adds `place`.
    Shift {
        /// The sector on the drive of sector 0 of the trace.
        place: Sectors,
    },
    /// Adds `place`, then takes the sum modulo the drive capacity. A request over the end of the drive is moved down to
    /// end there.
    Wrap {
        /// The sector on the drive of sector 0 of the trace.
        place: Sectors,
    },
    /// Adds `place`, then spreads the units of 1 MiB of `0..extent` over the drive capacity in proportion; several
    /// units may fall onto one.
    Scale {
        /// The sector of sector 0 of the trace before scaling.
        place: Sectors,
        /// The end of all VMs' addresses before scaling.
        extent: Sectors,
    },
    /// Moves the footprint that starts at `from` to start at `to`.
    Move {
        /// The lowest sector that the trace touches.
        from: Lba,
        /// The sector on the drive that it is moved to.
        to: Lba,
    },
}

impl AddressMap {
    /// The request on a drive of `capacity`, or `None` if it does not fit. A request without an address (a flush) is
    /// not changed.
    pub fn apply(self, mut request: Request, capacity: Sectors) -> Option<Request> {
        if request.sectors() == Sectors::ZERO {
            return Some(request);
        }
        let sector = request.lba.sector();
        let length = request.sectors().count();
        let last_start = capacity.count().checked_sub(length);
        let sector = match self {
            AddressMap::Shift { place } => sector.checked_add(place.count()),
            AddressMap::Wrap { place } => {
                let wrapped = (u128::from(sector) + u128::from(place.count())) % u128::from(capacity.count());
                last_start.map(|last| (wrapped as u64).min(last))
            }
            AddressMap::Scale { place, extent } => {
                let sector = u128::from(sector) + u128::from(place.count());
                let (unit, within) = (sector / u128::from(SCALE_UNIT), sector % u128::from(SCALE_UNIT));
                let units = u128::from(extent.count().div_ceil(SCALE_UNIT)).max(1);
                let scaled = unit * u128::from(capacity.count() / SCALE_UNIT) / units;
                let sector = (scaled * u128::from(SCALE_UNIT) + within) as u64;
                last_start.map(|last| sector.min(last))
            }
            AddressMap::Move { from, to } => {
                sector.checked_sub(from.sector()).and_then(|offset| offset.checked_add(to.sector()))
            }
        };
        request.lba = Lba::new(sector?);
        (request.end().sector() <= capacity.count() && request.lba <= Lba::new(last_start?)).then_some(request)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use traces::{Operation, Timestamp};

    use super::*;

    fn at(lba: u64, sectors: u64) -> Request {
        Request::new(Timestamp::ZERO, Operation::Read, Lba::new(lba), Sectors::new(sectors))
    }

    fn mapped(map: AddressMap, lba: u64, sectors: u64, capacity: u64) -> Option<u64> {
        map.apply(at(lba, sectors), Sectors::new(capacity)).map(|request| request.lba.sector())
    }

    #[test]
    fn shift_refuses_addresses_beyond_the_drive() {
        let map = AddressMap::Shift { place: Sectors::new(100) };
        assert_eq!(mapped(map, 0, 8, 108), Some(100));
        assert_eq!(mapped(map, 1, 8, 108), None);
        assert_eq!(mapped(map, u64::MAX, 8, 108), None);
    }

    #[test]
    fn wrapping_keeps_requests_whole() {
        let map = AddressMap::Wrap { place: Sectors::ZERO };
        assert_eq!(mapped(map, 1000, 8, 1000), Some(0));
        assert_eq!(mapped(map, 996, 8, 1000), Some(992));
        assert_eq!(mapped(map, 0, 1001, 1000), None);
    }

    #[test]
    fn scaling_keeps_neighbours_within_a_unit() {
        let map = AddressMap::Scale { place: Sectors::ZERO, extent: Sectors::new(100 * SCALE_UNIT) };
        let capacity = 10 * SCALE_UNIT;
        assert_eq!(mapped(map, 50 * SCALE_UNIT, 8, capacity), Some(5 * SCALE_UNIT));
        assert_eq!(mapped(map, 50 * SCALE_UNIT + 8, 8, capacity), Some(5 * SCALE_UNIT + 8));
        assert_eq!(mapped(map, 100 * SCALE_UNIT - 8, 8, capacity), Some(capacity - 8));
    }

    #[test]
    fn place_is_added_before_wrapping_and_scaling() {
        let place = Sectors::new(3 * SCALE_UNIT);
        let wrap = AddressMap::Wrap { place };
        assert_eq!(mapped(wrap, 8, 8, 100 * SCALE_UNIT), Some(3 * SCALE_UNIT + 8));
        assert_eq!(mapped(wrap, 98 * SCALE_UNIT, 8, 100 * SCALE_UNIT), Some(SCALE_UNIT));
        // Slightly more than 9 units count as 10: unit 5 of 10 is mapped to unit 2 of 5.
        let scale = AddressMap::Scale { place, extent: Sectors::new(9 * SCALE_UNIT + 1) };
        assert_eq!(mapped(scale, 2 * SCALE_UNIT + 16, 8, 5 * SCALE_UNIT), Some(2 * SCALE_UNIT + 16));
        assert_eq!(mapped(scale, 6 * SCALE_UNIT + 16, 8, 9 * SCALE_UNIT), Some(8 * SCALE_UNIT + 16));
        let moved = AddressMap::Move { from: Lba::new(100), to: Lba::new(7) };
        assert_eq!(mapped(moved, 103, 8, 1 << 20), Some(10));
        assert_eq!(mapped(moved, 99, 8, 1 << 20), None);
    }

    #[test]
    fn a_flush_has_no_address_to_map() {
        let map = AddressMap::Move { from: Lba::new(100), to: Lba::ZERO };
        assert_eq!(mapped(map, 0, 0, 10), Some(0));
    }

    proptest! {
        #[test]
        fn every_mapped_request_lies_on_the_drive(
            lba in any::<u64>(), sectors in 1u64..5000, capacity in 1u64..1_000_000, place in 0u64..1_000_000,
        ) {
            let place = Sectors::new(place);
            for map in [
                AddressMap::Shift { place },
                AddressMap::Wrap { place },
                AddressMap::Scale { place, extent: Sectors::new(u64::MAX) },
                AddressMap::Move { from: Lba::new(lba / 2), to: Lba::ZERO },
            ] {
                if let Some(request) = map.apply(at(lba, sectors), Sectors::new(capacity)) {
                    prop_assert!(request.end().sector() <= capacity);
                    prop_assert_eq!(request.sectors().count(), sectors);
                }
            }
        }

        #[test]
        fn move_keeps_distances(a in 100u64..10_000, b in 100u64..10_000) {
            let map = AddressMap::Move { from: Lba::new(100), to: Lba::new(5) };
            let (x, y) = (mapped(map, a, 1, 1 << 20).unwrap(), mapped(map, b, 1, 1 << 20).unwrap());
            prop_assert_eq!(x.abs_diff(y), a.abs_diff(b));
        }
    }
}
