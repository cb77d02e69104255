//! Differences as tables.

use crate::output::{Table, sentence};
use crate::output_format::OutputFormat;
use crate::units::{ABSENT, data, span, three_digits};

use super::{Changed, Difference, Side};

/// The most rows without `--details`.
const ROWS_MAX: usize = 60;
/// A smaller share of change is fine print.
const TINY: f64 = 5e-5;
/// Texts are cut to this length: lists and sentences have no short form.
const TEXT_MAX: usize = 40;

pub fn render(difference: &Difference, format: OutputFormat, details: bool) -> String {
    let Difference { changed, settings, past_threshold, .. } = difference;
    let mut text = String::new();
    if !settings.is_empty() {
        let rows: Vec<(&str, &Changed)> = settings.iter().map(|one| (one.key.as_str(), one)).collect();
        text.push_str(&table("Options and settings that differ", &rows, format, false));
        text.push('\n');
    }
    for (elements, which) in
        [(&difference.missing, "Only in the old result"), (&difference.added, "Only in the new result")]
    {
        if !elements.is_empty() {
            text.push_str(&sentence(&format!("{which}: {}.", elements.join(", ")), format));
            text.push('\n');
        }
    }
    let listed = listed(changed, details);
    let unlisted = changed.len() - listed.len();
    for group in listed.chunk_by(|one, next| element(&one.key).0 == element(&next.key).0) {
        let rows: Vec<(&str, &Changed)> = group.iter().map(|one| (element(&one.key).1, *one)).collect();
        let title = match element(&group[0].key).0 {
            "" => "Figures that differ".to_owned(),
            element => format!("Figures that differ: {element}"),
        };
        text.push_str(&table(&title, &rows, format, *past_threshold > 0));
        text.push('\n');
    }
    text.push_str(&sentence(&summary(difference, unlisted), format));
    text
}

/// The rows of the table: what is past its threshold, and of the rest the first that are no fine print.
fn listed(changed: &[Changed], details: bool) -> Vec<&Changed> {
    let past = changed.iter().filter(|one| one.past_threshold).count();
    let mut others = if details { usize::MAX } else { ROWS_MAX.saturating_sub(past) };
    let mut is_listed = |one: &&Changed| {
        let fits = one.past_threshold || (others > 0 && (details || !is_fine_print(one)));
        others -= usize::from(fits && !one.past_threshold);
        fits
    };
    changed.iter().filter(|one| is_listed(one)).collect()
}

fn summary(difference: &Difference, unlisted: usize) -> String {
    let Difference { of, old, new, same, changed, past_threshold, .. } = difference;
    let mut summary = match changed.len() {
        0 => format!("All {same} figures of {of} that both have are the same in {old} and {new}."),
        differ => format!("{differ} figures of {of} differ between {old} and {new}, {same} are the same."),
    };
    if unlisted > 0 {
        summary.push_str(&format!(" {unlisted} that differ are not listed; --details lists them."));
    }
    if *past_threshold > 0 {
        summary.push_str(&format!(" {past_threshold} are missing or changed by more than they may (marked !)."));
    }
    summary
}

/// The run, VM or the like that a figure is of, and the rest of its key.
fn element(key: &str) -> (&str, &str) {
    key.split_once("].").map_or(("", key), |(element, rest)| (&key[..=element.len()], rest))
}

/// Extremes, variances, percentiles far in the tail, distributions, and what is a matter of rounding.
fn is_fine_print(one: &Changed) -> bool {
    let last = one.key.rsplit('.').next().unwrap_or_default();
    let is_tiny = one.change.is_some_and(|change| change.abs() < TINY);
    let is_list = |side: &Side| matches!(side, Side::Text(text) if text.starts_with('['));
    ["variance_ns2", "min_ns", "max_ns", "9", "99"].contains(&last) || is_tiny || is_list(&one.old) || is_list(&one.new)
}

fn table(title: &str, rows: &[(&str, &Changed)], format: OutputFormat, is_marked: bool) -> String {
    let row = |&(name, one): &(&str, &Changed)| {
        let mark = if one.past_threshold { "!" } else { "" };
        let change = one.change.map_or_else(|| ABSENT.to_owned(), percent);
        let mut cells = vec![name.to_owned(), shown(&one.key, &one.old), shown(&one.key, &one.new), change];
        if is_marked {
            cells.push(mark.to_owned());
        }
        cells
    };
    let header = ["figure", "old", "new", "change", ""];
    let columns = if is_marked { 5 } else { 4 };
    Table {
        title: title.to_owned(),
        header: header[..columns].iter().map(|&head| head.to_owned()).collect(),
        rows: rows.iter().map(row).collect(),
        text_columns: 1,
    }
    .render(format)
}

fn percent(change: f64) -> String {
    match change * 100.0 {
        change if change.abs() < 0.005 => format!("{change:+.0e} %"),
        change => format!("{change:+.2} %"),
    }
}

/// A value with the unit that its key ends with.
fn shown(key: &str, side: &Side) -> String {
    let of_percentiles = key.contains("percentiles_ns");
    match side {
        Side::Absent => ABSENT.to_owned(),
        Side::Number(number) if key.ends_with("_ns") || of_percentiles => {
            format!("{}{}", if *number < 0.0 { "-" } else { "" }, span(number.abs()))
        }
        Side::Number(number) if key.ends_with("bytes") && *number >= 0.0 => data(*number as u64),
        Side::Number(number) => three_digits(*number),
        Side::Text(text) if text.chars().count() > TEXT_MAX => {
            format!("{}…", text.chars().take(TEXT_MAX).collect::<String>())
        }
        Side::Text(text) => text.clone(),
    }
}
