//! Spans along x at heights of their own: intervals around values, or requests over time.

use std::fmt::Write as _;

use super::chart::{COLOURS, UNITS};
use crate::ticks::Scale;

/// Spans of one colour. One of no length is a dot.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    /// Their name in the legend.
    pub name: String,
    /// Thin ones: from, to, and the height at which they lie.
    pub thin: Vec<[f64; 3]>,
    /// Thick ones.
    pub thick: Vec<[f64; 3]>,
    /// Whether they stand behind the others in importance.
    pub is_pale: bool,
}

impl Spans {
    /// Whether there is none that can be drawn.
    pub(super) fn is_empty(&self) -> bool {
        !self.all().any(|span| span.iter().all(|value| value.is_finite()))
    }

    /// The thin and the thick ones.
    pub(super) fn all(&self) -> impl Iterator<Item = &[f64; 3]> {
        self.thin.iter().chain(&self.thick)
    }

    /// Writes a path for those of each width.
    pub(super) fn write(&self, text: &mut String, number: usize, [x, y]: [Scale; 2]) {
        for (width, spans) in [("thin", &self.thin), ("thick", &self.thick)] {
            if spans.is_empty() {
                continue;
            }
            let colour = number % COLOURS;
            let pale = if self.is_pale { " pale" } else { "" };
            let _ = write!(text, "<path class=\"span {width}{pale} c{colour}\" data-line=\"{number}\" d=\"");
            for [from, to, height] in spans.iter().filter(|span| span.iter().all(|value| value.is_finite())) {
                let along = |value: f64| libm::round(x.at(value) * UNITS);
                let down = libm::round((1.0 - y.at(*height)) * UNITS);
                let _ = write!(text, "M{} {down}h{}", along(*from), along(*to) - along(*from));
            }
            text.push_str("\"/>");
        }
    }
}
