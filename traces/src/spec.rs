//! Parts named on the command line with their tunables: `deadline:fifo_batch=16,read_expire=500ms`.
//!
//! A part (scheduler, drive) publishes a table of [`Tunable`]s; [`Settings::resolve`] checks what
//! was given against it, so that a constructor reads values that are known to be well formed.

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::origin::without_folders;
use crate::quantity::{parse_bytes, parse_nanos, parse_thousandths};
use crate::units::Nanos;

/// What kind of value a tunable takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A span of time, e.g. `500ms`.
    Time,
    /// A whole number.
    Count,
    /// Whole numbers joined by `+`, e.g. `1+2+4`: one for each of a few things in order (a VM each),
    /// the last for all that follow. The range holds for each.
    Counts,
    /// A decimal number of at most three places, e.g. `0.2`; its base is a thousandth.
    Decimal,
    /// So many times measured with so many of something each, joined by `+`: `10x52ms+50x250ms` of one each,
    /// `10/5x80ms/30ms` of two; or `none`. Counts are from 1 to a million; the range holds for the times.
    TimesAt(usize),
    /// A size in bytes, e.g. `64k`.
    Bytes,
    /// `on` or `off`.
    Switch,
    /// One of these words.
    Choice(&'static [&'static str]),
}

impl Unit {
    /// The unit as help texts name it.
    pub fn describe(self) -> String {
        match self {
            Unit::Time => "time".to_owned(),
            Unit::Count => "count".to_owned(),
            Unit::Counts => "count+count+…".to_owned(),
            Unit::Decimal => "decimal".to_owned(),
            Unit::TimesAt(1) => "countxtime+…|none".to_owned(),
            Unit::TimesAt(_) => "count/…xtime/…+…|none".to_owned(),
            Unit::Bytes => "size".to_owned(),
            Unit::Switch => "on|off".to_owned(),
            Unit::Choice(words) => words.join("|"),
        }
    }

    /// What would have been accepted, for messages.
    fn expected(self) -> String {
        match self {
            Unit::Time => "a time such as 250us, 7ms or 1.5s".to_owned(),
            Unit::Count => "a whole number".to_owned(),
            Unit::Counts => "whole numbers such as 1 or 1+2+4".to_owned(),
            Unit::Decimal => "a decimal number of at most three places such as 0.2".to_owned(),
            Unit::TimesAt(1) => "counts with times such as 10x52ms+50x250ms, or none".to_owned(),
            Unit::TimesAt(_) => "counts with times such as 10/5x80ms/30ms+5/10x45ms/60ms, or none".to_owned(),
            Unit::Bytes => "a size such as 512, 64k or 1g".to_owned(),
            Unit::Switch | Unit::Choice(_) => self.describe(),
        }
    }

    fn accepts(self, value: &str) -> bool {
        match self {
            Unit::Time => parse_nanos(value).is_ok(),
            Unit::Count => value.parse::<u64>().is_ok(),
            Unit::Counts => value.split('+').all(|count| count.parse::<u64>().is_ok()),
            Unit::Decimal => parse_thousandths(value).is_ok(),
            Unit::TimesAt(each) => parse_times_at(value, each).is_some(),
            Unit::Bytes => parse_bytes(value).is_ok(),
            Unit::Switch => matches!(value, "on" | "off"),
            Unit::Choice(words) => words.contains(&value),
        }
    }
}

/// Times that were measured with so many of something each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimesAt {
    /// How many there were of each, from one to a million.
    pub counts: Vec<u64>,
    /// The time of each.
    pub times: Vec<Nanos>,
}

/// The most of something that a time is measured with.
const COUNT_MAX: u64 = 1_000_000;

/// What [`Unit::TimesAt`] describes; `each` counts and times at every point.
fn parse_times_at(text: &str, each: usize) -> Option<Vec<TimesAt>> {
    if text == "none" {
        return Some(Vec::new());
    }
    let point = |text: &str| {
        let (counts, times) = text.split_once('x')?;
        let counts: Vec<u64> = counts.split('/').map(|count| count.parse().ok()).collect::<Option<_>>()?;
        let times: Vec<Nanos> = times.split('/').map(|time| parse_nanos(time).ok()).collect::<Option<_>>()?;
        let possible = counts.iter().all(|count| (1..=COUNT_MAX).contains(count));
        (counts.len() == each && times.len() == each && possible).then_some(TimesAt { counts, times })
    };
    text.split('+').map(point).collect()
}

/// One tunable of a part.
#[derive(Clone, Copy, Debug)]
pub struct Tunable {
    /// Its real name, as the kernel or the paper calls it.
    pub name: &'static str,
    /// What it takes.
    pub unit: Unit,
    /// The value if none is given, as one would write it.
    pub default: &'static str,
    /// The range of a number, inclusive, in the unit's base (ns, bytes, count, thousandth).
    pub range: (u64, u64),
    /// One line on what it does.
    pub summary: &'static str,
}

/// The longest time that a tunable can set, in ns: 30 days. A longer one is a mistake, and would make a replay last for
/// centuries of its own time.
pub const TIME_MAX_NS: u64 = 30 * 86_400 * 1_000_000_000;

impl Tunable {
    /// A tunable whose value may be any that its unit allows; a time is at most [`TIME_MAX_NS`].
    pub const fn new(name: &'static str, unit: Unit, default: &'static str, summary: &'static str) -> Tunable {
        Tunable { name, unit, default, range: (0, u64::MAX), summary }.within(0, u64::MAX)
    }

    /// The same, limited to `min..=max` in the unit's base (ns, bytes, count, thousandth); a time is still at most
    /// [`TIME_MAX_NS`].
    #[must_use]
    pub const fn within(mut self, min: u64, max: u64) -> Tunable {
        let is_too_long = matches!(self.unit, Unit::Time | Unit::TimesAt(_)) && max > TIME_MAX_NS;
        self.range = (min, if is_too_long { TIME_MAX_NS } else { max });
        self
    }

    /// The text of an extreme value within `range`, as tests of all combinations try them: `which` is 0 for the least, 1
    /// for the greatest, 2 for one near the least. A switch is on for 0; a choice counts through its words.
    pub fn extreme(&self, which: u8, range: (u64, u64)) -> String {
        let (min, max) = range;
        let number = [min, max, min + (max - min) / 1000][usize::from(which % 3)];
        match self.unit {
            Unit::Time => format!("{number}ns"),
            Unit::Count | Unit::Counts | Unit::Bytes => number.to_string(),
            Unit::Decimal => format!("{}.{:03}", number / 1000, number % 1000),
            Unit::TimesAt(_) => "none".to_owned(),
            Unit::Switch => if which == 0 { "on" } else { "off" }.to_owned(),
            Unit::Choice(words) => words[usize::from(which) % words.len()].to_owned(),
        }
    }
}

/// What the name of a scheduler in a shared library begins with: somebody's own, or one of Linux that was compiled from
/// its source. The path of the library follows.
pub const LIBRARIES: [&str; 2] = ["plugin:", "kernel:"];

/// The parts of the name of a scheduler in a shared library: one of [`LIBRARIES`], and the path.
pub fn library(name: &str) -> Option<(&'static str, &str)> {
    LIBRARIES.iter().find_map(|prefix| name.strip_prefix(prefix).map(|path| (*prefix, path)))
}

/// A part's name and the tunables given with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// The name, as given; with the path if it is in a [`library`].
    pub name: String,
    /// Tunables and values, in the order given.
    pub given: Vec<(String, String)>,
}

impl Spec {
    /// The same part, with the files that describe it named without their folders: what a result says of it.
    pub fn without_folders(&self) -> Spec {
        let named = |(name, value): &(String, String)| (name.clone(), without_folders(value).to_owned());
        let in_library = library(&self.name).map(|(prefix, path)| format!("{prefix}{}", without_folders(path)));
        let name = in_library.unwrap_or_else(|| without_folders(&self.name).to_owned());
        Spec { name, given: self.given.iter().map(named).collect() }
    }
}

impl std::fmt::Display for Spec {
    /// As one would write it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)?;
        for (index, (name, value)) in self.given.iter().enumerate() {
            write!(f, "{}{name}={value}", if index == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

/// Why a spec was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Not of the form `name:tunable=value,…`.
    #[error("`{0}` is not of the form name:tunable=value,tunable=value")]
    Syntax(String),
    /// A tunable is given twice.
    #[error("`{part}` gives the tunable `{name}` twice")]
    Twice {
        /// The part, as given.
        part: String,
        /// The tunable.
        name: String,
    },
    /// There is an empty name in a list.
    #[error("`{0}` has a comma with nothing behind or before it")]
    EmptyName(String),
    /// There is no such part.
    #[error("unknown {kind} `{name}`{}", hint_or_list(near, kind))]
    UnknownName {
        /// What was looked for: "scheduler", "drive" …
        kind: &'static str,
        /// What was given.
        name: String,
        /// Names that exist and look alike.
        near: Vec<String>,
    },
    /// The part has no such tunable.
    #[error("`{part}` has no tunable `{name}`{}", hint(near))]
    UnknownTunable {
        /// The part.
        part: String,
        /// What was given.
        name: String,
        /// Tunables that exist, nearest first.
        near: Vec<String>,
    },
    /// A shared library is no scheduler that can be used.
    #[error("the scheduler in {path} cannot be used: {problem}")]
    Plugin {
        /// The library, as given.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// The value cannot be understood or is out of range.
    #[error("{part}:{name}=`{value}` is not {expected}")]
    Value {
        /// The part.
        part: String,
        /// The tunable.
        name: String,
        /// What was given.
        value: String,
        /// What would be accepted.
        expected: String,
    },
}

fn hint(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(", ")) }
}

fn hint_or_list(near: &[String], kind: &str) -> String {
    if near.is_empty() { format!("; `iocast list {kind}s` names them all") } else { hint(near) }
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Spec, SpecError> {
        let syntax = || SpecError::Syntax(text.to_owned());
        // The path of a library follows the first colon.
        let path = library(text).map_or(0, |(prefix, _)| prefix.len());
        let colon = text[path..].find(':').map(|colon| path + colon);
        let (name, rest) = colon.map_or((text, None), |colon| (&text[..colon], Some(&text[colon + 1..])));
        if name.len() == path {
            return Err(syntax());
        }
        let mut given: Vec<(String, String)> = Vec::new();
        for setting in rest.into_iter().flat_map(|rest| rest.split(',')) {
            let (key, value) = setting.split_once('=').ok_or_else(syntax)?;
            if key.is_empty() || value.is_empty() {
                return Err(syntax());
            }
            if given.iter().any(|(known, _)| known == key) {
                return Err(SpecError::Twice { part: text.to_owned(), name: key.to_owned() });
            }
            given.push((key.to_owned(), value.to_owned()));
        }
        Ok(Spec { name: name.to_owned(), given })
    }
}

/// Splits a comma-separated list of specs: a piece with `=` and no `:` before it belongs to the
/// spec before it, so `fifo,deadline:fifo_batch=8,writes_starved=4,cats` is three.
///
/// # Errors
/// The first piece that is not a spec.
pub fn parse_list(text: &str) -> Result<Vec<Spec>, SpecError> {
    let mut pieces: Vec<String> = Vec::new();
    for piece in text.split(',').map(str::trim) {
        if piece.is_empty() {
            return Err(SpecError::EmptyName(text.to_owned()));
        }
        let is_setting = piece.split_once('=').is_some_and(|(key, _)| !key.contains(':'));
        match pieces.last_mut() {
            Some(last) if is_setting && last.contains(':') => {
                last.push(',');
                last.push_str(piece);
            }
            _ => pieces.push(piece.to_owned()),
        }
    }
    pieces.iter().map(|piece| piece.parse()).collect()
}

/// The names nearest to `name` among `known`, best first, at most three; none that are far off.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut ranked: Vec<(usize, &str)> = known
        .map(|candidate| (strsim::damerau_levenshtein(&name.to_lowercase(), candidate), candidate))
        .filter(|&(distance, candidate)| distance <= candidate.len().max(name.len()) / 2 || candidate.starts_with(name))
        .collect();
    ranked.sort();
    ranked.into_iter().take(3).map(|(_, candidate)| candidate.to_owned()).collect()
}

/// The end of a message about a word that is not known: `; did you mean closed?` with the [`nearest`] of those that are.
/// Empty if none is near.
pub fn did_you_mean<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    hint(&nearest(word, known))
}

/// A part's tunables with all defaults filled in, each known to be well formed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    values: BTreeMap<&'static str, String>,
}

impl Settings {
    /// Checks what a spec gives against the part's table.
    ///
    /// # Errors
    /// An unknown tunable, with the nearest names; a value its unit or range does not allow.
    pub fn resolve(spec: &Spec, tunables: &[Tunable]) -> Result<Settings, SpecError> {
        let mut values: BTreeMap<&'static str, String> =
            tunables.iter().map(|tunable| (tunable.name, tunable.default.to_owned())).collect();
        for (name, value) in &spec.given {
            let Some(tunable) = tunables.iter().find(|tunable| tunable.name == name) else {
                let mut near = nearest(name, tunables.iter().map(|tunable| tunable.name));
                if near.is_empty() {
                    near = tunables.iter().map(|tunable| tunable.name.to_owned()).collect();
                }
                return Err(SpecError::UnknownTunable { part: spec.name.clone(), name: name.clone(), near });
            };
            check(spec, tunable, value)?;
            values.insert(tunable.name, value.clone());
        }
        Ok(Settings { values })
    }

    /// Name and value of every tunable, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.values.iter().map(|(&name, value)| (name, value.as_str()))
    }

    /// The value of a tunable of kind [`Unit::Choice`], or any other as it was written.
    ///
    /// # Panics
    /// If the part's table has no such tunable; so do the other getters.
    pub fn word(&self, name: &str) -> &str {
        self.values.get(name).unwrap_or_else(|| panic!("no tunable `{name}` in the part's table"))
    }

    /// The value of a tunable of kind [`Unit::Time`].
    pub fn nanos(&self, name: &str) -> Nanos {
        parse_nanos(self.word(name)).expect("checked when it was resolved")
    }

    /// The value of a tunable of kind [`Unit::Count`].
    pub fn count(&self, name: &str) -> u64 {
        self.word(name).parse().expect("checked when it was resolved")
    }

    /// The values of a tunable of kind [`Unit::Counts`], at least one.
    pub fn counts(&self, name: &str) -> Vec<u64> {
        self.word(name).split('+').map(|count| count.parse().expect("checked when it was resolved")).collect()
    }

    /// The values of a tunable of kind [`Unit::TimesAt`] of `each`.
    pub fn times_at(&self, name: &str, each: usize) -> Vec<TimesAt> {
        parse_times_at(self.word(name), each).expect("checked when it was resolved")
    }

    /// The value of a tunable of kind [`Unit::Decimal`], in thousandths.
    pub fn thousandths(&self, name: &str) -> u64 {
        parse_thousandths(self.word(name)).expect("checked when it was resolved")
    }

    /// The value of a tunable of kind [`Unit::Bytes`].
    pub fn bytes(&self, name: &str) -> u64 {
        parse_bytes(self.word(name)).expect("checked when it was resolved")
    }

    /// The value of a tunable of kind [`Unit::Switch`].
    pub fn switch(&self, name: &str) -> bool {
        self.word(name) == "on"
    }
}

fn check(spec: &Spec, tunable: &Tunable, value: &str) -> Result<(), SpecError> {
    let (min, max) = tunable.range;
    let in_range = match tunable.unit {
        Unit::Time => parse_nanos(value).is_ok_and(|v| (min..=max).contains(&v.as_ns())),
        Unit::Count => value.parse().is_ok_and(|v: u64| (min..=max).contains(&v)),
        Unit::Counts => value.split('+').all(|count| count.parse().is_ok_and(|v: u64| (min..=max).contains(&v))),
        Unit::Decimal => parse_thousandths(value).is_ok_and(|v| (min..=max).contains(&v)),
        Unit::Bytes => parse_bytes(value).is_ok_and(|v| (min..=max).contains(&v)),
        Unit::TimesAt(each) => parse_times_at(value, each).is_some_and(|points| {
            points.iter().flat_map(|point| &point.times).all(|time| (min..=max).contains(&time.as_ns()))
        }),
        Unit::Switch | Unit::Choice(_) => true,
    };
    if tunable.unit.accepts(value) && in_range {
        return Ok(());
    }
    let mut expected = tunable.unit.expected();
    if tunable.unit.accepts(value) {
        let limit = |base: u64| match tunable.unit {
            Unit::Time | Unit::TimesAt(_) => Nanos::from_ns(base).to_string(),
            Unit::Decimal => format!("{}.{:03}", base / 1000, base % 1000),
            _ => base.to_string(),
        };
        expected = if max == u64::MAX {
            format!("at least {}", limit(min))
        } else {
            format!("from {} to {}", limit(min), limit(max))
        };
    }
    Err(SpecError::Value { part: spec.name.clone(), name: tunable.name.to_owned(), value: value.to_owned(), expected })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Tunable] = &[
        Tunable::new("read_expire", Unit::Time, "500ms", "how long a read may wait"),
        Tunable::new("fifo_batch", Unit::Count, "16", "requests in a row").within(1, 1000),
        Tunable::new("front_merges", Unit::Switch, "on", "whether to look for them"),
        Tunable::new("weights", Unit::Counts, "1", "shares of the VMs").within(1, 100),
        Tunable::new("r", Unit::Decimal, "0.2", "between two policies").within(0, 1000),
        Tunable::new("reading", Unit::Choice(&["idle", "table"]), "idle", "which reading"),
        Tunable::new("alone", Unit::TimesAt(1), "none", "responses by threads").within(1, u64::MAX),
        Tunable::new("mixed", Unit::TimesAt(2), "none", "responses by threads of two kinds"),
    ];

    fn resolve(text: &str) -> Result<Settings, SpecError> {
        Settings::resolve(&text.parse()?, TABLE)
    }

    #[test]
    fn defaults_are_filled_in_and_given_values_win() {
        let settings = resolve("deadline:read_expire=7ms,front_merges=off").unwrap();
        assert_eq!(settings.nanos("read_expire"), Nanos::from_ms(7));
        assert_eq!(settings.count("fifo_batch"), 16);
        assert!(!settings.switch("front_merges"));
        assert_eq!(settings.word("reading"), "idle");
        assert_eq!((settings.counts("weights"), settings.thousandths("r")), (vec![1], 200));
        let settings = resolve("x:weights=1+20+4,r=1").unwrap();
        assert_eq!((settings.counts("weights"), settings.thousandths("r")), (vec![1, 20, 4], 1000));
        assert!(settings.times_at("alone", 1).is_empty() && settings.times_at("mixed", 2).is_empty());
        let settings = resolve("x:alone=10x52ms+50x0.25s,mixed=1/20x3us/4us").unwrap();
        let point = |counts: &[u64], times: &[u64]| TimesAt {
            counts: counts.to_vec(),
            times: times.iter().map(|&us| Nanos::from_us(us)).collect(),
        };
        assert_eq!(settings.times_at("alone", 1), [point(&[10], &[52_000]), point(&[50], &[250_000])]);
        assert_eq!(settings.times_at("mixed", 2), [point(&[1, 20], &[3, 4])]);
    }

    #[test]
    fn what_is_wrong_is_said_with_what_would_be_right() {
        for (text, message) in [
            ("deadline:read_expires=7ms", "`deadline` has no tunable `read_expires`; did you mean read_expire?"),
            ("deadline:fifo_batch=0", "deadline:fifo_batch=`0` is not from 1 to 1000"),
            ("deadline:fifo_batch=x", "deadline:fifo_batch=`x` is not a whole number"),
            ("deadline:read_expire=7", "deadline:read_expire=`7` is not a time such as 250us, 7ms or 1.5s"),
            ("deadline:weights=1+0", "deadline:weights=`1+0` is not from 1 to 100"),
            ("deadline:weights=1+", "deadline:weights=`1+` is not whole numbers such as 1 or 1+2+4"),
            ("deadline:r=1.001", "deadline:r=`1.001` is not from 0.000 to 1.000"),
            ("deadline:r=.2", "deadline:r=`.2` is not a decimal number of at most three places such as 0.2"),
            ("deadline:reading=both", "deadline:reading=`both` is not idle|table"),
            ("deadline:read_expire=721h", "deadline:read_expire=`721h` is not from 0ns to 2592000s"),
            ("deadline:alone=10x0ms", "deadline:alone=`10x0ms` is not from 1ns to 2592000s"),
            (
                "deadline:alone=0x5ms",
                "deadline:alone=`0x5ms` is not counts with times such as 10x52ms+50x250ms, or none",
            ),
            (
                "deadline:mixed=10x52ms",
                "deadline:mixed=`10x52ms` is not counts with times such as 10/5x80ms/30ms+5/10x45ms/60ms, or none",
            ),
            ("deadline:", "`deadline:` is not of the form name:tunable=value,tunable=value"),
            ("deadline:a=1,a=2", "`deadline:a=1,a=2` gives the tunable `a` twice"),
        ] {
            assert_eq!(resolve(text).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn a_list_keeps_each_specs_settings_together() {
        let specs = parse_list("fifo,deadline:fifo_batch=8,writes_starved=4,cats").unwrap();
        assert_eq!(specs.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["fifo", "deadline", "cats"]);
        assert_eq!(specs[1].given.len(), 2);
        for list in ["fifo,,cats", "fifo,"] {
            let said = parse_list(list).unwrap_err().to_string();
            assert_eq!(said, format!("`{list}` has a comma with nothing behind or before it"));
        }
    }

    #[test]
    fn nearest_finds_misspelt_names_and_nothing_for_an_unrelated_one() {
        let known = ["deadline", "cats", "cscan", "scan"];
        assert_eq!(nearest("deadlin", known.into_iter()), ["deadline"]);
        assert_eq!(nearest("cscn", known.into_iter())[0], "cscan");
        assert!(nearest("xyzzy", known.into_iter()).is_empty());
    }
}
