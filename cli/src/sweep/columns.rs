//! The figures of a result, each a column.

use std::sync::LazyLock;

use traces::results::{ClassFigures, PERCENTILES, Run, Status, VmFigures};

use super::rows::{Cell, Kind};
use super::task::{BESIDE, VM};
use crate::compare::one::One;

/// A figure.
pub struct Figure {
    pub name: String,
    pub kind: Kind,
    of: Box<dyn Fn(&One) -> Cell + Send + Sync>,
}

type OfRun = (&'static str, Kind, fn(&Run) -> Cell);
type OfClass = (&'static str, Kind, fn(&ClassFigures) -> Cell);
type ClassOf = fn(&Run) -> &ClassFigures;
type ClassOfVm = fn(&VmFigures) -> &ClassFigures;

const OF_RUN: [OfRun; 9] = [
    ("status", Kind::Text, |run| Cell::text(Some(status(run)))),
    ("span_ns", Kind::Whole, |run| Cell::count(run.span_ns.as_ns())),
    ("offered_load", Kind::Real, |run| Cell::real(run.offered_load)),
    ("drive_utilisation", Kind::Real, |run| Cell::Real(run.queue.drive_utilisation)),
    ("outstanding_mean", Kind::Real, |run| Cell::Real(run.queue.outstanding_mean)),
    ("waiting_mean", Kind::Real, |run| Cell::Real(run.queue.waiting_mean)),
    ("merged", Kind::Whole, |run| Cell::count(run.queue.merged)),
    ("jain", Kind::Real, |run| Cell::real(run.stack.as_ref().and_then(|stack| stack.fairness.jain))),
    ("notes", Kind::Text, |run| Cell::text((!run.notes.is_empty()).then(|| run.notes.join("\n")))),
];

const OF_CLASS: [OfClass; 8] = [
    ("requests", Kind::Whole, |class| Cell::count(class.requests)),
    ("bytes", Kind::Whole, |class| Cell::count(class.bytes)),
    ("iops", Kind::Real, |class| Cell::Real(class.iops)),
    ("bytes_per_s", Kind::Real, |class| Cell::Real(class.bytes_per_s)),
    ("response_mean_ns", Kind::Real, |class| Cell::real(class.response_time.mean_ns)),
    ("device_time_mean_ns", Kind::Real, |class| Cell::real(class.device_time.mean_ns)),
    ("seek_distance_mean_sectors", Kind::Real, |class| Cell::real(class.seek_distance_mean_sectors)),
    ("cache_hit_share", Kind::Real, |class| Cell::real(class.cache_hit_share)),
];

/// Classes whose figures a result has over all VMs.
const CLASSES: [(&str, ClassOf); 3] = [("read", |run| &run.read), ("write", |run| &run.write), ("all", |run| &run.all)];

/// The figures of a VM's reads and writes that a result of two VMs has, with their percentile.
const OF_VM: [(&str, ClassOfVm); 2] = [("read", |vm| &vm.read), ("write", |vm| &vm.write)];
const OF_VM_CLASS: [OfClass; 3] = [OF_CLASS[2], OF_CLASS[3], OF_CLASS[4]];

fn status(run: &Run) -> &'static str {
    match run.status {
        Status::Comparable => "comparable",
        Status::Overloaded { .. } => "overloaded",
    }
}

/// The name of a percentile in the name of a column, which has no dots.
fn in_name(percentile: &str) -> String {
    percentile.replace('.', "_")
}

fn percentile(class: &ClassFigures, name: &str) -> Cell {
    class.response_percentiles_ns.get(name).map_or(Cell::Empty, |&ns| Cell::count(ns))
}

fn figure(name: String, kind: Kind, of: impl Fn(&One) -> Cell + Send + Sync + 'static) -> Figure {
    Figure { name, kind, of: Box::new(of) }
}

/// All figures, in the order of their columns.
pub static FIGURES: LazyLock<Vec<Figure>> = LazyLock::new(|| {
    let mut all: Vec<Figure> =
        OF_RUN.iter().map(|&(name, kind, of)| figure(name.to_owned(), kind, move |one| of(&one.run))).collect();
    for (prefix, class) in CLASSES {
        let of_class =
            |&(name, kind, of): &OfClass| figure(format!("{prefix}_{name}"), kind, move |one| of(class(&one.run)));
        all.extend(OF_CLASS.iter().map(of_class));
        let of_percentile = |&(_, name): &(u32, &'static str)| {
            let column = format!("{prefix}_response_{}_ns", in_name(name));
            figure(column, Kind::Whole, move |one| percentile(class(&one.run), name))
        };
        all.extend(PERCENTILES.iter().map(of_percentile));
    }
    for vm in [VM, BESIDE] {
        for (prefix, class) in OF_VM {
            let of = move |one: &One, get: &dyn Fn(&ClassFigures) -> Cell| {
                let found = one.run.vms.iter().find(|of| of.vm == vm);
                found.map_or(Cell::Empty, |found| get(class(found)))
            };
            let of_class =
                |&(name, kind, get): &OfClass| figure(format!("{vm}_{prefix}_{name}"), kind, move |one| of(one, &get));
            all.extend(OF_VM_CLASS.iter().map(of_class));
            let p99 = move |one: &One| of(one, &|class| percentile(class, "p99"));
            all.push(figure(format!("{vm}_{prefix}_response_p99_ns"), Kind::Whole, p99));
        }
    }
    let histogram = |bytes: Vec<u8>| Cell::Bytes(bytes);
    all.push(figure("read_response_histogram".to_owned(), Kind::Bytes, move |one| histogram(one.reads.hdr_v2())));
    all.push(figure("write_response_histogram".to_owned(), Kind::Bytes, move |one| histogram(one.writes.hdr_v2())));
    all
});

/// The value of each of [`FIGURES`].
pub fn figures(one: &One) -> Vec<Cell> {
    FIGURES.iter().map(|figure| (figure.of)(one)).collect()
}
