//! How much VMs disturb one another: each VM of a pair against the same VM alone, under the same candidate and drive.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use report::page::{Cell, Picture, Section};
use report::{HeatFigure, Size};
use traces::results::placement::Interference;

use super::read::Results;
use super::sections::{DRIVES_MAX, left_out, table};
use crate::output::counted;
use crate::units::{ABSENT, ratio};

/// The most VMs of a picture, and the most rows of a table: each beside each.
const VMS_MAX: usize = 32;
const ROWS_MAX: usize = VMS_MAX * (VMS_MAX - 1);
/// A VM that runs so many times as long alone as its neighbour does is not held against itself alone: beside the other
/// one, only the first part of its trace counts.
const LONGER: f64 = 1.5;
/// The size of a picture, and of one with many VMs.
const PICTURE: Size = Size { width: 760, height: 560 };
const LARGE: Size = Size { width: 1240, height: 1000 };
/// More VMs than these are many.
const FEW: usize = 16;

/// Against what a VM of a pair is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// The VM alone.
    Alone,
    /// The geometric mean of the VM's pairs: the sweep replays no VM alone.
    Pairs,
}

/// What becomes of a VM beside another one: geometric means over candidates and windows.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    pub drive: u32,
    pub vm: u32,
    pub beside: u32,
    /// Mean response of reads over that of the base.
    pub read_response: Option<f64>,
    /// Requests per second over those of the base.
    pub throughput: Option<f64>,
}

impl Effect {
    /// How far it is from no effect: the larger of both logarithms.
    pub fn strength(&self) -> f64 {
        let log = |ratio: Option<f64>| ratio.map_or(0.0, |ratio| ratio.ln().abs());
        log(self.read_response).max(log(self.throughput))
    }
}

/// All effects, by drive, VM and neighbour.
#[derive(Clone, Debug)]
pub struct Matrix {
    pub base: Base,
    pub effects: Vec<Effect>,
    /// VMs of tasks of pairs that have nothing to be held against.
    pub without_base: u64,
    /// Those that run clearly longer alone than their neighbour ([`LONGER`]).
    pub longer: u64,
}

/// A sum of logarithms.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    log: f64,
    count: u64,
}

impl Sum {
    fn add(&mut self, log: f64) {
        self.log += log;
        self.count += 1;
    }

    fn mean(self) -> Option<f64> {
        (self.count > 0).then(|| self.log / self.count as f64)
    }
}

/// What a VM of a pair is held against.
#[derive(Clone, Copy, Debug, Default)]
struct OfBase {
    figures: [Sum; 2],
    /// How long the VM runs alone.
    span_ns: i64,
}

/// A VM under a candidate on a drive, in a window.
type Key = (u32, u32, u32, (i64, Option<i64>, Option<i64>));

/// The effects of a sweep with pairs; `None` of one without.
pub fn matrix(results: &Results) -> Option<Matrix> {
    let context_of = |run: &super::read::Run| results.contexts[run.context as usize];
    let (pairs, alone): (Vec<_>, Vec<_>) =
        results.runs.iter().map(|run| (context_of(run), run)).partition(|(context, _)| context.beside.is_some());
    if pairs.is_empty() {
        return None;
    }
    let base = if alone.is_empty() { Base::Pairs } else { Base::Alone };
    // Each VM of each task, with its neighbour and its figures.
    let of_pairs = || {
        pairs.iter().flat_map(|(context, run)| {
            let beside = context.beside.unwrap_or_default();
            let key = |vm: u32| -> Key { (vm, run.candidate, context.drive, context.window) };
            let (one, other) = (key(context.trace), key(beside));
            [(one, other, run.vms[0]), (other, one, run.vms[1])]
        })
    };
    let mut bases: BTreeMap<Key, OfBase> = BTreeMap::new();
    let mut add = |key: Key, figures: [Option<f64>; 2], span_ns: i64| {
        let of_base = bases.entry(key).or_default();
        for (sum, figure) in of_base.figures.iter_mut().zip(figures) {
            figure.into_iter().for_each(|figure| sum.add(figure.ln()));
        }
        of_base.span_ns = span_ns;
    };
    match base {
        Base::Alone => alone.iter().for_each(|(context, run)| {
            add((context.trace, run.candidate, context.drive, context.window), run.vms[0], run.span_ns);
        }),
        Base::Pairs => of_pairs().for_each(|(key, _, figures)| add(key, figures, 0)),
    }
    let (mut without_base, mut longer) = (0, 0);
    let mut sums: BTreeMap<[u32; 3], [Sum; 2]> = BTreeMap::new();
    for (key, beside, figures) in of_pairs() {
        let (vm, _, drive, _) = key;
        let (Some(of_base), Some(neighbour)) = (bases.get(&key), bases.get(&beside)) else {
            without_base += 1;
            continue;
        };
        if of_base.span_ns as f64 > LONGER * neighbour.span_ns as f64 {
            longer += 1;
            continue;
        }
        let sum = sums.entry([drive, vm, beside.0]).or_default();
        for at in 0..2 {
            if let (Some(figure), Some(base)) = (figures[at], of_base.figures[at].mean()) {
                sum[at].add(figure.ln() - base);
            }
        }
    }
    let effect = |([drive, vm, beside], [read_response, throughput]): ([u32; 3], [Sum; 2])| Effect {
        drive,
        vm,
        beside,
        read_response: read_response.mean().map(f64::exp),
        throughput: throughput.mean().map(f64::exp),
    };
    Some(Matrix { base, effects: sums.into_iter().map(effect).collect(), without_base, longer })
}

/// The section with pictures and a table of each drive; nothing for a sweep without pairs.
///
/// # Errors
/// A picture that cannot be drawn.
pub fn sections(results: &Results) -> Result<Vec<Section>> {
    let Some(matrix) = matrix(results) else { return Ok(Vec::new()) };
    let base = match matrix.base {
        Base::Alone => "the VM alone",
        Base::Pairs => "the mean of all its pairs, since the sweep replays no VM alone",
    };
    let mut text = vec![format!(
        "Each VM of a pair is held against {base}, under the same candidate and on the same drive. Ratios are geometric \
         means over candidates and windows."
    )];
    text.push(match matrix.base {
        Base::Alone => {
            "Figures of a pair are over the time in which both VMs have arrivals, those alone over the whole \
                        window."
                .to_owned()
        }
        Base::Pairs => {
            "Figures of a pair are over the time in which both VMs have arrivals, which another neighbour may \
                        end earlier."
                .to_owned()
        }
    });
    if matrix.without_base > 0 {
        let count = counted(matrix.without_base, "VM of a pair is", "VMs of pairs are");
        text.push(format!("{count} left out, because it or its neighbour has no task alone."));
    }
    if matrix.longer > 0 {
        let count = counted(matrix.longer, "VM of a pair is", "VMs of pairs are");
        text.push(format!(
            "{count} left out, because the VM runs more than {LONGER} times as long alone as its neighbour does. A window \
             in which all traces have arrivals (`windows` of the plan) brings them in."
        ));
    }
    text.extend(left_out(results.drives.names.len(), DRIVES_MAX, "drives"));
    let mut sections = vec![Section { heading: "Who disturbs whom".to_owned(), text, ..Section::default() }];
    for drive in (0..results.drives.names.len() as u32).take(DRIVES_MAX) {
        let mut effects: Vec<&Effect> = matrix.effects.iter().filter(|effect| effect.drive == drive).collect();
        if effects.is_empty() {
            continue;
        }
        let vms = strongest(&effects);
        let mut section = Section::default();
        let all: BTreeSet<u32> = effects.iter().map(|effect| effect.vm).collect();
        section.text.extend(left_out(all.len(), vms.len(), "VMs, those with the strongest effects,"));
        section.pictures = pictures(results, drive, &effects, &vms)?;
        effects.sort_by(|one, other| {
            other.strength().total_cmp(&one.strength()).then((one.vm, one.beside).cmp(&(other.vm, other.beside)))
        });
        section.text.extend(left_out(effects.len(), ROWS_MAX, "effects, the strongest,"));
        let shown = |value: Option<f64>| Cell::number(value.map_or_else(|| ABSENT.to_owned(), ratio));
        let row = |effect: &&Effect| {
            let names = [effect.vm, effect.beside].map(|vm| Cell::text(results.traces.of(vm)));
            let [vm, beside] = names;
            vec![vm, beside, shown(effect.read_response), shown(effect.throughput)]
        };
        let caption = format!(
            "On {}: mean response of reads and requests per second of a VM beside another one, over {}; {}",
            results.drives.of(drive),
            if matrix.base == Base::Alone { "those alone" } else { "the mean of its pairs" },
            counted(effects.len() as u64, "effect, the strongest first", "effects, the strongest first"),
        );
        let rows = effects.iter().take(ROWS_MAX).map(row).collect();
        section.tables.push(table(caption, &["VM", "beside", "read response", "throughput"], rows));
        sections.push(section);
    }
    Ok(sections)
}

/// The VMs with the strongest effects, suffered or caused, in the order of the traces.
fn strongest(effects: &[&Effect]) -> Vec<u32> {
    let mut sums: BTreeMap<u32, f64> = BTreeMap::new();
    for effect in effects {
        for vm in [effect.vm, effect.beside] {
            *sums.entry(vm).or_default() += effect.strength();
        }
    }
    let mut vms: Vec<(u32, f64)> = sums.into_iter().collect();
    vms.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
    let mut vms: Vec<u32> = vms.into_iter().take(VMS_MAX).map(|(vm, _)| vm).collect();
    vms.sort_unstable();
    vms
}

/// What is left to each VM, as a share: of its throughput, and of the speed of its reads.
fn pictures(results: &Results, drive: u32, effects: &[&Effect], vms: &[u32]) -> Result<Vec<Picture>> {
    type ShareOf = fn(&Effect) -> Option<f64>;
    let kinds: [(&str, &str, ShareOf); 2] = [
        ("Response of reads", "response of reads alone over that together", |effect| Some(1.0 / effect.read_response?)),
        ("Throughput", "whose throughput is left", |effect| effect.throughput),
    ];
    let name = results.drives.of(drive);
    let of: BTreeMap<(u32, u32), &Effect> =
        effects.iter().map(|effect| ((effect.vm, effect.beside), *effect)).collect();
    let mut pictures = Vec::new();
    for (what, rows, share) in kinds {
        let left: Vec<Vec<Option<f64>>> = vms
            .iter()
            .map(|vm| vms.iter().map(|beside| of.get(&(*vm, *beside)).and_then(|effect| share(effect))).collect())
            .collect();
        if left.iter().flatten().all(Option::is_none) {
            continue;
        }
        let names = vms.iter().map(|vm| results.traces.of(*vm).to_owned()).collect();
        let interference = Interference { lun: name.to_owned(), vms: names, left };
        let title = format!("{what} beside another VM on {name}");
        let caption = "Dark is much disturbed; the table has the values.";
        let figure = HeatFigure { title: &title, caption, rows, panels: &[(name, &interference)] };
        pictures.push(Picture::drawn(title.clone(), &figure, if vms.len() > FEW { LARGE } else { PICTURE })?);
    }
    Ok(pictures)
}
