//! Charts of runs that have a history: distributions, what happened over time, and addresses.

use traces::results::Run;
use traces::results::history::{ClassHistory, Grid, History, VmHistory, by_row, response_of};

use super::close_up;
use super::heat::Extent;
use super::{Axis, Chart, Heat, Line, Marks, Section};

/// Most points along time in a line of percentiles.
const PERCENTILE_POINTS: usize = 64;
/// The fewest requests of such a point.
const REQUESTS_MIN: u64 = 100;

/// A run with its history.
pub(super) struct Course<'a> {
    /// Its scheduler; empty of a capture.
    name: &'a str,
    pub history: &'a History,
}

impl<'a> Course<'a> {
    /// That of a capture.
    pub fn of_capture(history: &'a History) -> Course<'a> {
        Course { name: "", history }
    }

    /// What stands behind the title of a chart of it alone.
    pub fn under(&self) -> String {
        if self.name.is_empty() { String::new() } else { format!(" under {}", self.name) }
    }
}

/// Reads or writes: their name, and their part of a history.
type Class = (&'static str, fn(&History) -> &ClassHistory);

/// Counts of a class.
type Counts = fn(&ClassHistory) -> &[u64];

const CLASSES: [Class; 2] = [("reads", |history| &history.read), ("writes", |history| &history.write)];

/// The charts of a capture.
pub fn of_capture(history: &History) -> Vec<Section> {
    of_courses(&[Course::of_capture(history)])
}

/// The sections of the runs that have a history; none if none has.
pub(super) fn sections(runs: &[Run]) -> Vec<Section> {
    let mut courses = Vec::new();
    for run in runs {
        courses.extend(run.history.as_ref().map(|history| Course { name: &run.scheduler.name, history }));
    }
    of_courses(&courses)
}

fn of_courses(courses: &[Course<'_>]) -> Vec<Section> {
    if courses.is_empty() {
        return Vec::new();
    }
    let section = |heading: &str, charts| Section { heading: heading.to_owned(), charts, ..Section::default() };
    let mut over_time = percentiles(courses);
    over_time.extend(throughput(courses));
    over_time.extend(owners(courses));
    over_time.push(outstanding(courses));
    over_time.extend(response_maps(courses));
    vec![
        section("Response times", distributions(courses)),
        section("Over time", over_time),
        section("Request by request", courses.iter().filter_map(close_up::chart_of).collect()),
        section("Addresses", addresses(courses)),
    ]
    .into_iter()
    .filter(|section| section.charts.iter().any(Chart::has_marks))
    .collect()
}

/// The length of an interval in seconds.
fn interval(history: &History) -> f64 {
    history.interval_ns.as_ns() as f64 / 1e9
}

fn seconds() -> Axis {
    Axis::linear("time, s")
}

fn chart(title: String, about: &str, [x, y]: [Axis; 2], marks: Marks) -> Chart {
    Chart { title, about: about.to_owned(), x, y, marks }
}

/// A line for each run.
fn lines(courses: &[Course<'_>], points: impl Fn(&History) -> Vec<[f64; 2]>) -> Marks {
    let line = |course: &Course<'_>| Line { name: course.name.to_owned(), points: points(course.history) };
    Marks::Lines(courses.iter().map(line).collect())
}

/// Distributions of response times, and of what requests find outstanding.
fn distributions(courses: &[Course<'_>]) -> Vec<Chart> {
    let mut charts = Vec::new();
    for (name, of) in CLASSES {
        if courses.iter().all(|course| of(course.history).responses.rows().is_none()) {
            continue;
        }
        let axes = |y: Axis| [Axis::powers("response time, ms"), y];
        charts.push(chart(
            format!("How long {name} take"),
            "Share of requests that completed within this time; times are rounded by up to 12 %.",
            axes(Axis::linear("share, %")),
            lines(courses, |history| scaled(cumulative(&of(history).responses), |share| share * 100.0)),
        ));
        // At the last point none takes longer, and powers of ten have no zero.
        let longer = |share: f64| if share < 1.0 { (1.0 - share) * 100.0 } else { f64::NAN };
        charts.push(chart(
            format!("The slowest {name}"),
            "Share of requests that took longer than this time.",
            axes(Axis::powers("share, %")),
            lines(courses, |history| scaled(cumulative(&of(history).responses), longer)),
        ));
    }
    for ((name, of), (other, _)) in CLASSES.into_iter().zip(CLASSES.into_iter().rev()) {
        let kinds: [(&str, Counts); 2] = [(name, |class| &class.found), (other, |class| &class.found_other)];
        for (found, counts) in kinds {
            if courses.iter().any(|course| counts(of(course.history)).len() > 1) {
                charts.push(chart(
                    format!("The {found} that {name} find"),
                    &format!(
                        "Share of {name} that find so many {found} outstanding when they arrive; 128 stands for more, too."
                    ),
                    [Axis::linear(&format!("{found} outstanding")), Axis::linear("share, %")],
                    lines(courses, |history| shares(counts(of(history)))),
                ));
            }
        }
    }
    charts
}

fn scaled(points: Vec<[f64; 2]>, of: impl Fn(f64) -> f64) -> Vec<[f64; 2]> {
    points.into_iter().map(|[x, y]| [x, of(y)]).collect()
}

/// The least response time of a row, in ms.
fn milliseconds(grid: &Grid, row: u64) -> f64 {
    response_of(grid.value_of(row)) / 1e6
}

/// For each row the end of its times in ms, and the share of the requests up to there.
fn cumulative(grid: &Grid) -> Vec<[f64; 2]> {
    let rows = by_row(&grid.columns);
    let all: u64 = rows.iter().map(|(_, count)| count).sum();
    let mut seen = 0;
    let point = |(row, count): &(u64, u64)| {
        seen += count;
        [milliseconds(grid, row + 1), seen as f64 / all as f64]
    };
    rows.iter().map(point).collect()
}

/// The share of each count in percent.
fn shares(counts: &[u64]) -> Vec<[f64; 2]> {
    let all = sum(counts);
    counts.iter().enumerate().map(|(at, &count)| [at as f64, count as f64 / all * 100.0]).collect()
}

/// All counts together, of which a file may state any.
fn sum(counts: &[u64]) -> f64 {
    counts.iter().map(|&count| u128::from(count)).sum::<u128>() as f64
}

/// The p99 of reads and of writes over time.
fn percentiles(courses: &[Course<'_>]) -> Vec<Chart> {
    let about = format!("Intervals with fewer than {REQUESTS_MIN} requests are gaps; times are rounded by up to 12 %.");
    let of_class = |(name, of): Class| {
        let marks = lines(courses, |history| percentile(&of(history).responses, interval(history), 0.99));
        chart(format!("p99 of {name} over time"), &about, [seconds(), Axis::powers("p99, ms")], marks)
    };
    CLASSES.map(of_class).into_iter().filter(Chart::has_marks).collect()
}

/// A percentile over time, in ms: this `share` of the requests of each group of intervals took at most so long.
fn percentile(grid: &Grid, interval: f64, share: f64) -> Vec<[f64; 2]> {
    let together = grid.columns.len().div_ceil(PERCENTILE_POINTS).max(1);
    let point = |(group, columns): (usize, &[Vec<(u64, u64)>])| {
        let rows = by_row(columns);
        let all: u64 = rows.iter().map(|(_, count)| count).sum();
        let wanted = libm::ceil(all as f64 * share) as u64;
        let mut seen = 0;
        let row = rows.iter().find(|(_, count)| {
            seen += count;
            seen >= wanted
        });
        let value = row.filter(|_| all >= REQUESTS_MIN).map(|(row, _)| milliseconds(grid, row + 1));
        [(group as f64 + 0.5) * together as f64 * interval, value.unwrap_or(f64::NAN)]
    };
    grid.columns.chunks(together).enumerate().map(point).collect()
}

/// The throughput of each run, its VMs on one another. All have the same axis.
fn throughput(courses: &[Course<'_>]) -> Vec<Chart> {
    let of_run = |course: &Course<'_>| {
        let interval = interval(course.history);
        let line = |vm: &VmHistory| {
            let point = |(at, bytes): (usize, &u64)| [(at as f64 + 0.5) * interval, *bytes as f64 / 1e6 / interval];
            Line { name: vm.vm.clone(), points: vm.bytes.iter().enumerate().map(point).collect() }
        };
        course.history.vms.iter().map(line).collect::<Vec<Line>>()
    };
    let all: Vec<Vec<Line>> = courses.iter().map(of_run).collect();
    let most = all.iter().filter_map(|lines| super::chart::sums(lines).pop()).flatten().fold(0.0, f64::max);
    let longest = all.iter().flatten().flat_map(|line| line.points.last()).fold(0.0, |most, point| point[0].max(most));
    let of_course = |(course, lines): (&Course<'_>, Vec<Line>)| {
        let (title, about) = match lines.len() {
            0 | 1 => ("Throughput", "Of completed reads and writes."),
            _ => ("Throughput of each VM", "Stacked: the upper edge is all VMs together."),
        };
        let axes = [seconds().reaching([longest]), Axis::linear("MB/s").reaching([most])];
        chart(format!("{title}{}", course.under()), about, axes, Marks::Stacked(lines))
    };
    courses.iter().zip(all).map(of_course).collect()
}

/// Whom the device serves: for each run with several VMs the share of the time that it serves each.
fn owners(courses: &[Course<'_>]) -> Vec<Chart> {
    let of_course = |course: &Course<'_>| {
        let interval = course.history.interval_ns.as_ns() as f64;
        let line = |vm: &VmHistory| {
            let point =
                |(at, served): (usize, &u64)| [(at as f64 + 0.5) * interval / 1e9, *served as f64 / interval * 100.0];
            Line { name: vm.vm.clone(), points: vm.served_ns.iter().enumerate().map(point).collect() }
        };
        let lines: Vec<Line> = course.history.vms.iter().map(line).collect();
        let about = "Time in service in each interval, by VM. A device that serves several at once exceeds 100 %.";
        let axes = [seconds(), Axis::linear("time in service, %").reaching([100.0])];
        (lines.len() > 1)
            .then(|| chart(format!("Whom the device serves{}", course.under()), about, axes, Marks::Stacked(lines)))
    };
    courses.iter().filter_map(of_course).filter(Chart::has_marks).collect()
}

fn outstanding(courses: &[Course<'_>]) -> Chart {
    let points = |history: &History| {
        let interval = interval(history);
        let point = |(at, mean): (usize, &f64)| [(at as f64 + 0.5) * interval, *mean];
        history.outstanding_mean.iter().enumerate().map(point).collect()
    };
    let axes = [seconds(), Axis::linear("requests")];
    chart("Arrivals outstanding".to_owned(), "Mean of each interval.", axes, lines(courses, points))
}

/// Response times over time, for each run and class. Those of a class have the same axes.
fn response_maps(courses: &[Course<'_>]) -> Vec<Chart> {
    let mut charts = Vec::new();
    for (name, of) in CLASSES {
        let extent = extent(courses.iter().map(|course| (&of(course.history).responses, interval(course.history))));
        for course in courses {
            let y = Axis::powers("response time, ms");
            let grid = &of(course.history).responses;
            let heat = Heat::of(grid, interval(course.history), extent, &y, |row| milliseconds(grid, row));
            if !heat.is_empty() {
                let title = format!("Response times of {name}{}", course.under());
                charts.push(map(title, "", y, heat));
            }
        }
    }
    charts
}

/// A heat map over time. `about` stands before what its darkest cell has.
fn map(title: String, about: &str, y: Axis, heat: Heat) -> Chart {
    let about = format!("{about}The darkest cell has {} requests.", heat.most());
    chart(title, &about, [seconds(), y], Marks::Heat(heat))
}

/// Where the time and the rows of heat maps end that can be compared: each grid with its interval.
fn extent<'a>(grids: impl Iterator<Item = (&'a Grid, f64)> + Clone) -> Extent {
    let rows = grids.clone().filter_map(|(grid, _)| grid.rows());
    let rows = rows.reduce(|one, next| (one.0.min(next.0), one.1.max(next.1)));
    let seconds = grids.map(|(grid, interval)| grid.columns.len() as f64 * interval).fold(0.0, f64::max);
    Extent { seconds, rows: rows.unwrap_or((0, 0)) }
}

/// Where on the drive the requests of the first run lie, since others hardly differ in that; how far the head moves.
fn addresses(courses: &[Course<'_>]) -> Vec<Chart> {
    let mut charts = Vec::new();
    if let Some(course @ Course { history, .. }) = courses.first() {
        let of = if course.name.is_empty() { String::new() } else { format!("Under {}, at completion. ", course.name) };
        let interval = interval(history);
        for vm in &history.vms {
            for (what, grid) in [("Reads", &vm.reads), ("Writes", &vm.writes)] {
                let y = Axis::linear("address, GB");
                let gigabytes = |row: u64| grid.value_of(row) as f64 * 512.0 / 1e9;
                let heat = Heat::of(grid, interval, extent([(grid, interval)].into_iter()), &y, gigabytes);
                if !heat.is_empty() {
                    let title = format!("{what} of {} by address", vm.vm);
                    charts.push(map(title, &of, y, heat));
                }
            }
        }
    }
    if courses.iter().any(|course| !course.history.seeks.is_empty()) {
        charts.push(chart(
            "How far the head moves".to_owned(),
            "Share of device requests up to this distance, by powers of two.",
            [Axis::powers("distance, MB"), Axis::linear("share, %")],
            lines(courses, |history| distances(&history.seeks)),
        ));
    }
    charts
}

/// For each power of two the distance in MB, and the share of the requests up to there. None is shown as half a sector.
fn distances(seeks: &[u64]) -> Vec<[f64; 2]> {
    let all = sum(seeks);
    let mut seen = 0;
    let point = |(power, &count): (usize, &u64)| {
        seen += u128::from(count);
        let sectors = if power == 0 { 0.5 } else { libm::exp2(power as f64) };
        [sectors * 512.0 / 1e6, seen as f64 / all * 100.0]
    };
    seeks.iter().enumerate().map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coarser_rows_stand_for_the_same_times() {
        // 2^30 to 2^31 ns has the numbers 240 to 247.
        let fine = Grid { row_size: 1, columns: vec![vec![(241, 300), (243, 100)]] };
        let coarse = Grid { row_size: 2, columns: vec![vec![(120, 300), (121, 100)]] };
        let times = |unit: f64| f64::from(1_u32 << 30) * unit / 1e6;
        assert_eq!(cumulative(&fine), [[times(1.25), 0.75], [times(1.5), 1.0]]);
        assert_eq!(cumulative(&coarse), cumulative(&fine));
        assert_eq!(percentile(&fine, 4.0, 0.5), [[2.0, times(1.25)]]);
        assert_eq!(percentile(&coarse, 4.0, 0.5), percentile(&fine, 4.0, 0.5));
        let few = Grid { row_size: 1, columns: vec![vec![(241, 99)]] };
        assert!(percentile(&few, 4.0, 0.5)[0][1].is_nan());
    }

    #[test]
    fn shares_are_percent_of_all() {
        assert_eq!(shares(&[1, 0, 3]), [[0.0, 25.0], [1.0, 0.0], [2.0, 75.0]]);
        assert_eq!(shares(&[u64::MAX, u64::MAX]), [[0.0, 50.0], [1.0, 50.0]]);
    }
}
