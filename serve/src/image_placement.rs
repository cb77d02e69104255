//! Where the image lies on the drive.

use traces::{Lba, SECTOR_BYTES, Sectors};

/// Images are spread in units of this many sectors (1 MiB): within a unit neighbours stay neighbours.
const SPREAD_UNIT: u64 = 2048;

/// How addresses of the image come onto the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImagePlacement {
    /// The image begins at this sector of the drive and lies there as a whole.
    At(Lba),
    /// Its units of 1 MiB are spread over the whole drive in proportion, so that a small image has the seeks of a
    /// whole disk. What reaches from one unit into the next goes on behind the first.
    Spread,
}

impl ImagePlacement {
    /// The sectors that `bytes` bytes from `offset` on lie in: where on a drive of `capacity`, and how many. `image`
    /// is the image's length, which covers them.
    pub fn sectors(self, offset: u64, bytes: u64, image: Sectors, capacity: Sectors) -> (Lba, Sectors) {
        let first = offset / SECTOR_BYTES;
        let length = (offset + bytes).div_ceil(SECTOR_BYTES) - first;
        let sector = match self {
            ImagePlacement::At(begin) => begin.sector() + first,
            ImagePlacement::Spread => {
                let (unit, within) = (first / SPREAD_UNIT, first % SPREAD_UNIT);
                let units = u128::from(image.count().div_ceil(SPREAD_UNIT).max(1));
                let spread = (u128::from(unit) * u128::from(capacity.count() / SPREAD_UNIT) / units) as u64;
                (spread * SPREAD_UNIT + within).min(capacity.count() - length)
            }
        };
        (Lba::new(sector), Sectors::new(length))
    }

    /// Whether an image of this length fits a drive of `capacity`.
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

    const IMAGE: Sectors = Sectors::new(10 * SPREAD_UNIT);
    const DRIVE: Sectors = Sectors::new(1000 * SPREAD_UNIT + 7);

    #[test]
    fn a_part_of_a_sector_is_the_whole_sector() {
        let place = ImagePlacement::At(Lba::new(100));
        let on = |offset, bytes| place.sectors(offset, bytes, IMAGE, DRIVE);
        assert_eq!(on(0, 512), (Lba::new(100), Sectors::new(1)));
        assert_eq!(on(511, 2), (Lba::new(100), Sectors::new(2)));
        assert_eq!(on(1024, 4096), (Lba::new(102), Sectors::new(8)));
        assert_eq!(on(1500, 1), (Lba::new(102), Sectors::new(1)));
    }

    #[test]
    fn units_are_spread_over_the_whole_drive() {
        let on = |sector: u64| ImagePlacement::Spread.sectors(sector * 512, 4096, IMAGE, DRIVE).0.sector();
        assert_eq!(on(0), 0);
        assert_eq!(on(8), 8);
        assert_eq!(on(SPREAD_UNIT), 100 * SPREAD_UNIT);
        assert_eq!(on(9 * SPREAD_UNIT + 16), 900 * SPREAD_UNIT + 16);
    }

    #[test]
    fn an_image_fits_up_to_the_last_sector() {
        assert!(ImagePlacement::At(Lba::new(7)).fits(IMAGE, Sectors::new(IMAGE.count() + 7)));
        assert!(!ImagePlacement::At(Lba::new(8)).fits(IMAGE, Sectors::new(IMAGE.count() + 7)));
        assert!(!ImagePlacement::At(Lba::new(u64::MAX)).fits(IMAGE, DRIVE));
        assert!(ImagePlacement::Spread.fits(IMAGE, IMAGE));
        assert!(!ImagePlacement::Spread.fits(IMAGE, Sectors::new(IMAGE.count() - 1)));
    }

    proptest! {
        #[test]
        fn whatever_lies_in_the_image_lies_on_the_drive(
            image in 1u64..100_000, more in 0u64..100_000, offset in any::<u64>(), bytes in 1u64..10_000_000,
        ) {
            let (image, capacity) = (Sectors::new(image), Sectors::new(image + more));
            let offset = offset % image.bytes();
            let bytes = bytes.min(image.bytes() - offset);
            for place in [ImagePlacement::Spread, ImagePlacement::At(Lba::new(more))] {
                prop_assert!(place.fits(image, capacity));
                let (lba, length) = place.sectors(offset, bytes, image, capacity);
                prop_assert!(lba.sector() + length.count() <= capacity.count());
                prop_assert!(length.bytes() >= bytes && length.bytes() < bytes + 2 * SECTOR_BYTES);
            }
        }
    }
}
