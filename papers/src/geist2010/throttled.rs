//! The VM's columns of Geist et al. 2010 by the paper's own procedure.
//!
//! The procedure has a virtual disk behind the throttle. Dynamic runs find k, which is then fixed. Everything else
//! follows the guest's clock, and the figures are divided by k. The VM's columns of Table 2 are simulated in the real
//! disk's scale instead. This module shows that the throttle gives the same columns, and how each of its sources of
//! error changes them.

use drive_models::DriveModel;
use drive_models::throttle::{Procedure, Throttle, ThrottleSettings, find_k};
use traces::results::reproduction::Cell;
use traces::spec::Spec;

use super::Runs;
use super::numbers::SCHEDULERS;
use super::results::ROWS;
use super::run::{Measured, Prepared, Setting, run_on};
use crate::ReproduceError;
use crate::estimate::cell;

/// A virtual disk on a file server: hits of its cache are fast, other requests take two milliseconds at most, unevenly.
const DISK: &str = "virtual-disk:service=1200us,cached=300us,cache=256m,cv=0.3";

/// The paper's k.
const K: f64 = 8.0;

/// Variations of the throttle at the paper's k: the name, the settings of the throttle, the virtual disk.
const VARIATIONS: [(&str, &str, &str); 5] = [
    ("exact", "", "virtual-disk:service=0ns"),
    ("uneven disk", "", DISK),
    ("timer of 4 ms", ",timer=4ms", DISK),
    ("overhead of 200 us", ",overhead=200us", DISK),
    ("hit of 400 us", ",hit=400us", DISK),
];

pub(super) fn settings(more: &str) -> Result<ThrottleSettings, ReproduceError> {
    let spec: Spec = format!("throttle:k=8,fill_on_hit=off{more}").parse()?;
    let throttle = drive_models::build_throttle(&spec)?.expect("a throttle is a throttle");
    Ok(throttle.settings().clone())
}

fn disk(spec: &str) -> Result<Box<dyn DriveModel>, ReproduceError> {
    Ok(drive_models::build(&spec.parse()?)?.drive)
}

/// The names of the cells for k and for the requests that come late with it.
const FOUND: [&str; 2] = ["k found", "late with it"];

/// What the cells say of k, in words.
pub fn statement(cells: &[Cell]) -> String {
    let [k, late] = FOUND.map(|row| cells.iter().find(|cell| cell.row == row).map_or(f64::NAN, |cell| cell.ours));
    let rule = if late > 0.0 {
        format!(" With {k:.2} still {late:.0} requests come late here. By the paper's rule this k is then too small.")
    } else {
        String::new()
    };
    format!(
        "The k that dynamic runs find is that of our virtual disk; the paper's was on a file server and came to {K}.{rule}"
    )
}

/// The cells: k, and CATS under each variation beside the scaled simulation with this seed.
///
/// # Errors
/// An invalid part.
pub fn cells(prepared: &Prepared, seed: u64, scaled: &Runs) -> Result<Vec<Cell>, ReproduceError> {
    let (geometry, requests) = (super::run::GEOMETRY, super::numbers::REQUESTS);
    let processes = super::run::PROCESSES;
    let setting =
        Setting { prepared, direct: true, processes, sleep_scale: 1000, geometry, look_ahead: true, seed, requests };
    let mut cells = Vec::new();
    let cats = "cats".parse()?;
    let run = |throttle: &mut Throttle<Box<dyn DriveModel>>| run_on(&setting, &cats, throttle);
    let found = find_k(&settings(",lower_at=1")?, Procedure::default(), || disk(DISK), run)?;
    let mut add = |row: &str, column: &str, unit: &str, paper, ours: f64| {
        cells.push(cell(["throttle", row, column], unit, paper, &[ours], false));
    };
    add(FOUND[0], "cats", "k", None, found.k.millionths() as f64 / 1e6);
    add(FOUND[1], "cats", "requests", None, found.report.late as f64);
    let mut show = |name: &str, scheduler: &str, measured: &Measured| {
        for row in ROWS.iter().filter(|row| row.is_measure) {
            add(row.name, &format!("{scheduler}, {name}"), row.unit, None, (row.ours)(measured));
        }
    };
    for (index, scheduler) in SCHEDULERS.into_iter().enumerate() {
        show("in the real scale", scheduler, &scaled[0][1][index]);
        let mut throttle = Throttle::new(disk(VARIATIONS[0].2)?, &settings(VARIATIONS[0].1)?);
        show(VARIATIONS[0].0, scheduler, &run_on(&setting, &scheduler.parse()?, &mut throttle)?.divided_by(K));
    }
    for (name, more, behind) in &VARIATIONS[1..] {
        let mut throttle = Throttle::new(disk(behind)?, &settings(more)?);
        show(name, "cats", &run_on(&setting, &cats, &mut throttle)?.divided_by(K));
    }
    Ok(cells)
}
