//! The report of a comparison of schedulers, or of one replay.

use traces::results::history::{Grid, History, response_of_row};
use traces::results::{ClassFigures, Comparison, Part, Run, Status, supports_percentile};

use super::heat::Extent;
use super::{Axis, Cell, Chart, Heat, Line, Marks, Page, Section, Table};

/// Most points along time in a line of percentiles, and the fewest requests of such a point.
const PERCENTILE_POINTS: usize = 64;
const REQUESTS_MIN: u64 = 100;

/// Reads or writes, as figures and history have them.
#[derive(Clone, Copy)]
struct Class {
    name: &'static str,
    figures: fn(&Run) -> &ClassFigures,
    responses: fn(&History) -> &Grid,
    found: fn(&History) -> &[u64],
}

const CLASSES: [Class; 2] = [
    Class {
        name: "reads",
        figures: |run| &run.read,
        responses: |history| &history.read.responses,
        found: |history| &history.read.found,
    },
    Class {
        name: "writes",
        figures: |run| &run.write,
        responses: |history| &history.write.responses,
        found: |history| &history.write.found,
    },
];

impl Page {
    /// The report of a comparison. `answer` says what it comes to, sentence by sentence.
    pub fn of_comparison(comparison: &Comparison, answer: &[String]) -> Page {
        let provenance = &comparison.provenance;
        let loads = provenance.traces.iter().map(|trace| trace.vm.as_str());
        let loads: Vec<&str> = loads.chain(provenance.workloads.iter().map(|workload| workload.vm.as_str())).collect();
        let drives: Vec<&str> = provenance.drives.iter().map(|drive| drive.name.as_str()).collect();
        let title = format!("{} on {}", loads.join(", "), drives.join(", "));
        let mut warnings = provenance.warnings.clone();
        for run in &comparison.runs {
            if let Status::Overloaded { reason, remedy } = &run.status {
                let name = &run.scheduler.name;
                warnings.push(format!("{name} is overloaded, so its figures may not be compared: {reason}. {remedy}."));
            }
        }
        let mut answer = answer.to_vec();
        if let (true, [run]) = (answer.is_empty(), &comparison.runs[..]) {
            answer.push(of_one(run));
        }
        let mut sections = vec![summary(comparison)];
        let with_history: Vec<(&Run, &History)> =
            comparison.runs.iter().filter_map(|run| Some((run, run.history.as_ref()?))).collect();
        if with_history.is_empty() {
            sections[0].text.push(
                "The result holds no course over time: `--history` keeps it, and then distributions and pictures over \
                 time stand here."
                    .to_owned(),
            );
        } else {
            sections.extend([responses(&with_history), over_time(&with_history), addresses(&with_history)]);
        }
        sections.extend([rules(&comparison.runs), vms(&comparison.runs)].into_iter().flatten());
        sections.push(sources(comparison));
        Page { title, answer, warnings, sections, program: provenance.program.clone() }
    }
}

/// The name of a run: its scheduler, with the drive if there are several.
fn name_of(run: &Run) -> String {
    run.scheduler.name.clone()
}

/// The sentence on a single run.
fn of_one(run: &Run) -> String {
    let mean = |class: &ClassFigures| class.response_time.mean_ns.map(time);
    let class =
        |name: &str, class: &ClassFigures| Some(format!("{} {name} in {} on average", class.requests, mean(class)?));
    let classes: Vec<String> = [class("reads", &run.read), class("writes", &run.write)].into_iter().flatten().collect();
    match classes.is_empty() {
        true => format!("{} served no read and no write.", run.scheduler.name),
        false => format!("{} served {}.", run.scheduler.name, classes.join(" and ")),
    }
}

/// A time to three digits.
pub(super) fn time(ns: f64) -> String {
    let (value, unit) = [(1e9, "s"), (1e6, "ms"), (1e3, "us")]
        .into_iter()
        .find(|(of, _)| ns >= *of)
        .map_or((ns, "ns"), |(of, unit)| (ns / of, unit));
    let decimals = [100.0, 10.0].iter().filter(|&&least| value < least).count();
    format!("{value:.decimals$} {unit}")
}

/// A quantity that is compared between runs.
type Quantity = (&'static str, fn(&Run) -> Option<f64>, fn(f64) -> String);

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
        columns.extend(["response", "p99", "throughput"].map(|of| format!("{of} / {base}")));
    }
    let most = |of: fn(&Run) -> Option<f64>| runs.iter().filter_map(of).fold(0.0, f64::max);
    let row = |run: &Run| {
        let mut cells = vec![Cell::text(name_of(run))];
        if several_drives {
            cells.push(Cell::text(run.drive.clone()));
        }
        cells.extend(QUANTITIES.iter().map(|(_, of, shown)| match of(run) {
            Some(value) => Cell::number(shown(value)).with_share(Some(value / most(*of))),
            None => Cell::number("–"),
        }));
        if has_ratios {
            let ratio = run.ratio.as_ref();
            let of = |value: Option<f64>| Cell::number(value.map_or("–".to_owned(), |value| format!("{value:.2}")));
            cells.push(of(ratio.and_then(|ratio| ratio.response_time_mean)));
            cells.push(of(ratio.and_then(|ratio| ratio.response_time_p99)));
            cells.push(of(ratio.and_then(|ratio| ratio.throughput)));
        }
        cells
    };
    let caption = "Response times from arrival to completion. A p99 that too few requests support is left out.";
    let table = Table { caption: caption.to_owned(), columns, rows: runs.iter().map(row).collect() };
    Section { heading: "Comparison".to_owned(), tables: vec![table], ..Section::default() }
}

/// Distributions of response times.
fn responses(runs: &[(&Run, &History)]) -> Section {
    let mut charts = Vec::new();
    for class in CLASSES.iter().filter(|class| runs.iter().any(|(run, _)| (class.figures)(run).requests > 0)) {
        let lines = |of: fn(f64) -> f64, is_at_end: bool| -> Vec<Line> {
            let line = |(run, history): &(&Run, &History)| {
                let points = cumulative((class.responses)(history), is_at_end);
                Line { name: name_of(run), points: points.into_iter().map(|[at, share]| [at, of(share)]).collect() }
            };
            runs.iter().map(line).collect()
        };
        charts.push(Chart {
            title: format!("How long {} take", class.name),
            about: "Share of requests that completed within this time; times to an eighth.".to_owned(),
            x: Axis::powers("response time, ms"),
            y: Axis::linear("share, %"),
            marks: Marks::Lines(lines(|share| share * 100.0, true)),
        });
        charts.push(Chart {
            title: format!("The slowest {}", class.name),
            about: "Share of requests that took longer than this time.".to_owned(),
            x: Axis::powers("response time, ms"),
            y: Axis::powers("share, %"),
            // The last request took longer than nothing.
            marks: Marks::Lines(lines(|share| if share < 1.0 { (1.0 - share) * 100.0 } else { f64::NAN }, true)),
        });
    }
    for class in CLASSES {
        let line = |(run, history): &(&Run, &History)| {
            let found = (class.found)(history);
            let all: u64 = found.iter().sum();
            let share = |(many, count): (usize, &u64)| [many as f64, *count as f64 / all as f64 * 100.0];
            Line { name: name_of(run), points: found.iter().enumerate().map(share).collect() }
        };
        if runs.iter().any(|(_, history)| (class.found)(history).len() > 1) {
            charts.push(Chart {
                title: format!("What {} find", class.name),
                about: format!(
                    "Share of {0} that find so many {0} outstanding when they arrive; 128 stands for more, too.",
                    class.name
                ),
                x: Axis::linear(&format!("{} outstanding", class.name)),
                y: Axis::linear("share, %"),
                marks: Marks::Lines(runs.iter().map(line).collect()),
            });
        }
    }
    Section { heading: "Response times".to_owned(), charts, ..Section::default() }
}

/// For each row the end of its times in ms and the share of the requests up to there.
fn cumulative(grid: &Grid, is_at_end: bool) -> Vec<[f64; 2]> {
    let rows = grid.by_row();
    let all: u64 = rows.iter().map(|(_, count)| count).sum();
    let mut seen = 0;
    let point = |(row, count): &(u64, u64)| {
        seen += count;
        [response_of_row(row + u64::from(is_at_end)) / 1e6, seen as f64 / all as f64]
    };
    rows.iter().map(point).collect()
}

/// Where a heat map's time and rows end, so that those of several runs can be compared.
fn heats<'a>(grids: impl Iterator<Item = (&'a Grid, f64)> + Clone) -> Extent {
    let rows = grids.clone().filter_map(|(grid, _)| grid.rows());
    let rows = rows.reduce(|one, next| (one.0.min(next.0), one.1.max(next.1)));
    let seconds = grids.map(|(grid, interval)| grid.columns.len() as f64 * interval).fold(0.0, f64::max);
    Extent { seconds, rows: rows.unwrap_or((0, 0)) }
}

/// The length of an interval in seconds.
fn interval(history: &History) -> f64 {
    history.interval_ns.as_ns() as f64 / 1e9
}

/// Charts whose x is the time of the run.
fn over_time(runs: &[(&Run, &History)]) -> Section {
    let seconds = || Axis::linear("time, s");
    let mut charts = Vec::new();
    for class in CLASSES {
        let line = |(run, history): &(&Run, &History)| Line {
            name: name_of(run),
            points: percentiles((class.responses)(history), history.interval_ns.as_ns(), 0.99),
        };
        let lines: Vec<Line> = runs.iter().map(line).collect();
        if lines.iter().any(|line| !line.points.is_empty()) {
            charts.push(Chart {
                title: format!("p99 of {} over time", class.name),
                about: format!("Intervals with fewer than {REQUESTS_MIN} requests are gaps; times to an eighth."),
                x: seconds(),
                y: Axis::powers("p99, ms"),
                marks: Marks::Lines(lines),
            });
        }
    }
    let several_vms = runs.iter().any(|(_, history)| history.vms.len() > 1);
    let rate = |history: &History, bytes: &[u64]| -> Vec<[f64; 2]> {
        let interval = interval(history);
        let point = |(at, bytes): (usize, &u64)| [(at as f64 + 0.5) * interval, *bytes as f64 / 1e6 / interval];
        bytes.iter().enumerate().map(point).collect()
    };
    let most = runs.iter().map(|(_, history)| {
        let at = |column: usize| history.vms.iter().map(|vm| vm.bytes.get(column).copied().unwrap_or(0)).sum::<u64>();
        let columns = history.vms.iter().map(|vm| vm.bytes.len()).max().unwrap_or(0);
        (0..columns).map(at).max().unwrap_or(0) as f64 / 1e6 / interval(history)
    });
    let megabytes = || Axis::linear("MB/s").up_to(most.clone().fold(0.0, f64::max));
    if several_vms {
        for (run, history) in runs {
            let line = |vm: &traces::results::history::VmHistory| Line {
                name: vm.vm.clone(),
                points: rate(history, &vm.bytes),
            };
            charts.push(Chart {
                title: format!("Throughput of each VM under {}", name_of(run)),
                about: "The VMs lie on one another; the upper edge is all of them.".to_owned(),
                x: seconds(),
                y: megabytes(),
                marks: Marks::Stacked(history.vms.iter().map(line).collect()),
            });
        }
    } else {
        for (run, history) in runs {
            let points = history.vms.first().map_or_else(Vec::new, |vm| rate(history, &vm.bytes));
            charts.push(Chart {
                title: format!("Throughput under {}", name_of(run)),
                about: "Of completed reads and writes.".to_owned(),
                x: seconds(),
                y: megabytes(),
                marks: Marks::Stacked(vec![Line { name: name_of(run), points }]),
            });
        }
    }
    let outstanding = |(run, history): &(&Run, &History)| {
        let interval = interval(history);
        let point = |(at, mean): (usize, &f64)| [(at as f64 + 0.5) * interval, *mean];
        Line { name: name_of(run), points: history.outstanding_mean.iter().enumerate().map(point).collect() }
    };
    charts.push(Chart {
        title: "Arrivals outstanding".to_owned(),
        about: "Mean of each interval.".to_owned(),
        x: seconds(),
        y: Axis::linear("requests"),
        marks: Marks::Lines(runs.iter().map(outstanding).collect()),
    });
    for class in CLASSES {
        let grids = runs.iter().map(|(_, history)| ((class.responses)(history), interval(history)));
        let extent = heats(grids);
        for (run, history) in runs {
            let grid = (class.responses)(history);
            let y = Axis::powers("response time, ms");
            let heat = Heat::of(grid, interval(history), extent, &y, |row| response_of_row(row) / 1e6);
            if !heat.is_empty() {
                charts.push(Chart {
                    title: format!("Response times of {} under {}", class.name, name_of(run)),
                    about: format!("The darkest cell has {} requests.", heat.most()),
                    x: seconds(),
                    y,
                    marks: Marks::Heat(heat),
                });
            }
        }
    }
    Section { heading: "Over time".to_owned(), charts, ..Section::default() }
}

/// A percentile over time, in ms: `at_least` of the requests of each group of intervals took at most so long.
fn percentiles(grid: &Grid, interval_ns: u64, share: f64) -> Vec<[f64; 2]> {
    let together = grid.columns.len().div_ceil(PERCENTILE_POINTS).max(1);
    let mut points = Vec::new();
    for (group, columns) in grid.columns.chunks(together).enumerate() {
        let rows = Grid { row_size: 1, columns: columns.to_vec() }.by_row();
        let all: u64 = rows.iter().map(|(_, count)| count).sum();
        let middle = (group as f64 + 0.5) * together as f64 * interval_ns as f64 / 1e9;
        let wanted = libm::ceil(all as f64 * share) as u64;
        let mut seen = 0;
        let row = rows.iter().find(|(_, count)| {
            seen += count;
            seen >= wanted
        });
        let value = row.filter(|_| all >= REQUESTS_MIN).map(|(row, _)| response_of_row(row + 1) / 1e6);
        points.push([middle, value.unwrap_or(f64::NAN)]);
    }
    if points.iter().all(|point| point[1].is_nan()) { Vec::new() } else { points }
}

/// Where on the drive requests lie, and how far the head moves.
fn addresses(runs: &[(&Run, &History)]) -> Section {
    let mut charts = Vec::new();
    // Where requests go differs little between schedulers.
    if let Some((run, history)) = runs.first() {
        for vm in &history.vms {
            for (name, grid) in [("Reads", &vm.reads), ("Writes", &vm.writes)] {
                let y = Axis::linear("address, GB");
                let gigabytes = |row: u64| row as f64 * grid.row_size as f64 * 512.0 / 1e9;
                let heat =
                    Heat::of(grid, interval(history), heats([(grid, interval(history))].into_iter()), &y, gigabytes);
                if !heat.is_empty() {
                    charts.push(Chart {
                        title: format!("{name} of {} by address", vm.vm),
                        about: format!(
                            "Under {}, at completion. The darkest cell has {} requests.",
                            name_of(run),
                            heat.most()
                        ),
                        x: Axis::linear("time, s"),
                        y,
                        marks: Marks::Heat(heat),
                    });
                }
            }
        }
    }
    let seeks = |(run, history): &(&Run, &History)| {
        let all: u64 = history.seeks.iter().sum();
        let mut seen = 0;
        let point = |(power, count): (usize, &u64)| {
            seen += count;
            let end = if power == 0 { 0.5 } else { libm::exp2(power as f64) };
            [end * 512.0 / 1e6, seen as f64 / all as f64 * 100.0]
        };
        Line { name: name_of(run), points: history.seeks.iter().enumerate().map(point).collect() }
    };
    if runs.iter().any(|(_, history)| !history.seeks.is_empty()) {
        charts.push(Chart {
            title: "How far the head moves".to_owned(),
            about: "Share of device requests up to this distance, by powers of two.".to_owned(),
            x: Axis::powers("distance, MB"),
            y: Axis::linear("share, %"),
            marks: Marks::Lines(runs.iter().map(seeks).collect()),
        });
    }
    Section { heading: "Addresses".to_owned(), charts, ..Section::default() }
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
        Table { caption: name_of(run), columns, rows: run.rules.iter().map(row).collect() }
    };
    let tables: Vec<Table> = runs.iter().filter(|run| !run.rules.is_empty()).map(table).collect();
    let text = vec!["The rule that chose each request. One that never ran has no effect on this load.".to_owned()];
    let section = Section { heading: "Rules of the schedulers".to_owned(), text, tables, ..Section::default() };
    (!section.tables.is_empty()).then_some(section)
}

/// Each VM's figures.
fn vms(runs: &[Run]) -> Option<Section> {
    let rows: Vec<Vec<Cell>> = runs
        .iter()
        .flat_map(|run| {
            run.vms.iter().map(move |vm| {
                let ms = |class: &ClassFigures| Cell::number(class.response_time.mean_ns.map_or("–".to_owned(), time));
                vec![
                    Cell::text(vm.vm.clone()),
                    Cell::text(name_of(run)),
                    Cell::number(vm.all.requests.to_string()),
                    ms(&vm.read),
                    ms(&vm.write),
                    Cell::number(format!("{:.2} MB/s", vm.all.bytes_per_s / 1e6)),
                ]
            })
        })
        .collect();
    let columns =
        ["VM", "scheduler", "requests", "reads, mean", "writes, mean", "throughput"].map(str::to_owned).to_vec();
    let caption = "While all VMs are active".to_owned();
    let tables = vec![Table { caption, columns, rows }];
    let section = Section { heading: "VMs".to_owned(), tables, ..Section::default() };
    (!section.tables[0].rows.is_empty()).then_some(section)
}

/// What the figures were made from.
fn sources(comparison: &Comparison) -> Section {
    let provenance = &comparison.provenance;
    let mut tables = Vec::new();
    if !provenance.traces.is_empty() {
        let columns = ["VM", "trace", "format", "layer", "requests", "SHA-256"].map(str::to_owned).to_vec();
        let row = |trace: &traces::results::TraceProvenance| {
            vec![
                Cell::text(trace.vm.clone()),
                Cell::text(trace.path.clone()),
                Cell::text(trace.format.clone()),
                Cell::text(trace.layer.to_string()),
                Cell::number(trace.requests.to_string()),
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
