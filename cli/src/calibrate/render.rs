//! A calibration, as tables.

use drive_models::calibration::dependence::SHARE_MIN;
use traces::results::calibration::{Calibration, Dependence, FitResult, Goodness, Parameter};

use crate::output::{Table, line, width, wrapped, written};
use crate::output_format::OutputFormat;

/// Number of points of the seek curve that are printed; the profile has all.
const SEEKS_PRINTED: usize = 6;

pub fn render(calibration: &Calibration, format: OutputFormat) -> String {
    let width = width();
    let paragraph = |text: &str| wrapped(&line(text, format), width);
    let mut text = paragraph(&format!(
        "Calibrated on {} reads of {}, {} sectors; {} generator, seed {}.",
        calibration.reads,
        calibration.source,
        calibration.capacity_sectors.count(),
        calibration.generator,
        calibration.seed
    ));
    text.push_str(&paragraph(&verdict(&calibration.dependence)));
    text.push('\n');
    let tried = calibration.fits.iter();
    let fitted: Vec<(&FitResult, &Goodness)> = tried.filter_map(|fit| Some((fit, fit.goodness.as_ref()?))).collect();
    if !fitted.is_empty() {
        text.push_str(&overview(&fitted).render(format));
    }
    for (fit, _) in fitted {
        text.push('\n');
        text.push_str(&parameters(fit).render(format));
        text.extend(fit.notes.iter().map(|note| paragraph(&format!("- {note}"))));
    }
    for fit in &calibration.fits {
        if let Some(why) = &fit.not_fitted {
            text.push('\n');
            text.push_str(&paragraph(&format!("{} not fitted: {why}.", fit.model)));
        }
    }
    text.push('\n');
    text.extend(calibration.device.iter().map(|line| paragraph(&format!("Device: {line}."))));
    text.extend(calibration.notes.iter().map(|note| paragraph(&format!("Note: {note}."))));
    text.push_str(&written(&calibration.files, format));
    text
}

/// A sentence that states whether times depend on distance, with the figures behind it.
fn verdict(measured: &Dependence) -> String {
    let depends = if measured.depends_on_distance { "depend" } else { "do NOT depend" };
    format!(
        "Times {depends} on distance: a line explains {} of the variance of the held-out half. Chance explains {} to \
         {} (99 % of {} permutations); a dependence needs at least {}.",
        percent(measured.explained_share, 2),
        percent(measured.by_chance_low, 2),
        percent(measured.by_chance_high, 2),
        measured.permutations,
        percent(SHARE_MIN, 0)
    )
}

fn overview(fitted: &[(&FitResult, &Goodness)]) -> Table {
    let row = |(fit, goodness): &(&FitResult, &Goodness)| {
        vec![
            fit.model.clone(),
            percent(goodness.r_squared, 1),
            span(goodness.mean_abs_error_ns),
            span(goodness.distribution.rms_ns),
            percent(goodness.distribution.relative_rms, 2),
        ]
    };
    let reads = fitted.first().map_or(0, |(_, goodness)| goodness.reads);
    Table {
        title: format!("On the {reads} reads that were not fitted"),
        header: ["model", "explained", "mean error", "rms of distribution", "of the mean"].map(str::to_owned).to_vec(),
        rows: fitted.iter().map(row).collect(),
        text_columns: 1,
    }
}

fn parameters(fit: &FitResult) -> Table {
    let seeks = fit.parameters.iter().filter(|parameter| is_seek(parameter)).count();
    let mut seek = 0;
    let printed = fit.parameters.iter().filter(|parameter| {
        seek += usize::from(is_seek(parameter));
        !is_seek(parameter) || is_picked(seek - 1, seeks)
    });
    let row = |parameter: &Parameter| {
        let (name, value) = quantity(parameter);
        vec![name, value, parameter.meaning.clone()]
    };
    Table {
        title: format!("{}: {}", fit.model, fit.summary),
        header: ["parameter", "value", "meaning"].map(str::to_owned).to_vec(),
        rows: printed.map(row).collect(),
        text_columns: 3,
    }
}

fn is_seek(parameter: &Parameter) -> bool {
    parameter.name.starts_with("seek_")
}

/// Whether the point is one of a few that are printed, evenly spaced, with the first and the last.
fn is_picked(index: usize, all: usize) -> bool {
    let gaps = SEEKS_PRINTED - 1;
    all <= SEEKS_PRINTED || (0..=gaps).any(|nth| nth * (all - 1) / gaps == index)
}

/// A parameter's name without its unit, and its value with the unit.
fn quantity(parameter: &Parameter) -> (String, String) {
    let Parameter { name, value, .. } = parameter;
    let spoken = |name: &str| name.replace('_', " ");
    if let Some(name) = name.strip_suffix("_ns") {
        (spoken(name), span(*value))
    } else if let Some(name) = name.strip_suffix("_byte_ps") {
        (format!("{} of a byte", spoken(name)), format!("{:.3} ns", value / 1e3))
    } else if let Some(name) = name.strip_suffix("_ps") {
        (spoken(name), format!("{:.6} ms", value / 1e9))
    } else if let Some(name) = name.strip_suffix("_turns") {
        (spoken(name), format!("{value:.4} turns"))
    } else {
        (spoken(name), format!("{value}"))
    }
}

/// A share in percent, without a minus before zeros.
fn percent(share: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$} %", share * 100.0);
    let zeros = text.trim_start_matches('-');
    if zeros.contains(|digit| matches!(digit, '1'..='9')) {
        return text;
    }
    zeros.to_owned()
}

/// A span of time in a unit that suits it.
pub fn span(ns: f64) -> String {
    if ns.abs() >= 1e6 { format!("{:.3} ms", ns / 1e6) } else { format!("{:.2} µs", ns / 1e3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_seeks_stand_for_all() {
        let picked = |all| (0..all).filter(|&index| is_picked(index, all)).collect::<Vec<_>>();
        assert_eq!(picked(4), [0, 1, 2, 3]);
        assert_eq!(picked(31), [0, 6, 12, 18, 24, 30]);
    }

    #[test]
    fn zeros_have_no_sign() {
        let said = [-0.0004, 0.0, -0.001, -0.1, 1.0].map(|share| percent(share, 1));
        assert_eq!(said, ["0.0 %", "0.0 %", "-0.1 %", "-10.0 %", "100.0 %"]);
    }

    #[test]
    fn units_move_from_the_name_to_the_value() {
        let said = |name: &str, value: f64| quantity(&Parameter::new(name, value, ""));
        assert_eq!(said("read_overhead_ns", 230_000.0), ("read overhead".to_owned(), "230.00 µs".to_owned()));
        assert_eq!(said("period_ps", 4_005_700_000.0).1, "4.005700 ms");
        assert_eq!(said("head_skew_turns", 0.25), ("head skew".to_owned(), "0.2500 turns".to_owned()));
        assert_eq!(said("heads", 4.0).1, "4");
    }
}
