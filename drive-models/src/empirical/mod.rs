//! A drive whose service times are drawn from a capture.
//!
//! The time of a request is drawn from the times of the capture's requests of the same class. The class is operation,
//! size, distance from the request before, and number of other requests at the drive. If the capture has fewer than 100
//! of those, the distance is left out, then the size. Next comes the nearest other queue length, then any queue length,
//! and last any operation ([`Condition::fallbacks`]).
//!
//! The times run from issue to completion and include the wait inside the drive for other requests. Requests therefore
//! do not wait for one another again in the model, and the drive accepts at most as many requests as the capture had
//! there.
//!
//! To make a profile, show an [`EmpiricalFit`] every request of a capture, then write the result of
//! [`FittedCells::profile`] to a file.
//!
//! Leaves out the dependence of successive times on one another, and every load that the capture did not have. Also
//! leaves out everything that the classes do not distinguish (locality, rotational position, the state of a cache).

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
use crate::model_row::{ModelRow, memory_without_tables, never_contradict};

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
    queue_depth: |settings| settings.count("depth") as u32,
    is_rotational: false,
    check: never_contradict,
    memory: memory_without_tables,
    sections: cells::SECTIONS,
    describe: cells::describe,
};

/// The entries of a fitted drive's profile beside its times.
#[derive(Clone, Copy, Debug)]
pub struct Heading<'a> {
    /// One line that describes the drive.
    pub summary: &'a str,
    /// The measurements that it was checked against, if any.
    pub validation: &'a str,
    /// The capture.
    pub source: &'a str,
    /// The drive's capacity.
    pub capacity: Sectors,
    /// Its write cache.
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

/// A drive with the requests at it.
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

/// A pending completion: its time, the number of requests submitted before, the request, when it was submitted, and the
/// distance from the request before.
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
