//! The first lines of a comparison: which scheduler answers reads soonest, which moves most data, and who pays for it.

use traces::results::{ClassFigures, Comparison, Run, Status};

use crate::units::{ratio, span, supported, three_digits};

/// Differences below this share are called none.
const EQUAL: f64 = 0.01;
/// Schedulers that differ by less differ from trace to trace.
const SMALL: f64 = 0.05;
/// A figure over fewer requests says over how many.
const FEW: u64 = 100;
/// A class of requests or a VM pays if a figure is worse by at least this share.
const COST: f64 = 0.1;
/// The most costs that are named.
const COSTS_MAX: usize = 3;

/// A figure of one run that is compared between runs.
struct Figure {
    name: String,
    value: f64,
    /// How the value reads, with its unit.
    text: String,
    more_is_better: bool,
    /// The number of requests, if it is small.
    few: Option<u64>,
}

impl Figure {
    fn throughput(name: &str, class: &ClassFigures) -> Figure {
        let value = class.bytes_per_s / 1e6;
        let text = format!("{} MB/s", three_digits(value));
        Figure { name: name.to_owned(), value, text, more_is_better: true, few: None }
    }

    /// The 99th percentile of a class's response time, or the mean if too few requests support it.
    fn response(name: &str, class: &ClassFigures) -> Option<Figure> {
        let p99 = supported(&class.response_percentiles_ns, class.requests, "p99");
        let (which, value) = match (p99, class.response_time.mean_ns) {
            (Some(p99), _) => ("p99", p99),
            (None, Some(mean)) => ("mean response", mean),
            (None, None) => return None,
        };
        let few = (class.requests < FEW).then_some(class.requests);
        Some(Figure { name: format!("{name}, {which}"), value, text: span(value), more_is_better: false, few })
    }

    /// The mean of a class's response time, where a percentile is compared beside it.
    fn mean(name: &str, class: &ClassFigures) -> Option<Figure> {
        supported(&class.response_percentiles_ns, class.requests, "p99")?;
        let value = class.response_time.mean_ns?;
        let name = format!("{name}, mean response");
        Some(Figure { name, value, text: span(value), more_is_better: false, few: None })
    }

    /// Says over how many requests it is, if it is compared with a figure over another number of them (`[own, others]`).
    /// VMs are measured until the first has no more arrivals; until then, each scheduler serves another number.
    fn over_requests(self, [own, others]: [u64; 2]) -> Figure {
        if own.abs_diff(others) as f64 <= EQUAL * own.max(others) as f64 {
            return self;
        }
        Figure { text: format!("{} over {own} requests", self.text), ..self }
    }

    /// This figure over that of `other`.
    fn over(&self, other: &Figure) -> Option<f64> {
        (other.value > 0.0).then(|| self.value / other.value)
    }

    /// How much worse than `other`, as a share.
    fn loss(&self, other: &Figure) -> Option<f64> {
        let over = self.over(other)?;
        Some(if self.more_is_better { 1.0 - over } else { over - 1.0 })
    }
}

/// The lines, without line ends; empty with a single run that may be compared.
pub fn lines(comparison: &Comparison) -> Vec<String> {
    let runs: Vec<&Run> = comparison.runs.iter().filter(|run| run.status == Status::Comparable).collect();
    if runs.len() < 2 {
        return Vec::new();
    }
    let on = |drive: &str| runs.iter().copied().filter(|run| run.drive == drive).collect::<Vec<&Run>>();
    let drives: Vec<Vec<&Run>> = comparison.provenance.drives.iter().map(|drive| on(&drive.name)).collect();
    // Several drives are a choice of their own where each has one scheduler.
    if drives.len() < 2 || drives.iter().all(|runs| runs.len() < 2) {
        return among(&runs, comparison.baseline.as_deref());
    }
    // A line that names no run does not name the drive either.
    let on_drive = |runs: &Vec<&Run>| {
        let drive = runs[0].drive.clone();
        let named = move |line: String| if line.contains(&drive) { line } else { format!("On {drive}: {line}") };
        among(runs, comparison.baseline.as_deref()).into_iter().map(named)
    };
    drives.iter().filter(|runs| runs.len() > 1).flat_map(on_drive).collect()
}

/// The lines of some runs.
fn among(runs: &[&Run], baseline: Option<&str>) -> Vec<String> {
    let baseline = runs.iter().copied().find(|run| Some(run.scheduler.name.as_str()) == baseline);
    let response: fn(&Run) -> Option<Figure> = if runs.iter().any(|run| run.read.requests > 0) {
        |run| Figure::response("Reads", &run.read)
    } else {
        |run| Figure::response("Writes", &run.write)
    };
    let mut lines = Vec::new();
    let (mut costs, mut any_winner) = (Vec::new(), false);
    for figure in [response, |run| Some(Figure::throughput("Throughput", &run.all))] {
        let Some((line, winner)) = ranked(runs, baseline, figure) else { continue };
        lines.push(line);
        any_winner |= winner.is_some();
        let cost = winner.and_then(|(best, other)| cost(best, other));
        costs.extend(cost.filter(|cost| !costs.contains(cost)));
    }
    // Runs that nothing distinguishes so far may still differ in what they cost.
    if let Some(base) = baseline.or(runs.first().copied()).filter(|_| !any_winner) {
        costs.extend(runs.iter().filter(|run| !std::ptr::eq(**run, base)).filter_map(|run| cost(run, base)));
    }
    lines.extend(costs);
    lines
}

/// Which run is best at a figure, beside the baseline or, if that is the best, the next. Returns both runs if the best is
/// better than others.
fn ranked<'a>(
    runs: &[&'a Run],
    baseline: Option<&'a Run>,
    figure: impl Fn(&Run) -> Option<Figure>,
) -> Option<(String, Option<(&'a Run, &'a Run)>)> {
    let mut order: Vec<(&Run, Figure)> = runs.iter().filter_map(|run| Some((*run, figure(run)?))).collect();
    order.sort_by(
        |(_, a), (_, b)| if a.more_is_better { b.value.total_cmp(&a.value) } else { a.value.total_cmp(&b.value) },
    );
    let [(best, of_best), (next, of_next), ..] = &order[..] else { return None };
    let (_, of_worst) = order.last()?;
    if of_worst.loss(of_best).is_none_or(|loss| loss < EQUAL) {
        return Some((format!("{}: no difference above 1 % ({}).", of_best.name, of_best.text), None));
    }
    let beside = order.iter().find(|(run, _)| baseline.is_some_and(|base| std::ptr::eq(base, *run)));
    let (other, of_other) = match beside {
        Some((base, of_base)) if !std::ptr::eq(*base, *best) => (base, of_base),
        _ => (next, of_next),
    };
    let times = of_best.over(of_other).map_or_else(|| "beside".to_owned(), |over| format!("{} times", ratio(over)));
    let tied: Vec<&str> = order
        .iter()
        .skip(1)
        .take_while(|(_, of)| of.loss(of_best).is_some_and(|loss| loss < EQUAL))
        .map(|(run, _)| run.scheduler.name.as_str())
        .collect();
    let equals = if tied.is_empty() { String::new() } else { format!(" (equal within 1 %: {})", tied.join(", ")) };
    let compared = if tied.contains(&other.scheduler.name.as_str()) {
        String::new()
    } else {
        format!(", {times} {}'s {}", other.scheduler.name, of_other.text)
    };
    let small = if of_other.loss(of_best).is_some_and(|loss| loss < SMALL) && !compared.is_empty() {
        "; a few percent on one trace are no finding"
    } else {
        ""
    };
    let few = of_best.few.map_or_else(String::new, |requests| format!(" over {requests} requests"));
    let line = format!(
        "{}: {} is best with {}{few}{equals}{compared}{small}.",
        of_best.name, best.scheduler.name, of_best.text
    );
    Some((line, Some((best, other))))
}

/// What `run` makes worse than `base`, worst first.
fn cost(run: &Run, base: &Run) -> Option<String> {
    let mut worse: Vec<(f64, String)> = Vec::new();
    let mut pair = |ours: Option<Figure>, theirs: Option<Figure>| {
        let (Some(ours), Some(theirs)) = (ours, theirs) else { return };
        let (Some(loss), Some(over)) = (ours.loss(&theirs), ours.over(&theirs)) else { return };
        if loss >= COST && ours.name == theirs.name {
            let text = format!("{} {} times ({} instead of {})", ours.name, ratio(over), ours.text, theirs.text);
            worse.push((loss, text));
        }
    };
    for (name, [ours, theirs]) in [("reads", [&run.read, &base.read]), ("writes", [&run.write, &base.write])] {
        pair(Figure::response(name, ours), Figure::response(name, theirs));
        pair(Figure::mean(name, ours), Figure::mean(name, theirs));
    }
    pair(Some(Figure::throughput("throughput", &run.all)), Some(Figure::throughput("throughput", &base.all)));
    for (ours, theirs) in run.vms.iter().zip(&base.vms) {
        for (name, class) in [("reads", [&ours.read, &theirs.read]), ("writes", [&ours.write, &theirs.write])] {
            let name = format!("VM {}'s {name}", ours.vm);
            let [ours, theirs] = class.map(|class| Figure::response(&name, class));
            let requests = class.map(|class| class.requests);
            pair(
                ours.map(|of| of.over_requests(requests)),
                theirs.map(|of| of.over_requests([requests[1], requests[0]])),
            );
        }
        let name = format!("VM {}'s throughput", ours.vm);
        pair(Some(Figure::throughput(&name, &ours.all)), Some(Figure::throughput(&name, &theirs.all)));
    }
    worse.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let named: Vec<String> = worse.into_iter().take(COSTS_MAX).map(|(_, text)| text).collect();
    (!named.is_empty())
        .then(|| format!("Cost of {} beside {}: {}.", run.scheduler.name, base.scheduler.name, named.join("; ")))
}
