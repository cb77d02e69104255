//! What `iocast reproduce` stores: the numbers of a paper beside ours.

use serde::{Deserialize, Serialize};

/// A reproduction with what made it, as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reproduced {
    /// Program and version.
    pub program: String,
    /// The paper and what became of it; its fields stand beside the program.
    #[serde(flatten)]
    pub reproduction: Reproduction,
}

/// A paper's tables and figures, regenerated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reproduction {
    /// [`super::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Its authors, year and title.
    pub paper: String,
    /// The seeds, each of which made its own replays.
    pub seeds: Vec<u64>,
    /// What was chosen where the paper says nothing, by name.
    pub choices: Vec<Choice>,
    /// The numbers.
    pub cells: Vec<Cell>,
    /// How far off groups of cells are.
    pub errors: Vec<GroupError>,
    /// What else was to be reached.
    pub bars: Vec<Bar>,
    /// The paper's orders beside ours.
    pub ranks: Vec<Rank>,
    /// What the paper says in words, beside what ours shows.
    #[serde(default)]
    pub claims: Vec<Claim>,
    /// What other choices would have given, below what was chosen gives on the same seeds.
    pub alternatives: Vec<Alternative>,
    /// Series of the figures.
    pub figures: Vec<Series>,
    /// Where ours differs from the paper and why.
    pub statements: Vec<String>,
}

/// How a number of ours stands to the paper's number beside it, the strongest evidence first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// No detail was chosen with a look at the paper's number.
    #[default]
    Forecast,
    /// Nothing was chosen so that this number comes near, but it had been seen when other details or its limits were
    /// chosen.
    Seen,
    /// Details that the paper leaves open were chosen so that this number comes near.
    ChosenOn,
    /// The model was changed after this number had been seen beside the paper's.
    Fitted,
}

/// Something the paper leaves open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// What was to be chosen.
    pub name: String,
    /// What was.
    pub value: String,
    /// Why.
    pub reason: String,
    /// How the numbers stand by which it was chosen. A forecast: by none, it is the paper's text or an assumption.
    #[serde(default)]
    pub evidence: Evidence,
}

impl Choice {
    /// What was to be chosen, what was, and why, without a look at any number of the paper.
    pub fn new(name: &str, value: &str, reason: &str) -> Choice {
        let [name, value, reason] = [name, value, reason].map(str::to_owned);
        Choice { name, value, reason, evidence: Evidence::Forecast }
    }

    /// The same, by numbers of the paper.
    #[must_use]
    pub fn by(self, evidence: Evidence) -> Choice {
        Choice { evidence, ..self }
    }
}

/// How a number of ours came about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The paper's own formula on inputs that were solved from its own predictions: it tests the formula and nothing
    /// else.
    Formula,
    /// A replay on a modelled drive.
    #[default]
    Replayed,
    /// VMs of ours.
    Measured,
}

/// One number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The paper's table or figure.
    pub table: String,
    /// Its row.
    pub row: String,
    /// Its column.
    pub column: String,
    /// What the paper has, if it has this.
    pub paper: Option<f64>,
    /// What we have: the mean over the seeds.
    pub ours: f64,
    /// The unit of both.
    pub unit: String,
    /// (ours - paper) / paper.
    pub relative_error: Option<f64>,
    /// The 95 % confidence interval of the mean over the seeds (Student's t); absent for what does
    /// not depend on the seed.
    pub ci95: Option<[f64; 2]>,
    /// Whether the cell counts in the mean errors; if not, why is among the statements.
    pub counts: bool,
    /// How ours came about.
    pub source: Source,
    /// How ours stands to the paper's.
    #[serde(default)]
    pub evidence: Evidence,
}

impl Cell {
    /// The same, with what stands behind it.
    #[must_use]
    pub fn by(self, evidence: Evidence) -> Cell {
        Cell { evidence, ..self }
    }
}

/// The mean absolute relative error of a group of cells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupError {
    /// Which cells.
    pub group: String,
    /// How many.
    pub cells: u64,
    /// The mean of the absolute relative errors.
    pub mean_absolute_relative_error: f64,
    /// What was to be reached, if something was.
    pub bar: Option<f64>,
    /// How the cells stand to the paper's.
    #[serde(default)]
    pub evidence: Evidence,
}

/// A bound that a number was to keep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bar {
    /// Which number, with its unit.
    pub what: String,
    /// What it is: a mean over the seeds, or the worst of them where that is said.
    pub ours: f64,
    /// The least it was to be.
    pub at_least: Option<f64>,
    /// The most it was to be.
    pub at_most: Option<f64>,
    /// Whether it is.
    pub reached: bool,
    /// Whether a limit was set when the number had been seen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub limit_set_later: bool,
    /// The 95 % confidence interval of a mean over the seeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
    /// How the number stands to the paper's.
    #[serde(default)]
    pub evidence: Evidence,
}

impl Bar {
    /// A number and its bounds.
    pub fn new(what: &str, ours: f64, at_least: Option<f64>, at_most: Option<f64>, evidence: Evidence) -> Bar {
        let reached = at_least.is_none_or(|least| ours >= least) && at_most.is_none_or(|most| ours <= most);
        Bar { what: what.to_owned(), ours, at_least, at_most, reached, limit_set_later: false, ci95: None, evidence }
    }

    /// The same, with the confidence interval of the number.
    #[must_use]
    pub fn within(self, ci95: Option<[f64; 2]>) -> Bar {
        Bar { ci95, ..self }
    }

    /// The same, of a number that had been seen when a limit was set.
    #[must_use]
    pub fn limited_later(self) -> Bar {
        Bar { limit_set_later: true, evidence: self.evidence.max(Evidence::Seen), ..self }
    }

    /// Whether a bound lies inside the confidence interval: then other seeds may well give the other verdict.
    pub fn is_close(&self) -> bool {
        let inside = |bound: f64| self.ci95.is_some_and(|[low, high]| low < bound && bound < high);
        self.at_least.is_some_and(inside) || self.at_most.is_some_and(inside)
    }
}

/// An order of values: the paper's and ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rank {
    /// Which values.
    pub what: String,
    /// The paper's order, the best first.
    pub order: Vec<String>,
    /// Our order by the means over the seeds.
    pub ours: Vec<String>,
    /// Each pair in the paper's order.
    pub pairs: Vec<RankedPair>,
    /// In how many seeds all pairs have the paper's order.
    pub right: u64,
    /// Of how many.
    pub seeds: u64,
    /// How the values stand to the paper's.
    #[serde(default)]
    pub evidence: Evidence,
}

/// Two of the values that are ranked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankedPair {
    /// The better one in the paper.
    pub better: String,
    /// The other.
    pub worse: String,
    /// The difference between the two in the paper, relative to the smaller value; absent if it is not printed.
    pub apart: Option<f64>,
    /// In how many seeds the pair has the paper's order.
    pub right: u64,
}

/// Something that the paper says in words about its numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// Where it says so.
    pub place: String,
    /// What it says.
    pub says: String,
    /// What ours shows, with figures.
    pub ours: String,
    /// What follows.
    pub verdict: Verdict,
    /// How ours stands to what the paper says.
    #[serde(default)]
    pub evidence: Evidence,
}

/// Whether ours shows what a paper says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It does, in all seeds and for all of the values.
    Holds,
    /// It does in at least half of the seeds or values.
    HoldsInPart,
    /// It does in fewer than half of them, or in none.
    Contradicts,
}

impl Claim {
    /// How many of the claims hold, and how many there are.
    pub fn count(claims: &[Claim]) -> [u64; 2] {
        let holds = claims.iter().filter(|claim| claim.verdict == Verdict::Holds).count();
        [holds as u64, claims.len() as u64]
    }
}

impl Verdict {
    /// The verdict on a claim that holds in `right` of `all` cases.
    pub fn of(right: usize, all: usize) -> Verdict {
        match right {
            right if right == 0 || 2 * right < all => Verdict::Contradicts,
            right if right == all => Verdict::Holds,
            _ => Verdict::HoldsInPart,
        }
    }
}

/// The errors that another choice leads to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alternative {
    /// The choice, other than which everything is as chosen.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The mean absolute relative errors of the same groups.
    pub errors: Vec<GroupError>,
    /// How many of the ranked pairs have the paper's order, over all seeds, and of how many.
    pub pairs_right: [u64; 2],
    /// How many of the paper's claims hold, and of how many.
    #[serde(default)]
    pub claims_hold: [u64; 2],
}

/// A line or the bars of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The paper's figure.
    pub figure: String,
    /// The scheduler in front of the drive, where it is one of several that the paper compares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// Which of its lines.
    pub name: String,
    /// What runs along, with its unit.
    pub x: String,
    /// What is shown, with its unit.
    pub y: String,
    /// The points.
    pub points: Vec<[f64; 2]>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_cases_is_a_part_and_fewer_contradict() {
        let of = |all: usize| (0..=all).map(|right| Verdict::of(right, all)).collect::<Vec<_>>();
        use Verdict::{Contradicts, Holds, HoldsInPart};
        assert_eq!(of(0), [Contradicts]);
        assert_eq!(of(1), [Contradicts, Holds]);
        assert_eq!(of(2), [Contradicts, HoldsInPart, Holds]);
        assert_eq!(of(5), [Contradicts, Contradicts, Contradicts, HoldsInPart, HoldsInPart, Holds]);
    }

    #[test]
    fn a_bar_inside_the_interval_is_close() {
        let bar = |ci95| Bar::new("error, %", 3.59, None, Some(3.8), Evidence::Forecast).within(ci95);
        assert!(bar(None).reached && !bar(None).is_close());
        assert!(bar(Some([3.37, 3.81])).reached && bar(Some([3.37, 3.81])).is_close());
        assert!(!bar(Some([3.4, 3.8])).is_close());
        let least = Bar::new("share", 0.5, Some(0.54), Some(0.74), Evidence::Forecast).within(Some([0.4, 0.6]));
        assert!(!least.reached && least.is_close());
    }

    #[test]
    fn a_number_whose_limit_was_set_later_is_no_forecast() {
        let bar = |evidence| Bar::new("gain, %", 10.8, Some(10.0), Some(17.0), evidence).limited_later();
        assert!(bar(Evidence::Forecast).limit_set_later && bar(Evidence::Forecast).reached);
        assert_eq!(bar(Evidence::Forecast).evidence, Evidence::Seen);
        assert_eq!(bar(Evidence::ChosenOn).evidence, Evidence::ChosenOn);
    }
}
