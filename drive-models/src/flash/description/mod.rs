//! The geometry and the times of a flash drive, computed from its settings, with the checks of each setting against the
//! others.

use traces::spec::Settings;
use traces::{Nanos, SECTOR_BYTES, Sectors};

use crate::description::Contradiction;
use crate::flash::buffer::WriteBuffer;

/// Erase blocks striped over all dies that a simulated drive has at least, so that which of them is the emptiest says
/// something.
const BLOCKS_MIN: u64 = 128;
/// Rows that such a block has at least: what is collected in one go is a row, and must be small beside it.
const ROWS_MIN: u64 = 4;
/// Physical units of the simulated part: 300 MB at most, for each takes nine bytes in the drive and in the tables that are
/// kept for the next.
const PLACES_MAX: u64 = 1 << 24;
/// Blocks that a drive has besides those that hold data when it is full.
const SPARE_BLOCKS: u64 = 3;
/// Bytes of the drive's tables for each unit.
const PLACE_BYTES: u64 = 9;

/// The numbers and sizes of all components. A *unit* is what the mapping table maps; a *row* is what one program
/// operation writes: a page in each plane of a die. A *block* is one erase block of every plane of every die, all of
/// which are written, collected and erased together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashGeometry {
    /// Sectors of a unit.
    pub unit_sectors: u64,
    /// Units of the drive.
    pub drive_units: u64,
    /// Units that are simulated.
    pub units: u64,
    /// Channels.
    pub channels: u32,
    /// Dies, over all channels.
    pub dies: u32,
    /// Units that one page holds.
    pub page_units: u32,
    /// Units that one row holds.
    pub row_units: u32,
    /// Rows of a simulated block on each die, at most [`FlashGeometry::block_pages`].
    pub die_rows: u32,
    /// Pages of a real erase block.
    pub block_pages: u32,
    /// Blocks that hold data when the drive is full: its units and the over-provisioning.
    pub data_blocks: u32,
    /// Units that the write buffer holds.
    pub buffer_units: u32,
}

impl FlashGeometry {
    /// Computes it from `settings`.
    ///
    /// # Errors
    /// The first setting that contradicts another.
    pub fn new(settings: &Settings) -> Result<FlashGeometry, Contradiction> {
        let refuse = |tunable, expected: String| Err(Contradiction { tunable, expected });
        let (unit, page) = (settings.bytes("mapping_unit"), settings.bytes("page"));
        if !unit.is_multiple_of(SECTOR_BYTES) {
            return refuse("mapping_unit", format!("a multiple of {SECTOR_BYTES} bytes"));
        }
        if !page.is_multiple_of(unit) {
            return refuse("page", format!("a multiple of mapping_unit={}", settings.word("mapping_unit")));
        }
        if settings.word("interface") == "sata" && settings.count("depth") > 32 {
            return refuse("depth", "at most 32, the depth of native command queueing (interface=sata)".to_owned());
        }
        let row = page * settings.count("planes");
        if settings.bytes("buffer") < row {
            return refuse("buffer", format!("at least {row}, a page in each plane"));
        }
        let dies = settings.count("channels") * settings.count("dies");
        let block_min = row * dies.max(ROWS_MIN);
        let capacity = settings.bytes("capacity");
        let simulated = settings.bytes("simulated").min(capacity);
        if simulated < BLOCKS_MIN * block_min {
            let tunable = if simulated == capacity { "capacity" } else { "simulated" };
            let least = BLOCKS_MIN * block_min;
            return refuse(tunable, format!("at least {least}, {BLOCKS_MIN} blocks of a row on each die"));
        }
        let (block_pages, die_rows_min) = (settings.count("pages_per_block"), ROWS_MIN.div_ceil(dies));
        if block_pages < die_rows_min {
            return refuse("pages_per_block", format!("at least {die_rows_min}, for {ROWS_MIN} over all dies"));
        }
        let die_rows = (simulated / (BLOCKS_MIN * row * dies)).clamp(die_rows_min, block_pages);
        let units = simulated / unit;
        let block_units = die_rows * dies * (row / unit);
        let data_units = u128::from(units) * u128::from(1000 + settings.thousandths("over_provisioning")) / 1000;
        let data_blocks = data_units.div_ceil(u128::from(block_units)) as u64;
        if (data_blocks + SPARE_BLOCKS) * block_units >= PLACES_MAX {
            return refuse("simulated", format!("less than {PLACES_MAX} units of mapping_unit={unit}, with spares"));
        }
        Ok(FlashGeometry {
            unit_sectors: unit / SECTOR_BYTES,
            drive_units: capacity / unit,
            units,
            channels: settings.count("channels") as u32,
            dies: dies as u32,
            page_units: (page / unit) as u32,
            row_units: (row / unit) as u32,
            die_rows: die_rows as u32,
            block_pages: block_pages as u32,
            data_blocks: data_blocks as u32,
            buffer_units: (settings.bytes("buffer") / unit) as u32,
        })
    }

    /// About how many bytes a drive takes.
    pub fn memory(&self) -> u64 {
        let places = (u64::from(self.data_blocks) + SPARE_BLOCKS) * u64::from(self.block_units());
        places * PLACE_BYTES + WriteBuffer::bytes(self.buffer_units)
    }

    /// Units of a block.
    pub fn block_units(&self) -> u32 {
        self.row_units * self.dies * self.die_rows
    }

    /// Rows of a block.
    pub fn block_rows(&self) -> u32 {
        self.dies * self.die_rows
    }

    /// How many units of the drive share a simulated one.
    pub fn scale(&self) -> u64 {
        self.drive_units.div_ceil(self.units)
    }

    /// The drive's capacity.
    pub fn capacity(&self) -> Sectors {
        Sectors::new(self.drive_units * self.unit_sectors)
    }
}

/// The times of all operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The controller, per command; it works on one after the other.
    pub command: Nanos,
    /// The other overhead of a read. Any number of these may overlap.
    pub read_overhead: Nanos,
    /// The same of any other command.
    pub write_overhead: Nanos,
    /// From the cells of a page to its register (tR).
    pub read: Nanos,
    /// From the registers of a row to its cells (tPROG).
    pub program: Nanos,
    /// To erase a block (tBERS).
    pub erase: Nanos,
    /// To suspend a program or erase operation.
    pub suspend: Nanos,
    /// A unit over the channel.
    pub unit_transfer: Nanos,
    link_byte_ps: u64,
}

impl Timing {
    /// Computes it from `settings`.
    pub fn new(settings: &Settings) -> Timing {
        Timing {
            command: settings.nanos("command"),
            read_overhead: settings.nanos("read_overhead"),
            write_overhead: settings.nanos("write_overhead"),
            read: settings.nanos("read_time"),
            program: settings.nanos("program_time"),
            erase: settings.nanos("erase_time"),
            suspend: settings.nanos("suspend_time"),
            unit_transfer: transfer(settings.bytes("mapping_unit"), settings.count("channel_byte_ps")),
            link_byte_ps: settings.count("link_byte_ps"),
        }
    }

    /// `sectors` over the link to the host.
    pub fn link(&self, sectors: u64) -> Nanos {
        transfer(sectors * SECTOR_BYTES, self.link_byte_ps)
    }
}

/// Fits: a request is under 2 TiB, and no setting allows more than a microsecond for a byte.
fn transfer(bytes: u64, byte_ps: u64) -> Nanos {
    Nanos::from_ns(bytes * byte_ps / 1000)
}

#[cfg(test)]
mod tests;
