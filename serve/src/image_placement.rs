//! Where the image lies on the drive.

use traces::{Lba, SECTOR_BYTES, Sectors};

/// A spread image is divided into units of this many sectors (1 MiB). Adjacent sectors of a unit stay adjacent.
const SPREAD_UNIT_SECTORS: u64 = 2048;

/// How addresses of the image map to addresses of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImagePlacement {
    /// The image lies contiguously from this sector of the drive on.
    At(Lba),
    /// The image's units of 1 MiB are spread proportionally over the whole drive, so that a small image causes the
    /// seeks of a whole disk. An access that crosses a unit boundary continues behind its first unit.
    Spread,
}

impl ImagePlacement {
    /// The sectors that hold `bytes` bytes from `offset` on: their first address on a drive of `capacity`, and their
    /// number. The range must lie within the image, whose length is `image`.
    pub fn sectors(self, offset: u64, bytes: u64, image: Sectors, capacity: Sectors) -> (Lba, Sectors) {
        let first = offset / SECTOR_BYTES;
        let length = (offset + bytes).div_ceil(SECTOR_BYTES) - first;
        let sector = match self {
            ImagePlacement::At(begin) => begin.sector() + first,
            ImagePlacement::Spread => {
                let (unit, within) = (first / SPREAD_UNIT_SECTORS, first % SPREAD_UNIT_SECTORS);
                let units = u128::from(image.count().div_ceil(SPREAD_UNIT_SECTORS).max(1));
                let spread = (u128::from(unit) * u128::from(capacity.count() / SPREAD_UNIT_SECTORS) / units) as u64;
                (spread * SPREAD_UNIT_SECTORS + within).min(capacity.count() - length)
            }
        };
        (Lba::new(sector), Sectors::new(length))
    }

    /// Whether an image of this length fits on a drive of `capacity`.
    pub fn fits(self, image: Sectors, capacity: Sectors) -> bool {
        match self {
            ImagePlacement::At(begin) => {
                begin.sector().checked_add(image.count()).is_some_and(|end| end <= capacity.count())
            }
            ImagePlacement::Spread => image <= capacity,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const IMAGE: Sectors = Sectors::new(10 * SPREAD_UNIT_SECTORS);
    const DRIVE: Sectors = Sectors::new(1000 * SPREAD_UNIT_SECTORS + 7);

    #[test]
    fn partial_sectors_are_rounded_to_whole_sectors() {
        let placement = ImagePlacement::At(Lba::new(100));
        let on = |offset, bytes| placement.sectors(offset, bytes, IMAGE, DRIVE);
        assert_eq!(on(0, 512), (Lba::new(100), Sectors::new(1)));
        assert_eq!(on(511, 2), (Lba::new(100), Sectors::new(2)));
        assert_eq!(on(1024, 4096), (Lba::new(102), Sectors::new(8)));
        assert_eq!(on(1500, 1), (Lba::new(102), Sectors::new(1)));
    }

    #[test]
    fn spread_units_cover_the_whole_drive_in_proportion() {
        let on = |sector: u64| ImagePlacement::Spread.sectors(sector * 512, 4096, IMAGE, DRIVE).0.sector();
        assert_eq!(on(0), 0);
        assert_eq!(on(8), 8);
        assert_eq!(on(SPREAD_UNIT_SECTORS), 100 * SPREAD_UNIT_SECTORS);
        assert_eq!(on(9 * SPREAD_UNIT_SECTORS + 16), 900 * SPREAD_UNIT_SECTORS + 16);
    }

    #[test]
    fn image_fits_exactly_up_to_the_last_sector() {
        assert!(ImagePlacement::At(Lba::new(7)).fits(IMAGE, Sectors::new(IMAGE.count() + 7)));
        assert!(!ImagePlacement::At(Lba::new(8)).fits(IMAGE, Sectors::new(IMAGE.count() + 7)));
        assert!(!ImagePlacement::At(Lba::new(u64::MAX)).fits(IMAGE, DRIVE));
        assert!(ImagePlacement::Spread.fits(IMAGE, IMAGE));
        assert!(!ImagePlacement::Spread.fits(IMAGE, Sectors::new(IMAGE.count() - 1)));
    }

    proptest! {
        #[test]
        fn every_range_of_the_image_maps_onto_the_drive(
            image in 1u64..100_000, more in 0u64..100_000, offset in any::<u64>(), bytes in 1u64..10_000_000,
        ) {
            let (image, capacity) = (Sectors::new(image), Sectors::new(image + more));
            let offset = offset % image.bytes();
            let bytes = bytes.min(image.bytes() - offset);
            for placement in [ImagePlacement::Spread, ImagePlacement::At(Lba::new(more))] {
                prop_assert!(placement.fits(image, capacity));
                let (lba, length) = placement.sectors(offset, bytes, image, capacity);
                prop_assert!(lba.sector() + length.count() <= capacity.count());
                prop_assert!(length.bytes() >= bytes && length.bytes() < bytes + 2 * SECTOR_BYTES);
            }
        }
    }
}
