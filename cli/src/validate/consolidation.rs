//! `iocast validate consolidation`: forecasts held against machines that a lab has put together.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use capture::lab::Plan;
use predictors::errors::{errors, mean};
use predictors::{Consolidation, OperationForecast, VmForecast};
use traces::results::SCHEMA_VERSION;
use traces::results::isolation::{IsolatedOperation, IsolationProfile};
use traces::results::lab::LabResults;
use traces::results::prediction::{Consolidations, Forecast, ForecastError, Outcome, PairPrediction};
use traces::trace::ReadOptions;
use traces::{Nanos, SECTOR_BYTES, Sectors};

use crate::arguments::{OutputFormat, UsageError, ValidateConsolidation};
use crate::output::{Table, number, print, print_json};
use crate::predict::profiles::{Alone, Place, Window, measure};
use crate::predict::{Chosen, chosen, outcome};
use crate::progress::Progress;
use crate::validate::replayed;

pub fn run(arguments: &ValidateConsolidation) -> Result<()> {
    let predictors = chosen(&arguments.predictors)?;
    let (truth, pairs) = match &arguments.lab {
        Some(folder) => measured(folder, &predictors)?,
        None => replayed::pairs(arguments, &predictors)?,
    };
    let result = Consolidations {
        schema_version: SCHEMA_VERSION,
        program: format!("iocast {}", env!("CARGO_PKG_VERSION")),
        truth,
        summary: errors(&pairs),
        pairs,
    };
    match arguments.output_format {
        OutputFormat::Json => print_json(&result),
        format => print(&render(&result, format)),
    }
}

/// What the truth is, and every group of a lab with its forecasts.
fn measured(folder: &Path, predictors: &[Chosen]) -> Result<(String, Vec<PairPrediction>)> {
    let lab = Lab::read(folder)?;
    let groups: Vec<(&str, &[String])> =
        lab.groups.iter().filter(|(_, vms)| vms.len() > 1).map(|(name, vms)| (name.as_str(), vms.as_slice())).collect();
    ensure!(
        !groups.is_empty(),
        UsageError(format!("{}: nobody runs together in this lab's plan; `together` says who does", folder.display()))
    );
    let progress = Progress::jobs("measuring", groups.len() as u64);
    let done = progress.counter(0);
    let mut pairs = Vec::new();
    for (group, vms) in groups {
        pairs.push(lab.pair(group, vms, predictors)?);
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok((format!("measured: guests {} on {}", lab.results.kernel, lab.results.drive), pairs))
}

/// The folder of a lab's results.
struct Lab<'a> {
    folder: &'a Path,
    results: LabResults,
    plan: Plan,
    /// Who ran in each group.
    groups: BTreeMap<String, Vec<String>>,
    window: Window,
}

impl Lab<'_> {
    fn read(folder: &Path) -> Result<Lab<'_>> {
        let path = folder.join("lab.json");
        let text = std::fs::read_to_string(&path).with_context(|| {
            format!(
                "{}: cannot be read; a lab's results are meant, the folder that iocast capture lab left",
                path.display()
            )
        })?;
        let results: LabResults =
            serde_json::from_str(&text).with_context(|| format!("{}: is no lab's result", path.display()))?;
        let plan = Plan::read(&folder.join("plan.toml"))?;
        let groups =
            results.runs.iter().map(|run| (run.group.clone(), run.vms.iter().map(|vm| vm.vm.clone()).collect()));
        let second = |seconds: u32| Nanos::from_s(seconds.into());
        let window = Window { start: second(plan.warm_up_seconds), end: Some(second(plan.seconds)) };
        Ok(Lab { folder, groups: groups.collect(), window, results, plan })
    }

    /// A group with what it was and what predictors make of the same repetition's machines alone, in the mean.
    fn pair(&self, group: &str, vms: &[String], predictors: &[Chosen]) -> Result<PairPrediction> {
        let mut truths = Vec::new();
        let mut forecasts: BTreeMap<&str, Vec<Outcome>> = BTreeMap::new();
        for run in self.results.runs.iter().filter(|run| run.group == group) {
            let together = self.machines(vms, run.repetition, |_| group.to_owned())?;
            truths.push(truth(&together.profiles));
            let alone = self.machines(vms, run.repetition, |vm| format!("alone-{vm}"))?;
            for (name, predictor) in predictors {
                forecasts.entry(name).or_default().push(outcome(&**predictor, &alone));
            }
        }
        let predictors = forecasts.into_iter().map(|(name, outcomes)| (name.to_owned(), together(outcomes))).collect();
        Ok(PairPrediction { vms: vms.to_vec(), truth: Some(mean(&truths)), predictors })
    }

    /// The machines `vms` as they were in the group that each is asked for in.
    fn machines(&self, vms: &[String], repetition: u32, group: impl Fn(&str) -> String) -> Result<Alone> {
        let (mut profiles, mut recordings) = (Vec::new(), Vec::new());
        for vm in vms {
            let folder = self.folder.join("runs").join(group(vm)).join(repetition.to_string());
            let path = folder.join(format!("{vm}.parquet"));
            let place = self.place(vm);
            let none = AtomicU64::new(0);
            let (profile, recording) = measure(vm, &path, &ReadOptions::default(), self.window, place, &none)?;
            profiles.push(profile);
            recordings.push(recording);
        }
        Ok(Alone { profiles, recordings })
    }

    /// Where the plan has put a machine's disk.
    fn place(&self, vm: &str) -> Place {
        let sectors = |bytes: u64| Sectors::new(bytes / SECTOR_BYTES);
        let index = self.plan.vms.iter().position(|planned| planned.name == vm);
        let first = index.map_or(Sectors::ZERO, |index| sectors(self.plan.place(index)));
        Place { first, device: Some(sectors(self.plan.lun.size)) }
    }
}

/// The forecasts of several repetitions as one; a refusal of one is a refusal.
fn together(outcomes: Vec<Outcome>) -> Outcome {
    let mut forecasts = Vec::new();
    for outcome in outcomes {
        match outcome {
            Outcome::Forecast(forecast) => forecasts.push(forecast),
            refused @ Outcome::Refused { .. } => return refused,
        }
    }
    Outcome::Forecast(mean(&forecasts))
}

/// What machines got, in the words of a forecast.
pub(super) fn truth(profiles: &[IsolationProfile]) -> Forecast {
    let of = |operation: &IsolatedOperation| OperationForecast {
        iops: (operation.requests > 0).then_some(operation.iops),
        response_ns: operation.response_ns,
    };
    let vms =
        profiles.iter().map(|profile| VmForecast { reads: of(&profile.reads), writes: of(&profile.writes) }).collect();
    Consolidation { vms, ..Consolidation::default() }.forecast()
}

fn render(result: &Consolidations, format: OutputFormat) -> String {
    let percent = |share: Option<f64>| number(share.map(|share| 100.0 * share));
    let said = |error: &ForecastError| match error.ci95 {
        Some([low, high]) => format!("{} ± {}", percent(error.mean), percent(Some((high - low) / 2.0))),
        None => percent(error.mean),
    };
    let figures = [
        "read_response",
        "write_response",
        "read_iops",
        "write_iops",
        "total_read_iops",
        "total_write_iops",
        "mix_read",
    ];
    let table = |title: &str, cell: &dyn Fn(&ForecastError) -> String| {
        let row = |(name, of): (&String, &BTreeMap<String, ForecastError>)| {
            let cells = figures.iter().map(|figure| of.get(*figure).map_or_else(|| "-".to_owned(), cell));
            [name.clone()].into_iter().chain(cells).collect()
        };
        let names = ["predictor", "read, ms", "write, ms", "reads/s", "writes/s", "all reads/s", "all writes/s", "mix"];
        Table {
            title: title.to_owned(),
            header: names.map(str::to_owned).to_vec(),
            rows: result.summary.iter().map(row).collect(),
            text_columns: 1,
        }
    };
    let groups = result.pairs.len();
    let tables = [
        table(
            &format!(
                "Mean absolute relative errors over {groups} groups, % ± half of the 95 % interval; {}",
                result.truth
            ),
            &said,
        ),
        table("Largest, %", &|error| percent(error.max)),
        table("Forecast, of how many", &|error| format!("{} of {}", error.forecasts, error.forecasts + error.left_out)),
    ];
    tables.iter().map(|table| table.render(format)).collect::<Vec<_>>().join("\n")
}
