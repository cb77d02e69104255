//! What Geist et al. 2010 say in words about Tables 2 and 3, beside what our runs show.

use traces::results::reproduction::{Claim, Verdict};
use traces::statistics::mean_and_half_width;

use super::Runs;
use super::numbers::SCHEDULERS;
use super::results::{ROWS, Row, evidence};
use super::run::{Measured, System};

const TABLES: [&str; 2] = ["Table 2", "Table 3"];

/// The claims about both tables, from the runs of all seeds.
pub fn claims(seeds: &[Runs]) -> Vec<Claim> {
    let of_table =
        |(table, place): (usize, &str)| [rank_is_right(seeds, table, place), underestimates(seeds, table, place)];
    TABLES.into_iter().enumerate().flat_map(of_table).collect()
}

fn measures() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(|row| row.is_measure)
}

/// The VM ranks the schedulers as the real system does.
fn rank_is_right(seeds: &[Runs], table: usize, place: &str) -> Claim {
    let order = |runs: &[Measured; 3], row: &Row| {
        let mut order = [0, 1, 2];
        order.sort_by(|&one, &other| (row.ours)(&runs[one]).total_cmp(&(row.ours)(&runs[other])));
        order
    };
    let same = |row: &Row| {
        let [real, virtual_] = [0, 1].map(|system| move |runs: &Runs| order(&runs[table][system], row));
        seeds.iter().filter(|runs| real(runs) == virtual_(runs)).count()
    };
    let counts: Vec<usize> = measures().map(same).collect();
    let of = |(row, count): (&Row, &usize)| format!("{} in {count}", row.name);
    let listed: Vec<String> = measures().zip(&counts).map(of).collect();
    Claim {
        place: place.to_owned(),
        says: "on all three measures the virtual system predicted the rank of the three schedulers correctly"
            .to_owned(),
        ours: format!("our two systems give the same order by {} of {} seeds", listed.join(", by "), seeds.len()),
        verdict: Verdict::of(counts.iter().sum(), counts.len() * seeds.len()),
        evidence: evidence(table, System::Real),
    }
}

/// The VM is slower than the real system by each measure and scheduler.
fn underestimates(seeds: &[Runs], table: usize, place: &str) -> Claim {
    let mean = |system: usize, scheduler: usize, row: &Row| {
        let values: Vec<f64> = seeds.iter().map(|runs| (row.ours)(&runs[table][system][scheduler])).collect();
        mean_and_half_width(&values).0
    };
    let mut otherwise = Vec::new();
    for row in measures() {
        for (index, scheduler) in SCHEDULERS.iter().enumerate() {
            let (real, virtual_) = (mean(0, index, row), mean(1, index, row));
            if (virtual_ < real) != row.high_is_good {
                otherwise.push(format!("{scheduler}'s {} is {virtual_:.2} virtual, {real:.2} real", row.name));
            }
        }
    }
    let all = measures().count() * SCHEDULERS.len();
    let right = all - otherwise.len();
    let but = if otherwise.is_empty() { String::new() } else { format!("; but {}", otherwise.join("; ")) };
    Claim {
        place: place.to_owned(),
        says: "the virtual system uniformly predicted higher mean service, higher mean response and lower throughput"
            .to_owned(),
        ours: format!("so in {right} of {all} means{but}"),
        verdict: Verdict::of(right, all),
        evidence: evidence(table, System::Real),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of a seed in which every measure of a system and scheduler is `value`, with the throughput its reciprocal.
    fn runs(value: impl Fn(usize, usize) -> f64) -> Runs {
        let of = |system: usize, scheduler: usize| {
            let value = value(system, scheduler);
            Measured { service: [value, 0.0], response: [value, 0.0], throughput: 1.0 / value, ..Measured::default() }
        };
        let table = || [0, 1].map(|system| [0, 1, 2].map(|scheduler| of(system, scheduler)));
        [table(), table()]
    }

    #[test]
    fn claims_hold_only_where_every_seed_and_mean_shows_them() {
        let as_said = runs(|system, scheduler| (1 + 3 * system + scheduler) as f64);
        let verdicts = |seeds: &[Runs]| claims(seeds).iter().map(|claim| claim.verdict).collect::<Vec<_>>();
        assert_eq!(verdicts(&[as_said.clone(), as_said.clone()]), [Verdict::Holds; 4]);
        // The other seed's VM has the reverse order, and is the faster one.
        let reverse =
            runs(|system, scheduler| if system == 0 { 10.0 + scheduler as f64 } else { 5.0 - scheduler as f64 });
        assert_eq!(verdicts(std::slice::from_ref(&reverse)), [Verdict::Contradicts; 4]);
        let both = [as_said, reverse];
        assert_eq!(verdicts(&both)[0], Verdict::HoldsInPart);
        assert!(claims(&both)[0].ours.contains("mean service in 1, by mean response in 1"), "{:?}", claims(&both)[0]);
        assert!(claims(&both)[1].ours.contains("cfq's throughput is"), "{:?}", claims(&both)[1]);
    }
}
