//! Write amplification against published results.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::spec::Spec;

use super::super::*;
use crate::flash::buffer::NONE;
use crate::flash::ftl::UnitLocation;

/// A translation layer without dies and times: rows are programmed at once.
struct Bare {
    ftl: Ftl,
    buffer: WriteBuffer,
    reads: Vec<PageRead>,
}

/// 262,144 units in blocks of 512, rows of one unit.
const UNITS: u64 = 262_144;

fn bare(over_provisioning: &str, precondition: &str) -> Bare {
    let text = format!(
        "flash:capacity=1g,planes=1,page=4k,channels=1,dies=16,pages_per_block=32,buffer=4k,\
         over_provisioning={over_provisioning}"
    );
    let settings = Settings::resolve(&text.parse::<Spec>().unwrap(), MODEL.tunables).unwrap();
    let geometry = FlashGeometry::new(&settings).unwrap();
    assert_eq!((geometry.units, geometry.block_units()), (UNITS, 512));
    let ftl = precondition::preconditioned(&geometry, precondition, 1);
    Bare { ftl, buffer: WriteBuffer::new(geometry.buffer_units), reads: Vec::new() }
}

impl Bare {
    fn write(&mut self, unit: u64) {
        let slot = self.buffer.put(unit as u32).unwrap();
        self.ftl.buffer(unit as u32, slot);
        while self.ftl.must_collect() {
            self.ftl.collect(&mut self.buffer, &mut self.reads);
            self.reads.clear();
        }
        let mut chain = self.ftl.write_row(&mut self.buffer);
        while chain != NONE {
            let (unit, place, next) = self.buffer.programmed(chain);
            self.ftl.settle(unit.unwrap(), place);
            chain = next;
        }
    }

    /// The amplification of the next `count` writes.
    fn amplification(&mut self, count: u64, mut unit: impl FnMut(u64) -> u64) -> f64 {
        let before = self.ftl.written();
        (0..count).for_each(|nth| self.write(unit(nth)));
        let after = self.ftl.written();
        (after.programmed_units - before.programmed_units) as f64 / (after.host_units - before.host_units) as f64
    }

    fn random(&mut self, count: u64, units: u64, seed: u64) -> f64 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        self.amplification(count, |_| random.random_range(0..units))
    }
}

/// Xiang and Kurkoski 2012 (arXiv:1110.4245) and, the same for large blocks, Desnoyers 2012: with cells for a times the
/// data, a/(a + W(-a·exp(-a))), W being Lambert's function.
fn analytic(cells: f64) -> f64 {
    let of = -cells * (-cells).exp();
    let mut w: f64 = 0.0;
    (0..200).for_each(|_| w -= (w * w.exp() - of) / (w.exp() * (w + 1.0)));
    cells / (cells + w)
}

#[test]
fn analytic_amplification_of_1_3_cells_is_the_papers_2_36() {
    assert!((analytic(1.3) - 2.36).abs() < 0.005, "the paper's own example: {}", analytic(1.3));
}

/// The formula is of blocks without end. Of finite ones the emptiest has fewer valid units than their mean, which
/// counts for more the fewer are invalid; hence the tolerances.
#[test]
fn uniform_random_writes_cost_what_theory_says_from_the_first() {
    for (text, cells, tolerance) in [("0.07", 1.07, 0.05), ("0.15", 1.15, 0.03), ("0.3", 1.3, 0.015), ("1", 2.0, 0.015)]
    {
        let mut drive = bare(text, "random");
        // In windows of a quarter of the drive: the preconditioning is the steady state itself.
        for window in 0..8 {
            let amplification = drive.random(UNITS / 4, UNITS, window);
            let off = amplification / analytic(cells) - 1.0;
            assert!(off.abs() < tolerance, "{text}, window {window}: {amplification} for {}", analytic(cells));
        }
        drive.ftl.audit();
    }
}

#[test]
fn a_drive_filled_in_order_comes_to_the_same_steady_state() {
    let mut drive = bare("0.15", "sequential");
    drive.random(UNITS, UNITS, 1);
    let off = drive.random(UNITS, UNITS, 2) / analytic(1.15) - 1.0;
    assert!(off.abs() < 0.03, "{off}");
}

#[test]
fn sequential_overwriting_moves_nothing() {
    let mut drive = bare("0.07", "sequential");
    assert_eq!(drive.amplification(3 * UNITS, |nth| nth % UNITS), 1.0);
    // Data that was scattered is in order after a few rounds.
    let mut drive = bare("0.3", "random");
    drive.amplification(3 * UNITS, |nth| nth % UNITS);
    assert_eq!(drive.amplification(UNITS, |nth| nth % UNITS), 1.0);
}

#[test]
fn trimmed_units_are_not_moved() {
    let mut drive = bare("0.1", "random");
    let kept = UNITS * 7 / 10;
    (kept..UNITS).for_each(|unit| drive.ftl.trim(unit as u32));
    drive.random(UNITS, kept, 1);
    let off = drive.random(UNITS, kept, 2) / analytic(1.1 / 0.7) - 1.0;
    assert!(off.abs() < 0.03, "{off}");
    assert_eq!(drive.ftl.find(UNITS as u32 - 1), UnitLocation::Nowhere);
}

/// The simulated tenth of a drive behaves as the whole.
#[test]
fn a_discard_frees_its_share_of_the_simulated_part() {
    let text = "flash:capacity=10g,simulated=1g,planes=1,page=4k,channels=1,dies=4,buffer=4k";
    let settings = Settings::resolve(&text.parse::<Spec>().unwrap(), MODEL.tunables).unwrap();
    let mut drive = Flash::new(&settings);
    assert_eq!((drive.geometry.scale(), drive.geometry.drive_units), (10, 10 * UNITS));
    let mapped =
        |drive: &Flash| (0..UNITS).filter(|&unit| drive.ftl.find(unit as u32) != UnitLocation::Nowhere).count() as u64;
    for (from, units, left) in [(0, 3 * UNITS, 7 * UNITS / 10), (3 * UNITS, UNITS / 2, 65 * UNITS / 100)] {
        let sectors = |units: u64| units * 8;
        let whole =
            Request::new(Timestamp::ZERO, Operation::Discard, Lba::new(sectors(from)), Sectors::new(sectors(units)));
        drive.trim(&whole);
        assert!(mapped(&drive).abs_diff(left) < 10, "{} mapped for {left}", mapped(&drive));
    }
    drive.ftl.audit();
}

#[test]
fn unit_that_is_moved_while_it_is_programmed_stays_where_it_was_moved_to() {
    let Bare { mut ftl, .. } = bare("0.1", "random");
    let (mut buffer, mut reads, mut chains) = (WriteBuffer::new(1024), Vec::new(), Vec::new());
    let mut write = |ftl: &mut Ftl, buffer: &mut WriteBuffer, unit| {
        let slot = buffer.put(unit).unwrap();
        ftl.buffer(unit, slot);
        chains.push(ftl.write_row(buffer));
    };
    // A block of units on their way, of which all but the first are trimmed: the emptiest block.
    (0..512).for_each(|unit| write(&mut ftl, &mut buffer, unit));
    for unit in 1..512 {
        let UnitLocation::Buffer(slot) = ftl.find(unit) else { panic!("{unit} is on its way") };
        let place = buffer.drop_unit(slot).unwrap();
        ftl.invalidate(place);
        ftl.trim(unit);
    }
    assert!(!ftl.must_collect());
    write(&mut ftl, &mut buffer, 600);
    assert!(ftl.must_collect());
    ftl.collect(&mut buffer, &mut reads);
    assert_eq!((reads.len(), ftl.take_erased()), (1, 1));
    assert!(matches!(ftl.find(0), UnitLocation::Buffer(_)));
    for mut chain in chains {
        while chain != NONE {
            let (unit, place, next) = buffer.programmed(chain);
            unit.into_iter().for_each(|unit| ftl.settle(unit, place));
            chain = next;
        }
    }
    assert!(matches!(ftl.find(0), UnitLocation::Cells(_)));
    ftl.audit();
}
