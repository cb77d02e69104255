//! A drive as it was measured: service times drawn from a capture.
//!
//! Each request takes a time drawn from those of the capture's requests of the same operation, size,
//! distance from the request before and number of others at the drive. Where the capture has fewer than
//! 100 of those, the distance is left out, then the size; then the nearest other queue length is
//! taken, then any, at last any operation ([`Condition::fallbacks`]). The times are from issue to completion, with what a request waited
//! inside the drive for others; so requests do not wait for one another again, and a drive takes at most
//! as many as the capture had there.
//!
//! To make a profile: show an [`EmpiricalFit`] every request of a capture, then write what
//! [`FittedCells::profile`] returns to a file.
//!
//! Leaves out that successive times depend on one another, what the classes do not tell (locality, rotational position,
//! the state of a cache), and any load that the capture did not have.

mod cells;
mod classes;
mod fit;
mod quantiles;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use schedulers::AccessCost;
use traces::spec::{Settings, Tunable, Unit};
use traces::{Lba, Nanos, Operation, Request, RequestId, Sectors, Timestamp};

use crate::drive::{Completion, DriveModel, WriteCache};
use crate::registry::{ModelRow, never_contradict};

pub use cells::{EmpiricalCell, EmpiricalCells};
pub use classes::{Condition, DISTANCES, QUEUES, SIZES};
pub use fit::{EmpiricalFit, EmpiricalFitError, FittedCells, SAMPLES_MIN};
pub use quantiles::{QUANTILES, Quantiles};

/// The registry's row.
pub const MODEL: ModelRow = ModelRow {
    name: "empirical",
    summary: "service times drawn from a capture; needs a profile with [empirical]",
    tunables: &[
        Tunable::new("capacity", Unit::Bytes, "1t", "capacity").within(512, 1 << 62),
        Tunable::new("depth", Unit::Count, "32", "requests that the drive takes at a time").within(1, 65_536),
        WriteCache::TUNABLE,
        Tunable::new("discards", Unit::Switch, "off", "whether the drive understands discards"),
        Tunable::new("seed", Unit::Count, "1", "seed of the draws"),
    ],
    one_at_a_time: false,
    check: never_contradict,
    sections: cells::SECTIONS,
    describe: cells::describe,
};

/// What a profile says of a fitted drive beside its times.
#[derive(Clone, Copy, Debug)]
pub struct Heading<'a> {
    /// One line on what drive it is.
    pub summary: &'a str,
    /// Against what it was checked, if anything.
    pub validation: &'a str,
    /// Which capture.
    pub source: &'a str,
    /// The drive's capacity.
    pub capacity: Sectors,
    /// What it does with written data.
    pub write_cache: WriteCache,
    /// Whether it understands discards.
    pub discards: bool,
}

impl FittedCells {
    /// The text of a profile, which [`crate::Profile::parse`] reads back.
    pub fn profile(&self, heading: &Heading<'_>) -> String {
        let Heading { summary, validation, source, capacity, write_cache, discards } = *heading;
        let quoted = |text: &str| toml::Value::from(text).to_string();
        let settings = [
            ("capacity", capacity.bytes().to_string(), source),
            ("depth", self.depth.to_string(), "the most requests that the capture had at the drive at a time"),
            ("write_cache", write_cache.word().to_owned(), source),
            ("discards", if discards { "on" } else { "off" }.to_owned(), source),
            ("seed", "1".to_owned(), "free"),
        ];
        let mut text = format!(
            "model = \"empirical\"\nsummary = {}\nvalidation = {}\n\n[settings]\n",
            quoted(summary),
            quoted(validation)
        );
        for (name, value, source) in settings {
            text.push_str(&format!("{name} = {{ value = {}, source = {} }}\n", quoted(&value), quoted(source)));
        }
        text.push_str(&format!("\n[empirical]\nsource = {}\n{}", quoted(source), self.cells.to_text()));
        text
    }
}

/// A drive with what is at it.
#[derive(Debug)]
pub struct EmpiricalDrive {
    depth: usize,
    write_cache: WriteCache,
    discards: bool,
    random: Xoshiro256PlusPlus,
    /// By time of completion, then in the order submitted.
    pending: BinaryHeap<Reverse<Pending>>,
    submitted: u64,
    cost: EmpiricalCost,
}

/// What a drive will complete: when, how many came before, which, since when, how far from the one before.
type Pending = (Timestamp, u64, RequestId, Timestamp, Sectors);

impl EmpiricalDrive {
    /// An idle drive with the settings of [`MODEL`].
    pub fn new(settings: &Settings, cells: &EmpiricalCells) -> EmpiricalDrive {
        let capacity = Sectors::new(settings.bytes("capacity") / traces::SECTOR_BYTES);
        EmpiricalDrive {
            depth: settings.count("depth") as usize,
            write_cache: WriteCache::from_settings(settings),
            discards: settings.switch("discards"),
            random: Xoshiro256PlusPlus::seed_from_u64(settings.count("seed")),
            pending: BinaryHeap::new(),
            submitted: 0,
            cost: EmpiricalCost { cells: cells.clone(), position: Lba::ZERO, capacity },
        }
    }
}

impl DriveModel for EmpiricalDrive {
    fn capacity(&self) -> Sectors {
        self.cost.capacity
    }

    fn accepts(&self, _request: &Request) -> bool {
        self.pending.len() < self.depth
    }

    fn submit(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        let flush = request.operation == Operation::Flush;
        let seek = if flush { Sectors::ZERO } else { self.cost.position.distance(request.lba) };
        let queue = self.pending.len() as u32;
        let cell = self.cost.cells.of(request.operation, request.sectors(), seek, queue);
        let finished = now.saturating_add(cell.quantiles.draw(self.random.next_u64()));
        if !flush {
            self.cost.position = request.end();
        }
        self.pending.push(Reverse((finished, self.submitted, id, now, seek)));
        self.submitted += 1;
    }

    fn next_event(&self) -> Option<Timestamp> {
        self.pending.peek().map(|Reverse((finished, ..))| *finished)
    }

    fn advance(&mut self, now: Timestamp, completions: &mut Vec<Completion>) {
        while self.next_event().is_some_and(|finished| finished <= now) {
            if let Some(Reverse((finished, _, id, started, seek))) = self.pending.pop() {
                completions.push(Completion { id, started, finished, seek, hit: false });
            }
        }
    }

    fn cost(&self) -> &dyn AccessCost {
        &self.cost
    }

    fn write_cache(&self) -> WriteCache {
        self.write_cache
    }

    fn discards(&self) -> bool {
        self.discards
    }
}

/// The median time of a read that is alone at the drive.
#[derive(Debug)]
struct EmpiricalCost {
    cells: EmpiricalCells,
    position: Lba,
    capacity: Sectors,
}

impl AccessCost for EmpiricalCost {
    fn position(&self) -> Lba {
        self.position
    }

    fn capacity(&self) -> Sectors {
        self.capacity
    }

    fn between(&self, from: Lba, to: Lba, sectors: Sectors) -> Nanos {
        self.cells.of(Operation::Read, sectors, from.distance(to), 0).quantiles.median()
    }
}

#[cfg(test)]
mod tests;
