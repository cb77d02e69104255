//! Orders of values: a paper's beside ours, pair by pair.

use traces::results::reproduction::{Evidence, Rank, RankedPair};
use traces::statistics::mean_and_half_width;

/// Values that a paper ranks.
pub struct Ranking<'a> {
    /// Which values.
    pub what: String,
    /// What has the values, in any order if the paper prints values, else in the paper's, the best first.
    pub names: &'a [&'a str],
    /// The paper's values by name, if it prints them.
    pub paper: Option<&'a [f64]>,
    /// Our values: for each seed, by name.
    pub ours: Vec<Vec<f64>>,
    /// Whether a high value is a good one.
    pub high_is_good: bool,
    /// How the values stand to the paper's.
    pub evidence: Evidence,
}

impl Ranking<'_> {
    /// Compares the orders. Equal values of ours have no order, so they are never as in the paper.
    pub fn rank(&self) -> Rank {
        let all: Vec<usize> = (0..self.names.len()).collect();
        let order = self.paper.map_or_else(|| all.clone(), |paper| self.best_first(paper));
        let means: Vec<f64> = all
            .iter()
            .map(|&nth| mean_and_half_width(&self.ours.iter().map(|seed| seed[nth]).collect::<Vec<_>>()).0)
            .collect();
        let pairs: Vec<(usize, usize)> = order
            .iter()
            .enumerate()
            .flat_map(|(at, &one)| order[at + 1..].iter().map(move |&two| (one, two)))
            .collect();
        let as_in_paper = |seed: &[f64], (better, worse): (usize, usize)| self.is_better(seed[better], seed[worse]);
        let pair = |&(better, worse): &(usize, usize)| RankedPair {
            better: self.names[better].to_owned(),
            worse: self.names[worse].to_owned(),
            apart: self.paper.map(|paper| (paper[better] - paper[worse]).abs() / paper[better].min(paper[worse])),
            right: self.ours.iter().filter(|seed| as_in_paper(seed, (better, worse))).count() as u64,
        };
        let named = |order: &[usize]| order.iter().map(|&nth| self.names[nth].to_owned()).collect();
        Rank {
            what: self.what.clone(),
            order: named(&order),
            ours: named(&self.best_first(&means)),
            pairs: pairs.iter().map(pair).collect(),
            right: self.ours.iter().filter(|seed| pairs.iter().all(|&pair| as_in_paper(seed, pair))).count() as u64,
            seeds: self.ours.len() as u64,
            evidence: self.evidence,
        }
    }

    fn is_better(&self, one: f64, other: f64) -> bool {
        if self.high_is_good { one > other } else { one < other }
    }

    fn best_first(&self, values: &[f64]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..values.len()).collect();
        let sign = if self.high_is_good { -1.0 } else { 1.0 };
        order.sort_by(|&one, &other| (sign * values[one]).total_cmp(&(sign * values[other])));
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_pairs_are_shown_and_not_excused() {
        // Geist et al. 2010, Table 3, real: deadline is 0.3 % ahead of CATS there, and behind it here in two seeds.
        let ours = vec![vec![10.8, 10.6, 8.2], vec![10.7, 10.6, 8.2], vec![10.5, 10.6, 8.2]];
        let rank = Ranking {
            what: "throughput".to_owned(),
            names: &["cats", "deadline", "cfq"],
            paper: Some(&[12.00, 12.04, 9.08]),
            ours,
            high_is_good: true,
            evidence: Evidence::Fitted,
        }
        .rank();
        assert_eq!(rank.order, ["deadline", "cats", "cfq"]);
        assert_eq!(rank.ours, ["cats", "deadline", "cfq"]);
        assert_eq!((rank.right, rank.seeds), (1, 3));
        let pairs: Vec<(&str, &str, u64)> =
            rank.pairs.iter().map(|pair| (&*pair.better, &*pair.worse, pair.right)).collect();
        assert_eq!(pairs, [("deadline", "cats", 1), ("deadline", "cfq", 3), ("cats", "cfq", 3)]);
        assert!((rank.pairs[0].apart.unwrap() - 0.04 / 12.0).abs() < 1e-12);
    }

    #[test]
    fn names_stand_in_the_papers_order_if_it_prints_no_values() {
        let ranking = |ours: Vec<Vec<f64>>| Ranking {
            what: String::new(),
            names: &["BA", "cfq"],
            paper: None,
            ours,
            high_is_good: false,
            evidence: Evidence::Forecast,
        };
        let rank = ranking(vec![vec![2.0, 1.0], vec![1.0, 1.0]]).rank();
        assert_eq!((rank.right, &rank.ours[..]), (0, &["cfq".to_owned(), "BA".to_owned()][..]));
        assert_eq!(rank.pairs[0].apart, None);
    }
}
