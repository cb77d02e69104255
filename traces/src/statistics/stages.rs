//! Times between the stages of a request.

use std::collections::BTreeMap;

use super::distribution::Distribution;
use crate::events::Passage;
use crate::request::Operation;
use crate::results::statistics::{STAGES, StageFigures};
use crate::units::{Nanos, Timestamp};

/// The stages, in the order of [`STAGES`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Q2Q,
    Q2G,
    Q2M,
    G2I,
    I2D,
    M2D,
    D2C,
    Q2C,
    D2D,
    DeviceTime,
}

const READS: usize = 0;
const WRITES: usize = 1;
const OTHERS: usize = 2;

#[inline]
fn class(operation: Operation) -> usize {
    match operation {
        Operation::Read => READS,
        Operation::Write => WRITES,
        Operation::Flush | Operation::Discard => OTHERS,
    }
}

/// A distribution per stage and class.
#[derive(Clone, Debug, Default)]
pub(super) struct Stages {
    stages: [[Distribution; 3]; STAGES.len()],
}

impl Stages {
    #[inline]
    pub(super) fn add(&mut self, stage: Stage, operation: Operation, span: Nanos) {
        self.stages[stage as usize][class(operation)].add(span);
    }

    /// The stages of one arrival.
    #[inline]
    pub(super) fn passed(&mut self, passage: &Passage) {
        let operation = passage.record.request.operation;
        let arrival = passage.record.request.arrival;
        let observed = &passage.record.observed;
        let mut add = |stage, from: Timestamp, to: Option<Timestamp>| {
            if let Some(span) = to.and_then(|to| to.checked_since(from)) {
                self.stages[stage as usize][class(operation)].add(span);
            }
        };
        add(Stage::Q2C, arrival, observed.completed);
        if let Some(issued) = observed.issued {
            add(Stage::D2C, issued, observed.completed);
        }
        // A request that was itself merged into another has both a G and an M.
        add(Stage::Q2G, arrival, passage.got);
        if let Some(merged) = passage.merged {
            add(Stage::Q2M, arrival, Some(merged));
            add(Stage::M2D, merged, observed.issued);
            return;
        }
        if let Some(inserted) = observed.inserted {
            add(Stage::I2D, inserted, observed.issued);
        }
        if let Some(got) = passage.got {
            add(Stage::G2I, got, observed.inserted);
        }
    }

    /// By name, without those that never occurred.
    pub(super) fn figures(&self) -> BTreeMap<String, StageFigures> {
        let figures = |([reads, writes, others], (name, _)): (&[Distribution; 3], &(&str, &str))| {
            let mut all = reads.clone();
            all.merge(writes);
            all.merge(others);
            let figures = StageFigures { read: reads.figures(), write: writes.figures(), all: all.figures() };
            (all.count() > 0).then(|| ((*name).to_owned(), figures))
        };
        self.stages.iter().zip(&STAGES).filter_map(figures).collect()
    }
}
