//! What is asked of a tuning: the figure that should get better, and the limits on others.

use std::sync::LazyLock;

use anyhow::{Result, bail};
use traces::spec::did_you_mean;

use crate::arguments::Tune;
use crate::error::UsageError;
use crate::sweep::sensitivity::Better;

/// A figure by the name that people give it.
#[derive(Debug, PartialEq, Eq)]
pub struct Figure {
    pub name: String,
    /// Its column in the results of a sweep.
    pub column: String,
    /// The class of requests that it is over: `read`, `write` or `all`.
    pub class: &'static str,
    /// The percentile that it is, which needs requests enough.
    pub percentile: Option<&'static str>,
    pub better: Better,
}

const CLASSES: [&str; 3] = ["read", "write", "all"];
/// Names of times, and the percentile that each is.
const TIMES: [(&str, Option<&str>); 7] = [
    ("mean", None),
    ("p50", Some("p50")),
    ("p90", Some("p90")),
    ("p95", Some("p95")),
    ("p99", Some("p99")),
    ("p99_9", Some("p99.9")),
    ("p99_99", Some("p99.99")),
];
/// Names of rates, and their columns.
const RATES: [(&str, &str); 2] = [("throughput", "iops"), ("bandwidth", "bytes_per_s")];

/// All figures.
pub static FIGURES: LazyLock<Vec<Figure>> = LazyLock::new(|| {
    let mut all = Vec::new();
    for class in CLASSES {
        all.extend(TIMES.map(|(name, percentile)| Figure {
            name: format!("{name}_{class}"),
            column: format!("{class}_response_{name}_ns"),
            class,
            percentile,
            better: Better::Smaller,
        }));
    }
    for (name, column) in RATES {
        all.extend(CLASSES.map(|class| Figure {
            name: if class == "all" { name.to_owned() } else { format!("{name}_{class}") },
            column: format!("{class}_{column}"),
            class,
            percentile: None,
            better: Better::Larger,
        }));
    }
    all
});

/// The figure of this name.
///
/// # Errors
/// There is none.
pub fn figure(name: &str) -> Result<&'static Figure> {
    let found = FIGURES.iter().find(|figure| figure.name == name);
    let unknown = || {
        let names: Vec<&str> = FIGURES.iter().map(|figure| figure.name.as_str()).collect();
        let hint = did_you_mean(name, names.iter().copied());
        UsageError(format!("there is no figure `{name}`{hint}; the figures are {}", names.join(", ")))
    };
    Ok(found.ok_or_else(unknown)?)
}

/// How much worse a figure may get.
#[derive(Debug)]
pub struct Limit {
    pub figure: &'static Figure,
    /// The least (or most) that it may be, over the figure of the scheduler as given.
    pub ratio: f64,
}

impl Limit {
    /// Parses `throughput=-2%`.
    fn of(text: &str) -> Result<Limit> {
        let form = || {
            UsageError(format!(
                "--limit {text}: it is FIGURE=CHANGE in percent of the figure as given, as throughput=-2% (at most 2 % \
                 less) or p99_write=+10% (at most 10 % more)"
            ))
        };
        let (name, change) = text.split_once('=').ok_or_else(form)?;
        let figure = figure(name.trim())?;
        let percent: f64 = change.trim().strip_suffix('%').ok_or_else(form)?.trim().parse().map_err(|_| form())?;
        let worse = match figure.better {
            Better::Larger => -percent,
            Better::Smaller => percent,
        };
        if !(0.0..f64::INFINITY).contains(&worse) {
            let (sign, more) = if figure.better == Better::Larger { ("-", "less") } else { ("+", "more") };
            bail!(UsageError(format!(
                "--limit {text}: a limit says how much worse a figure may get, and {name} is worse if it is {more}; \
                 write {name}={sign}{}%, or 0% if it may not get worse at all",
                if percent.is_finite() { percent.abs() } else { 2.0 }
            )));
        }
        if figure.better == Better::Larger && worse >= 100.0 {
            bail!(UsageError(format!("--limit {text}: nothing is more than 100 % less, so this limits nothing")));
        }
        Ok(Limit { figure, ratio: 1.0 + percent / 100.0 })
    }

    /// By how much the logarithm of a figure's ratio to the scheduler as given lies beyond the limit; 0 within.
    pub fn excess(&self, log_ratio: f64) -> f64 {
        let beyond = match self.figure.better {
            Better::Larger => self.ratio.ln() - log_ratio,
            Better::Smaller => log_ratio - self.ratio.ln(),
        };
        // What rounding makes of two equal figures is no excess.
        if beyond <= 1e-12 { 0.0 } else { beyond }
    }
}

/// What should get better, and what may not get worse.
#[derive(Debug)]
pub struct Question {
    pub goal: &'static Figure,
    pub limits: Vec<Limit>,
}

impl Question {
    /// # Errors
    /// Unknown figures, limits that make no sense.
    pub fn new(arguments: &Tune) -> Result<Question> {
        let goal = figure(&arguments.goal)?;
        let mut limits: Vec<Limit> = Vec::new();
        for text in &arguments.limits {
            let limit = Limit::of(text)?;
            if limit.figure == goal {
                bail!(UsageError(format!(
                    "--limit {text}: {} should get better by --for, so it needs no limit",
                    goal.name
                )));
            }
            if limits.iter().any(|known| known.figure == limit.figure) {
                bail!(UsageError(format!("--limit {text}: there is another limit on {}", limit.figure.name)));
            }
            limits.push(limit);
        }
        Ok(Question { goal, limits })
    }

    /// The goal and the limits' figures.
    pub fn figures(&self) -> impl Iterator<Item = &'static Figure> + '_ {
        std::iter::once(self.goal).chain(self.limits.iter().map(|limit| limit.figure))
    }

    /// The logarithm of the goal's ratio to the scheduler as given, with the sign by which less is better.
    pub fn cost(&self, log_ratio: f64) -> f64 {
        if self.goal.better == Better::Larger { -log_ratio } else { log_ratio }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_a_column_of_results() {
        let columns = &crate::sweep::task::RESULT_COLUMNS.0;
        for figure in FIGURES.iter() {
            assert!(columns.iter().any(|(name, _)| *name == figure.column), "{figure:?}");
        }
        assert_eq!(figure("p99_9_read").unwrap().column, "read_response_p99_9_ns");
        assert_eq!(figure("throughput").unwrap().column, "all_iops");
        let error = figure("p99_reads").unwrap_err().to_string();
        assert!(error.contains("did you mean p99_read") && error.contains("bandwidth_write"), "{error}");
    }

    #[test]
    fn limits_say_how_much_worse_a_figure_may_get() {
        let throughput = Limit::of("throughput=-2%").unwrap();
        assert_eq!(throughput.excess(0.98_f64.ln()), 0.0);
        assert!((throughput.excess(0.5_f64.ln()) - (0.98_f64 / 0.5).ln()).abs() < 1e-12);
        assert_eq!(throughput.excess(3.0_f64.ln()), 0.0);
        let writes = Limit::of("p99_write = +10 %").unwrap();
        assert_eq!(writes.excess(1.1_f64.ln()), 0.0);
        assert!(writes.excess(1.2_f64.ln()) > 0.08);
        assert_eq!(Limit::of("mean_all=0%").unwrap().excess(0.0), 0.0);
        for (text, says) in [
            ("throughput", "FIGURE=CHANGE"),
            ("throughput=-2", "FIGURE=CHANGE"),
            ("throughput=some%", "FIGURE=CHANGE"),
            ("throughput=2%", "write throughput=-2%"),
            ("p99_read=-5%", "write p99_read=+5%"),
            ("p99_read=NaN%", "write p99_read=+2%"),
            ("throughput=-100%", "limits nothing"),
            ("iops=-2%", "there is no figure `iops`"),
        ] {
            let error = Limit::of(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
