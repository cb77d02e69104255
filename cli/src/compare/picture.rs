//! The picture of a comparison: response times and throughput as bars, one per scheduler.

use anyhow::Result;
use report::BarsFigure;
use traces::results::reproduction::{Cell, Source};
use traces::results::{ClassFigures, Comparison, Run, Status};

use super::details::{counted, of_stacks};
use crate::picture::PictureFiles;
use crate::units::supported;

/// Draws the runs that may be compared, and appends the files' names to `written`. If there is no such run, a warning
/// says so instead.
///
/// # Errors
/// A file that cannot be written.
pub fn write(
    comparison: &Comparison,
    stacks: &[String],
    files: &PictureFiles,
    written: &mut Vec<String>,
) -> Result<()> {
    let overloaded = comparison.runs.iter().filter(|run| run.status != Status::Comparable);
    let overloaded: Vec<&str> = overloaded.map(|run| run.scheduler.name.as_str()).collect();
    if overloaded.len() == comparison.runs.len() {
        let names = files.names().join(" and ");
        eprintln!("iocast: warning: there is no picture, because all runs are overloaded: {names} were not written");
        return Ok(());
    }
    let cells = cells(comparison);
    let traces = comparison.provenance.traces.iter().map(|trace| trace.vm.clone());
    let workloads = comparison.provenance.workloads.iter().map(|workload| workload.workload.name.clone());
    let load = counted(traces.chain(workloads));
    let drives: Vec<&str> = comparison.provenance.drives.iter().map(|drive| drive.name.as_str()).collect();
    let title = format!("{load} on {}", drives.join(", "));
    let options = &comparison.provenance.options;
    let shown = ["pacing", "depth"].into_iter().filter_map(|name| Some(format!("{name} {}", options.get(name)?)));
    let shown = of_stacks(stacks).into_iter().chain(shown).chain([comparison.provenance.program.clone()]);
    let mut caption = shown.collect::<Vec<String>>().join(", ");
    if !overloaded.is_empty() {
        caption.push_str(&format!("; overloaded and left out: {}", overloaded.join(", ")));
    }
    let figure = BarsFigure {
        title: &title,
        caption: &caption,
        cells: &cells.iter().collect::<Vec<&Cell>>(),
        rows_apart: comparison.runs.len() > 1,
    };
    files.write(&figure, written)
}

/// A row for each quantity, a column for each run. Quantities that are absent in every run are left out.
fn cells(comparison: &Comparison) -> Vec<Cell> {
    let ms = |ns: Option<f64>| ns.map(|ns| ns / 1e6);
    let mean = move |class: &ClassFigures| ms(class.response_time.mean_ns);
    let p99 = move |class: &ClassFigures| ms(supported(&class.response_percentiles_ns, class.requests, "p99"));
    type Quantity<'a> = (&'a str, &'a str, &'a dyn Fn(&Run) -> Option<f64>);
    let quantities: [Quantity<'_>; 5] = [
        ("reads, mean response", "ms", &|run| mean(&run.read)),
        ("reads, p99", "ms", &|run| p99(&run.read)),
        ("writes, mean response", "ms", &|run| mean(&run.write)),
        ("writes, p99", "ms", &|run| p99(&run.write)),
        ("throughput", "MB/s", &|run| Some(run.all.bytes_per_s / 1e6)),
    ];
    let runs = || comparison.runs.iter().filter(|run| run.status == Status::Comparable);
    let cell = |(row, unit, value): Quantity<'_>, run: &Run| {
        let ours = value(run)?;
        let (table, row, column) = (String::new(), row.to_owned(), run.scheduler.name.clone());
        let unit = unit.to_owned();
        let source = Source::Replayed;
        Some(Cell { table, row, column, ours, unit, source, ..Cell::default() })
    };
    quantities.into_iter().flat_map(|quantity| runs().filter_map(move |run| cell(quantity, run))).collect()
}
