//! Measured and simulated schedulers, as tables.

use traces::results::guest::{GuestFigure, GuestRanks, GuestScheduler, GuestValidation};

use crate::document::{Block, Document};
use crate::output::Table;
use crate::units::ABSENT;

/// The figures as people read them: name in the result, heading, divisor of the value, decimals.
const FIGURES: [(&str, &str, f64, usize); 6] = [
    ("bytes_per_s", "MB/s", 1e6, 3),
    ("requests_per_s", "requests/s", 1.0, 1),
    ("read_response_mean_ns", "mean response time of reads, ms", 1e6, 2),
    ("read_response_p99_ns", "99th percentile of reads, ms", 1e6, 2),
    ("write_response_mean_ns", "mean response time of writes, ms", 1e6, 2),
    ("write_response_p99_ns", "99th percentile of writes, ms", 1e6, 2),
];

/// Measured and simulated schedulers as a document.
pub fn document(result: &GuestValidation) -> Document {
    let mut blocks = vec![Block::Sentence(format!(
        "Guests of Linux {} under {} on {}, queue depth {}; {} s measured in each of {} repetitions. Simulated: a \
         separate capture under {}, replayed closed under each scheduler. ± is half of the 95 % interval over the \
         repetitions (Student's t).",
        result.kernel,
        result.accelerator,
        result.drive,
        result.queue_depth,
        result.measured_seconds,
        result.repetitions,
        result.baseline
    ))];
    for vm in &result.vms {
        for figure in &vm.figures {
            blocks.push(Block::Table(table(&vm.vm, &result.baseline, figure)));
            blocks.push(Block::Sentence(order(&figure.ranks)));
        }
    }
    Document {
        title: format!("Schedulers of Linux {} measured in guests and simulated", result.kernel),
        blocks,
        charts: Vec::new(),
        program: result.program.clone(),
    }
}

fn table(vm: &str, baseline: &str, figure: &GuestFigure) -> Table {
    let (heading, divisor, decimals) = FIGURES
        .iter()
        .find(|(name, ..)| *name == figure.figure)
        .map_or((figure.figure.as_str(), 1.0, 2), |&(_, heading, divisor, decimals)| (heading, divisor, decimals));
    let ratio = format!("/{baseline}");
    let header = ["", "measured", "simulated", &ratio, "simulated", "error", "rank", "simulated"];
    Table {
        title: format!("{vm}: {heading}"),
        header: header.map(str::to_owned).to_vec(),
        rows: figure.schedulers.iter().map(|of| row(of, divisor, decimals)).collect(),
        text_columns: 1,
    }
}

fn row(of: &GuestScheduler, divisor: f64, decimals: usize) -> Vec<String> {
    let value = |value: f64, decimals: usize| format!("{value:.decimals$}");
    let with_half = |mean: f64, ci95: Option<[f64; 2]>, divisor: f64, decimals: usize| match ci95 {
        Some([_, high]) => format!("{:.decimals$} ± {:.decimals$}", mean / divisor, (high - mean) / divisor),
        None => value(mean / divisor, decimals),
    };
    let or_absent = |text: Option<String>| text.unwrap_or_else(|| ABSENT.to_owned());
    vec![
        of.scheduler.clone(),
        with_half(of.measured_mean, of.measured_ci95, divisor, decimals),
        or_absent(of.simulated.map(|ours| value(ours / divisor, decimals))),
        or_absent(of.measured_ratio.map(|ratio| with_half(ratio, of.measured_ratio_ci95, 1.0, 3))),
        or_absent(of.simulated_ratio.map(|ratio| value(ratio, 3))),
        or_absent(of.ratio_error.map(|error| format!("{:+.1} %", error * 100.0))),
        match of.measured_ranks {
            [best, worst] if best == worst => best.to_string(),
            [best, worst] => format!("{best}–{worst}"),
        },
        or_absent(of.simulated_rank.map(|rank| rank.to_string())),
    ]
}

/// What is known of the order, and what the simulation makes of it.
fn order(ranks: &GuestRanks) -> String {
    let pairs = |of: &[[String; 2]], between: &str| {
        of.iter().map(|[one, other]| format!("{one}{between}{other}")).collect::<Vec<_>>().join(", ")
    };
    let mut text = match ranks.ordered {
        0 => "No two schedulers have a measured order.".to_owned(),
        all => format!("Order: simulated as measured for {} of {all} pairs with a measured order.", ranks.agreeing),
    };
    if !ranks.reversed.is_empty() {
        text.push_str(&format!(" Otherwise (better as measured first): {}.", pairs(&ranks.reversed, " before ")));
    }
    if !ranks.tied.is_empty() {
        text.push_str(&format!(" Tied, because the intervals overlap: {}.", pairs(&ranks.tied, " and ")));
    }
    text
}
