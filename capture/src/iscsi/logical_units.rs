//! Logical units: the disks that initiators use.

use traces::results::wire::UnitFigures;
use traces::trace::AddressSpace;
use traces::{Sectors, VmId};

/// One logical unit, as used by one initiator.
#[derive(Clone, Debug)]
pub struct LogicalUnit {
    /// The initiator's name, or its address.
    pub initiator: String,
    /// The target's name, or its address.
    pub target: String,
    /// The eight bytes of the logical unit number.
    pub lun: u64,
    /// The block size in bytes, and whether the target reported it.
    pub block: Option<(u32, bool)>,
    /// Number of blocks.
    pub blocks: Option<u64>,
    /// The VM of the trace, assigned at the first record.
    vm: Option<VmId>,
    /// The unit's figures.
    pub figures: UnitFigures,
}

/// All logical units.
#[derive(Clone, Debug, Default)]
pub struct LogicalUnits {
    units: Vec<LogicalUnit>,
    /// Indexes of units with records, by [`VmId`].
    vms: Vec<usize>,
}

/// The most units that are distinguished; further units are not recorded.
const LOGICAL_UNITS_MAX: usize = 1 << 16;

impl LogicalUnits {
    /// The index of this unit; `None` if there are too many units.
    pub fn find(&mut self, initiator: &str, target: &str, lun: u64) -> Option<usize> {
        let same = |unit: &LogicalUnit| unit.lun == lun && unit.initiator == initiator && unit.target == target;
        if let Some(index) = self.units.iter().position(same) {
            return Some(index);
        }
        self.units.push(LogicalUnit {
            initiator: initiator.to_owned(),
            target: target.to_owned(),
            lun,
            block: None,
            blocks: None,
            vm: None,
            figures: UnitFigures::default(),
        });
        (self.units.len() <= LOGICAL_UNITS_MAX).then(|| self.units.len() - 1)
    }

    /// A unit by its index.
    pub fn unit(&mut self, index: usize) -> &mut LogicalUnit {
        &mut self.units[index]
    }

    /// The VM to which this unit's records belong.
    pub fn vm(&mut self, index: usize) -> VmId {
        let next = VmId(self.vms.len() as u16);
        let vm = *self.units[index].vm.get_or_insert(next);
        if vm == next {
            self.vms.push(index);
        }
        vm
    }

    /// The units with records.
    fn used(&self) -> Vec<&LogicalUnit> {
        self.vms.iter().map(|&index| &self.units[index]).collect()
    }

    /// The unit's name: the initiator. The unit number is appended if the initiator has several units, and the target
    /// if there are several targets.
    fn name(&self, unit: &LogicalUnit) -> String {
        let used = self.used();
        let several =
            used.iter().filter(|other| other.initiator == unit.initiator).count() > usize::from(unit.vm.is_some());
        let one_target = used.iter().all(|other| other.target == unit.target);
        match (several, one_target) {
            (false, _) => unit.initiator.clone(),
            (true, true) => format!("{}/lun{}", unit.initiator, lun_name(unit.lun)),
            (true, false) => format!("{}/{}/lun{}", unit.initiator, unit.target, lun_name(unit.lun)),
        }
    }

    /// Names of the trace's VMs.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.used().iter().map(|unit| self.name(unit)).collect();
        if names.is_empty() {
            names.push("vm0".to_owned());
        }
        names
    }

    /// Whether all units are one disk.
    pub fn address_space(&self) -> AddressSpace {
        let same = self.used().windows(2).all(|two| two[0].target == two[1].target && two[0].lun == two[1].lun);
        if same { AddressSpace::Shared } else { AddressSpace::PerVm }
    }

    /// The disk's size, if there is one disk and the target reported its size.
    pub fn capacity(&self) -> Option<Sectors> {
        let used = self.used();
        let first = used.iter().find(|unit| unit.blocks.is_some())?;
        let (block, _) = first.block?;
        let sectors = first.blocks?.checked_mul(u64::from(block / 512))?;
        (self.address_space() == AddressSpace::Shared).then(|| Sectors::new(sectors))
    }

    /// The figures of each unit, with its name.
    pub fn figures(&self) -> Vec<UnitFigures> {
        let of = |unit: &LogicalUnit| UnitFigures {
            vm: self.name(unit),
            initiator: unit.initiator.clone(),
            target: unit.target.clone(),
            lun: lun_name(unit.lun),
            block_bytes: unit.block.map_or(512, |(bytes, _)| bytes),
            block_size_from: match unit.block {
                Some((_, true)) => "READ CAPACITY",
                Some((_, false)) => "transfer lengths",
                None => "assumed",
            }
            .to_owned(),
            ..unit.figures.clone()
        };
        self.units.iter().map(of).collect()
    }
}

/// A logical unit number in its usual notation: decimal if it has one level, else its 16 hexadecimal digits.
fn lun_name(lun: u64) -> String {
    let (first, rest) = (lun >> 48, lun & 0xffff_ffff_ffff);
    match first >> 14 {
        0 | 1 if rest == 0 => (first & 0x3fff).to_string(),
        _ => format!("{lun:016x}"),
    }
}
