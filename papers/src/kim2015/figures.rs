//! The figures of Kim et al. 2015, from the outcomes of the jobs.

use traces::results::RuleFigures;
use traces::results::reproduction::{Cell, Evidence, Series};
use traces::statistics::mean_and_half_width;

use super::scenario::{INTERVAL, Outcome, jain};
use super::{DEVICES, ENDLESS, Outcomes, Part, READS};
use crate::estimate::cell;
use crate::rules;

/// Row names by stack.
pub const ROWS: [&str; 2] = ["cfq", "BA"];

/// IOzone's phases.
pub const PHASES: [&str; 4] = ["write", "rewrite", "read", "reread"];

/// Terasort's phases.
pub const TASKS: [&str; 3] = ["map", "shuffle", "reduce"];

/// The numbers that the paper prints.
pub mod paper {
    pub const ONE_VM: f64 = 140.0;
    pub const FOUR_VMS: f64 = 96.7;
    pub const TERASORT: [f64; 2] = [192.0, 165.0];
    pub const FIO_GAIN: [f64; 2] = [12.0, 24.0];
    pub const IOZONE_GAIN: [f64; 2] = [15.0, 22.0];
}

/// The two halves of Figure 7, with their quantities.
pub const SWITCHES: &str = "Figure 7 context switches";
pub const SEEKS: &str = "Figure 7 seek distance";
pub const INTERFERENCE: [(Part, &str); 3] =
    [(Part::Fio(50), "fio, half reads"), (Part::Iozone, "IOzone"), (Part::Terasort, "Terasort, Figure 5(b)")];

/// Lengths of windows for Jain's index, in seconds.
const WINDOWS: [u64; 7] = [1, 4, 10, 20, 60, 120, 192];

/// The difference from the first to the second in per cent of the first, seed by seed.
pub fn gains([cfq, ba]: &[Vec<f64>; 2]) -> Vec<f64> {
    cfq.iter().zip(ba).map(|(cfq, ba)| (ba / cfq - 1.0) * 100.0).collect()
}

/// The bandwidth of a phase of IOzone, MB per second: the sum over the VMs.
fn phase_bandwidth(outcome: &Outcome, phase: usize, file_bytes: f64) -> f64 {
    let of_vm = |events: &Vec<Option<[f64; 2]>>| {
        let [_, ends] = events.get(2 * phase + 1).copied().flatten()?;
        let [_, begins] = events.get(2 * phase).copied().flatten()?;
        (ends > begins).then(|| file_bytes / 1e6 / (ends - begins))
    };
    outcome.events.iter().filter_map(of_vm).sum()
}

/// When a phase of Terasort begins in the first VM and ends in the last one, in seconds. Maps begin at once. The first
/// output of a map begins the shuffle, and with it the reduce phase, which shuffle and reduce make up in Hadoop.
pub fn phase(outcome: &Outcome, task: usize) -> [f64; 2] {
    let of = |task: usize| outcome.events.iter().filter_map(move |events| events.get(task).copied().flatten());
    let ends = of(task).map(|[_, last]| last).fold(0.0, f64::max);
    let first_map = of(0).map(|[first, _]| first).fold(f64::INFINITY, f64::min);
    [if task == 0 { 0.0 } else { first_map }, ends]
}

/// The length of a phase of Terasort, in seconds.
pub fn phase_length(outcome: &Outcome, task: usize) -> f64 {
    let [begins, ends] = phase(outcome, task);
    ends - begins
}

/// Collects cells. A pair of stacks becomes two cells and a third for their difference.
struct Sheet(Vec<Cell>);

impl Sheet {
    /// What the paper prints counts, unless details were chosen by it.
    fn one(&mut self, [figure, row, column]: [&str; 3], unit: &str, paper: Option<(f64, Evidence)>, values: &[f64]) {
        let evidence = paper.map(|(_, evidence)| evidence).unwrap_or_default();
        let counts = paper.is_some() && evidence <= Evidence::Seen;
        let cell = cell([figure, row, column], unit, paper.map(|(paper, _)| paper), values, counts);
        self.0.push(cell.by(evidence));
    }

    fn pair(&mut self, figure: &str, column: &str, unit: &str, both: &[Vec<f64>; 2]) {
        for (index, row) in ROWS.into_iter().enumerate() {
            self.one([figure, row, column], unit, None, &both[index]);
        }
        self.one([figure, "change", column], "%", None, &gains(both));
    }
}

/// A number of the paper that nothing was chosen by, but ours had been seen: of dd when it was made to read, of the
/// others when one of their limits was set.
const fn seen(paper: f64) -> Option<(f64, Evidence)> {
    Some((paper, Evidence::Seen))
}

/// A number of the paper that a choice was made by.
const fn chosen_on(paper: f64) -> Option<(f64, Evidence)> {
    Some((paper, Evidence::ChosenOn))
}

/// Every cell.
pub fn cells(outcomes: &Outcomes<'_>) -> Vec<Cell> {
    let mut sheet = Sheet(Vec::new());
    let one = outcomes.both(Part::Dd { vms: 1 }, Outcome::sum_of_bandwidths);
    let four = outcomes.both(Part::Dd { vms: 4 }, Outcome::sum_of_bandwidths);
    let printed = 100.0 * (1.0 - paper::FOUR_VMS / paper::ONE_VM);
    sheet.one(["Figure 2", "cfq", "one VM"], "MB/s", chosen_on(paper::ONE_VM), &one[0]);
    sheet.one(["Figure 2", "cfq", "four VMs"], "MB/s", seen(paper::FOUR_VMS), &four[0]);
    sheet.one(["Figure 2", "BA", "one VM"], "MB/s", None, &one[1]);
    sheet.one(["Figure 2", "BA", "four VMs"], "MB/s", None, &four[1]);
    sheet.one(["Figure 2", "loss with cfq", "four VMs"], "%", seen(printed), &[loss(outcomes)]);
    until_all_have_ended(&mut sheet, outcomes);
    terasort(&mut sheet, outcomes);
    bandwidths(&mut sheet, outcomes);
    for (part, column) in INTERFERENCE {
        let switches = outcomes.both(part, |outcome| outcome.switches as f64);
        sheet.pair(SWITCHES, column, "switches", &switches);
    }
    for (part, column) in INTERFERENCE {
        let seeks = outcomes.both(part, |outcome| outcome.seek_sectors as f64 / 1e9);
        sheet.pair(SEEKS, column, "10^9 sectors", &seeks);
    }
    fairness(&mut sheet, outcomes);
    let light = |outcome: &Outcome| outcome.slowest_read_ms.get(3).copied().unwrap_or(0.0);
    let column = "slowest read of a VM that is not bursty";
    sheet.pair("Starvation", column, "ms", &outcomes.both(Part::Light, light));
    for (number, drive) in DEVICES.into_iter().enumerate() {
        let both = outcomes.both(Part::Device(number), Outcome::megabytes_a_second);
        sheet.pair("Future work", &format!("four VMs on {drive}"), "MB/s", &both);
    }
    for (stack, scheduler) in ROWS.into_iter().enumerate() {
        for (part, column) in INTERFERENCE.into_iter().chain([(Part::Light, "three of four VMs bursty")]) {
            let runs: Vec<&[RuleFigures]> = outcomes.of(part, stack).map(|outcome| &*outcome.rules).collect();
            sheet.0.extend(rules::cells(&format!("rules of {scheduler}"), column, &runs));
        }
    }
    sheet.0
}

/// Figure 2's four VMs by the time until the last of them has its 1 GB.
fn until_all_have_ended(sheet: &mut Sheet, outcomes: &Outcomes<'_>) {
    let table = "Figure 2, until all have ended";
    let four = outcomes.both(Part::Dd { vms: 4 }, Outcome::megabytes_a_second);
    sheet.pair(table, "four VMs", "MB/s", &four);
    let [one, _] = outcomes.both(Part::Dd { vms: 1 }, Outcome::megabytes_a_second);
    sheet.one([table, "loss with cfq", "four VMs"], "%", None, &[(1.0 - mean(&four[0]) / mean(&one)) * 100.0]);
}

fn terasort(sheet: &mut Sheet, outcomes: &Outcomes<'_>) {
    let [cfq, ba] = paper::TERASORT;
    let whole = outcomes.both(Part::Terasort, |outcome| phase(outcome, 2)[1]);
    let column = "execution time";
    sheet.one(["Figure 5", ROWS[0], column], "s", chosen_on(cfq), &whole[0]);
    sheet.one(["Figure 5", ROWS[1], column], "s", seen(ba), &whole[1]);
    sheet.one(["Figure 5", "change", column], "%", seen((ba / cfq - 1.0) * 100.0), &gains(&whole));
    for (index, task) in TASKS.into_iter().enumerate() {
        let lengths = outcomes.both(Part::Terasort, |outcome| phase_length(outcome, index));
        sheet.pair("Figure 5", &format!("{task} phase"), "s", &lengths);
    }
}

fn bandwidths(sheet: &mut Sheet, outcomes: &Outcomes<'_>) {
    for reads in READS {
        let both = outcomes.both(Part::Fio(reads), Outcome::megabytes_a_second);
        sheet.pair("Figure 6 fio", &format!("{} % writes", 100 - reads), "MB/s", &both);
    }
    for (phase, name) in PHASES.into_iter().enumerate() {
        sheet.pair("Figure 6 IOzone", name, "MB/s", &iozone(outcomes, phase));
    }
    for (name, gains, printed) in
        [("fio", fio_gains(outcomes), paper::FIO_GAIN), ("IOzone", iozone_gains(outcomes), paper::IOZONE_GAIN)]
    {
        sheet.one(["Figure 6 gain of BA", "mean", name], "%", seen(printed[0]), &[mean(&gains)]);
        sheet.one(["Figure 6 gain of BA", "greatest", name], "%", seen(printed[1]), &[greatest(&gains)]);
    }
}

/// Figure 9: what each VM gets while all read 1 GB, the run of Figures 3 and 8; and the fairness of longer and shorter
/// windows, of VMs that read without an end.
fn fairness(sheet: &mut Sheet, outcomes: &Outcomes<'_>) {
    let part = Part::Dd { vms: 4 };
    for vm in 0..4 {
        let both = outcomes.both(part, |outcome| outcome.bandwidths().get(vm).copied().unwrap_or(0.0));
        sheet.pair("Figure 9", &format!("VM {}", vm + 1), "MB/s", &both);
    }
    let both = outcomes.both(part, |outcome| jain(&outcome.bandwidths()));
    sheet.pair("Figure 9, Jain's index", "while all read 1 GB", "index", &both);
    for seconds in WINDOWS {
        let both = outcomes.both(Part::Endless, |outcome| fairness_within(outcome, seconds));
        sheet.pair("Figure 9, Jain's index", &format!("within {seconds} s"), "index", &both);
    }
}

/// The mean of Jain's index over the windows of a length.
fn fairness_within(outcome: &Outcome, seconds: u64) -> f64 {
    let intervals = (seconds * 1_000_000_000 / INTERVAL.as_ns()) as usize;
    let indices: Vec<f64> = outcome.windows(intervals).iter().map(|shares| jain(shares)).collect();
    if indices.is_empty() { f64::NAN } else { mean(&indices) }
}

pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

pub fn greatest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::MIN, f64::max)
}

/// The gain at a point of the sweep: the mean over the seeds, and half of its confidence interval.
pub fn fio_gain(outcomes: &Outcomes<'_>, reads: u32) -> (f64, Option<f64>) {
    mean_and_half_width(&gains(&outcomes.both(Part::Fio(reads), Outcome::megabytes_a_second)))
}

/// The gain at each point of the sweep, as a mean over the seeds.
pub fn fio_gains(outcomes: &Outcomes<'_>) -> Vec<f64> {
    READS.iter().map(|&reads| fio_gain(outcomes, reads).0).collect()
}

/// The confidence intervals of the mean gain over the sweep and of the greatest one.
pub fn fio_intervals(outcomes: &Outcomes<'_>) -> [Option<[f64; 2]>; 2] {
    let around = |(mean, half): (f64, Option<f64>)| half.map(|half| [mean - half, mean + half]);
    let of_mixes = READS.map(|reads| gains(&outcomes.both(Part::Fio(reads), Outcome::megabytes_a_second)));
    let seeds = of_mixes.iter().map(Vec::len).min().unwrap_or(0);
    let of_seed = |seed: usize| mean(&of_mixes.iter().map(|of_mix| of_mix[seed]).collect::<Vec<f64>>());
    let means: Vec<f64> = (0..seeds).map(of_seed).collect();
    let best =
        READS.map(|reads| fio_gain(outcomes, reads)).into_iter().max_by(|(one, _), (other, _)| one.total_cmp(other));
    [around(mean_and_half_width(&means)), best.and_then(around)]
}

fn iozone(outcomes: &Outcomes<'_>, phase: usize) -> [Vec<f64>; 2] {
    let bytes = f64::from(outcomes.choices.iozone_gb) * f64::from(1 << 30);
    outcomes.both(Part::Iozone, |outcome| phase_bandwidth(outcome, phase, bytes))
}

pub fn iozone_gains(outcomes: &Outcomes<'_>) -> Vec<f64> {
    (0..PHASES.len()).flat_map(|phase| gains(&iozone(outcomes, phase))).collect()
}

/// The loss of four VMs together against one, in per cent.
pub fn loss(outcomes: &Outcomes<'_>) -> f64 {
    let bandwidth = |vms| outcomes.of(Part::Dd { vms }, 0).map(Outcome::sum_of_bandwidths).sum::<f64>();
    (1.0 - bandwidth(4) / bandwidth(1)) * 100.0
}

/// The bandwidth of each VM over time, and the fairness of windows.
pub fn series(outcomes: &Outcomes<'_>) -> Vec<Series> {
    let mut all = Vec::new();
    for (stack, figure) in [(0, "3"), (1, "8")] {
        for outcome in outcomes.of(Part::Dd { vms: 4 }, stack) {
            for (vm, series) in outcome.series.iter().enumerate() {
                let length = INTERVAL.as_s_f64();
                let point = |(index, bytes): (usize, &u64)| [index as f64 * length, *bytes as f64 / 1e6 / length];
                all.push(Series {
                    figure: figure.to_owned(),
                    scheduler: Some(ROWS[stack].to_owned()),
                    name: format!("VM {}", vm + 1),
                    x: "time in s".to_owned(),
                    y: "bandwidth in MB/s".to_owned(),
                    points: series.iter().enumerate().map(point).collect(),
                });
            }
        }
    }
    for (stack, name) in ROWS.into_iter().enumerate() {
        for outcome in outcomes.of(Part::Endless, stack) {
            all.push(Series {
                figure: "9, fairness by window".to_owned(),
                scheduler: None,
                name: name.to_owned(),
                x: "length of the window in s".to_owned(),
                y: "Jain's index, mean of the windows".to_owned(),
                points: (1..=ENDLESS.as_ns() / 1_000_000_000)
                    .map(|seconds| [seconds as f64, fairness_within(outcome, seconds)])
                    .collect(),
            });
        }
    }
    all
}
