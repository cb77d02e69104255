//! How much figures may change.

use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Result};
use serde::Deserialize;
use traces::spec::did_you_mean;
use traces::text_file::read_text;

use crate::error::UsageError;

/// The largest permitted change of a figure, as a share of its old value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    upwards: Option<f64>,
    downwards: Option<f64>,
}

impl Change {
    /// Any change is permitted.
    pub const ANY: Change = Change { upwards: None, downwards: None };

    /// Whether a figure changed by more, upwards or downwards. `change` is a share, infinite if there is none.
    pub fn is_exceeded_by(self, change: f64) -> bool {
        // Shares of decimal figures are not exact.
        const ROUNDING: f64 = 1e-12;
        let exceeds = |most: Option<f64>, by: f64| most.is_some_and(|most| by > most + ROUNDING);
        exceeds(self.upwards, change) || exceeds(self.downwards, -change)
    }

    /// Whether a figure that has another text, or has appeared or vanished, is a miss.
    pub fn is_bound(self) -> bool {
        self != Change::ANY
    }
}

impl FromStr for Change {
    type Err = UsageError;

    fn from_str(text: &str) -> Result<Change, UsageError> {
        let hint = || did_you_mean(text, ["any"].into_iter());
        let wrong = || UsageError(format!("{text}: expected 5%, +5% (upwards), -5% (downwards) or any{}", hint()));
        if text == "any" {
            return Ok(Change::ANY);
        }
        let share: f64 = text.strip_suffix('%').and_then(|number| number.parse().ok()).ok_or_else(wrong)?;
        if !share.is_finite() {
            return Err(wrong());
        }
        let most = Some(share.abs() / 100.0);
        Ok(match text.as_bytes()[0] {
            b'+' => Change { upwards: most, downwards: None },
            b'-' => Change { upwards: None, downwards: most },
            _ => Change { upwards: most, downwards: most },
        })
    }
}

/// The thresholds of all figures.
#[derive(Debug)]
pub struct Thresholds {
    default: Change,
    /// Patterns of figures; the last that fits holds.
    figures: Vec<(String, Change)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    default: Option<String>,
    #[serde(default)]
    figures: Vec<Line>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    figure: String,
    threshold: String,
}

impl Thresholds {
    /// A change for all figures, or the file that states one by figure. Without either, all may change.
    ///
    /// # Errors
    /// Neither a change nor a file, or a file with a mistake.
    pub fn new(argument: Option<&str>) -> Result<Thresholds> {
        let Some(text) = argument else { return Ok(Thresholds { default: Change::ANY, figures: Vec::new() }) };
        if Path::new(text).extension().is_none_or(|ending| ending != "toml") {
            let default = text.parse().map_err(|error| UsageError(format!("--threshold {error}, or a file .toml")))?;
            return Ok(Thresholds { default, figures: Vec::new() });
        }
        let text_of = read_text(Path::new(text)).with_context(|| text.to_owned())?;
        let File { default, figures } = toml::from_str(&text_of).with_context(|| text.to_owned())?;
        let change = |change: &str| change.parse().map_err(|error: UsageError| UsageError(format!("{text}: {error}")));
        let default = default.as_deref().map_or(Ok(Change::ANY), change)?;
        let figures = figures.iter().map(|line| Ok((line.figure.clone(), change(&line.threshold)?)));
        Ok(Thresholds { default, figures: figures.collect::<Result<_>>()? })
    }

    /// How much the figure at this key may change.
    pub fn of(&self, key: &str) -> Change {
        let fitting = self.figures.iter().rev().find(|(pattern, _)| fits(pattern, key));
        fitting.map_or(self.default, |&(_, change)| change)
    }

    /// The patterns that fit none of the keys: mistakes, most likely.
    pub fn idle<'a>(&'a self, keys: &[&str]) -> Vec<&'a str> {
        let is_idle = |pattern: &str| !keys.iter().any(|key| fits(pattern, key));
        self.figures.iter().map(|(pattern, _)| pattern.as_str()).filter(|pattern| is_idle(pattern)).collect()
    }
}

/// Whether a key ends with the pattern, in which a star stands for any text.
fn fits(pattern: &str, key: &str) -> bool {
    let mut parts = pattern.split('*').rev();
    let Some(mut left) = parts.next().and_then(|last| key.strip_suffix(last)) else { return false };
    // The rightmost occurrence leaves most for the parts before it.
    parts.all(|part| left.rfind(part).map(|at| left = &left[..at]).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_have_a_direction() {
        let exceeded = |text: &str, change: f64| text.parse::<Change>().unwrap().is_exceeded_by(change);
        assert!(exceeded("5%", 0.051) && exceeded("5%", -0.051) && !exceeded("5%", 0.05) && !exceeded("5%", -0.05));
        assert!(exceeded("+5%", 0.051) && !exceeded("+5%", -0.9));
        assert!(exceeded("-5%", -0.051) && !exceeded("-5%", 9.0));
        assert!(exceeded("0%", 1e-9) && !exceeded("0%", 0.0) && !exceeded("any", f64::INFINITY));
        assert!(["", "5", "%", "x%", "inf%"].iter().all(|text| text.parse::<Change>().is_err()));
    }

    #[test]
    fn patterns_fit_the_ends_of_places() {
        let key = "runs[cats, cheetah].read.response_time.mean_ns";
        for pattern in ["mean_ns", "read.response_time.*", "runs[cats*mean_ns", "*", "*read*time*", key] {
            assert!(fits(pattern, key), "{pattern}");
        }
        for pattern in ["mean", "write*", "read.*read.*", "mean_ns*mean_ns"] {
            assert!(!fits(pattern, key), "{pattern}");
        }
    }
}
