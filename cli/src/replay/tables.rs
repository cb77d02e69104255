//! The result of a replay on a device for people: what was asked, what was achieved and whether it is faithful; then
//! the tables of a comparison, and the recorded response times beside the new ones.

use replay::live::{BOUNDS, THROTTLE_BOUND};
use traces::results::live::{Ending, LiveFigures, PunctualityFigures, ThrottleFigures, ThrottledService};
use traces::results::{ClassFigures, Comparison, Run, SpanFigures};

use crate::compare::tables::{self, More};
use crate::output::{Table, sentence};
use crate::output_format::OutputFormat;
use crate::units::{ABSENT, percentile, ratio, span, span_or_absent};

/// The whole result as text or Markdown.
pub fn render(comparison: &Comparison, format: OutputFormat, with_details: bool) -> String {
    let mut text = String::new();
    for (run, live) in comparison.runs.iter().filter_map(|run| Some((run, run.live.as_ref()?))) {
        for line in lines(comparison, run, live) {
            text.push_str(&sentence(&line, format));
            if format == OutputFormat::Markdown {
                text.push('\n');
            }
        }
        text.push('\n');
        text.push_str(&recorded_beside_replayed(run, live).render(format));
        text.push('\n');
    }
    let more = More { details: with_details, rules: false };
    text.push_str(&tables::render(comparison, &[], format, more));
    text
}

/// What was asked of the device, what was achieved, and whether the replay is faithful: sentence by sentence.
pub fn lines(comparison: &Comparison, run: &Run, live: &LiveFigures) -> Vec<String> {
    let past = if live.direct { ", past the page cache" } else { "" };
    let reason = live.backend_reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let mut lines = vec![format!("Device: {} through {}{past}{reason}.", live.target, live.backend)];
    let option = |name: &str| comparison.provenance.options.get(name).cloned().unwrap_or_default();
    let completed = run.all.requests + run.other.requests;
    lines.push(format!(
        "Asked: {} requests, pacing {}. Achieved: {completed} completed in {}{}.",
        live.asked_requests,
        option("pacing"),
        span(run.span_ns.as_ns() as f64),
        ending(live)
    ));
    match (&live.punctuality, live.faithful) {
        (Some(punctuality), Some(faithful)) => {
            lines.push(punctual(punctuality));
            lines.extend(live.throttle.as_ref().map(throttled));
            let verdict = if faithful {
                "The replay is faithful".to_owned()
            } else {
                format!("NOT FAITHFUL: {}", live.not_faithful_because.join("; "))
            };
            let more = if live.throttle.is_some() { format!(" {THROTTLE_BOUND}") } else { String::new() };
            lines.push(format!("{verdict}. {BOUNDS}{more}"));
        }
        (None, Some(faithful)) => {
            lines.extend(live.throttle.as_ref().map(throttled));
            let verdict = if faithful {
                "The device kept the modelled disk's times".to_owned()
            } else {
                format!("NOT FAITHFUL: {}", live.not_faithful_because.join("; "))
            };
            lines.push(format!("{verdict}. {THROTTLE_BOUND}"));
        }
        _ => lines.push("Requests came as soon as possible, so there are no times to be faithful to.".to_owned()),
    }
    if live.left_out_requests > 0 {
        lines.push(format!(
            "{} requests that are no reads were left out; --allow-writes sends them.",
            live.left_out_requests
        ));
    }
    if live.widened_requests > 0 {
        lines.push(format!("{} requests were widened to whole blocks of the device.", live.widened_requests));
    }
    if !live.failed_requests.is_empty() {
        let failed = live.failed_requests.iter().map(|(name, count)| format!("{name} {count}"));
        let failed = failed.collect::<Vec<String>>().join(", ");
        lines.push(format!("Failed device requests: {failed}. Their times are among the figures."));
    }
    lines
}

/// The throttle: its k, the service times that it achieved, and the completions that came too late.
fn throttled(figures: &ThrottleFigures) -> String {
    let ThrottleFigures { drive, rule, k, k_changes, completions, late_completions, late_max_ns, all, .. } = figures;
    let k_text = match (rule.as_str(), figures.searches.len()) {
        ("found", runs) => format!("k = {k} (found in {runs} {})", if runs == 1 { "run" } else { "runs" }),
        ("dynamic", _) => format!("k = {k} at the end (dynamic, {k_changes} changes)"),
        _ => format!("k = {k}"),
    };
    let service = |service: &ThrottledService| match (service.achieved_mean_ns, service.modelled_mean_ns) {
        (Some(achieved), Some(modelled)) if modelled > 0.0 => {
            format!("{} for {} ({:+.2} %)", span(achieved), span(modelled), (achieved / modelled - 1.0) * 100.0)
        }
        _ => ABSENT.to_owned(),
    };
    let stable = if *k_changes > 0 {
        format!(", {} since k is stable", service(&figures.since_k_is_stable))
    } else {
        String::new()
    };
    let late = match late_completions {
        0 => "none".to_owned(),
        late => format!("{late} of {completions}, by {} at most", span(late_max_ns.as_ns() as f64)),
    };
    format!(
        "Throttle: the device stands for {drive} and runs k times slower; {k_text}. All times are in the disk's scale. \
         Mean service: {}{stable}. Completions after the disk's: {late}.",
        service(all)
    )
}

fn ending(live: &LiveFigures) -> String {
    let why = match live.ending {
        Ending::Complete => return String::new(),
        Ending::Interrupted => "interrupted",
        Ending::Failed => "ended by a request that failed",
        Ending::DeviceGone => "ended, since the device disappeared",
    };
    format!("; {why}, with {} requests outstanding", live.unfinished_requests)
}

fn punctual(figures: &PunctualityFigures) -> String {
    let PunctualityFigures { issue_time_error: error, drift_ns, drift_share, .. } = figures;
    let of = |name: &str| percentile(&error.percentiles_ns, error.count, name);
    let max = span_or_absent(error.moments.max_ns.map(|ns| ns as f64));
    let drift = match (drift_ns, drift_share) {
        (Some(ns), Some(share)) => {
            let sign = if *ns < 0.0 { "-" } else { "" };
            format!("{sign}{} ({:.4} % of the span)", span(ns.abs()), share * 100.0)
        }
        _ => ABSENT.to_owned(),
    };
    let late = match (figures.late_by_device, figures.late_by_host) {
        (0, 0) => "none".to_owned(),
        (device, host) => format!("{device} for the device, {host} for this host"),
    };
    let above = span(figures.late_above_ns.as_ns() as f64);
    let (p50, p99) = (of("p50"), of("p99"));
    format!("Issue-time error: p50 {p50}, p99 {p99}, max {max}, drift {drift}. Later than {above}: {late}.")
}

/// Response times by class: those that the traces record, and those of the replay.
fn recorded_beside_replayed(run: &Run, live: &LiveFigures) -> Table {
    let classes: [(&str, &SpanFigures, &ClassFigures); 3] = [
        ("reads", &live.recorded.read, &run.read),
        ("writes", &live.recorded.write, &run.write),
        ("flushes, discards", &live.recorded.other, &run.other),
    ];
    let row = |(name, recorded, replayed): &(&str, &SpanFigures, &ClassFigures)| {
        let means = [recorded.moments.mean_ns, replayed.response_time.mean_ns];
        let over = means[1].zip(means[0]).filter(|(_, recorded)| *recorded > 0.0);
        vec![
            (*name).to_owned(),
            replayed.requests.to_string(),
            span_or_absent(means[0]),
            span_or_absent(means[1]),
            over.map_or_else(|| ABSENT.to_owned(), |(replayed, recorded)| ratio(replayed / recorded)),
            percentile(&recorded.percentiles_ns, recorded.count, "p99"),
            percentile(&replayed.response_percentiles_ns, replayed.requests, "p99"),
        ]
    };
    let header = ["", "requests", "mean, recorded", "mean, replayed", "×", "p99, recorded", "p99, replayed"];
    Table {
        title: "Response times in the traces and on the device".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: classes.iter().filter(|(_, _, replayed)| replayed.requests > 0).map(row).collect(),
        text_columns: 1,
    }
}
