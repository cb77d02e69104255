//! Plans which accesses to members a request takes. `raid` decides when these accesses start and end.
//!
//! A read accesses the requested sectors. If some of them lie on the failed member, the same sectors of the other data
//! units and of P are read instead.
//!
//! A write to rows with parity first reads the data that the new parity needs:
//!
//! - *Read-modify-write* reads the old data and the old parity.
//! - *Reconstruct-write* reads the data that is not overwritten (none for a full row).
//! - *Rebuild first* reads all data units and the XOR parity P, which together reconstruct the failed unit.
//!
//! The method with fewer reads is used. If both of the first two take as many, it is reconstruct-write, as by default
//! in Linux's md. If a data unit of the row is on the failed member, there is no choice:
//!
//! - read-modify-write, if that unit is not written;
//! - reconstruct-write, if the write covers it;
//! - rebuild first, if the write covers a part of it.
//!
//! A row whose parity cannot be written has no parity to compute, and nothing is read for it. Parity is read and
//! written as one span, from the first to the last sector written in any unit.
//!
//! Accesses of one request that are adjacent on a member are one access. Row locks are not modelled: two writes to one
//! row at the same time each do their own reads.

use traces::{Lba, Operation};

use super::geometry::{Geometry, StripePosition};

/// One access to a member, or, with mirroring, to one group of copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberAccess {
    /// The member, the first of its copies where it is mirrored.
    pub member: u64,
    /// The first sector on it.
    pub start: u64,
    /// The sector behind the last.
    pub end: u64,
    /// Read or write.
    pub operation: Operation,
}

/// The written span of one data unit of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitWrite {
    /// The data unit.
    pub unit: u64,
    /// The first sector written, within the unit.
    pub from: u64,
    /// The sector behind the last.
    pub to: u64,
    /// Whether every sector in between is written. Holes are filled with the old data.
    pub solid: bool,
}

/// Collects accesses and joins those that touch.
#[derive(Debug)]
struct Gather {
    operation: Operation,
    /// The span of each member that may still grow, empty where start and end are the same.
    open: Vec<(u64, u64)>,
    closed: Vec<MemberAccess>,
}

impl Gather {
    fn new(members: u64, operation: Operation) -> Gather {
        Gather { operation, open: vec![(0, 0); members as usize], closed: Vec::new() }
    }

    /// Adds a span; those of one member come by ascending start.
    fn add(&mut self, member: u64, start: u64, end: u64) {
        let open = &mut self.open[member as usize];
        if open.0 == open.1 {
            *open = (start, end);
        } else if (open.0..=open.1).contains(&start) {
            open.1 = open.1.max(end);
        } else {
            self.closed.push(MemberAccess { member, start: open.0, end: open.1, operation: self.operation });
            *open = (start, end);
        }
    }

    fn finish(&mut self, into: &mut Vec<MemberAccess>) {
        into.append(&mut self.closed);
        for (member, open) in self.open.iter_mut().enumerate() {
            if open.0 != open.1 {
                let (start, end) = *open;
                into.push(MemberAccess { member: member as u64, start, end, operation: self.operation });
                *open = (0, 0);
            }
        }
    }
}

/// The method that yields the new parity of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParityMethod {
    /// The row has no parity that can be written.
    NoParity,
    /// From the old data, the old parity and the new data.
    ReadModifyWrite,
    /// From all data of the row.
    Reconstruct,
    /// From all data of the row, of which the failed unit is first reconstructed from all others and P.
    RebuildFirst,
}

/// Plans requests. Keeps its buffers from one to the next.
#[derive(Debug)]
pub struct Planner {
    geometry: Geometry,
    failed: Option<u64>,
    reads: Gather,
    writes: Gather,
    written: Vec<UnitWrite>,
}

impl Planner {
    /// A planner for an array of which one member may have failed.
    pub fn new(geometry: Geometry, failed: Option<u64>) -> Planner {
        let members = geometry.members();
        Planner {
            geometry,
            failed,
            reads: Gather::new(members, Operation::Read),
            writes: Gather::new(members, Operation::Write),
            written: Vec::new(),
        }
    }

    /// The address map.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The failed member.
    pub fn failed(&self) -> Option<u64> {
        self.failed
    }

    /// The accesses of a read of the logical sectors `start..end`.
    pub fn read(&mut self, start: u64, end: u64, reads: &mut Vec<MemberAccess>) {
        let mut at = start;
        while at < end {
            let row_end = self.row_end(at).min(end);
            match self.lost_part(at, row_end) {
                Some(lost) => self.read_degraded(at, row_end, lost),
                None => self.each_unit(at, row_end, |planner, row, written| {
                    let start = planner.geometry.row_start(row);
                    let member = planner.geometry.data_member(row, written.unit);
                    planner.reads.add(member, start + written.from, start + written.to);
                }),
            }
            at = row_end;
        }
        self.reads.finish(reads);
    }

    /// The accesses of a write of the logical sectors `start..end`: the reads that come first, and the writes that
    /// follow. Where there is parity, the sectors lie in one row or are full rows.
    pub fn write(&mut self, start: u64, end: u64, reads: &mut Vec<MemberAccess>, writes: &mut Vec<MemberAccess>) {
        let mut at = start;
        while at < end {
            let row_end = self.row_end(at).min(end);
            let row = self.geometry.place(Lba::new(at)).row;
            let mut written = std::mem::take(&mut self.written);
            written.clear();
            self.each_unit(at, row_end, |_, _, unit| written.push(unit));
            self.row(row, &written);
            self.written = written;
            at = row_end;
        }
        self.reads.finish(reads);
        self.writes.finish(writes);
    }

    /// The accesses of a write of some sectors of one row, units ascending.
    pub fn write_row(
        &mut self,
        row: u64,
        written: &[UnitWrite],
        reads: &mut Vec<MemberAccess>,
        writes: &mut Vec<MemberAccess>,
    ) {
        self.row(row, written);
        self.reads.finish(reads);
        self.writes.finish(writes);
    }

    fn row_end(&self, at: u64) -> u64 {
        (at / self.geometry.row_sectors() + 1) * self.geometry.row_sectors()
    }

    /// Calls `each` with the part of every data unit that `start..end`, within one row, touches.
    fn each_unit(&mut self, start: u64, end: u64, mut each: impl FnMut(&mut Planner, u64, UnitWrite)) {
        let StripePosition { row, mut unit, offset } = self.geometry.place(Lba::new(start));
        let (mut from, mut left) = (offset, end - start);
        while left > 0 {
            let to = (from + left).min(self.geometry.stripe_unit());
            left -= to - from;
            each(self, row, UnitWrite { unit, from, to, solid: true });
            (unit, from) = (unit + 1, 0);
        }
    }

    /// The sectors of `start..end` within their row that only parity can reconstruct.
    fn lost_part(&mut self, start: u64, end: u64) -> Option<(u64, u64)> {
        let failed = self.failed.filter(|_| self.geometry.level().parities() > 0)?;
        let mut lost = None;
        self.each_unit(start, end, |planner, row, unit| {
            if planner.geometry.data_member(row, unit.unit) == failed {
                lost = Some((unit.from, unit.to));
            }
        });
        lost
    }

    /// Reads the requested sectors and, from every other data unit and P, those that reconstruct the lost ones.
    fn read_degraded(&mut self, start: u64, end: u64, lost: (u64, u64)) {
        let StripePosition { row, unit: first, offset } = self.geometry.place(Lba::new(start));
        let (data, size) = (self.geometry.data_units(), self.geometry.stripe_unit());
        let (from, to) = (first * size + offset, first * size + offset + (end - start));
        for unit in 0..data {
            let own = (from.clamp(unit * size, (unit + 1) * size), to.clamp(unit * size, (unit + 1) * size));
            self.add_both(row, unit, (own.0 - unit * size, own.1 - unit * size), lost);
        }
        self.read_parity(row, 0, lost);
    }

    /// Reads two spans of a unit, the lower first; nothing of the failed member or of empty spans.
    fn add_both(&mut self, row: u64, unit: u64, one: (u64, u64), other: (u64, u64)) {
        let member = self.geometry.data_member(row, unit);
        if self.failed == Some(member) {
            return;
        }
        let start = self.geometry.row_start(row);
        for (from, to) in [one.min(other), one.max(other)] {
            if from < to {
                self.reads.add(member, start + from, start + to);
            }
        }
    }

    fn read_unit(&mut self, row: u64, unit: u64, span: (u64, u64)) {
        self.add_both(row, unit, span, (0, 0));
    }

    fn read_parity(&mut self, row: u64, number: u64, (from, to): (u64, u64)) {
        let start = self.geometry.row_start(row);
        self.reads.add(self.geometry.parity_member(row, number), start + from, start + to);
    }

    fn row(&mut self, row: u64, written: &[UnitWrite]) {
        let hull = written.iter().fold((u64::MAX, 0), |(lo, hi), unit| (lo.min(unit.from), hi.max(unit.to)));
        let method = self.parity_method(row, written, hull);
        self.read_for(method, row, written, hull);
        let start = self.geometry.row_start(row);
        for unit in written {
            let member = self.geometry.data_member(row, unit.unit);
            if self.geometry.copies() > 1 || self.failed != Some(member) {
                self.writes.add(member, start + unit.from, start + unit.to);
            }
        }
        for number in 0..self.geometry.level().parities() {
            let member = self.geometry.parity_member(row, number);
            if self.failed != Some(member) {
                self.writes.add(member, start + hull.0, start + hull.1);
            }
        }
    }

    /// The reads in front of a write; `hull` is the span over all units.
    fn read_for(&mut self, method: ParityMethod, row: u64, written: &[UnitWrite], hull: (u64, u64)) {
        match method {
            ParityMethod::NoParity => {
                for unit in written.iter().filter(|unit| !unit.solid) {
                    self.read_unit(row, unit.unit, (unit.from, unit.to));
                }
            }
            ParityMethod::ReadModifyWrite => {
                for unit in written {
                    self.read_unit(row, unit.unit, (unit.from, unit.to));
                }
                for number in 0..self.geometry.level().parities() {
                    if self.failed != Some(self.geometry.parity_member(row, number)) {
                        self.read_parity(row, number, hull);
                    }
                }
            }
            ParityMethod::Reconstruct => {
                let mut units = written.iter().peekable();
                for unit in 0..self.geometry.data_units() {
                    let remaining = match units.next_if(|written| written.unit == unit) {
                        Some(written) => not_overwritten(written, hull),
                        None => hull,
                    };
                    self.read_unit(row, unit, remaining);
                }
            }
            ParityMethod::RebuildFirst => {
                for unit in 0..self.geometry.data_units() {
                    self.read_unit(row, unit, hull);
                }
                self.read_parity(row, 0, hull);
            }
        }
    }

    fn parity_method(&self, row: u64, written: &[UnitWrite], hull: (u64, u64)) -> ParityMethod {
        let parities = self.geometry.level().parities();
        let live = (0..parities).filter(|&number| self.failed != Some(self.geometry.parity_member(row, number)));
        let live = live.count() as u64;
        if live == 0 {
            return ParityMethod::NoParity;
        }
        let covers = |unit: &UnitWrite| not_overwritten(unit, hull) == (0, 0);
        if live == parities
            && let Some(failed) = self.failed
        {
            let lost = |unit: &&UnitWrite| self.geometry.data_member(row, unit.unit) == failed;
            return match written.iter().find(lost) {
                None => ParityMethod::ReadModifyWrite,
                Some(unit) if covers(unit) => ParityMethod::Reconstruct,
                Some(_) => ParityMethod::RebuildFirst,
            };
        }
        let covered = written.iter().filter(|unit| covers(unit)).count() as u64;
        let reconstruct = self.geometry.data_units() - covered;
        if reconstruct <= written.len() as u64 + live {
            ParityMethod::Reconstruct
        } else {
            ParityMethod::ReadModifyWrite
        }
    }
}

/// The part of `hull` that the write leaves in a unit, as one span. It is all of `hull` if parts remain on both sides,
/// and empty (0, 0) if the write covers it.
fn not_overwritten(unit: &UnitWrite, hull: (u64, u64)) -> (u64, u64) {
    match (unit.solid, unit.from == hull.0, unit.to == hull.1) {
        (true, true, true) => (0, 0),
        (true, true, false) => (unit.to, hull.1),
        (true, false, true) => (hull.0, unit.from),
        _ => hull,
    }
}
