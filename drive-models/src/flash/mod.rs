//! A solid-state drive: commands, a write buffer, a page-mapped translation layer, channels and dies.
//!
//! A command first occupies the controller. A read then asks its dies for the pages that hold its units, and the data
//! goes over channel and link as it arrives. Units that are in the write buffer are read from there. A write goes over
//! the link into the buffer and is complete when all of its data is there. A write waits while the buffer is full. The
//! buffer is emptied in rows, one page in each plane of a die, over the dies in turn, at most two rows a die at a time.
//!
//! The structure follows Agrawal et al. 2008 ("Design tradeoffs for SSD performance") and Tavakkol et al. 2018 (MQSim).
//! Garbage collection is greedy, as Desnoyers 2012 analyses it. Write amplification is a result, not a setting.
//!
//! # The simulated part
//! A map of every 4 KiB of a terabyte takes gigabytes, so only `simulated` bytes are mapped. The drive's addresses fold
//! onto them: unit *u* onto *u* modulo their number, so that neighbours stay neighbours. The simulated part has all
//! dies and the same over-provisioning, in blocks with fewer pages. Everything that depends on shares is kept:
//! utilisation, write amplification of uniform and of sequential loads, and which dies are busy.
//!
//! Four things differ from the whole drive. Ageing is faster: the drive has lost its preconditioning when the simulated
//! part has been overwritten a few times. A hot region covers a larger share than on the real drive unless it is folded
//! as well. A discard frees the share of the simulated units that its range is of the drive. Each die erases after as
//! many pages as a real block has.
//!
//! Memory is about nine bytes for each mapping unit: 10 MB for 4 GiB. The tables that preconditioning filled last are kept
//! once more, for the next drive with the same. More than 16 million units are refused.
//!
//! # Left out
//! Mapping-table misses, pseudo-SLC caching, wear levelling, read retries and error correction, parity over dies,
//! differences between the pages of a cell, multi-plane reads, cache registers, collection while idle, and reading the
//! rest of a mapping unit when a write is smaller than the unit.

mod agenda;
mod buffer;
mod commands;
mod description;
mod ftl;
mod medium;
mod precondition;
mod reads;
mod victims;
mod writes;

use std::collections::VecDeque;

use schedulers::AccessCost;
use traces::spec::{Settings, Tunable, Unit};
use traces::{Lba, Nanos, Operation, Request, RequestId, Sectors, Timestamp};

use crate::description::SettingsAlone;
use crate::drive::{Completion, DriveModel, WriteCache};
use crate::model_row::ModelRow;
use agenda::{Agenda, EventKind, FlashEvent};
use buffer::WriteBuffer;
use commands::Commands;
use description::Timing;
use ftl::{Ftl, PageRead};
use medium::{Medium, PagePart};

pub use description::FlashGeometry;
pub use ftl::WriteCounts;

/// The longest time that is taken for one.
const TIME_NS_MAX: u64 = 1_000_000_000;
/// Rows that a die may have been given and not yet programmed: one to program while the next comes.
const ROWS_PER_DIE: u32 = 2;

/// The registry's row. The defaults are of no drive in particular.
pub const MODEL: ModelRow = ModelRow {
    name: "flash",
    summary: "solid-state drive: dies, channels, write buffer, page map with greedy garbage collection",
    tunables: &[
        Tunable::new("capacity", Unit::Bytes, "1t", "capacity").within(512, 1 << 50),
        Tunable::new(
            "interface",
            Unit::Choice(&["sata", "nvme"]),
            "nvme",
            "sata: one direction at a time, no forced unit access, depth at most 32",
        ),
        Tunable::new("depth", Unit::Count, "1024", "commands that the drive takes at a time").within(1, 65_536),
        Tunable::new("command", Unit::Time, "2us", "controller time per command, one after the other")
            .within(0, TIME_NS_MAX),
        Tunable::new("read_overhead", Unit::Time, "10us", "further overhead of a read").within(0, TIME_NS_MAX),
        Tunable::new("write_overhead", Unit::Time, "10us", "further overhead of any other command")
            .within(0, TIME_NS_MAX),
        Tunable::new("link_byte_ps", Unit::Count, "300", "host link in picoseconds per byte (300 = 3.3 GB/s)")
            .within(0, 1_000_000),
        Tunable::new("channels", Unit::Count, "8", "channels").within(1, 256),
        Tunable::new("dies", Unit::Count, "4", "dies on each channel").within(1, 256),
        Tunable::new("planes", Unit::Count, "2", "planes of a die, programmed together").within(1, 16),
        Tunable::new("page", Unit::Bytes, "16k", "page of a plane").within(512, 1 << 20),
        Tunable::new("pages_per_block", Unit::Count, "256", "pages of an erase block").within(1, 65_536),
        Tunable::new("mapping_unit", Unit::Bytes, "4k", "unit of the mapping table").within(512, 1 << 20),
        Tunable::new("read_time", Unit::Time, "60us", "from cells to page register, tR").within(0, TIME_NS_MAX),
        Tunable::new("program_time", Unit::Time, "700us", "to program a page in each plane, tPROG")
            .within(1, TIME_NS_MAX),
        Tunable::new("erase_time", Unit::Time, "3800us", "to erase a block in each plane, tBERS")
            .within(0, TIME_NS_MAX),
        Tunable::new("channel_byte_ps", Unit::Count, "1500", "channel in picoseconds per byte (1500 = 667 MB/s)")
            .within(0, 1_000_000),
        Tunable::new("suspensions", Unit::Count, "0", "how often a program or erase yields to a read of the host")
            .within(0, 1000),
        Tunable::new("suspend_time", Unit::Time, "20us", "to suspend it").within(0, TIME_NS_MAX),
        Tunable::new("buffer", Unit::Bytes, "16m", "write buffer").within(512, 1 << 34),
        Tunable::new(
            "power_loss_protection",
            Unit::Switch,
            "off",
            "whether the write buffer survives, so that flushes have nothing to do",
        ),
        Tunable::new("over_provisioning", Unit::Decimal, "0.1", "spare cells as a share of the capacity")
            .within(20, 10_000),
        Tunable::new("simulated", Unit::Bytes, "4g", "how much of the capacity is mapped").within(512, 1 << 40),
        Tunable::new(
            "precondition",
            Unit::Choice(&["random", "sequential", "empty"]),
            "random",
            "earlier writes: random is the steady state of small random writes",
        ),
        Tunable::new("seed", Unit::Count, "1", "seed of the preconditioning"),
    ],
    one_at_a_time: false,
    queue_depth: |settings| settings.count("depth") as u32,
    is_rotational: false,
    check: |settings| FlashGeometry::new(settings).map(|_| ()),
    memory: |settings, _| FlashGeometry::new(settings).map_or(0, |geometry| geometry.memory()),
    sections: &[],
    describe: |_| Ok(Box::new(SettingsAlone(|settings| Box::new(Flash::new(settings))))),
};

/// A row on its way into the cells.
#[derive(Clone, Copy, Debug)]
struct RowProgram {
    die: u32,
    /// The first slot of the host's units in it.
    chain: u32,
    /// Page reads of garbage collection that it waits for.
    reads: u32,
}

/// A drive with its queue.
#[derive(Debug)]
pub struct Flash {
    geometry: FlashGeometry,
    timing: Timing,
    depth: u32,
    full_duplex: bool,
    protected: bool,
    agenda: Agenda,
    commands: Commands,
    controller_free: Timestamp,
    /// When the link is free, towards the host and from it.
    link_free: [Timestamp; 2],
    buffer: WriteBuffer,
    ftl: Ftl,
    medium: Medium,
    rows: Vec<RowProgram>,
    spare_rows: Vec<u32>,
    die_rows: Vec<u32>,
    /// Pages that each die has to erase before a block's worth is together.
    unerased: Vec<u32>,
    /// Writes that wait for capacity in the buffer.
    admission: VecDeque<RequestId>,
    /// Flushes, each with the epoch that it waits for.
    flushes: VecDeque<(RequestId, u64)>,
    cost: FlashCost,
    // Reused so that nothing is allocated per row.
    reads: Vec<PageRead>,
}

impl Flash {
    /// A drive with the settings of [`MODEL`].
    ///
    /// # Panics
    /// If they contradict one another, which [`FlashGeometry::new`] finds out.
    pub fn new(settings: &Settings) -> Flash {
        let geometry = FlashGeometry::new(settings).expect("settings are checked before a drive is built");
        let timing = Timing::new(settings);
        let ftl = precondition::preconditioned(&geometry, settings.word("precondition"), settings.count("seed"));
        let stagger = |die: u32| u64::from(die) * u64::from(geometry.block_pages) / u64::from(geometry.dies);
        Flash {
            depth: settings.count("depth") as u32,
            full_duplex: settings.word("interface") == "nvme",
            protected: settings.switch("power_loss_protection"),
            agenda: Agenda::new(&timing, settings.count("suspensions") as u32),
            commands: Commands::default(),
            controller_free: Timestamp::ZERO,
            link_free: [Timestamp::ZERO; 2],
            buffer: WriteBuffer::new(geometry.buffer_units),
            medium: Medium::new(&geometry, timing, settings.count("suspensions") as u32),
            rows: Vec::new(),
            spare_rows: Vec::new(),
            die_rows: vec![0; geometry.dies as usize],
            unerased: (0..geometry.dies).map(|die| stagger(die) as u32).collect(),
            admission: VecDeque::new(),
            flushes: VecDeque::new(),
            cost: FlashCost { position: Lba::ZERO, geometry, timing },
            reads: Vec::new(),
            ftl,
            geometry,
            timing,
        }
    }

    /// What it has written so far; its write amplification is the ratio.
    pub fn written(&self) -> WriteCounts {
        self.ftl.written()
    }

    /// Sends `sectors` over the link from `now` on or when it is free. Returns when they are over.
    fn link(&mut self, now: Timestamp, sectors: u64, from_host: bool) -> Timestamp {
        let free = &mut self.link_free[usize::from(from_host && self.full_duplex)];
        *free = now.max(*free).saturating_add(self.timing.link(sectors));
        *free
    }

    fn handle(&mut self, event: FlashEvent, completions: &mut Vec<Completion>) {
        let FlashEvent { time: now, kind, subject, sequence } = event;
        let id = RequestId(subject);
        match kind {
            EventKind::Command => self.command(now, id),
            EventKind::Data => {
                self.admission.push_back(id);
                self.write_back(now);
            }
            EventKind::Read => self.medium.ask_channel(now, subject, &mut self.agenda),
            EventKind::Program | EventKind::Erase => {
                if let Some(work) = self.medium.die_ready(now, subject, sequence, &mut self.agenda) {
                    self.finished(now, work, PagePart::default());
                }
            }
            EventKind::Channel => {
                if let Some((work, wanted)) = self.medium.channel_ready(now, subject, &mut self.agenda) {
                    self.finished(now, work, wanted);
                }
            }
            EventKind::ReadDone | EventKind::OtherDone => {
                let command = self.commands.take(id);
                let (started, hit) = (command.started, command.hit);
                completions.push(Completion { id, started, finished: now, seek: Sectors::ZERO, hit });
            }
        }
    }

    /// Simulates what happens by `now` if no command completes by then, which is all that a caller has to wait for: of
    /// events at the same time, those that are due to earlier ones come first.
    fn catch_up(&mut self, now: Timestamp) {
        if self.agenda.next_completion().is_some_and(|completion| completion > now) {
            let mut none = Vec::new();
            self.advance(now, &mut none);
            debug_assert!(none.is_empty(), "a command completed before the time that was named");
        }
    }

    fn command(&mut self, now: Timestamp, id: RequestId) {
        let request = self.commands.get(id).request;
        match request.operation {
            Operation::Read => self.read(now, id, &request),
            Operation::Write => {
                let over = self.link(now, request.sectors().count(), true);
                self.agenda.at(over, EventKind::Data, id.0);
            }
            Operation::Flush => self.make_durable(now, id),
            Operation::Discard => {
                self.trim(&request);
                self.done(now, id);
            }
        }
    }

    /// A read has its data, and is complete after its overhead.
    fn read_done(&mut self, now: Timestamp, id: RequestId) {
        self.agenda.at(now.saturating_add(self.timing.read_overhead), EventKind::ReadDone, id.0);
    }

    /// The same of any other command.
    fn done(&mut self, now: Timestamp, id: RequestId) {
        self.agenda.at(now.saturating_add(self.timing.write_overhead), EventKind::OtherDone, id.0);
    }

    /// The units that a request touches, of the drive.
    fn units(&self, request: &Request) -> std::ops::Range<u64> {
        let unit = self.geometry.unit_sectors;
        request.lba.sector() / unit..request.end().sector().div_ceil(unit)
    }
}

impl DriveModel for Flash {
    fn capacity(&self) -> Sectors {
        self.geometry.capacity()
    }

    fn accepts(&self, _request: &Request) -> bool {
        self.commands.count() < self.depth
    }

    fn submit(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.catch_up(now);
        let started = now.max(self.controller_free);
        self.controller_free = started.saturating_add(self.timing.command);
        self.commands.put(id, request, started);
        self.agenda.at(self.controller_free, EventKind::Command, id.0);
        if request.operation.moves_data() {
            self.cost.position = request.end();
        }
    }

    fn next_event(&self) -> Option<Timestamp> {
        self.agenda.next_completion()
    }

    fn advance(&mut self, now: Timestamp, completions: &mut Vec<Completion>) {
        while let Some(event) = self.agenda.take(now) {
            self.handle(event, completions);
        }
    }

    fn cost(&self) -> &dyn AccessCost {
        &self.cost
    }

    /// A protected NVMe drive reports no volatile cache. A SATA drive has one whatever it protects, and Linux does not
    /// use forced unit access on it (`libata.fua` is off by default).
    fn write_cache(&self) -> WriteCache {
        match (self.full_duplex, self.protected) {
            (true, true) => WriteCache::Through,
            (fua, _) => WriteCache::Volatile { fua },
        }
    }

    fn discards(&self) -> bool {
        true
    }
}

/// The cost of a read on an idle drive, which does not depend on the positions.
#[derive(Clone, Copy, Debug)]
struct FlashCost {
    position: Lba,
    geometry: FlashGeometry,
    timing: Timing,
}

impl AccessCost for FlashCost {
    fn position(&self) -> Lba {
        self.position
    }

    fn capacity(&self) -> Sectors {
        self.geometry.capacity()
    }

    fn between(&self, _from: Lba, _to: Lba, sectors: Sectors) -> Nanos {
        let units = sectors.count().div_ceil(self.geometry.unit_sectors).min(u64::from(self.geometry.page_units));
        let cells = self.timing.read + self.timing.unit_transfer * units;
        self.timing.command + cells + self.timing.link(sectors.count()) + self.timing.read_overhead
    }
}

#[cfg(test)]
mod tests;
