//! `iocast validate cross`: a VM's capture on one device, replayed on another, against its capture there.

mod figures;
mod link;
mod measured;
mod synthetic;
pub mod tables;

use anyhow::Result;
use predictors::synthetic::Campaign;
use traces::results::SCHEMA_VERSION;
use traces::results::cross::{CrossCase, CrossFigure, CrossLeftOut, CrossValidation};
use traces::{Nanos, Record, Timestamp};

use self::figures::{NAMES, Run, summary};
use crate::arguments::ValidateCross;
use crate::document::present;
use crate::validate::guest_queue::Replayed;
use crate::validate::split;

/// A replay must last so long to be measured. A process that is much faster on the other device uses up its requests.
const REPLAYED_MIN: Nanos = Nanos::from_s(5);

pub fn run(arguments: &ValidateCross) -> Result<()> {
    let report = arguments.report.planned()?;
    let (found, part) = if arguments.synthetic {
        let campaign = Campaign { seed: arguments.seed, vms: usize::from(arguments.vms), ..Campaign::default() };
        (synthetic::cases(&campaign, arguments.by)?, Some(split::part_of_seed(arguments.seed).to_owned()))
    } else {
        (measured::cases(arguments)?, arguments.part.clone())
    };
    let (mut cases, mut left_out) = (Vec::new(), Vec::new());
    for case in found {
        match case {
            Ok(case) => cases.push(case),
            Err(why) => left_out.push(why),
        }
    }
    let result = CrossValidation {
        schema_version: SCHEMA_VERSION,
        program: traces::program_version(),
        by: arguments.by.name().to_owned(),
        part,
        summary: summary(&cases),
        cases,
        left_out,
    };
    present(&result, &tables::document(&result), arguments.output_format, &report, Vec::new())
}

/// A case, or why there is none.
type Outcome = Result<CrossCase, CrossLeftOut>;

/// The requests of a run, and the part of it that is measured.
struct Captured<'a> {
    records: &'a [Record],
    window: (Timestamp, Timestamp),
}

/// Compares the replay of `captured` with what the VM did on the other device, `truth`. `case` says what is compared.
fn compared(case: CrossCase, captured: &Captured<'_>, replayed: Replayed, truth: &Captured<'_>) -> Outcome {
    let (begin, end) = truth.window;
    let until = replayed.used_up.map_or(end, |used_up| used_up.min(end));
    let span = until.saturating_since(begin);
    if span < REPLAYED_MIN {
        let why = format!(
            "the VM is so much faster there that its captured requests are used up after {:.1} s, of which {:.0} are \
             warm-up",
            until.as_ns() as f64 / 1e9,
            begin.as_ns() as f64 / 1e9
        );
        return Err(CrossLeftOut { vm: case.vm, from: case.from, to: case.to, why });
    }
    let (first, last) = captured.window;
    let runs = [
        Run::captured(captured.records).figures(first, last),
        Run { done: replayed.done, at_device: replayed.served }.figures(begin, until),
        // Over the same time: what a device holds in its caches changes while a VM runs.
        Run::captured(truth.records).figures(begin, until),
    ];
    let figure = |at: usize| {
        let [captured, replayed, truth] = [&runs[0], &runs[1], &runs[2]].map(|run| run[at]);
        CrossFigure { captured, replayed, truth }
    };
    let figures = NAMES.iter().enumerate().map(|(at, name)| ((*name).to_owned(), figure(at))).collect();
    Ok(CrossCase { figures, replayed_ns: span.as_ns(), ..case })
}
