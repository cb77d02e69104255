//! Which candidates of a drive are not dominated: none has both more throughput and shorter reads.

use std::collections::BTreeSet;

use report::page::{Axis, Cell, Chart, Marks, Section, Spans};

use super::read::{Results, Run};
use super::sections::{DRIVES_MAX, left_out, table};
use crate::output::counted;
use crate::units::ratio;

/// Points with a colour of their own; all behind them share the last one.
const NAMED_MAX: usize = 7;
/// The most rows of a table.
const ROWS_MAX: usize = 40;

/// Logarithms that differ by less are equal: what rounding makes of equal figures is no difference.
const EQUAL: f64 = 1e-9;

/// A candidate, by its ratios to the mean of each context.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub candidate: u32,
    /// Geometric mean over the contexts of requests per second over the context's mean.
    pub throughput: f64,
    /// The same of p99 of read responses.
    pub p99_read: f64,
    pub is_dominated: bool,
}

/// The candidates on one drive.
#[derive(Clone, Debug, Default)]
pub struct Front {
    pub drive: u32,
    /// Contexts in which all these candidates have both figures.
    pub contexts: u64,
    /// Contexts in which only some have them, and which are left out.
    pub left_out: u64,
    /// By throughput, the most first.
    pub points: Vec<Point>,
    /// Candidates with both figures in no context.
    pub without: Vec<u32>,
}

/// The points of each drive.
pub fn fronts(results: &Results) -> Vec<Front> {
    let grouped = results.by_context();
    (0..results.drives.names.len() as u32)
        .map(|drive| {
            let of_drive = grouped.iter().zip(&results.contexts).filter(|(_, context)| context.drive == drive);
            front(drive, results.candidates.names.len(), of_drive.map(|(runs, _)| runs.as_slice()))
        })
        .collect()
}

/// Logarithms of throughput and p99.
fn logs(run: &Run) -> Option<[f64; 2]> {
    Some([run.throughput?.ln(), run.p99_read?.ln()])
}

fn front<'a>(drive: u32, candidates: usize, contexts: impl Iterator<Item = &'a [&'a Run]>) -> Front {
    let contexts: Vec<Vec<(u32, [f64; 2])>> =
        contexts.map(|runs| runs.iter().filter_map(|run| Some((run.candidate, logs(run)?))).collect()).collect();
    let known: BTreeSet<u32> = contexts.iter().flatten().map(|(candidate, _)| *candidate).collect();
    let mut found = Front { drive, ..Front::default() };
    found.without = (0..candidates as u32).filter(|candidate| !known.contains(candidate)).collect();
    let mut sums = vec![[0.0; 2]; candidates];
    for context in contexts.iter().filter(|context| !context.is_empty()) {
        if context.len() < known.len() {
            found.left_out += 1;
            continue;
        }
        found.contexts += 1;
        let mean = [0, 1].map(|at| context.iter().map(|(_, of)| of[at]).sum::<f64>() / context.len() as f64);
        for (candidate, of) in context {
            let sum = &mut sums[*candidate as usize];
            (0..2).for_each(|at| sum[at] += of[at] - mean[at]);
        }
    }
    if found.contexts == 0 {
        return found;
    }
    let place = |candidate: u32| sums[candidate as usize].map(|sum| sum / found.contexts as f64);
    let dominates = |one: [f64; 2], other: [f64; 2]| {
        let [more, shorter] = [one[0] - other[0], other[1] - one[1]];
        more >= -EQUAL && shorter >= -EQUAL && (more > EQUAL || shorter > EQUAL)
    };
    found.points = known
        .iter()
        .map(|candidate| {
            let [throughput, p99_read] = place(*candidate);
            let is_dominated = known.iter().any(|other| dominates(place(*other), [throughput, p99_read]));
            Point { candidate: *candidate, throughput: throughput.exp(), p99_read: p99_read.exp(), is_dominated }
        })
        .collect();
    found.points.sort_by(|one, other| {
        other.throughput.total_cmp(&one.throughput).then(one.p99_read.total_cmp(&other.p99_read))
    });
    found
}

/// The section with a chart and a table of each drive.
pub fn sections(results: &Results) -> Vec<Section> {
    let fronts: Vec<Front> = fronts(results);
    let mut text = vec![
        "Both are ratios to the geometric mean of all candidates in a case, and geometric means over the cases in which all \
         of them have both figures. A candidate is dominated if another one has no less throughput and no longer p99 of \
         reads, and is better in one of them."
            .to_owned(),
    ];
    text.extend(left_out(fronts.len(), DRIVES_MAX, "drives"));
    let heading = "Throughput against p99 of reads".to_owned();
    let mut sections = vec![Section { heading, text, ..Section::default() }];
    for front in fronts.iter().take(DRIVES_MAX) {
        let name = results.drives.of(front.drive);
        let mut section = Section::default();
        if front.contexts == 0 {
            section.text.push(format!("On {name} there is no case in which all candidates have both figures."));
        } else {
            section.text.push(spoken(results, front));
            section.charts.push(chart(results, front));
            section.tables.push(points(results, front));
            section.text.extend(left_out(front.points.len(), ROWS_MAX, "candidates"));
        }
        if !front.without.is_empty() {
            let names: Vec<&str> = front.without.iter().take(ROWS_MAX).map(|of| results.candidates.of(*of)).collect();
            let of = counted(front.without.len() as u64, "candidate has", "candidates have");
            section.text.push(format!("On {name} {of} both figures in no case: {}.", names.join(", ")));
        }
        sections.push(section);
    }
    sections
}

/// The front in words.
fn spoken(results: &Results, front: &Front) -> String {
    let on_it: Vec<&str> = front
        .points
        .iter()
        .filter(|point| !point.is_dominated)
        .take(ROWS_MAX)
        .map(|point| results.candidates.of(point.candidate))
        .collect();
    let out = match front.left_out {
        0 => String::new(),
        some => format!(", and {some} in which some lack a figure are left out"),
    };
    format!(
        "On {}, not dominated from the most throughput on: {}. From {}{out}.",
        results.drives.of(front.drive),
        on_it.join(", "),
        counted(front.contexts, "case", "cases")
    )
}

fn chart(results: &Results, front: &Front) -> Chart {
    let dot = |point: &Point| [point.throughput, point.throughput, point.p99_read];
    let mut marks: Vec<Spans> = Vec::new();
    for point in front.points.iter().filter(|point| !point.is_dominated) {
        if marks.len() < NAMED_MAX {
            let name = results.candidates.of(point.candidate).to_owned();
            marks.push(Spans { name, thick: vec![dot(point)], ..Spans::default() });
        } else if let Some(last) = marks.last_mut() {
            "further ones that are not dominated".clone_into(&mut last.name);
            last.thick.push(dot(point));
        }
    }
    let dominated: Vec<[f64; 3]> = front.points.iter().filter(|point| point.is_dominated).map(dot).collect();
    if !dominated.is_empty() {
        let name = "dominated".to_owned();
        marks.push(Spans { name, thick: dominated, is_pale: true, ..Spans::default() });
    }
    Chart {
        title: format!("Throughput against p99 of reads on {}", results.drives.of(front.drive)),
        about: "Pale dots are dominated, the others are not. Right and low is good; the table has all values."
            .to_owned(),
        x: axis("throughput over the mean", front.points.iter().map(|point| point.throughput)),
        y: axis("p99 of reads over the mean", front.points.iter().map(|point| point.p99_read)),
        marks: Marks::Spans(marks),
    }
}

/// An axis on which no dot lies at the end. Ratios beyond a power of ten are spread by their logarithms.
fn axis(name: &str, values: impl Iterator<Item = f64>) -> Axis {
    let [low, high] = values.fold([1.0, 1.0], |[low, high]: [f64; 2], value| [low.min(value), high.max(value)]);
    if high / low > 10.0 {
        return Axis::powers(name).reaching([low / 1.2, high * 1.2]);
    }
    let room = ((high - low) * 0.08).max(0.01);
    Axis::linear(name).reaching([low - room, high + room])
}

fn points(results: &Results, front: &Front) -> report::page::Table {
    let (dominated, on_it): (Vec<&Point>, Vec<&Point>) = front.points.iter().partition(|point| point.is_dominated);
    let row = |point: &&Point| {
        vec![
            Cell::text(results.candidates.of(point.candidate)),
            Cell::number(ratio(point.throughput)),
            Cell::number(ratio(point.p99_read)),
            Cell::text(if point.is_dominated { "dominated" } else { "on the front" }),
        ]
    };
    let caption = format!("Ratios to the mean on {}; the front first", results.drives.of(front.drive));
    let rows = on_it.iter().chain(&dominated).take(ROWS_MAX).map(row).collect();
    table(caption, &["candidate", "throughput", "p99 of reads", ""], rows)
}
