//! The figures of Kim et al. 2015, from the outcomes of the jobs.

use traces::results::reproduction::{Bar, Cell, Rank, Series};
use traces::statistics::mean_and_half_width;

use super::scenario::{INTERVAL, Outcome};
use super::{DEVICES, Outcomes, Part, READS};
use crate::estimate::cell;

/// Row names by stack.
const ROWS: [&str; 2] = ["cfq", "BA"];

/// IOzone's phases and the bytes of its file.
const PHASES: [&str; 4] = ["write", "rewrite", "read", "reread"];
const IOZONE_BYTES: f64 = 2.0 * 1024.0 * 1024.0 * 1024.0;

/// Terasort's phases.
const TASKS: [&str; 3] = ["map", "shuffle", "reduce"];

/// The numbers that the paper prints.
mod paper {
    pub const ONE_VM: f64 = 140.0;
    pub const FOUR_VMS: f64 = 96.7;
    pub const TERASORT: [f64; 2] = [192.0, 165.0];
    pub const FIO_GAIN: [f64; 2] = [12.0, 24.0];
    pub const IOZONE_GAIN: [f64; 2] = [15.0, 22.0];
}

/// The difference from the first to the second in per cent of the first, seed by seed.
fn gains([cfq, ba]: &[Vec<f64>; 2]) -> Vec<f64> {
    cfq.iter().zip(ba).map(|(cfq, ba)| (ba / cfq - 1.0) * 100.0).collect()
}

/// The bandwidth of a phase of IOzone, MB per second: the sum over the VMs.
fn phase_bandwidth(outcome: &Outcome, phase: usize) -> f64 {
    let of_vm = |events: &Vec<Option<f64>>| {
        let span = events.get(2 * phase + 1).copied().flatten()? - events.get(2 * phase).copied().flatten()?;
        (span > 0.0).then_some(IOZONE_BYTES / 1e6 / span)
    };
    outcome.events.iter().filter_map(of_vm).sum()
}

/// The time at which a phase of Terasort ended in the last VM, in seconds.
fn task_ends(outcome: &Outcome, task: usize) -> f64 {
    outcome.events.iter().filter_map(|events| events.get(task).copied().flatten()).fold(0.0, f64::max)
}

/// Collects cells. A pair of stacks becomes two cells and a third for their difference.
struct Sheet(Vec<Cell>);

impl Sheet {
    fn one(&mut self, [figure, row, column]: [&str; 3], unit: &str, paper: Option<f64>, values: &[f64]) {
        self.0.push(cell([figure, row, column], unit, paper, values, false));
    }

    fn pair(&mut self, figure: &str, column: &str, unit: &str, paper: Option<[f64; 2]>, both: &[Vec<f64>; 2]) {
        for (index, row) in ROWS.into_iter().enumerate() {
            self.one([figure, row, column], unit, paper.map(|paper| paper[index]), &both[index]);
        }
        let paper = paper.map(|[cfq, ba]| (ba / cfq - 1.0) * 100.0);
        self.one([figure, "change", column], "%", paper, &gains(both));
    }
}

/// Every cell.
pub fn cells(outcomes: &Outcomes) -> Vec<Cell> {
    let mut sheet = Sheet(Vec::new());
    let one = outcomes.both(Part::Dd { vms: 1 }, Outcome::megabytes_a_second);
    let four = outcomes.both(Part::Dd { vms: 4 }, Outcome::megabytes_a_second);
    let printed = 100.0 * (1.0 - paper::FOUR_VMS / paper::ONE_VM);
    sheet.one(["Figure 2", "cfq", "one VM"], "MB/s", Some(paper::ONE_VM), &one[0]);
    sheet.one(["Figure 2", "cfq", "four VMs"], "MB/s", Some(paper::FOUR_VMS), &four[0]);
    sheet.one(["Figure 2", "BA", "one VM"], "MB/s", None, &one[1]);
    sheet.one(["Figure 2", "BA", "four VMs"], "MB/s", None, &four[1]);
    sheet.one(["Figure 2", "loss with cfq", "four VMs"], "%", Some(printed), &[loss(outcomes)]);
    terasort(&mut sheet, outcomes);
    bandwidths(&mut sheet, outcomes);
    for (part, column) in INTERFERENCE {
        let switches = outcomes.both(part, |outcome| outcome.switches as f64);
        sheet.pair(SWITCHES, column, "switches", None, &switches);
    }
    for (part, column) in INTERFERENCE {
        let seeks = outcomes.both(part, |outcome| outcome.seek_sectors as f64 / 1e9);
        sheet.pair(SEEKS, column, "10^9 sectors", None, &seeks);
    }
    sheet.pair("Figure 9", "Jain's index over the run", "index", None, &outcomes.both(Part::Shares, Outcome::fairness));
    let light = |outcome: &Outcome| outcome.slowest_read_ms.get(3).copied().unwrap_or(0.0);
    let column = "slowest read of a VM that is not bursty";
    sheet.pair("Starvation", column, "ms", None, &outcomes.both(Part::Light, light));
    for (number, drive) in DEVICES.into_iter().enumerate() {
        let both = outcomes.both(Part::Device(number), Outcome::megabytes_a_second);
        sheet.pair("Future work", &format!("four VMs on {drive}"), "MB/s", None, &both);
    }
    sheet.0
}

/// The two halves of Figure 7, with their quantities.
const SWITCHES: &str = "Figure 7 context switches";
const SEEKS: &str = "Figure 7 seek distance";
const INTERFERENCE: [(Part, &str); 3] =
    [(Part::Fio(50), "fio, half reads"), (Part::Iozone, "IOzone"), (Part::Terasort, "Terasort")];

fn terasort(sheet: &mut Sheet, outcomes: &Outcomes) {
    let whole = outcomes.both(Part::Terasort, |outcome| task_ends(outcome, 2));
    sheet.pair("Figure 5", "execution time", "s", Some(paper::TERASORT), &whole);
    for (index, task) in TASKS.into_iter().enumerate() {
        let ends = outcomes.both(Part::Terasort, |outcome| task_ends(outcome, index));
        sheet.pair("Figure 5", &format!("{task} phase ends"), "s", None, &ends);
    }
}

fn bandwidths(sheet: &mut Sheet, outcomes: &Outcomes) {
    for reads in READS {
        let both = outcomes.both(Part::Fio(reads), Outcome::megabytes_a_second);
        sheet.pair("Figure 6 fio", &format!("{} % writes", 100 - reads), "MB/s", None, &both);
    }
    for (phase, name) in PHASES.into_iter().enumerate() {
        let both = outcomes.both(Part::Iozone, |outcome| phase_bandwidth(outcome, phase));
        sheet.pair("Figure 6 IOzone", name, "MB/s", None, &both);
    }
    for (name, gains, paper) in
        [("fio", fio_gains(outcomes), paper::FIO_GAIN), ("IOzone", iozone_gains(outcomes), paper::IOZONE_GAIN)]
    {
        let mean = gains.iter().sum::<f64>() / gains.len() as f64;
        let most = gains.iter().copied().fold(f64::MIN, f64::max);
        sheet.one(["Figure 6 gain of BA", "mean", name], "%", Some(paper[0]), &[mean]);
        sheet.one(["Figure 6 gain of BA", "greatest", name], "%", Some(paper[1]), &[most]);
    }
}

/// The gain at each point of the sweep, as a mean over the seeds.
fn fio_gains(outcomes: &Outcomes) -> Vec<f64> {
    let gain = |&reads: &u32| gains(&outcomes.both(Part::Fio(reads), Outcome::megabytes_a_second));
    READS.iter().map(|reads| mean_and_half_width(&gain(reads)).0).collect()
}

fn iozone_gains(outcomes: &Outcomes) -> Vec<f64> {
    let both = |phase| outcomes.both(Part::Iozone, |outcome| phase_bandwidth(outcome, phase));
    (0..PHASES.len()).flat_map(|phase| gains(&both(phase))).collect()
}

/// The loss of four VMs together against one, in per cent.
fn loss(outcomes: &Outcomes) -> f64 {
    let bandwidth = |vms| outcomes.of(Part::Dd { vms }, 0).map(Outcome::megabytes_a_second).sum::<f64>();
    (1.0 - bandwidth(4) / bandwidth(1)) * 100.0
}

/// The targets.
pub fn bars(outcomes: &Outcomes, cells: &[Cell]) -> Vec<Bar> {
    let mean = |gains: &[f64]| gains.iter().sum::<f64>() / gains.len() as f64;
    let most = |gains: &[f64]| gains.iter().copied().fold(f64::MIN, f64::max);
    let (fio, iozone) = (fio_gains(outcomes), iozone_gains(outcomes));
    let ours = |row: &str, column: &str| {
        cells.iter().find(|cell| cell.row == row && cell.column == column).map_or(f64::NAN, |cell| cell.ours)
    };
    let slowest = outcomes.both(Part::Light, |outcome| outcome.slowest_read_ms.get(3).copied().unwrap_or(0.0));
    let mut bars = vec![
        Bar::new("loss of four VMs against one, %", loss(outcomes), Some(25.0), Some(37.0)),
        Bar::new("fio, mean gain of BA, %", mean(&fio), Some(10.0), None),
        Bar::new("fio, greatest gain of BA, %", most(&fio), Some(20.0), None),
        Bar::new("IOzone, mean gain of BA, %", mean(&iozone), Some(10.0), None),
        Bar::new("IOzone, greatest gain of BA, %", most(&iozone), Some(20.0), None),
        Bar::new("Terasort, change of the execution time, %", ours("change", "execution time"), None, Some(-10.0)),
        Bar::new("Jain's index with BA", ours("BA", "Jain's index over the run"), Some(0.98), None),
        Bar::new(
            "slowest read of a VM that is not bursty with BA, worst seed, ms",
            most(&slowest[1]),
            None,
            Some(1000.0),
        ),
    ];
    for cell in cells.iter().filter(|cell| [SWITCHES, SEEKS].contains(&cell.table.as_str()) && cell.row == "change") {
        let what = format!("{}, {}: change with BA, %", cell.table, cell.column);
        bars.push(Bar::new(&what, cell.ours, None, Some(0.0)));
    }
    bars
}

/// The number of seeds in which BA is better.
pub fn ranks(outcomes: &Outcomes, seeds: usize) -> Vec<Rank> {
    let rank = |reads: u32| {
        let gains = gains(&outcomes.both(Part::Fio(reads), Outcome::megabytes_a_second));
        Rank {
            what: format!("fio, {} % writes, bandwidth", 100 - reads),
            order: ["BA", "cfq"].map(str::to_owned).into(),
            right: gains.iter().filter(|gain| **gain > 0.0).count() as u64,
            seeds: seeds as u64,
        }
    };
    READS.into_iter().map(rank).collect()
}

/// The bandwidth of each VM over time, and the shares.
pub fn series(outcomes: &Outcomes) -> Vec<Series> {
    let mut all = Vec::new();
    for (stack, figure, scheduler) in [(0, "3", "cfq"), (1, "8", "BA")] {
        for outcome in outcomes.of(Part::Dd { vms: 4 }, stack) {
            for (vm, series) in outcome.series.iter().enumerate() {
                let length = INTERVAL.as_s_f64();
                let point = |(index, bytes): (usize, &u64)| [index as f64 * length, *bytes as f64 / 1e6 / length];
                all.push(Series {
                    figure: figure.to_owned(),
                    scheduler: Some(scheduler.to_owned()),
                    name: format!("VM {}", vm + 1),
                    x: "time in s".to_owned(),
                    y: "bandwidth in MB/s".to_owned(),
                    points: series.iter().enumerate().map(point).collect(),
                });
            }
        }
    }
    all
}
