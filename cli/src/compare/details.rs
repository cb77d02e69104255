//! All figures of a comparison, one column per scheduler or stack and one block per class of requests; and the settings
//! that it was made with.

use traces::results::{
    ClassFigures, Comparison, LayerFigures, Moments, PERCENTILES, Part, Run, StackFigures, Status, WorkloadProvenance,
};

use crate::output::{Table, line, number, sentence};
use crate::output_format::OutputFormat;
use crate::units::{ABSENT, percentile, span_or_absent};

type ClassOf = fn(&Run) -> &ClassFigures;

/// All figures as text or Markdown.
pub fn render(comparison: &Comparison, format: OutputFormat) -> String {
    let mut text = String::from("\n");
    let classes: [(&str, ClassOf); 4] = [
        ("Reads and writes", |run| &run.all),
        ("Reads", |run| &run.read),
        ("Writes", |run| &run.write),
        ("Flushes and discards", |run| &run.other),
    ];
    for (title, class) in classes {
        block(&mut text, comparison, format, title, &|run| Some(class(run)));
    }
    let vms = comparison.runs.first().map_or(0, |run| run.vms.len());
    for vm in 0..vms {
        let name = &comparison.runs[0].vms[vm].vm;
        block(&mut text, comparison, format, &format!("VM {name}: reads"), &|run| run.vms.get(vm).map(|vm| &vm.read));
        block(&mut text, comparison, format, &format!("VM {name}: writes"), &|run| run.vms.get(vm).map(|vm| &vm.write));
    }
    text.push_str(&run_table(comparison).render(format));
    if let Some(table) = stack_table(comparison) {
        text.push_str(&format!("\n{}", table.render(format)));
    }
    text
}

/// What was replayed on what: in a line, or with every setting.
pub fn settings(comparison: &Comparison, stacks: &[String], format: OutputFormat, with_details: bool) -> String {
    let lines = if with_details { all_settings(comparison) } else { vec![in_short(comparison, stacks)] };
    if format == OutputFormat::Markdown {
        let list: String = lines.iter().map(|text| format!("- {}\n", line(text, format))).collect();
        return format!("<details><summary>Settings</summary>\n\n{list}\n</details>\n");
    }
    lines.iter().map(|text| sentence(text, format)).collect()
}

/// Names in the order in which they first occur, each once with its number.
pub fn counted(names: impl IntoIterator<Item = String>) -> String {
    let mut counts: Vec<(String, u32)> = Vec::new();
    for name in names {
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    let named = counts.into_iter().map(|(name, count)| if count > 1 { format!("{count} × {name}") } else { name });
    named.collect::<Vec<String>>().join(", ")
}

/// The stacks before the drive, if there are any.
pub fn of_stacks(stacks: &[String]) -> Option<String> {
    let word = if stacks.len() > 1 { "stacks" } else { "stack" };
    (!stacks.is_empty()).then(|| format!("{word} {}", stacks.join(", ")))
}

fn in_short(comparison: &Comparison, stacks: &[String]) -> String {
    let provenance = &comparison.provenance;
    let traces = provenance.traces.iter().map(|trace| format!("{} ({} requests)", trace.path, trace.requests));
    let workloads = provenance.workloads.iter().map(|workload| workload.workload.name.clone());
    let stacks = of_stacks(stacks).map(|stacks| format!(", {stacks}")).unwrap_or_default();
    let drives: Vec<&str> = provenance.drives.iter().map(|drive| drive.name.as_str()).collect();
    let option = |name: &str| provenance.options.get(name).map(|value| format!(", {name} {value}")).unwrap_or_default();
    let without_data = comparison.runs.first().map_or(0, |run| run.other.requests);
    let apart = match without_data {
        0 => String::new(),
        some => format!(", {some} of them flushes and discards, which the tables leave out"),
    };
    format!(
        "{}{apart}, on {}{stacks}{}{}; {}. --details prints all figures and settings.",
        counted(traces.chain(workloads)),
        drives.join(", "),
        option("pacing"),
        option("depth"),
        provenance.program
    )
}

/// The traces or workloads, the drives and the options.
fn all_settings(comparison: &Comparison) -> Vec<String> {
    let provenance = &comparison.provenance;
    let mut lines = Vec::new();
    for trace in &provenance.traces {
        let sha = trace.sha256.get(..12).unwrap_or(&trace.sha256);
        lines.push(format!(
            "{}: {} ({}, {}, {} requests, sha256 {sha})",
            trace.vm, trace.path, trace.format, trace.layer, trace.requests
        ));
    }
    for WorkloadProvenance { vm, workload, copies, place_sector, capacity_sectors, cache_bytes, journal, .. } in
        &provenance.workloads
    {
        let copies = if *copies == 1 { String::new() } else { format!("{copies} times ") };
        let settings: Vec<String> = workload.settings.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let journal = if *journal { "journal" } else { "no journal" };
        lines.push(format!(
            "{vm}: {} ({copies}{}: {}; sectors {place_sector} to {}, page cache {} MiB, {journal})",
            workload.name,
            workload.model,
            settings.join(" "),
            place_sector + capacity_sectors,
            cache_bytes >> 20
        ));
    }
    let part = |kind: &str, part: &Part| {
        let settings: Vec<String> = part.settings.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let settings = if settings.is_empty() { String::new() } else { format!(": {}", settings.join(" ")) };
        format!("{kind} {} ({}{settings})", part.name, part.model)
    };
    lines.extend(provenance.drives.iter().map(|drive| part("drive", drive)));
    lines.extend(comparison.runs.iter().map(|run| part("scheduler", &run.scheduler)));
    let options: Vec<String> = provenance.options.iter().map(|(k, v)| format!("{k}={v}")).collect();
    lines.push(format!("{}; {}", provenance.program, options.join(" ")));
    lines
}

/// The figures of one class of requests; nothing if no replay has such requests.
fn block<'a>(
    text: &mut String,
    comparison: &'a Comparison,
    format: OutputFormat,
    title: &str,
    class: &dyn Fn(&'a Run) -> Option<&'a ClassFigures>,
) {
    let classes: Vec<&ClassFigures> = comparison.runs.iter().filter_map(class).collect();
    if classes.len() < comparison.runs.len() || classes.iter().all(|class| class.requests == 0) {
        return;
    }
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |name: &str, value: &dyn Fn(&ClassFigures) -> String| {
        rows.push(std::iter::once(name.to_owned()).chain(classes.iter().map(|class| value(class))).collect());
    };
    row("requests", &|c| c.requests.to_string());
    row("device requests", &|c| c.device_requests.to_string());
    row("device time, mean", &|c| mean(&c.device_time));
    row("  standard deviation", &|c| deviation(&c.device_time));
    if classes.iter().any(|class| class.dispatch_to_completion != class.device_time) {
        row("dispatch to completion", &|c| mean(&c.dispatch_to_completion));
        row("  standard deviation", &|c| deviation(&c.dispatch_to_completion));
    }
    row("response, mean", &|c| mean(&c.response_time));
    row("  standard deviation", &|c| deviation(&c.response_time));
    for (_, name) in PERCENTILES {
        row(&format!("  {name}"), &|c| percentile(&c.response_percentiles_ns, c.requests, name));
    }
    row("IOPS", &|c| number(Some(c.iops)));
    row("MB/s", &|c| number(Some(c.bytes_per_s / 1e6)));
    row("sectors/ms", &|c| number(Some(c.sectors_per_ms)));
    // Drives without an arm have no cache of tracks either.
    if classes.iter().any(|class| class.seek_distance_mean_sectors.is_some_and(|seek| seek > 0.0)) {
        row("mean seek, sectors", &|c| number(c.seek_distance_mean_sectors));
        row("cache hits, %", &|c| number(c.cache_hit_share.map(|share| share * 100.0)));
    }
    let table = Table { title: title.to_owned(), header: header(comparison), rows, text_columns: 1 };
    text.push_str(&table.render(format));
    text.push('\n');
}

/// The figures of a run as a whole: queues, and ratios to the baseline.
fn run_table(comparison: &Comparison) -> Table {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |name: &str, value: &dyn Fn(&Run) -> String| {
        rows.push(std::iter::once(name.to_owned()).chain(comparison.runs.iter().map(value)).collect());
    };
    row("duration, s", &|run| number(Some(run.span_ns.as_s_f64())));
    row("outstanding, mean", &|run| number(Some(run.queue.outstanding_mean)));
    row("outstanding, most", &|run| run.queue.outstanding_max.to_string());
    row("waiting, mean", &|run| number(Some(run.queue.waiting_mean)));
    row("waiting, most", &|run| run.queue.waiting_max.to_string());
    row("left the scheduler", &|run| run.queue.dispatches.to_string());
    row("  while another waited", &|run| run.queue.choices.to_string());
    row("merged", &|run| run.queue.merged.to_string());
    row("drive busy, %", &|run| number(Some(run.queue.drive_utilisation * 100.0)));
    row("offered load", &|run| number(run.offered_load));
    if let Some(baseline) = &comparison.baseline {
        row(&format!("R+W mean / {baseline}"), &|run| number(run.ratio.and_then(|r| r.response_time_mean)));
        row(&format!("R+W p99 / {baseline}"), &|run| number(run.ratio.and_then(|r| r.response_time_p99)));
        row(&format!("throughput / {baseline}"), &|run| number(run.ratio.and_then(|r| r.throughput)));
    }
    Table { title: "Queues and ratios".to_owned(), header: header(comparison), rows, text_columns: 1 }
}

/// The figures of each layer, and the fairness among VMs; `None` without a stack.
fn stack_table(comparison: &Comparison) -> Option<Table> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |name: &str, value: &dyn Fn(&StackFigures) -> String| {
        let cell = |run: &Run| run.stack.as_ref().map_or_else(|| ABSENT.to_owned(), value);
        rows.push(std::iter::once(name.to_owned()).chain(comparison.runs.iter().map(cell)).collect());
    };
    // Columns may have different layers: each name once, in the order of first occurrence.
    let mut layers: Vec<&str> = Vec::new();
    for layer in comparison.runs.iter().filter_map(|run| run.stack.as_ref()).flat_map(|stack| &stack.layers) {
        if !layers.contains(&layer.layer.as_str()) {
            layers.push(&layer.layer);
        }
    }
    for name in &layers {
        let figure = |stack: &StackFigures, of: &dyn Fn(&LayerFigures) -> String| {
            stack.layers.iter().find(|layer| layer.layer == *name).map_or_else(|| ABSENT.to_owned(), of)
        };
        row(&format!("{name}:"), &|stack| figure(stack, &|layer| layer.scheduler.clone()));
        row("  requests sent on", &|stack| figure(stack, &|layer| layer.requests.to_string()));
        row("  switches of VM", &|stack| figure(stack, &|layer| layer.context_switches.to_string()));
        row("  merged", &|stack| figure(stack, &|layer| layer.merged.to_string()));
        row("  until service begins", &|stack| figure(stack, &|layer| mean(&layer.time_to_drive)));
        row("  until completion", &|stack| figure(stack, &|layer| mean(&layer.time_below)));
    }
    if layers.is_empty() {
        return None;
    }
    row("fairness (Jain) of the run", &|stack| number(stack.fairness.jain));
    let length = comparison.runs.iter().find_map(|run| run.stack.as_ref()).map(|stack| stack.fairness.interval_ns);
    row(&format!("  of {}, mean", length.unwrap_or_default()), &|stack| number(stack.fairness.jain_interval_mean));
    row("  least", &|stack| number(stack.fairness.jain_interval_min));
    Some(Table { title: "Layers and fairness".to_owned(), header: header(comparison), rows, text_columns: 1 })
}

/// The names of the columns.
fn header(comparison: &Comparison) -> Vec<String> {
    std::iter::once(String::new()).chain(comparison.runs.iter().map(header_name)).collect()
}

/// The name of a run; a `!` marks overloaded replays, which must not be compared.
pub fn header_name(run: &Run) -> String {
    match run.status {
        Status::Comparable => run.scheduler.name.clone(),
        Status::Overloaded { .. } => format!("{} !", run.scheduler.name),
    }
}

fn mean(moments: &Moments) -> String {
    span_or_absent(moments.mean_ns)
}

fn deviation(moments: &Moments) -> String {
    span_or_absent(moments.variance_ns2.map(f64::sqrt))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_counted_in_the_order_of_their_first_occurrence() {
        let names = ["dd", "mail", "dd", "dd", "web"].map(str::to_owned);
        assert_eq!(counted(names), "3 × dd, mail, web");
        assert_eq!(counted([]), "");
    }
}
