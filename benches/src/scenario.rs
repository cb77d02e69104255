//! A scheduler comparison with stored expectations: a question, traces, a drive, schedulers, and
//! the figures that a deterministic replay must give, exactly. A changed figure is a changed
//! decision or a changed model: either a mistake or a reason to state a new expectation.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use replay::metrics::{Class, ClassMetrics};
use replay::sources::{AddressMap, Asap, Closed, MergedTraces, Open, TimeWindow, VmTrace};
use replay::{Engine, Limits, Metrics, Source, Stage};
use serde::Deserialize;
use traces::quantity::{parse_nanos, parse_sectors};
use traces::trace::ReadOptions;
use traces::{Nanos, Sectors, formats};

/// A scenario's file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What is asked, as a sentence.
    pub question: String,
    /// The drive, as on the command line.
    pub drive: String,
    /// `recorded`, `closed` or `asap=N`.
    pub pacing: String,
    /// Requests in flight at the drive.
    pub depth: u32,
    /// Whether the scheduler is asked before the drive has capacity.
    pub look_ahead: bool,
    /// Arrivals before this are replayed, as a time after the first.
    pub to: String,
    /// The traces.
    pub vm: Vec<Vm>,
    /// The schedulers and what is expected of them.
    pub scheduler: Vec<Expected>,
}

/// One VM's trace.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vm {
    /// The trace, relative to the scenario's file.
    pub trace: PathBuf,
    /// Its place on the drive.
    pub place: String,
}

/// A scheduler and the figures expected of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// The scheduler, as on the command line.
    pub spec: String,
    /// The figures.
    #[serde(flatten)]
    pub figures: Figures,
    /// Why they are what they are.
    pub reason: String,
}

/// What is compared exactly. Integers: nanoseconds rounded down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Figures {
    /// Reads and writes completed.
    pub requests: u64,
    /// Requests that the drive served.
    pub device_requests: u64,
    /// From the first arrival to the last completion.
    pub span_ns: u64,
    /// Mean response time of reads.
    pub read_response_mean_ns: u64,
    /// 99th percentile of it.
    pub read_response_p99_ns: u64,
    /// Mean response time of writes.
    pub write_response_mean_ns: u64,
    /// Total distance of the head.
    pub seek_sectors: u64,
}

/// Why a scenario could not be run.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct ScenarioError {
    /// The scenario.
    pub path: PathBuf,
    /// What is wrong.
    pub problem: String,
}

/// A scenario that has run.
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// What it asks.
    pub question: String,
    /// Per scheduler: spec, what was expected, what came out, the reason given.
    pub rows: Vec<(String, Figures, Figures, String)>,
}

impl Outcome {
    /// Whether every figure is as expected.
    pub fn passed(&self) -> bool {
        self.rows.iter().all(|(_, expected, measured, _)| expected == measured)
    }

    /// As Markdown: a table, and for each scheduler that differs the lines that would state it.
    pub fn markdown(&self) -> String {
        let mut text = format!("### {}\n\n{}\n\n", self.name, self.question);
        text.push_str(
            "| scheduler | read response, mean ms | p99 ms | write response, mean ms | duration s | expected |\n",
        );
        text.push_str("|---|---:|---:|---:|---:|---|\n");
        let ms = |ns: u64| ns as f64 / 1e6;
        for (spec, expected, figures, _) in &self.rows {
            let verdict = if expected == figures { "yes" } else { "**no**" };
            let Figures { read_response_mean_ns, read_response_p99_ns, write_response_mean_ns, span_ns, .. } = *figures;
            let _ = writeln!(
                text,
                "| {spec} | {:.3} | {:.3} | {:.3} | {:.3} | {verdict} |",
                ms(read_response_mean_ns),
                ms(read_response_p99_ns),
                ms(write_response_mean_ns),
                span_ns as f64 / 1e9,
            );
        }
        for (spec, expected, measured, reason) in self.rows.iter().filter(|row| row.1 != row.2) {
            let _ = write!(
                text,
                "\n{spec} differs from the expected figures. If the change is intended, put these lines and their reason \
                 into the scenario. The expected figures were explained by: \"{reason}\"\n\n```toml\n"
            );
            for ((name, was), (_, is)) in expected.named().into_iter().zip(measured.named()) {
                let note = if was == is { String::new() } else { format!(" # was {was}") };
                let _ = writeln!(text, "{name} = {is}{note}");
            }
            text.push_str("```\n");
        }
        text
    }
}

impl Figures {
    fn of(metrics: &Metrics) -> Figures {
        let (read, write) = (metrics.total(Class::Read), metrics.total(Class::Write));
        let mean = |class: &ClassMetrics| match class.response.count() {
            0 => 0,
            count => (class.response.sum_ns() / u128::from(count)) as u64,
        };
        Figures {
            requests: read.response.count() + write.response.count(),
            device_requests: read.device.count + write.device.count,
            span_ns: metrics.span().as_ns(),
            read_response_mean_ns: mean(&read),
            read_response_p99_ns: read.response.percentile_ns(9_900).unwrap_or(0),
            write_response_mean_ns: mean(&write),
            seek_sectors: (read.seek_sectors + write.seek_sectors) as u64,
        }
    }

    fn named(self) -> [(&'static str, u64); 7] {
        [
            ("requests", self.requests),
            ("device_requests", self.device_requests),
            ("span_ns", self.span_ns),
            ("read_response_mean_ns", self.read_response_mean_ns),
            ("read_response_p99_ns", self.read_response_p99_ns),
            ("write_response_mean_ns", self.write_response_mean_ns),
            ("seek_sectors", self.seek_sectors),
        ]
    }
}

impl Scenario {
    /// Reads the scenario at `path` and replays it under each of its schedulers.
    ///
    /// # Errors
    /// A file that is no scenario, or names what does not exist.
    pub fn run(path: &Path) -> Result<Outcome, ScenarioError> {
        let fail = |problem: String| ScenarioError { path: path.to_owned(), problem };
        let text = std::fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
        let scenario: Scenario = toml::from_str(&text).map_err(|error| fail(error.to_string()))?;
        if scenario.scheduler.is_empty() {
            return Err(fail("a scenario without schedulers checks nothing".to_owned()));
        }
        let mut rows = Vec::new();
        for expected in &scenario.scheduler {
            let metrics = scenario.replay(path, &expected.spec).map_err(|problem| fail(problem.to_string()))?;
            rows.push((expected.spec.clone(), expected.figures, Figures::of(&metrics), expected.reason.clone()));
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Outcome { name, question: scenario.question, rows })
    }

    fn replay(&self, path: &Path, scheduler: &str) -> Result<Metrics, Box<dyn std::error::Error>> {
        let scheduler = schedulers::build(&scheduler.parse()?)?.scheduler;
        let drive = drive_models::build(&self.drive.parse()?)?.drive;
        let limits = Limits { depth: self.depth.max(1), look_ahead: self.look_ahead, ..Limits::default() };
        let window = TimeWindow { from: Nanos::ZERO, to: Some(parse_nanos(&self.to)?), limit: None };
        let mut traces = Vec::new();
        for vm in &self.vm {
            let file = path.parent().unwrap_or(Path::new(".")).join(&vm.trace);
            let reader = formats::open(&file, &ReadOptions::default())?;
            let place: Sectors = parse_sectors(&vm.place)?;
            traces.push(VmTrace { name: String::new(), path: file, reader, map: AddressMap::Shift { place } });
        }
        let workload = MergedTraces::new(traces, window, drive.capacity());
        let source: Box<dyn Source> = match self.pacing.split_once('=') {
            None if self.pacing == "recorded" => Box::new(Open::recorded(workload)),
            None if self.pacing == "closed" => Box::new(Closed::new(workload)),
            Some(("asap", outstanding)) => Box::new(Asap::new(workload, outstanding.parse::<u32>()?.max(1))),
            _ => return Err(format!("pacing `{}` is none of recorded, closed, asap=N", self.pacing).into()),
        };
        Ok(Engine::new(source, Stage::new(scheduler, limits), drive, Metrics::new()).run()?.observer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documented_scenario_is_an_excerpt_of_a_shipped_one() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let page = std::fs::read_to_string(folder.join("../docs/scenarios.md")).unwrap();
        let block = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        let scenario: Scenario = toml::from_str(block).unwrap();
        assert_eq!(scenario.scheduler.len(), 1);
        let shipped = std::fs::read_to_string(folder.join("scenarios/mail-alone.toml")).unwrap();
        for line in block.lines() {
            assert!(shipped.lines().any(|known| known == line), "{line}");
        }
        for key in block.lines().filter_map(|line| line.split_once(" = ")).map(|(key, _)| key) {
            assert!(page.contains(&format!("`{key}`")) || page.contains(&format!(".{key}`")), "{key} is not described");
        }
    }

    #[test]
    fn the_reason_of_the_expected_figures_is_not_given_for_the_difference() {
        let expected = Figures {
            requests: 1,
            device_requests: 1,
            span_ns: 5,
            read_response_mean_ns: 5,
            read_response_p99_ns: 5,
            write_response_mean_ns: 0,
            seek_sectors: 7,
        };
        let measured = Figures { seek_sectors: 9, ..expected };
        let rows = vec![("fifo".to_owned(), expected, measured, "it does not sort".to_owned())];
        let outcome = Outcome { name: "one".to_owned(), question: "?".to_owned(), rows };
        let text = outcome.markdown();
        assert!(!outcome.passed() && text.contains("seek_sectors = 9 # was 7"), "{text}");
        assert!(text.contains("expected figures were explained by: \"it does not sort\"") && !text.contains("because"));
    }
}
