//! The mechanics of a drive from purposeful reads, in the manner of Worthington, Ganger, Patt and Wilkes 1995 (on-line
//! extraction of SCSI disk drive parameters), on any [`MeasuredDevice`]:
//!
//! - the *period* from repeated reads of one sector after random pauses ([`rotation`]);
//! - the *track*: it ends where the phase of successive sectors leaves its line, and the delay until the next one
//!   begins is the skew ([`tracks`]);
//! - *overhead, head switch and seeks* from the latest moment at which a read still catches its sector, so that it
//!   contains no wait for the platter ([`probe::Prober::reach`], [`seeks`]).
//!
//! The layout is assumed: [`ZONES`] zones of equal capacity, the track length of each as at its middle, all heads of a
//! cylinder before the next cylinder. Random reads alone determine none of that, since the positions of their sectors
//! are not known. A trace is therefore not fitted.

mod probe;
mod rotation;
mod seeks;
mod tracks;

use std::fmt::Write;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::results::calibration::Parameter;

use super::{FitError, FitEvidence, FittedModel, MeasuredDevice, ModelFit, ProfileText};
use crate::mechanical::MODEL;
use probe::Prober;
use seeks::FittedSeeks;
use tracks::TrackGeometry;

/// The table's row.
pub(super) const FIT: ModelFit = ModelFit {
    name: "mechanical",
    summary: "period, tracks, skews, overhead and seeks by purposeful reads of the device",
    fit,
};

/// Zones that are looked at; neighbours that turn out alike become one.
const ZONES: u64 = 16;

fn fit(evidence: &FitEvidence, device: Option<&mut dyn MeasuredDevice>) -> Result<FittedModel, FitError> {
    let device = device.ok_or_else(|| {
        FitError::NotFitted(
            "a trace does not tell where its sectors lie on the platter: calibrate the drive itself (--device)"
                .to_owned(),
        )
    })?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(evidence.seed);
    let turn = rotation::find(device, &mut random)?;
    let mut prober = Prober::new(device, turn.period_ns);
    let geometry = tracks::survey(&mut prober, ZONES, evidence.heads)?;
    let seeks = seeks::measure(&mut prober, &geometry)?;
    Ok(FittedModel {
        profile: text(evidence, &turn, &geometry, &seeks),
        parameters: parameters(&turn, &geometry, &seeks),
        notes: notes(&geometry, &prober),
    })
}

fn text(
    evidence: &FitEvidence,
    turn: &rotation::FittedTurn,
    geometry: &TrackGeometry,
    seeks: &FittedSeeks,
) -> ProfileText {
    let origin = evidence.origin;
    let as_reads = "no write was measured: as for reads";
    let inside = "contained in read_overhead";
    let period = format!("completions of {} reads of one sector ({origin})", turn.reads);
    let reach = format!("latest moment at which a read still catches its sector ({origin})");
    let bus = format!("how much later long reads complete than short ones that end on the same sector ({origin})");
    let overhead = format!("{}ns", seeks.overhead_ns.round().max(0.0));
    let mut layout = format!("heads = {}\ncapacity_sectors = {}\nzones = [\n", geometry.heads, geometry.capacity);
    for zone in &geometry.zones {
        let _ = writeln!(
            layout,
            "  {{ first_lbn = {}, first_cylinder = {}, cylinders = {}, sectors_per_track = {}, angle = {}, \
             head_skew = {}, cylinder_skew = {} }},",
            zone.first_lbn,
            zone.first_cylinder,
            zone.cylinders,
            zone.sectors_per_track,
            below_one(zone.angle),
            below_one(zone.head_skew),
            below_one(zone.cylinder_skew)
        );
    }
    layout.push_str("]\n");
    let mut points = String::from("points_us = [");
    for (index, (cylinders, ns)) in seeks.points.iter().enumerate() {
        let _ = write!(points, "{}[{cylinders}, {:.3}]", if index == 0 { "" } else { ", " }, ns / 1000.0);
    }
    points.push_str("]\n");
    let assumed = format!(
        "track lengths, skews and angles measured at {ZONES} places ({origin}); assumed: zones of equal capacity, \
         all heads of a cylinder before the next, {}",
        geometry.how_heads
    );
    ProfileText::new("mechanical", &format!("mechanics probed on {origin}"))
        .setting("period_ps", &format!("{}", (turn.period_ns * 1000.0).round()), &period)
        .setting("phase", "0ms", "free: where the platter stood is not known")
        .setting("read_overhead", &overhead, &reach)
        .setting("write_overhead", &overhead, as_reads)
        .setting("head_switch", &format!("{}ns", seeks.head_switch_ns.round().max(0.0)), &reach)
        .setting("write_settle", "0ms", as_reads)
        .setting("bus_byte_ps", &format!("{}", seeks.bus_byte_ps.round()), &bus)
        .setting("read_watermark", "1", &bus)
        .setting("read_completion", "0ms", inside)
        .setting("write_completion", "0ms", as_reads)
        .defaults(MODEL.tunables, "not measured: as without a buffer")
        .section("seek", &format!("{reach}, less overhead and transfer, made monotone"), &points)
        .section("layout", &assumed, &layout)
}

/// An angle with six digits that is still below one turn when it is read again.
fn below_one(turns: f64) -> String {
    format!("{:.6}", turns.clamp(0.0, 0.999_999))
}

fn parameters(turn: &rotation::FittedTurn, geometry: &TrackGeometry, seeks: &FittedSeeks) -> Vec<Parameter> {
    let mut all = vec![
        Parameter::new("period_ps", (turn.period_ns * 1000.0).round(), "one turn"),
        Parameter::new("period_residual_ns", turn.residual_ns.round(), "rms distance of completions from whole turns"),
        Parameter::new("read_overhead_ns", seeks.overhead_ns.round(), "all that is neither seek, wait nor transfer"),
        Parameter::new("bus_byte_ps", seeks.bus_byte_ps.round(), "transfer behind the last sector, of a byte"),
        Parameter::new("heads", f64::from(geometry.heads), geometry.how_heads),
        Parameter::new("head_switch_ns", seeks.head_switch_ns.round(), "to another head of the cylinder"),
    ];
    let first = geometry.zones.first();
    let last = geometry.zones.last();
    for (name, zone) in [("outer_track_sectors", first), ("inner_track_sectors", last)] {
        if let Some(zone) = zone {
            all.push(Parameter::new(name, f64::from(zone.sectors_per_track), "sectors of a track"));
        }
    }
    if let Some(zone) = first {
        all.push(Parameter::new("head_skew_turns", zone.head_skew, "from a track's end to the next head's beginning"));
        all.push(Parameter::new("cylinder_skew_turns", zone.cylinder_skew, "the same to the next cylinder"));
    }
    for (cylinders, ns) in &seeks.points {
        all.push(Parameter::new(&format!("seek_{cylinders}_cylinders_ns"), ns.round(), "seek"));
    }
    all
}

fn notes(geometry: &TrackGeometry, prober: &Prober) -> Vec<String> {
    let mut notes = vec![
        "zones are assumed to hold equal capacity and no spare or slipped sectors: times agree as distributions, not \
         request by request"
            .to_owned(),
        "overheads before the seek and after the transfer are one number, since nothing that a read shows separates \
         them; writes were not measured and count as reads"
            .to_owned(),
    ];
    if geometry.heads == 1 {
        notes.push(
            "all skews look alike, so a track counts as a cylinder; --heads N says how many heads share one".to_owned(),
        );
    }
    if prober.granule > 1 {
        notes.push(format!(
            "the device is read in steps of {} sectors, so a track's length is known to that only",
            prober.granule
        ));
    }
    notes
}

#[cfg(test)]
mod tests;
