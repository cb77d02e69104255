//! The address map and the plans of arrays against slow and obvious versions.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

use std::collections::{BTreeMap, BTreeSet};

use iocast_drives::array::plan::{MemberAccess, Planner, UnitWrite};
use iocast_drives::array::{Geometry, Level};
use proptest::prelude::*;
use traces::{Lba, Operation, Sectors};

const ROWS: u64 = 12;

fn map(level: Level, members: u64, unit: u64) -> Geometry {
    // The sectors at the end of each member do not fill a unit.
    Geometry::new(level, members, Sectors::new(unit), Sectors::new(unit * ROWS + unit - 1))
}

/// The contents of every member and sector of an array: the logical sector, or parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Data(u64),
    Parity(u64),
}

/// Writes the rows out one unit after the other, without any formula of the map's.
fn brute_force(level: Level, members: u64, unit: u64) -> BTreeMap<(u64, u64), Cell> {
    let mut cells = BTreeMap::new();
    let mut next = 0;
    for row in 0..ROWS {
        let mut at = (members - 1) * (row + 1) % members; // P moves one member down each row
        for number in 0..level.parities() {
            (0..unit)
                .for_each(|sector| assert_eq!(cells.insert((at, row * unit + sector), Cell::Parity(number)), None));
            at = if at + 1 == members { 0 } else { at + 1 };
        }
        let copies = match level {
            Level::Raid1 => members,
            Level::Raid10 => 2,
            _ => 1,
        };
        if level.parities() == 0 {
            at = 0;
        }
        for _ in 0..(members - level.parities()) / copies {
            for sector in 0..unit {
                for copy in 0..copies {
                    let cell = ((at + copy) % members, row * unit + sector);
                    assert_eq!(cells.insert(cell, Cell::Data(next + sector)), None);
                }
            }
            next += unit;
            at = (at + copies) % members;
        }
    }
    cells
}

fn shapes() -> Vec<(Level, u64, u64)> {
    let mut shapes = Vec::new();
    for level in Level::ALL {
        for members in level.members_min()..=9 {
            if level != Level::Raid10 || members % 2 == 0 {
                shapes.extend([1, 3, 8].map(|unit| (level, members, unit)));
            }
        }
    }
    shapes
}

#[test]
fn every_sector_lies_where_the_rows_written_out_have_it() {
    for (level, members, unit) in shapes() {
        let map = map(level, members, unit);
        let cells = brute_force(level, members, unit);
        let mut seen = BTreeSet::new();
        for sector in 0..map.capacity().count() {
            let place = map.place(Lba::new(sector));
            let first = map.data_member(place.row, place.unit);
            for member in first..first + map.copies() {
                let cell = (member, map.row_start(place.row) + place.offset);
                assert_eq!(cells[&cell], Cell::Data(sector), "{level:?} of {members}");
                assert!(seen.insert(cell));
            }
        }
        for (row, number) in (0..ROWS).flat_map(|row| (0..level.parities()).map(move |number| (row, number))) {
            for offset in 0..unit {
                let cell = (map.parity_member(row, number), map.row_start(row) + offset);
                assert_eq!(cells[&cell], Cell::Parity(number), "{level:?} of {members}");
                assert!(seen.insert(cell));
            }
        }
        assert_eq!(seen.len(), cells.len(), "{level:?} of {members} leaves holes");
    }
}

#[test]
fn parity_rotates_left_symmetric() {
    let rows = |level, members: u64, rows: u64| -> Vec<String> {
        let map = map(level, members, 1);
        let row = |row: u64| {
            let mut cells = vec![String::new(); members as usize];
            for number in 0..level.parities() {
                cells[map.parity_member(row, number) as usize] = ["P", "Q"][number as usize].to_owned();
            }
            for unit in 0..map.data_units() {
                cells[map.data_member(row, unit) as usize] = (row * map.data_units() + unit).to_string();
            }
            cells.join(" ")
        };
        (0..rows).map(row).collect()
    };
    assert_eq!(
        rows(Level::Raid5, 5, 6),
        ["0 1 2 3 P", "5 6 7 P 4", "10 11 P 8 9", "15 P 12 13 14", "P 16 17 18 19", "20 21 22 23 P"]
    );
    assert_eq!(rows(Level::Raid6, 5, 3), ["Q 0 1 2 P", "3 4 5 P Q", "7 8 P Q 6"]);
    assert_eq!(rows(Level::Raid10, 4, 2), ["0  1 ", "2  3 "]);
}

/// Reads and writes of a plan, counted.
fn counts(planner: &mut Planner, start: u64, end: u64) -> (usize, usize) {
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    planner.write(start, end, &mut reads, &mut writes);
    (reads.len(), writes.len())
}

#[test]
fn where_both_ways_take_as_many_reads_the_row_is_reconstructed() {
    // Data on members 0 to 2, parity on 3: old data and parity are as many as the two other data units.
    let mut planner = Planner::new(map(Level::Raid5, 4, 128), None);
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    planner.write(0, 8, &mut reads, &mut writes);
    let members = |accesses: &[MemberAccess]| accesses.iter().map(|access| access.member).collect::<Vec<_>>();
    assert_eq!((members(&reads), members(&writes)), (vec![1, 2], vec![0, 3]));
}

#[test]
fn writes_take_as_many_accesses_as_the_textbook_says() {
    // Unit 128 sectors. Row 0: RAID-5 of 5 has data on members 0 to 3, parity on 4.
    for (level, members, failed, start, end, accesses, what) in [
        (Level::Raid5, 5, None, 0, 8, (2, 2), "small: old data and parity"),
        (Level::Raid5, 3, None, 0, 8, (1, 2), "small of three: the other data"),
        (Level::Raid5, 5, None, 0, 256, (2, 3), "half a row: the other half"),
        (Level::Raid5, 5, None, 0, 384, (1, 4), "three of four"),
        (Level::Raid5, 5, None, 0, 512, (0, 5), "full stripe"),
        (Level::Raid5, 5, None, 0, 1024, (0, 5), "two full stripes, joined"),
        (Level::Raid5, 5, None, 120, 136, (3, 3), "across two units"),
        (Level::Raid5, 15, None, 0, 8, (2, 2), "small of fifteen"),
        (Level::Raid5, 5, Some(4), 0, 8, (0, 1), "parity lost: data only"),
        (Level::Raid5, 5, Some(0), 0, 8, (3, 1), "data lost: parity from the other data"),
        (Level::Raid5, 5, Some(1), 0, 8, (2, 2), "other data lost: read-modify-write"),
        (Level::Raid5, 5, Some(1), 0, 256, (2, 2), "one of two lost"),
        (Level::Raid5, 5, Some(0), 120, 136, (4, 2), "lost data stays in part: rebuilt first"),
        (Level::Raid5, 5, Some(0), 0, 512, (0, 4), "full stripe without one"),
        (Level::Raid6, 6, None, 0, 8, (3, 3), "small of six"),
        (Level::Raid6, 9, None, 0, 8, (3, 3), "small of nine: old data, P and Q"),
        (Level::Raid6, 9, None, 0, 640, (2, 7), "five of seven"),
        (Level::Raid6, 6, None, 0, 512, (0, 6), "full stripe"),
        (Level::Raid6, 9, Some(8), 0, 8, (2, 2), "P lost: old data and Q"),
        (Level::Raid6, 9, Some(0), 0, 8, (2, 2), "Q lost: old data and P"),
        (Level::Raid6, 9, Some(1), 0, 8, (6, 2), "data lost: both parities from the other data"),
        (Level::Raid6, 9, Some(2), 0, 8, (3, 3), "other data lost"),
        (Level::Raid6, 9, Some(1), 120, 136, (7, 3), "lost data stays in part: all but Q read"),
        (Level::Raid0, 4, None, 0, 512, (0, 4), "striping"),
        (Level::Raid0, 4, None, 0, 1024, (0, 4), "two rows, joined"),
        (Level::Raid1, 3, None, 0, 1024, (0, 1), "one group of copies"),
        (Level::Raid10, 6, None, 0, 384, (0, 3), "three pairs"),
    ] {
        let mut planner = Planner::new(map(level, members, 128), failed);
        assert_eq!(counts(&mut planner, start, end), accesses, "RAID-{} of {members}, {what}", level.name());
    }
}

#[test]
fn reads_take_as_many_accesses_as_the_textbook_says() {
    for (level, members, failed, start, end, accesses) in [
        (Level::Raid5, 5, None, 0, 8, 1),
        (Level::Raid5, 5, None, 0, 512, 4),
        (Level::Raid5, 5, Some(0), 0, 8, 4),
        (Level::Raid5, 5, Some(1), 0, 8, 1),
        (Level::Raid5, 5, Some(0), 0, 512, 4),
        (Level::Raid6, 6, Some(1), 0, 8, 4),
        (Level::Raid6, 6, Some(0), 0, 8, 1),
        // The end of the lost unit and the start of the next: of that, two spans.
        (Level::Raid5, 5, Some(0), 120, 136, 5),
        (Level::Raid0, 2, None, 0, 1024, 2),
        (Level::Raid1, 2, Some(0), 0, 1024, 1),
    ] {
        let mut reads = Vec::new();
        Planner::new(map(level, members, 128), failed).read(start, end, &mut reads);
        assert_eq!(reads.len(), accesses, "RAID-{} of {members}, {failed:?}, {start}..{end}", level.name());
    }
}

/// The sectors of members that accesses touch; none twice.
fn sectors(accesses: &[MemberAccess], operation: Operation) -> BTreeSet<(u64, u64)> {
    let mut sectors = BTreeSet::new();
    for access in accesses {
        assert_eq!(access.operation, operation);
        for sector in access.start..access.end {
            assert!(sectors.insert((access.member, sector)), "{access:?} repeats {sector}");
        }
    }
    sectors
}

/// A planned write of one row, compared with the sectors that have to be known for it.
struct Audit {
    map: Geometry,
    failed: Option<u64>,
    row: u64,
    reads: BTreeSet<(u64, u64)>,
    writes: BTreeSet<(u64, u64)>,
}

impl Audit {
    fn at(&self, offset: u64) -> u64 {
        self.map.row_start(self.row) + offset
    }

    /// Whether the old sector of a data unit is known: read, or on the failed member while all other data and P are.
    fn knows(&self, unit: u64, offset: u64) -> bool {
        let member = |unit| self.map.data_member(self.row, unit);
        let read = |member| self.reads.contains(&(member, self.at(offset)));
        let others = || (0..self.map.data_units()).filter(|&other| other != unit).all(|other| read(member(other)));
        let rebuilt = || self.failed == Some(member(unit)) && others() && read(self.map.parity_member(self.row, 0));
        read(member(unit)) || rebuilt()
    }

    /// `new` are the data sectors that the request brings.
    fn check(&self, new: &BTreeSet<(u64, u64)>) {
        assert!(self.reads.iter().chain(&self.writes).all(|&(member, _)| Some(member) != self.failed));
        let unit = self.map.stripe_unit();
        let written = |at: u64, offset| self.writes.contains(&(self.map.data_member(self.row, at), self.at(offset)));
        for (at, offset) in (0..self.map.data_units()).flat_map(|at| (0..unit).map(move |offset| (at, offset))) {
            let lost = self.failed == Some(self.map.data_member(self.row, at));
            let brought = new.contains(&(at, offset));
            assert!(!brought || lost || written(at, offset), "unit {at} sector {offset} is not written");
            assert!(brought || !written(at, offset) || self.knows(at, offset), "unit {at} sector {offset} is made up");
        }
        for (number, offset) in
            (0..self.map.level().parities()).flat_map(|number| (0..unit).map(move |offset| (number, offset)))
        {
            let member = self.map.parity_member(self.row, number);
            if self.failed == Some(member) {
                continue;
            }
            let changed: Vec<u64> = (0..self.map.data_units()).filter(|&at| new.contains(&(at, offset))).collect();
            let writes = self.writes.contains(&(member, self.at(offset)));
            assert!(changed.is_empty() || writes, "parity {number} of sector {offset} is stale");
            let from_all = (0..self.map.data_units()).all(|at| new.contains(&(at, offset)) || self.knows(at, offset));
            let from_old =
                self.reads.contains(&(member, self.at(offset))) && changed.iter().all(|&at| self.knows(at, offset));
            assert!(!writes || from_all || from_old, "parity {number} of sector {offset} cannot be known");
        }
    }
}

fn parity_shape() -> impl Strategy<Value = (Level, u64, u64, Option<u64>)> {
    (prop_oneof![Just(Level::Raid5), Just(Level::Raid6)], 0u64..5, 1u64..9, any::<bool>(), 0u64..64).prop_map(
        |(level, more, unit, degraded, failed)| {
            let members = level.members_min() + more;
            (level, members, unit, degraded.then_some(failed % members))
        },
    )
}

fn any_shape() -> impl Strategy<Value = (Level, u64, u64, Option<u64>)> {
    (prop::sample::select(shapes()), any::<bool>(), 0u64..64).prop_map(|((level, members, unit), degraded, failed)| {
        (level, members, unit, (degraded && level != Level::Raid0).then_some(failed % members))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn reads_cover_the_requested_sectors_or_those_that_reconstruct_them(
        (level, members, unit, failed) in any_shape(),
        a in any::<prop::sample::Index>(), b in any::<prop::sample::Index>(),
    ) {
        let map = map(level, members, unit);
        let capacity = map.capacity().count() as usize;
        let (start, end) = (a.index(capacity) as u64, b.index(capacity) as u64);
        let (start, end) = (start.min(end), start.max(end) + 1);
        let mut reads = Vec::new();
        Planner::new(map, failed).read(start, end, &mut reads);
        let mut expected = BTreeSet::new();
        for sector in start..end {
            let place = map.place(Lba::new(sector));
            let (member, at) = (map.data_member(place.row, place.unit), map.row_start(place.row) + place.offset);
            if failed != Some(member) || level.parities() == 0 {
                expected.insert((member, at));
                continue;
            }
            expected.extend((0..map.data_units()).map(|other| (map.data_member(place.row, other), at)));
            expected.insert((map.parity_member(place.row, 0), at));
            expected.remove(&(member, at));
        }
        prop_assert_eq!(sectors(&reads, Operation::Read), expected);
    }

    #[test]
    fn a_write_within_a_row_knows_its_parity(
        (level, members, unit, failed) in parity_shape(), row in 0..ROWS,
        a in any::<prop::sample::Index>(), b in any::<prop::sample::Index>(),
    ) {
        let map = map(level, members, unit);
        let size = map.row_sectors() as usize;
        let (from, to) = (a.index(size) as u64, b.index(size) as u64);
        let (start, end) = (row * size as u64 + from.min(to), row * size as u64 + from.max(to) + 1);
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        Planner::new(map, failed).write(start, end, &mut reads, &mut writes);
        let (reads, writes) = (sectors(&reads, Operation::Read), sectors(&writes, Operation::Write));
        let places = (start..end).map(|sector| map.place(Lba::new(sector)));
        let new = places.map(|place| (place.unit, place.offset)).collect();
        Audit { map, failed, row, reads, writes }.check(&new);
    }

    /// As destaging has them: some units, each with a span that may have holes.
    #[test]
    fn a_write_with_holes_knows_its_parity(
        (level, members, unit, failed) in parity_shape(), row in 0..ROWS,
        dirty in prop::collection::vec(prop::option::of((0u64..8, 0u64..8, any::<bool>())), 9),
    ) {
        let map = map(level, members, unit);
        let mut written = Vec::new();
        let mut new = BTreeSet::new();
        for (at, dirty) in (0..map.data_units()).zip(dirty) {
            let Some((from, to, hole)) = dirty else { continue };
            let (from, to) = ((from % unit).min(to % unit), (from % unit).max(to % unit) + 1);
            let hole = hole && to - from > 2;
            new.extend((from..to).filter(|&offset| !hole || offset != from + 1).map(|offset| (at, offset)));
            written.push(UnitWrite { unit: at, from, to, solid: !hole });
        }
        prop_assume!(!written.is_empty());
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        Planner::new(map, failed).write_row(row, &written, &mut reads, &mut writes);
        let (reads, writes) = (sectors(&reads, Operation::Read), sectors(&writes, Operation::Write));
        Audit { map, failed, row, reads, writes }.check(&new);
    }

    #[test]
    fn without_parity_exactly_the_requested_sectors_are_written(
        (level, members, unit, failed) in any_shape().prop_filter("no parity", |shape| shape.0.parities() == 0),
        a in any::<prop::sample::Index>(), b in any::<prop::sample::Index>(),
    ) {
        let map = map(level, members, unit);
        let capacity = map.capacity().count() as usize;
        let (start, end) = (a.index(capacity) as u64, b.index(capacity) as u64);
        let (start, end) = (start.min(end), start.max(end) + 1);
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        Planner::new(map, failed).write(start, end, &mut reads, &mut writes);
        let expected = (start..end).map(|sector| map.place(Lba::new(sector)));
        let expected = expected.map(|p| (map.data_member(p.row, p.unit), map.row_start(p.row) + p.offset)).collect();
        prop_assert!(reads.is_empty());
        prop_assert_eq!(sectors(&writes, Operation::Write), expected);
    }
}
