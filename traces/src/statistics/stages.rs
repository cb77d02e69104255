//! Times between the stages of a request.

use super::consecutive::{Consecutive, Last};
use super::distribution::Distribution;
use crate::events::Passage;
use crate::request::Operation;
use crate::results::statistics::{SpanFigures, StageFigures, WithinClass};
use crate::units::{Nanos, Timestamp};

/// The stages of one request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Q2G,
    Q2M,
    G2I,
    I2D,
    M2D,
    D2C,
    Q2C,
    DeviceTime,
}

/// Their names.
const NAMES: [&str; 8] = ["q2g", "q2m", "g2i", "i2d", "m2d", "d2c", "q2c", "device_time"];

/// A distribution per operation and stage.
// By operation first, so that all stages of an arrival are at fixed distances from one another.
#[derive(Clone, Debug, Default)]
pub(super) struct Stages {
    operations: [[Distribution; NAMES.len()]; Operation::ALL.len()],
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
    pub(super) fn figures(&self) -> impl Iterator<Item = (&'static str, StageFigures)> {
        let figures = |(stage, name): (usize, &&'static str)| {
            let mut all = Distribution::default();
            for stages in &self.operations {
                all.merge(&stages[stage]);
            }
            let of = |operation: Operation| self.operations[operation as usize][stage].figures();
            let figures = StageFigures {
                read: of(Operation::Read),
                write: of(Operation::Write),
                flush: of(Operation::Flush),
                discard: of(Operation::Discard),
                all: all.figures(),
                within_class: None,
            };
            (all.count() > 0).then_some((*name, figures))
        };
        NAMES.iter().enumerate().filter_map(figures)
    }
}

/// The times between consecutive requests that carry data.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    last: Last<Timestamp>,
    gaps: Consecutive<Distribution>,
}

impl Gaps {
    /// The next request.
    #[inline(always)]
    pub(super) fn add(&mut self, now: Timestamp, operation: Operation) {
        if operation != Operation::Flush {
            self.gaps.add(&mut self.last, operation, now, now);
        }
    }

    /// `None` if there are none.
    pub(super) fn figures(&self) -> Option<StageFigures> {
        let all = self.gaps.all();
        let of = |operation| self.gaps.in_device_order(operation).figures();
        let within = |operation| self.gaps.within_class(operation).figures();
        (all.count() > 0).then(|| StageFigures {
            read: of(Operation::Read),
            write: of(Operation::Write),
            flush: SpanFigures::default(),
            discard: of(Operation::Discard),
            all: all.figures(),
            within_class: Some(WithinClass {
                read: within(Operation::Read),
                write: within(Operation::Write),
                discard: within(Operation::Discard),
            }),
        })
    }
}
