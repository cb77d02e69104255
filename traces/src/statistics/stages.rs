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

/// A distribution per operation and stage.
// By operation first, so that all stages of an arrival are at fixed distances from one another.
#[derive(Clone, Debug, Default)]
pub(super) struct Stages {
    operations: [[Distribution; STAGES.len()]; Operation::ALL.len()],
}

impl Stages {
    #[inline]
    pub(super) fn add(&mut self, stage: Stage, operation: Operation, span: Nanos) {
        self.operations[operation as usize][stage as usize].add(span);
    }

    /// The stages of one arrival.
    #[inline]
    pub(super) fn passed(&mut self, passage: &Passage) {
        let stages = &mut self.operations[passage.record.request.operation as usize];
        let arrival = passage.record.request.arrival;
        let observed = &passage.record.observed;
        let mut add = |stage: Stage, from: Timestamp, to: Option<Timestamp>| {
            if let Some(span) = to.and_then(|to| to.checked_since(from)) {
                stages[stage as usize].add(span);
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
        let figures = |(stage, (name, _)): (usize, &(&str, &str))| {
            let mut all = Distribution::default();
            for stages in &self.operations {
                all.merge(&stages[stage]);
            }
            let of = |operation: Operation| self.operations[operation as usize][stage].figures();
            let figures = StageFigures { read: of(Operation::Read), write: of(Operation::Write), all: all.figures() };
            (all.count() > 0).then(|| ((*name).to_owned(), figures))
        };
        STAGES.iter().enumerate().filter_map(figures).collect()
    }
}
