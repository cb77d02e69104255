//! The report of a comparison of schedulers, or of one replay.

use traces::results::{ClassFigures, Comparison, Part, Run, Status, supports_percentile};

use super::{Cell, Page, Section, Table, courses};

impl Page {
    /// The report of a comparison. `answer` says what it comes to, sentence by sentence, and `notes` stand below it.
    pub fn of_comparison(comparison: &Comparison, answer: &[String], notes: &[String]) -> Page {
        let provenance = &comparison.provenance;
        let loads = provenance.traces.iter().map(|trace| trace.vm.as_str());
        let loads: Vec<&str> = loads.chain(provenance.workloads.iter().map(|workload| workload.vm.as_str())).collect();
        let drives: Vec<&str> = provenance.drives.iter().map(|drive| drive.name.as_str()).collect();
        let what = if provenance.traces.is_empty() { "Run" } else { "Replay" };
        let devices: Vec<&str> =
            comparison.runs.iter().filter_map(|run| Some(run.live.as_ref()?.target.as_str())).collect();
        let on = if devices.is_empty() { format!("a model of {}", drives.join(", ")) } else { devices.join(", ") };
        let mut title = format!("{what} of {} on {on}", loads.join(", "));
        let shown = ["pacing", "depth"]
            .into_iter()
            .filter_map(|name| Some(format!(", {name} {}", provenance.options.get(name)?)));
        title.extend(shown);
        let mut warnings = provenance.warnings.clone();
        for run in &comparison.runs {
            if let Status::Overloaded { reason, remedy } = &run.status {
                let name = name_of(run);
                warnings.push(format!("{name} is overloaded, so its figures may not be compared: {reason}. {remedy}."));
            }
        }
        let mut answer = answer.to_vec();
        if let (true, [run]) = (answer.is_empty(), &comparison.runs[..]) {
            answer.push(of_one(run));
        }
        answer.extend_from_slice(notes);
        let mut sections = vec![summary(comparison)];
        let courses = courses::sections(&comparison.runs);
        if comparison.runs.iter().all(|run| run.history.is_none()) {
            sections[0].text.push(
                "This result was stored without `--history`, so there are no charts of response times and of what \
                 happened over time."
                    .to_owned(),
            );
        }
        sections.extend(courses);
        sections.extend([rules(&comparison.runs), vms(&comparison.runs)].into_iter().flatten());
        sections.push(sources(comparison));
        Page { title, answer, warnings, sections, program: provenance.program.clone() }
    }
}

/// The name of a run: its scheduler, with the drive if there are several.
fn name_of(run: &Run) -> &str {
    &run.scheduler.name
}

/// The sentence on a single run.
fn of_one(run: &Run) -> String {
    let mean = |class: &ClassFigures| class.response_time.mean_ns.map(time);
    let class =
        |name: &str, class: &ClassFigures| Some(format!("{} {name} in {} on average", class.requests, mean(class)?));
    let classes: Vec<String> = [class("reads", &run.read), class("writes", &run.write)].into_iter().flatten().collect();
    match classes.is_empty() {
        true => format!("{} served no read and no write.", name_of(run)),
        false => format!("{} served {}.", name_of(run), classes.join(" and ")),
    }
}

/// A time to three digits.
pub(super) fn time(ns: f64) -> String {
    let (value, unit) = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")]
        .into_iter()
        .find(|(of, _)| ns >= *of)
        .map_or((ns, "ns"), |(of, unit)| (ns / of, unit));
    let decimals = [100.0, 10.0].iter().filter(|&&least| value < least).count();
    format!("{value:.decimals$} {unit}")
}

/// A quantity that is compared between runs.
type Quantity = (&'static str, FigureOf, fn(f64) -> String);

/// A figure of a run, if it has it.
type FigureOf = fn(&Run) -> Option<f64>;

fn percentile(class: &ClassFigures) -> Option<f64> {
    let supported = supports_percentile(class.requests, "p99");
    class.response_percentiles_ns.get("p99").filter(|_| supported).map(|&ns| ns as f64)
}

const QUANTITIES: [Quantity; 6] = [
    ("reads, mean", |run| run.read.response_time.mean_ns, time),
    ("reads, p99", |run| percentile(&run.read), time),
    ("writes, mean", |run| run.write.response_time.mean_ns, time),
    ("writes, p99", |run| percentile(&run.write), time),
    ("throughput", |run| Some(run.all.bytes_per_s / 1e6), |value| format!("{value:.2} MB/s")),
    ("drive busy", |run| Some(run.queue.drive_utilisation), |value| format!("{:.0} %", value * 100.0)),
];

/// What is set against the baseline.
const COMPARED: [(&str, FigureOf); 3] = [
    ("reads p99", |run| percentile(&run.read)),
    ("writes p99", |run| percentile(&run.write)),
    ("throughput", |run| Some(run.all.bytes_per_s)),
];

/// A ratio to three digits.
fn times(ratio: f64) -> String {
    let decimals = [100.0, 10.0, 1.0, 0.1, 0.01].iter().filter(|&&least| ratio < least).count();
    format!("{ratio:.decimals$}")
}

/// The table of all runs, with bars and ratios.
fn summary(comparison: &Comparison) -> Section {
    let runs = &comparison.runs;
    let has_ratios = runs.iter().any(|run| run.ratio.is_some()) && runs.len() > 1;
    let mut columns: Vec<String> = vec!["scheduler".to_owned()];
    let several_drives = comparison.provenance.drives.len() > 1;
    if several_drives {
        columns.push("drive".to_owned());
    }
    columns.extend(QUANTITIES.iter().map(|(name, ..)| (*name).to_owned()));
    let base = comparison.baseline.clone().unwrap_or_default();
    if has_ratios {
        columns.extend(COMPARED.map(|(of, _)| format!("{of} / {base}")));
    }
    let baseline = runs.iter().find(|run| run.scheduler.name == base);
    let most = |of: fn(&Run) -> Option<f64>| runs.iter().filter_map(of).fold(0.0, f64::max);
    let row = |run: &Run| {
        let overloaded = if run.status == Status::Comparable { "" } else { " (overloaded)" };
        let mut cells = vec![Cell::text(format!("{}{overloaded}", name_of(run)))];
        if several_drives {
            cells.push(Cell::text(run.drive.clone()));
        }
        cells.extend(QUANTITIES.iter().map(|(_, of, shown)| match of(run) {
            Some(value) => Cell::number(shown(value)).with_share(Some(value / most(*of))),
            None => Cell::number("–"),
        }));
        if has_ratios {
            let over = |of: fn(&Run) -> Option<f64>| {
                let base = of(baseline.filter(|_| run.ratio.is_some())?).filter(|base| *base > 0.0)?;
                Some(times(of(run)? / base))
            };
            cells.extend(COMPARED.map(|(_, of)| Cell::number(over(of).unwrap_or_else(|| "–".to_owned()))));
        }
        cells
    };
    let others: u64 = runs.iter().map(|run| run.other.requests).max().unwrap_or(0);
    let mut caption =
        "Response times from arrival to completion. A p99 that too few requests support is left out.".to_owned();
    if others > 0 {
        caption.push_str(&format!(" {others} flushes and discards are not in the table."));
    }
    let table = Table { caption, columns, rows: runs.iter().map(row).collect() };
    Section { heading: "Comparison".to_owned(), tables: vec![table], ..Section::default() }
}

/// By which rules each scheduler chose.
fn rules(runs: &[Run]) -> Option<Section> {
    let table = |run: &Run| {
        let row = |rule: &traces::results::RuleFigures| {
            let share = rule.share.unwrap_or(0.0);
            vec![
                Cell::text(rule.name.clone()),
                Cell::number(rule.requests.to_string()),
                Cell::number(format!("{:.1} %", share * 100.0)).with_share(Some(share)),
            ]
        };
        let columns = ["rule", "requests", "share"].map(str::to_owned).to_vec();
        Table { caption: name_of(run).to_owned(), columns, rows: run.rules.iter().map(row).collect() }
    };
    let tables: Vec<Table> = runs.iter().filter(|run| !run.rules.is_empty()).map(table).collect();
    let text =
        vec!["How many requests each rule has chosen. A rule that never ran had no part in this result.".to_owned()];
    let section = Section { heading: "Rules of the schedulers".to_owned(), text, tables, ..Section::default() };
    (!section.tables.is_empty()).then_some(section)
}

/// Each VM's figures.
fn vms(runs: &[Run]) -> Option<Section> {
    let rows: Vec<Vec<Cell>> = runs
        .iter()
        .flat_map(|run| {
            run.vms.iter().map(move |vm| {
                let of = |value: Option<f64>| Cell::number(value.map_or("–".to_owned(), time));
                vec![
                    Cell::text(vm.vm.clone()),
                    Cell::text(name_of(run)),
                    Cell::number(vm.all.requests.to_string()),
                    of(vm.read.response_time.mean_ns),
                    of(percentile(&vm.read)),
                    of(vm.write.response_time.mean_ns),
                    of(percentile(&vm.write)),
                    Cell::number(format!("{:.2} MB/s", vm.all.bytes_per_s / 1e6)),
                ]
            })
        })
        .collect();
    let columns =
        ["VM", "scheduler", "requests", "reads, mean", "reads, p99", "writes, mean", "writes, p99", "throughput"]
            .map(str::to_owned)
            .to_vec();
    let caption = "While all VMs are active: until the first has no more requests.".to_owned();
    let tables = vec![Table { caption, columns, rows }];
    let section = Section { heading: "VMs".to_owned(), tables, ..Section::default() };
    (!section.tables[0].rows.is_empty()).then_some(section)
}

/// What the figures were made from.
fn sources(comparison: &Comparison) -> Section {
    let provenance = &comparison.provenance;
    let mut tables = Vec::new();
    if !provenance.traces.is_empty() {
        let columns =
            ["VM", "trace", "format", "layer", "requests", "addresses", "SHA-256"].map(str::to_owned).to_vec();
        let row = |trace: &traces::results::TraceProvenance| {
            vec![
                Cell::text(trace.vm.clone()),
                Cell::text(trace.path.clone()),
                Cell::text(trace.format.clone()),
                Cell::text(trace.layer.to_string()),
                Cell::number(trace.requests.to_string()),
                Cell::text(trace.addresses.clone()),
                Cell::text(trace.sha256.clone()),
            ]
        };
        let rows = provenance.traces.iter().map(row).collect();
        tables.push(Table { caption: "Traces".to_owned(), columns, rows });
    }
    let parts = |caption: &str, parts: &mut dyn Iterator<Item = &Part>| {
        let settings =
            |part: &Part| part.settings.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
        let row = |part: &Part| vec![Cell::text(part.name.clone()), Cell::text(settings(part).join(", "))];
        Table {
            caption: caption.to_owned(),
            columns: ["name", "settings"].map(str::to_owned).to_vec(),
            rows: parts.map(row).collect(),
        }
    };
    if !provenance.workloads.is_empty() {
        tables.push(parts("Workloads", &mut provenance.workloads.iter().map(|workload| &workload.workload)));
    }
    tables.push(parts("Schedulers", &mut comparison.runs.iter().map(|run| &run.scheduler)));
    tables.push(parts("Drives", &mut provenance.drives.iter()));
    let options =
        provenance.options.iter().map(|(name, value)| vec![Cell::text(name.clone()), Cell::text(value.clone())]);
    let columns = ["option", "value"].map(str::to_owned).to_vec();
    tables.push(Table { caption: "Options".to_owned(), columns, rows: options.collect() });
    let notes =
        comparison.runs.iter().flat_map(|run| run.notes.iter().map(|note| format!("{}: {note}.", name_of(run))));
    Section {
        heading: "Where this comes from".to_owned(),
        text: notes.collect(),
        tables,
        is_closed: true,
        ..Section::default()
    }
}
