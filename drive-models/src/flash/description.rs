//! What the settings of a flash drive say, checked against one another.

use traces::spec::Settings;
use traces::{Nanos, SECTOR_BYTES, Sectors};

use crate::description::Contradiction;

/// Erase blocks striped over all dies that a simulated drive has at least, so that which of them is
/// the emptiest says something.
const BLOCKS_MIN: u64 = 128;
/// Rows that such a block has at least: what is collected in one go is a row, and must be small beside it.
const ROWS_MIN: u64 = 4;
/// Physical units that can be numbered.
const PLACES_MAX: u64 = 1 << 31;

/// How many there are of everything. A *unit* is what the mapping table maps; a *row* is what one
/// program operation writes: a page in each plane of a die. A *block* is one erase block of every
/// plane of every die, all of which are written, collected and erased together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
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
    /// Rows of a simulated block on each die, at most [`Geometry::block_pages`].
    pub die_rows: u32,
    /// Pages of a real erase block.
    pub block_pages: u32,
    /// Blocks that hold data when the drive is full: its units and the over-provisioning.
    pub data_blocks: u32,
    /// Units that the write buffer holds.
    pub buffer_units: u32,
}

impl Geometry {
    /// What `settings` say.
    ///
    /// # Errors
    /// The first setting that contradicts another.
    pub fn new(settings: &Settings) -> Result<Geometry, Contradiction> {
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
        if (data_blocks + 3) * block_units >= PLACES_MAX {
            return refuse("simulated", format!("less than {PLACES_MAX} units of mapping_unit={unit}, with spares"));
        }
        Ok(Geometry {
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

/// How long everything takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The controller, per command; it works on one after the other.
    pub command: Nanos,
    /// What else a read takes, of which any number may be under way.
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
    /// What `settings` say.
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

fn transfer(bytes: u64, byte_ps: u64) -> Nanos {
    Nanos::from_ns((u128::from(bytes) * u128::from(byte_ps) / 1000) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::build;
    use crate::{PROFILES, Profile};

    #[test]
    fn what_contradicts_is_refused_with_its_line() {
        let (_, good) = PROFILES.iter().find(|(name, _)| *name == "sata-ssd").unwrap();
        let line = |key: &str| good[..good.find(&format!("\n{key} = ")).unwrap() + 1].matches('\n').count() + 1;
        for (key, from, to, message) in [
            ("depth", "\"32\"", "\"33\"", "x:depth=`33` is not at most 32, the depth of native command queueing"),
            ("page", "\"16k\"", "\"10k\"", "x:page=`10k` is not a multiple of mapping_unit=4k"),
            ("mapping_unit", "\"4k\"", "\"1000\"", "x:mapping_unit=`1000` is not a multiple of 512 bytes"),
            ("buffer", "\"8m\"", "\"31k\"", "x:buffer=`31k` is not at least 32768, a page in each plane"),
            ("simulated", "\"4g\"", "\"64m\"", "x:simulated=`64m` is not at least 134217728, 128 blocks of a row"),
            ("capacity", "\"960197124096\"", "\"1m\"", "x:capacity=`1m` is not at least 134217728, 128 blocks"),
            ("program_time", "\"1550us\"", "\"-1ms\"", "x:program_time=`-1ms` is not a time"),
            ("channels", "\"8\"", "\"0\"", "x:channels=`0` is not from 1 to 256"),
            ("over_provisioning", "\"0.145\"", "\"0\"", "x:over_provisioning=`0` is not from 0.020 to 10.000"),
        ] {
            let start = good.find(&format!("\n{key} = ")).unwrap();
            let text = format!("{}{}", &good[..start], good[start..].replacen(from, to, 1));
            let error = Profile::parse("x", &text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("drive profile x at line {}: {message}", line(key))), "{error}");
        }
        let without: Vec<&str> = good.lines().filter(|line| !line.starts_with("erase_time")).collect();
        let error = Profile::parse("x", &without.join("\n")).unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "drive profile x at line {}: `erase_time` is missing from [settings]: to erase a block in each plane, tBERS",
                good[..good.find("[settings]").unwrap()].matches('\n').count() + 1
            )
        );
        let seek = format!("{good}\n[empirical]\nsource = \"x\"\ncells = []\n");
        let error = Profile::parse("x", &seek).unwrap_err().to_string();
        assert!(error.ends_with("a flash drive has no [empirical]"), "{error}");
    }

    #[test]
    fn what_contradicts_on_the_command_line_is_refused_too() {
        let error = build(&"nvme-ssd:interface=sata".parse().unwrap()).err().unwrap().to_string();
        assert!(error.starts_with("nvme-ssd:depth=`1023` is not at most 32"), "{error}");
        let error = build(&"flash:simulated=1t,mapping_unit=512".parse().unwrap()).err().unwrap().to_string();
        assert!(error.starts_with("flash:simulated=`1t` is not less than 2147483648 units"), "{error}");
        let error = build(&"flash:channels=1,dies=2,pages_per_block=1".parse().unwrap()).err().unwrap().to_string();
        assert_eq!(error, "flash:pages_per_block=`1` is not at least 2, for 4 over all dies");
    }

    #[test]
    fn the_shipped_profiles_map_tens_of_megabytes() {
        for name in ["sata-ssd", "nvme-ssd"] {
            let profile = Profile::shipped(name).unwrap();
            let settings = profile.resolve(&crate::flash::MODEL, &name.parse().unwrap()).unwrap();
            let geometry = Geometry::new(&settings).unwrap();
            let places = (u64::from(geometry.data_blocks) + 3) * u64::from(geometry.block_units());
            assert!(4 * (geometry.units + places) < 20 << 20, "{name}");
            assert!(geometry.units * geometry.scale() >= geometry.drive_units);
        }
    }
}
