//! Lays the disks of guests out on the drive.

use std::ops::Range;

use traces::Sectors;

use super::PlanError;

/// A guest's disk, with its place and size if they are given.
pub struct Disk {
    /// The guest's name.
    pub name: String,
    /// Where it begins on the drive.
    pub place: Option<Sectors>,
    /// Its size.
    pub capacity: Option<Sectors>,
}

/// How the size of disks is stated.
const CAPACITY: &str = "--guest-capacity, `guest_capacity` in a scenario";

/// Disks without a size get a multiple of 1 MiB, in sectors, if the drive is large enough.
const ALIGNMENT: u64 = 2048;

/// The smallest disk, one block of 4 KiB, and the largest, below 16 TiB, in sectors.
const LEAST: u64 = 8;
const GREATEST: u64 = (u32::MAX as u64) * LEAST;

/// The sectors of each guest's disk on a drive of `capacity`. Disks with a place lie there, the others in the first gap
/// that holds them. A disk without a size is an equal part of the drive, and ends where the next disk begins. If an
/// equal part is too much, disks without place and size share the largest gap.
///
/// # Errors
/// Disks that overlap, reach beyond the drive or find no gap.
pub fn lay_out(disks: &[Disk], capacity: Sectors) -> Result<Vec<Range<u64>>, PlanError> {
    let drive = capacity.count();
    let share = aligned(drive / disks.len().max(1) as u64);
    let mut ranges: Vec<Option<Range<u64>>> = disks.iter().map(|disk| placed(disk, disks, share, drive)).collect();
    for (index, disk) in disks.iter().enumerate() {
        if let Some(range) = &ranges[index] {
            check(disk, range, drive)?;
            let other = (0..index).find(|&other| ranges[other].as_ref().is_some_and(|other| overlap(other, range)));
            if let Some(other) = other {
                return Err(PlanError(format!(
                    "the disks of guests {} and {} overlap on the drive; give one another place (@PLACE, `place` in \
                     a scenario) or make them smaller ({CAPACITY})",
                    disks[other].name, disk.name
                )));
            }
        }
    }
    let unplaced = ranges.iter().filter(|range| range.is_none()).count().max(1) as u64;
    let largest = gaps(&ranges, drive).iter().map(|gap| gap.end - gap.start).max().unwrap_or(0);
    let part = share.min(aligned(largest / unplaced));
    for (index, disk) in disks.iter().enumerate().filter(|(_, disk)| disk.place.is_none()) {
        let length = disk.capacity.map_or(part, Sectors::count);
        let gap = gaps(&ranges, drive).into_iter().find(|gap| gap.end - gap.start >= length.max(LEAST));
        let Some(gap) = gap else {
            return Err(PlanError(format!(
                "the drive of {drive} sectors has no gap for the disk of guest {}, {length} sectors; choose a larger \
                 drive or smaller disks ({CAPACITY})",
                disk.name
            )));
        };
        let range = gap.start..gap.start + length;
        check(disk, &range, drive)?;
        ranges[index] = Some(range);
    }
    Ok(ranges.into_iter().flatten().collect())
}

/// The sectors of a disk that has a place.
fn placed(disk: &Disk, all: &[Disk], share: u64, drive: u64) -> Option<Range<u64>> {
    let start = disk.place?.count();
    let next = all.iter().filter_map(|other| other.place).map(Sectors::count).filter(|&place| place > start).min();
    let until = next.unwrap_or(drive).min(drive).saturating_sub(start);
    let length = disk.capacity.map_or(share.min(until), Sectors::count);
    Some(start..start.saturating_add(length))
}

fn check(disk: &Disk, range: &Range<u64>, drive: u64) -> Result<(), PlanError> {
    let name = &disk.name;
    if range.end > drive || range.start >= drive {
        return Err(PlanError(format!(
            "the disk of guest {name}, sectors {} to {}, reaches beyond the drive's {drive}; choose a larger drive, \
             another place or a smaller disk",
            range.start, range.end
        )));
    }
    if !(LEAST..=GREATEST).contains(&(range.end - range.start)) {
        let sectors = range.end - range.start;
        return Err(PlanError(format!(
            "the disk of guest {name} has {sectors} sectors; a disk has at least 4 KiB and less than 16 TiB \
             ({CAPACITY})"
        )));
    }
    Ok(())
}

/// The free ranges of the drive, in order.
fn gaps(ranges: &[Option<Range<u64>>], drive: u64) -> Vec<Range<u64>> {
    let mut taken: Vec<&Range<u64>> = ranges.iter().flatten().collect();
    taken.sort_by_key(|range| range.start);
    let mut gaps = Vec::new();
    let mut free = 0;
    for range in taken {
        if free < range.start {
            gaps.push(free..range.start);
        }
        free = free.max(range.end);
    }
    if free < drive {
        gaps.push(free..drive);
    }
    gaps
}

/// Rounds down to whole MiB, or to whole blocks below 1 MiB, and to the largest disk.
fn aligned(sectors: u64) -> u64 {
    let unit = if sectors < ALIGNMENT { LEAST } else { ALIGNMENT };
    (sectors / unit * unit).min(GREATEST)
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(name: &str, place: Option<u64>, capacity: Option<u64>) -> Disk {
        Disk { name: name.to_owned(), place: place.map(Sectors::new), capacity: capacity.map(Sectors::new) }
    }

    fn laid_out(disks: &[Disk], drive: u64) -> Vec<Range<u64>> {
        lay_out(disks, Sectors::new(drive)).expect("they fit")
    }

    fn refused(disks: &[Disk], drive: u64) -> String {
        lay_out(disks, Sectors::new(drive)).expect_err("they do not fit").to_string()
    }

    #[test]
    fn disks_without_place_and_size_are_equal_parts_of_whole_mib() {
        let disks: Vec<Disk> = ["a", "b", "c"].map(|name| disk(name, None, None)).into();
        assert_eq!(laid_out(&disks, 10_000), [0..2048, 2048..4096, 4096..6144]);
        assert_eq!(laid_out(&disks, 100), [0..32, 32..64, 64..96]);
        let alone = laid_out(&disks[..1], GREATEST * 2);
        assert_eq!((alone.len(), alone[0].clone()), (1, 0..GREATEST));
    }

    #[test]
    fn placed_disk_ends_where_the_next_begins_and_the_others_share_the_largest_gap() {
        let both = [disk("a", Some(0), None), disk("b", Some(2048), None)];
        assert_eq!(laid_out(&both, 20_480), [0..2048, 2048..12_288]);
        // A part of 1/3 is more than the gaps of 6,144 and 2,048 sectors leave.
        let three = [disk("a", Some(6144), Some(12_288)), disk("b", None, None), disk("c", None, None)];
        assert_eq!(laid_out(&three, 20_480), [6144..18_432, 0..2048, 2048..4096]);
        let last = [disk("a", Some(18_432), None), disk("b", None, Some(4096))];
        assert_eq!(laid_out(&last, 20_480), [18_432..20_480, 0..4096]);
    }

    #[test]
    fn disks_that_do_not_fit_are_refused() {
        let overlapping = refused(&[disk("a", Some(0), Some(4096)), disk("b", Some(4095), Some(8))], 20_480);
        assert!(overlapping.starts_with("the disks of guests a and b overlap"), "{overlapping}");
        let beyond = refused(&[disk("a", Some(16_384), Some(8192))], 20_480);
        assert!(beyond.contains("sectors 16384 to 24576, reaches beyond the drive's 20480"), "{beyond}");
        assert!(refused(&[disk("a", Some(20_480), None)], 20_480).contains("reaches beyond"));
        let no_room = refused(&[disk("a", None, Some(16_384)), disk("b", None, Some(8192))], 20_480);
        assert!(no_room.contains("no gap for the disk of guest b, 8192 sectors"), "{no_room}");
        assert!(refused(&[disk("a", Some(0), Some(7))], 20_480).contains("has 7 sectors"));
        assert!(refused(&[disk("a", Some(0), Some(GREATEST + 8))], u64::MAX).contains("less than 16 TiB"));
    }
}
