//! The statistics of a trace, as sentences, tables and charts.

use report::page::of_capture;
use traces::results::PERCENTILES;
use traces::results::statistics::{
    DistanceFigures, EventFigures, FoundFigures, GroupFigures, GroupedFigures, MeasuredWindow, STAGES, SeekFigures,
    SpanFigures, StageFigures, Tally, TraceStatistics,
};

use crate::document::{Block, Document};
use crate::output::{Table, date, number, terminal_width};
use crate::output_format::OutputFormat;
use crate::units::{ABSENT, data, percentile, span, span_or_absent};

/// The form in which reports show a trace: with all percentiles.
pub const FOR_REPORTS: OutputFormat = OutputFormat::Json;

/// The statistics as a document; of processes, cgroups and VMs the first `top`.
pub fn document(figures: &TraceStatistics, format: OutputFormat, top: usize) -> Document {
    let mut tables = vec![requests(figures)];
    tables.extend(figures.events.as_ref().map(events));
    let times = [stages(figures, format), gaps_in_order(figures, format), gaps_within(figures, format)];
    tables.extend(times.into_iter().flatten());
    tables.extend([queues(figures), arrival_queues(figures), seeks(figures), sizes(figures)].into_iter().flatten());
    for (kind, grouped) in &figures.groups {
        tables.push(groups(kind, grouped, top));
    }
    tables.extend(unmatched(figures));
    let sentence = in_short(figures).map(Block::Sentence);
    let head = sentence.into_iter().chain([Block::Lines(head(figures))]);
    Document {
        title: format!("{}, as it was recorded", figures.trace.path),
        blocks: head.chain(tables.into_iter().map(Block::Table)).collect(),
        charts: figures.history.as_ref().map(of_capture).unwrap_or_default(),
        program: figures.program.clone(),
    }
}

/// How much is read and written, and how long that takes; `None` of a trace without reads and writes.
fn in_short(figures: &TraceStatistics) -> Option<String> {
    let of = |class: &str| figures.arrivals.get(class).filter(|of| of.requests > 0);
    let q2c = figures.stages.get("q2c").or_else(|| figures.stages.get("d2c"));
    let times = |spans: Option<&SpanFigures>| {
        let Some((spans, mean)) = spans.and_then(|spans| Some((spans, spans.moments.mean_ns?))) else {
            return String::new();
        };
        match percentile(&spans.percentiles_ns, spans.count, "p99") {
            absent if absent == ABSENT => format!(" in {} on average", span(mean)),
            p99 => format!(" in {} on average (p99 {p99})", span(mean)),
        }
    };
    let class = |name: &str, spans: Option<&SpanFigures>| {
        let figures = of(name)?;
        Some(format!("{} {name}s/s{}", number(Some(figures.requests_per_s)), times(spans)))
    };
    let classes = [class("read", q2c.map(|of| &of.read)), class("write", q2c.map(|of| &of.write))];
    let said: Vec<String> = classes.into_iter().flatten().collect();
    (!said.is_empty()).then(|| format!("{}.", said.join("; ")))
}

fn head(figures: &TraceStatistics) -> Vec<String> {
    let trace = &figures.trace;
    let zero = trace.clock.zero_unix_ns.map_or_else(String::new, |ns| format!(", zero at {}", date(ns)));
    let merges = &figures.merges;
    let mut lines = vec![
        format!("{}: {}, {}, {} requests", trace.path, trace.format, trace.layer, trace.requests),
        format!(
            "{} over {}, clock {}{zero}",
            data(all_bytes(figures)),
            span(figures.span_ns.as_ns() as f64),
            trace.clock.name
        ),
    ];
    if let Some(MeasuredWindow { start_ns, end_ns, limit }) = figures.window {
        let end = end_ns.map_or_else(String::new, |end| format!(" to {end}"));
        let limit = limit.map_or_else(String::new, |limit| format!(", at most {limit} requests"));
        lines.push(format!("only requests that arrived from {start_ns}{end} after the first arrival{limit}"));
    }
    if figures.events.is_some() {
        let ratio = merges
            .arrivals_per_device_request
            .map_or_else(String::new, |ratio| format!(", {ratio:.2} arrivals per request at the device"));
        lines.push(format!(
            "merged {} at the back, {} at the front; {} split, {} requeued{ratio}",
            merges.back, merges.front, merges.splits, merges.requeues
        ));
    }
    if !trace.sha256.is_empty() {
        lines.push(format!("sha256 {}", trace.sha256));
    }
    lines
}

fn all_bytes(figures: &TraceStatistics) -> u64 {
    figures.arrivals.values().fold(0, |sum: u64, operation| sum.saturating_add(operation.bytes))
}

fn table(title: &str, header: &[&str], text_columns: usize, rows: Vec<Vec<String>>) -> Table {
    Table {
        title: title.to_owned(),
        header: header.iter().map(|name| (*name).to_owned()).collect(),
        rows,
        text_columns,
    }
}

fn requests(figures: &TraceStatistics) -> Table {
    let mut rows = Vec::new();
    for (what, operations) in [("arrived", &figures.arrivals), ("at device", &figures.device_requests)] {
        for (name, operation) in operations {
            rows.push(vec![
                format!("{name}, {what}"),
                operation.requests.to_string(),
                data(operation.bytes),
                operation.mean_bytes.map_or(ABSENT.to_owned(), |mean| data(mean as u64)),
                number(Some(operation.requests_per_s)),
                number(Some(operation.bytes_per_s / 1e6)),
                operation.errors.to_string(),
            ]);
        }
    }
    table("Requests", &["", "requests", "data", "mean", "per s", "MB/s", "errors"], 1, rows)
}

fn events(events: &std::collections::BTreeMap<String, EventFigures>) -> Table {
    let row = |(name, of): (&String, &EventFigures)| {
        let cell = |tally: Tally| if tally.events == 0 { ABSENT.to_owned() } else { tally.events.to_string() };
        let empty = Tally { events: of.empty_read.events + of.empty_write.events, bytes: 0 };
        vec![name.replace('_', " "), cell(of.read), cell(of.write), cell(of.discard), cell(empty), cell(of.passthrough)]
    };
    let header = ["", "reads", "writes", "discards", "without data", "passed through"];
    table("Events", &header, 1, events.iter().map(row).collect())
}

/// The percentiles that a narrow table prints.
const FEW: [&str; 4] = ["p50", "p90", "p99", "p99.9"];

/// The percentiles that are printed: fewer on a narrow terminal.
fn percentiles(format: OutputFormat) -> Vec<&'static str> {
    let narrow = format == OutputFormat::Table && terminal_width().is_some_and(|width| width < 120);
    PERCENTILES.iter().map(|(_, name)| *name).filter(|name| !narrow || FEW.contains(name)).collect()
}

fn times(title: &str, rows: Vec<Vec<String>>, percentiles: &[&str]) -> Option<Table> {
    let mut header = vec!["", "n", "mean", "min"];
    header.extend(percentiles);
    header.push("max");
    (!rows.is_empty()).then(|| table(title, &header, 1, rows))
}

/// The names of the stages in tables.
fn stage_name(stage: &str) -> String {
    if stage == "device_time" { "DEV".to_owned() } else { stage.to_uppercase() }
}

fn stages(figures: &TraceStatistics, format: OutputFormat) -> Option<Table> {
    let percentiles = percentiles(format);
    let mut rows = Vec::new();
    for (stage, _) in STAGES {
        let Some(of) = figures.stages.get(stage).filter(|of| of.within_class.is_none()) else { continue };
        rows.extend(class_rows(&stage_name(stage), of, &percentiles));
    }
    times("Times between stages (`iocast help stat` explains the rows)", rows, &percentiles)
}

/// The row of all requests, and a row of each class that is only a part of them.
fn class_rows(name: &str, of: &StageFigures, percentiles: &[&str]) -> Vec<Vec<String>> {
    let classes = [("R", &of.read), ("W", &of.write), ("flush", &of.flush), ("discard", &of.discard)];
    let parts = classes.into_iter().filter(|(_, spans)| spans.count > 0 && spans.count < of.all.count);
    let rows = [("all", &of.all)].into_iter().chain(parts);
    rows.map(|(class, spans)| stage_row(format!("{name} {class}"), spans, percentiles)).collect()
}

/// The stages from one request to the next, in the order of a request's way.
fn gap_stages(figures: &TraceStatistics) -> impl Iterator<Item = (String, &StageFigures)> {
    let stages = STAGES.iter().filter_map(|(stage, _)| Some((stage_name(stage), figures.stages.get(*stage)?)));
    stages.filter(|(_, of)| of.within_class.is_some())
}

fn gaps_in_order(figures: &TraceStatistics, format: OutputFormat) -> Option<Table> {
    let percentiles = percentiles(format);
    let rows = gap_stages(figures).flat_map(|(name, of)| class_rows(&name, of, &percentiles)).collect();
    times("Gaps in the device's order: from the last request of any class", rows, &percentiles)
}

/// Without rows if there is one class only, whose gaps are those of all requests.
fn gaps_within(figures: &TraceStatistics, format: OutputFormat) -> Option<Table> {
    let percentiles = percentiles(format);
    let mut rows = Vec::new();
    for (name, of) in gap_stages(figures) {
        let Some(within) = &of.within_class else { continue };
        for (class, spans) in [("R", &within.read), ("W", &within.write), ("discard", &within.discard)] {
            if spans.count > 0 && spans.count < of.all.count {
                rows.push(stage_row(format!("{name} {class}"), spans, &percentiles));
            }
        }
    }
    times("Gaps within the class: from the last request of the same class", rows, &percentiles)
}

fn stage_row(name: String, spans: &SpanFigures, percentiles: &[&str]) -> Vec<String> {
    let time = span_or_absent;
    let whole = |ns: Option<u64>| time(ns.map(|ns| ns as f64));
    let mut row = vec![name, spans.count.to_string(), time(spans.moments.mean_ns), whole(spans.moments.min_ns)];
    row.extend(percentiles.iter().map(|name| percentile(&spans.percentiles_ns, spans.count, name)));
    row.push(whole(spans.moments.max_ns));
    row
}

fn queues(figures: &TraceStatistics) -> Option<Table> {
    let name = |name: &str| if name == "at_device" { "at the device (D to C)" } else { "outstanding (arrival to C)" };
    let row = |(queue, of): (&String, &traces::results::statistics::QueueOverTime)| {
        vec![name(queue).to_owned(), number(Some(of.mean)), of.max.to_string(), number(Some(of.busy_share * 100.0))]
    };
    let rows: Vec<Vec<String>> = figures.queues.iter().map(row).collect();
    (!rows.is_empty()).then(|| table("Queues over time", &["", "mean", "max", "busy, %"], 1, rows))
}

fn arrival_queues(figures: &TraceStatistics) -> Option<Table> {
    let mut rows = Vec::new();
    for (at, of) in &figures.arrival_queues {
        let at = if at == "at_issue" { "when issued, at the device" } else { "on arrival, outstanding" };
        for (who, found) in [("reads", &of.seen_by_reads), ("writes", &of.seen_by_writes)] {
            if found.count > 0 {
                rows.push(found_row(format!("{who}, {at}"), found));
            }
        }
    }
    let header = ["", "n", "reads", "writes", "both"];
    (!rows.is_empty()).then(|| table("Requests that a request finds before it (mean arrival queue)", &header, 1, rows))
}

fn found_row(name: String, found: &FoundFigures) -> Vec<String> {
    let means = [found.reads_mean, found.writes_mean, found.total_mean];
    [name, found.count.to_string()].into_iter().chain(means.map(number)).collect()
}

fn seeks(figures: &TraceStatistics) -> Option<Table> {
    let mut rows = Vec::new();
    for (at, of) in &figures.seeks {
        let at = if at == "at_issue" { "D2D" } else { "Q2Q" };
        let SeekFigures { read, write, discard, all, within_class: within } = of;
        if all.count > 0 {
            rows.push(seek_row(format!("{at} all"), all));
        }
        let classes = [("R", read, &within.read), ("W", write, &within.write), ("discard", discard, &within.discard)];
        for (class, in_order, within) in classes {
            // Of one class only, both are those of all requests.
            for (order, distances) in [("in the device's order", in_order), ("within the class", within)] {
                if distances.count > 0 && distances.count < all.count {
                    rows.push(seek_row(format!("{at} {class}, {order}"), distances));
                }
            }
        }
    }
    let header = ["", "n", "mean sectors", "sequential, %", "forward, %", "backward, %"];
    let title = "Seeks: from the last request of any class (in the device's order) or of the same (within the class)";
    (!rows.is_empty()).then(|| table(title, &header, 1, rows))
}

fn seek_row(name: String, distances: &DistanceFigures) -> Vec<String> {
    let share = |part: u64| number(Some(part as f64 * 100.0 / distances.count as f64));
    vec![
        name,
        distances.count.to_string(),
        number(distances.mean_sectors),
        share(distances.sequential),
        share(distances.forward),
        share(distances.backward),
    ]
}

/// Lengths by powers of two, arrivals and requests at the device.
fn sizes(figures: &TraceStatistics) -> Option<Table> {
    let columns = [("arrivals", &figures.arrivals), ("device_requests", &figures.device_requests)];
    let mut by_power: std::collections::BTreeMap<u64, [u64; 4]> = std::collections::BTreeMap::new();
    for (column, (_, operations)) in columns.iter().enumerate() {
        for (offset, operation) in ["read", "write"].into_iter().enumerate() {
            let Some(of) = operations.get(operation) else { continue };
            for (sectors, often) in &of.sizes {
                by_power.entry(sectors.next_power_of_two()).or_default()[column * 2 + offset] += often;
            }
        }
    }
    let row = |(sectors, counts): (&u64, &[u64; 4])| {
        let cell = |count: &u64| if *count == 0 { ABSENT.to_owned() } else { count.to_string() };
        [format!("up to {}", data(sectors * 512))].into_iter().chain(counts.iter().map(cell)).collect()
    };
    let rows: Vec<Vec<String>> = by_power.iter().map(row).collect();
    let header = ["", "reads", "writes", "reads at device", "writes at device"];
    (!rows.is_empty()).then(|| table("Sizes", &header, 1, rows))
}

fn groups(kind: &str, grouped: &GroupedFigures, top: usize) -> Table {
    let row = |group: &GroupFigures| {
        let total = group.reads + group.writes;
        let mean = |moments: traces::results::Moments| moments.mean_ns.map_or(ABSENT.to_owned(), span);
        vec![
            group.name.clone().map_or_else(|| group.id.to_string(), |name| format!("{name} {}", group.id)),
            group.reads.to_string(),
            group.writes.to_string(),
            data(group.read_bytes),
            data(group.write_bytes),
            if total == 0 { ABSENT.to_owned() } else { number(Some(group.sequential as f64 * 100.0 / total as f64)) },
            mean(group.read_response),
            mean(group.write_response),
        ]
    };
    let mut rows: Vec<Vec<String>> = grouped.groups.iter().take(top).map(row).collect();
    rows.extend(grouped.rest.as_ref().map(row));
    let of = grouped.groups.len();
    let title = match &grouped.rest {
        Some(_) => format!("By {kind}: {} of the first {of}, and all that came later", top.min(of)),
        None => format!("By {kind}: {} of {of}", top.min(of)),
    };
    table(&title, &["", "reads", "writes", "read", "written", "seq., %", "R mean", "W mean"], 1, rows)
}

fn unmatched(figures: &TraceStatistics) -> Option<Table> {
    let losses = &figures.trace.losses;
    let mut rows: Vec<Vec<String>> =
        losses.unmatched.iter().map(|(kind, count)| vec![kind.clone(), count.to_string()]).collect();
    if losses.lost_events > 0 {
        rows.push(vec!["lost by the capture".to_owned(), losses.lost_events.to_string()]);
    }
    rows.extend(losses.impossible.iter().map(|(kind, count)| vec![format!("impossible: {kind}"), count.to_string()]));
    rows.extend(losses.skipped.iter().map(|(reason, count)| vec![format!("skipped: {reason}"), count.to_string()]));
    (!rows.is_empty()).then(|| table("Unmatched, lost, skipped and impossible events", &["", "n"], 1, rows))
}
