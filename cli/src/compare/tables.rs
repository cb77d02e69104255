//! A comparison for people: the answer, one line per scheduler, one line per VM; details on request; settings last.

use traces::results::{ClassFigures, Comparison, Part, Run, Status};

use super::details::{self, header_name};
use super::{answer, rules};
use crate::output::{Table, number, sentence};
use crate::output_format::OutputFormat;
use crate::units::{ABSENT, percentile, ratio, span, span_or_absent, supported, three_digits};

/// A column of the table with one line per scheduler.
struct Column<'a> {
    header: String,
    cell: Box<dyn Fn(&Run) -> String + 'a>,
}

impl<'a> Column<'a> {
    fn new(header: impl Into<String>, cell: impl Fn(&Run) -> String + 'a) -> Column<'a> {
        Column { header: header.into(), cell: Box::new(cell) }
    }
}

/// What is printed beside the answer, the figures of each scheduler and those of each VM.
#[derive(Clone, Copy, Debug, Default)]
pub struct More {
    /// All figures and settings.
    pub details: bool,
    /// The requests that each rule of a scheduler sent.
    pub rules: bool,
}

/// The whole comparison as text or Markdown. `stacks` names those before the drive, if there are any.
pub fn render(comparison: &Comparison, stacks: &[String], format: OutputFormat, more: More) -> String {
    let gap = if format == OutputFormat::Markdown { "\n" } else { "" };
    let paragraph = |line: &str| sentence(line, format) + gap;
    let mut text: String = answer::lines(comparison).iter().map(|line| paragraph(line)).collect();
    if !text.is_empty() && format != OutputFormat::Markdown {
        text.push('\n');
    }
    text.push_str(&overview(comparison).render(format));
    text.push_str(&per_vm(comparison).map(|table| format!("\n{}", table.render(format))).unwrap_or_default());
    for line in marks(comparison) {
        text.push_str(&format!("\n{}", paragraph(&line)));
    }
    if more.details {
        text.push_str(&details::render(comparison, format));
    }
    if more.rules {
        text.push_str(&format!("\n{}", rules::render(comparison, format)));
    }
    text.push('\n');
    text.push_str(&details::settings(comparison, stacks, format, more.details));
    text
}

type ClassOf = fn(&Run) -> &ClassFigures;

/// The classes of the overview, with their letters.
const CLASSES: [(&str, ClassOf); 2] = [("R", |run| &run.read), ("W", |run| &run.write)];

/// One line per scheduler or stack.
fn overview(comparison: &Comparison) -> Table {
    let runs = &comparison.runs;
    let mut columns = Vec::new();
    for (letter, class) in CLASSES {
        if runs.iter().any(|run| class(run).requests > 0) {
            columns.push(Column::new(format!("{letter} mean"), move |run| {
                span_or_absent(class(run).response_time.mean_ns)
            }));
            columns.push(Column::new(format!("{letter} p99"), move |run| p99(class(run))));
        }
    }
    columns.push(Column::new("IOPS", |run| number(Some(run.all.iops))));
    columns.push(Column::new("MB/s", |run| number(Some(run.all.bytes_per_s / 1e6))));
    if runs.iter().any(|run| run.stack.is_some()) {
        let jain = |run: &Run| number(run.stack.as_ref().and_then(|stack| stack.fairness.jain));
        columns.push(Column::new("fairness", jain));
    }
    let base = runs.iter().find(|run| Some(&run.scheduler.name) == comparison.baseline.as_ref());
    if let Some(base) = base.filter(|base| base.status == Status::Comparable) {
        let [(letter, class), _] = if base.read.requests > 0 { CLASSES } else { [CLASSES[1], CLASSES[0]] };
        let p99 = move |run: &Run| supported(&class(run).response_percentiles_ns, class(run).requests, "p99");
        let comparable = |run: &Run| run.status == Status::Comparable;
        columns.push(Column::new(format!("{letter} p99×"), move |run| {
            times(p99(run).zip(p99(base)).filter(|_| comparable(run)).map(|(run, base)| run / base))
        }));
        columns.push(Column::new("MB/s×", |run| times(run.ratio.and_then(|ratio| ratio.throughput))));
    }
    let mut title = "Response times of reads (R) and writes (W)".to_owned();
    if runs.iter().any(|run| !run.vms.is_empty()) {
        title.push_str(", all VMs, over the whole replay");
    }
    if let Some(base) = base.filter(|base| base.status == Status::Comparable) {
        title.push_str(&format!("; × of the baseline {}", base.scheduler.name));
    }
    let row =
        |run: &Run| std::iter::once(header_name(run)).chain(columns.iter().map(|column| (column.cell)(run))).collect();
    let header = std::iter::once(String::new()).chain(columns.iter().map(|column| column.header.clone())).collect();
    Table { title, header, rows: runs.iter().map(row).collect(), text_columns: 1 }
}

/// One line per scheduler and VM; `None` unless VMs were measured.
fn per_vm(comparison: &Comparison) -> Option<Table> {
    let vms = || comparison.runs.iter().flat_map(|run| run.vms.iter().map(move |vm| (run, vm)));
    let has_reads = vms().any(|(_, vm)| vm.read.requests > 0);
    let has_writes = vms().any(|(_, vm)| vm.write.requests > 0);
    let mut header = vec!["", "VM"];
    header.extend(has_reads.then_some(["R mean", "R p99"]).into_iter().flatten());
    header.extend(has_writes.then_some(["W mean", "W p99"]).into_iter().flatten());
    header.extend(["IOPS", "MB/s", "over", "VM ends"]);
    let mut rows = Vec::new();
    for (run, vm) in vms() {
        let mut row = vec![header_name(run), vm.vm.clone()];
        for (_, class) in [(has_reads, &vm.read), (has_writes, &vm.write)].into_iter().filter(|(has, _)| *has) {
            row.extend([span_or_absent(class.response_time.mean_ns), p99(class)]);
        }
        row.extend([number(Some(vm.all.iops)), number(Some(vm.all.bytes_per_s / 1e6))]);
        row.extend([vm.span_ns, vm.end_ns].map(|time| span(time.as_ns() as f64)));
        rows.push(row);
    }
    let shared = vms().any(|(run, vm)| vm.span_ns < run.span_ns);
    let title = if shared {
        "By VM, over the time until the first VM had no more arrivals (--until last: until all ended)"
    } else {
        "By VM, over the whole replay"
    };
    (!rows.is_empty()).then(|| Table {
        title: title.to_owned(),
        header: header.into_iter().map(str::to_owned).collect(),
        rows,
        text_columns: 2,
    })
}

fn times(over: Option<f64>) -> String {
    over.map_or_else(|| ABSENT.to_owned(), ratio)
}

fn p99(class: &ClassFigures) -> String {
    percentile(&class.response_percentiles_ns, class.requests, "p99")
}

/// Overloads and notes, each said once with the runs that it is of.
fn marks(comparison: &Comparison) -> Vec<String> {
    let mut said: Vec<(String, Vec<String>)> = Vec::new();
    for run in &comparison.runs {
        let name = &run.scheduler.name;
        let overload = match &run.status {
            Status::Overloaded { reason, remedy } => {
                let text = format!("{OVERLOADED}; {remedy}");
                Some((text, format!("{name} ({reason})")))
            }
            Status::Comparable => None,
        };
        for (text, of) in overload.into_iter().chain(run.notes.iter().map(|note| (note.clone(), name.clone()))) {
            match said.iter_mut().find(|(known, _)| *known == text) {
                Some((_, runs)) => runs.push(of),
                None => said.push((text, vec![of])),
            }
        }
    }
    let mut lines: Vec<String> = said.into_iter().map(|(text, runs)| format!("{}: {text}", runs.join(", "))).collect();
    lines.extend(without_choice(&comparison.runs));
    lines.extend(set_by_think_times(comparison));
    lines.extend(comparison.provenance.drives.iter().filter_map(drawn));
    lines
}

/// If the drive was busy for less than this share of a closed replay, think times set its length.
const BUSY_LITTLE: f64 = 0.5;

/// The runs whose throughput is the trace's and not the drive's.
fn set_by_think_times(comparison: &Comparison) -> Option<String> {
    let is_closed = comparison.provenance.options.get("pacing").is_some_and(|pacing| pacing == "closed");
    let busy = |run: &Run| run.queue.drive_utilisation;
    let idle: Vec<&Run> = comparison.runs.iter().filter(|run| busy(run) < BUSY_LITTLE).collect();
    let busiest = idle.iter().map(|run| busy(run)).fold(0.0, f64::max);
    let names: Vec<&str> = idle.iter().map(|run| run.scheduler.name.as_str()).collect();
    (is_closed && comparison.runs.len() > 1 && !idle.is_empty()).then(|| {
        format!(
            "{}: the drive was busy for at most {} % of the time, so that IOPS and MB/s are set by the think times of \
             the trace; compare response times",
            names.join(", "),
            three_digits(100.0 * busiest)
        )
    })
}

/// Says that a drive draws its times.
fn drawn(drive: &Part) -> Option<String> {
    let (_, seed) = drive.settings.iter().find(|(name, _)| *name == "seed")?;
    Some(format!(
        "{}: its times are drawn (seed={seed}); repeat the comparison with other seeds before you trust a difference",
        drive.name
    ))
}

/// Below this share of dispatches with a choice, schedulers can hardly differ.
const CHOICES_FEW: f64 = 0.01;

/// The runs whose scheduler hardly ever had two requests to choose from.
fn without_choice(runs: &[Run]) -> Option<String> {
    let share = |run: &Run| run.queue.choices as f64 / run.queue.dispatches.max(1) as f64;
    let few: Vec<&Run> = runs.iter().filter(|run| share(run) < CHOICES_FEW).collect();
    let most = few.iter().map(|run| share(run)).fold(0.0, f64::max);
    let names: Vec<&str> = few.iter().map(|run| run.scheduler.name.as_str()).collect();
    (!few.is_empty() && runs.len() > 1).then(|| {
        format!(
            "{}: at most {} % of the requests left the scheduler while another one waited, so that it had no choice; \
             a smaller --depth or a heavier load gives it one",
            names.join(", "),
            three_digits(100.0 * most)
        )
    })
}

/// What the mark `!` behind a name says.
const OVERLOADED: &str = "overloaded (!), so that its figures are not comparable";
