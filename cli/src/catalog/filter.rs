//! Which partitions of a catalogue are wanted.

use chrono::NaiveDate;
use glob::Pattern;

use super::{Partition, date};

/// Partitions by patterns of their values: `*` stands for any text. What is not given passes everything.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub host: Option<Pattern>,
    pub device: Option<Pattern>,
    pub date: Option<DateFilter>,
}

/// Dates by a pattern, or from one to another.
#[derive(Clone, Debug)]
pub enum DateFilter {
    Like(Pattern),
    /// Both ends are included.
    Within(Option<NaiveDate>, Option<NaiveDate>),
}

/// A pattern of hosts or devices.
///
/// # Errors
/// A text that is none.
pub fn parse_pattern(text: &str) -> Result<Pattern, String> {
    Pattern::new(text).map_err(|error| format!("no pattern: {error}"))
}

/// Dates as a pattern (`2026-11-*`) or as `FROM..TO`, of which one may be missing.
///
/// # Errors
/// A text that is neither.
pub fn parse_dates(text: &str) -> Result<DateFilter, String> {
    let Some((from, to)) = text.split_once("..") else { return parse_pattern(text).map(DateFilter::Like) };
    let end = |text: &str| if text.is_empty() { Ok(None) } else { parse_date(text).map(Some) };
    match (end(from)?, end(to)?) {
        (Some(from), Some(to)) if from > to => Err(format!("{from} is later than {to}")),
        (from, to) => Ok(DateFilter::Within(from, to)),
    }
}

/// A date.
///
/// # Errors
/// A text that is none.
pub fn parse_date(text: &str) -> Result<NaiveDate, String> {
    let is_whole = text.len() == date(0).len();
    let parsed = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok().filter(|_| is_whole);
    parsed.ok_or_else(|| format!("`{text}` is no date; expected YYYY-MM-DD"))
}

impl Filter {
    /// Whether a partition is wanted. An unknown date lies in no span.
    pub fn passes(&self, partition: &Partition) -> bool {
        let [host, device, date] = partition.shown();
        let fits = |pattern: &Option<Pattern>, value| pattern.as_ref().is_none_or(|pattern| pattern.matches(value));
        let is_within = match &self.date {
            None => true,
            Some(DateFilter::Like(pattern)) => pattern.matches(date),
            Some(DateFilter::Within(from, to)) => parse_date(date)
                .is_ok_and(|date| from.is_none_or(|from| from <= date) && to.is_none_or(|to| date <= to)),
        };
        fits(&self.host, host) && fits(&self.device, device) && is_within
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(host: &str, date: Option<&str>) -> Partition {
        Partition { host: Some(host.to_owned()), device: None, date: date.map(str::to_owned) }
    }

    #[test]
    fn patterns_and_spans_choose_partitions() {
        let days = ["2026-11-21", "2026-11-22", "2026-12-01"];
        let chosen = |text: &str| {
            let filter = Filter { date: Some(parse_dates(text).unwrap()), ..Filter::default() };
            days.iter().filter(|day| filter.passes(&of("web", Some(day)))).count()
        };
        let texts =
            ["2026-11-21..2026-11-22", "2026-11-22..", "..2026-11-30", "2026-11-*", "2026-12-01", "..", "2025-*"];
        assert_eq!(texts.map(chosen), [2, 2, 2, 2, 1, 3, 0]);
        let all = Filter { date: Some(parse_dates("..").unwrap()), ..Filter::default() };
        assert!(!all.passes(&of("web", None)));
        let hosts = Filter { host: Some(parse_pattern("web*").unwrap()), ..Filter::default() };
        assert!(hosts.passes(&of("web/1", None)) && !hosts.passes(&of("mail", None)));
        let device = Filter { device: Some(parse_pattern("sd?").unwrap()), ..Filter::default() };
        assert!(!device.passes(&of("web", None)));
        for wrong in ["2026-11-31..", "2026-1-1..", "x..y", "2026-11-22..2026-11-21", "[", "2026-11-[..z"] {
            assert!(parse_dates(wrong).is_err(), "{wrong}");
        }
    }
}
