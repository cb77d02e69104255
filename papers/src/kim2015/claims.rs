//! What Kim et al. 2015 say in words about their figures, beside what our runs show.

use traces::results::reproduction::{Claim, Evidence, Verdict};

use super::figures::{INTERFERENCE, PHASES, TASKS, fio_gain, gains, iozone_gains, mean, phase, phase_length};
use super::scenario::{INTERVAL, Outcome, jain};
use super::{Outcomes, Part};

/// The claims.
pub fn claims(outcomes: &Outcomes<'_>) -> Vec<Claim> {
    let mut claims = vec![similar_bandwidths(outcomes)];
    claims.extend([(0, true), (2, false)].map(|(task, longer)| phase_changes(outcomes, task, longer)));
    claims.push(phases_overlap(outcomes));
    claims.extend([less_switching(outcomes), gains_follow(outcomes)]);
    claims.extend([one_vm_owns_the_disk(outcomes), similar_shares(outcomes)]);
    claims.push(enhances_both(outcomes));
    claims
}

fn claim(place: &str, says: &str, ours: String, verdict: Verdict) -> Claim {
    let evidence = Evidence::Forecast;
    Claim { place: place.to_owned(), says: says.to_owned(), ours, verdict, evidence }
}

/// A claim about dd, whose results were in view when it was made to read.
fn of_dd(place: &str, says: &str, ours: String, verdict: Verdict) -> Claim {
    Claim { evidence: Evidence::Seen, ..claim(place, says, ours, verdict) }
}

/// The only outcome of a part without random parts.
fn both<T>(outcomes: &Outcomes<'_>, part: Part, quantity: impl Fn(&Outcome) -> T) -> Option<[T; 2]> {
    let of = |stack: usize| outcomes.of(part, stack).next().map(&quantity);
    Some([of(0)?, of(1)?])
}

fn similar_bandwidths(outcomes: &Outcomes<'_>) -> Claim {
    let found = outcomes.of(Part::Dd { vms: 4 }, 0).next().map(Outcome::bandwidths).unwrap_or_default();
    let within = found.iter().filter(|rate| (20.0..=25.0).contains(*rate)).count();
    let listed: Vec<String> = found.iter().map(|rate| format!("{rate:.1}")).collect();
    let says = "with cfq each VM gets around 20 to 25 MB/s, whose sum is 96.7";
    let ours = format!("{} MB/s, whose sum is {:.1}", listed.join(", "), found.iter().sum::<f64>());
    of_dd("Figure 3", says, ours, Verdict::of(within, found.len()))
}

/// Whether a phase of Terasort is longer with BA, or shorter.
fn phase_changes(outcomes: &Outcomes<'_>, task: usize, longer: bool) -> Claim {
    let [cfq, ba] = both(outcomes, Part::Terasort, |outcome| phase_length(outcome, task)).unwrap_or_default();
    let word = if longer { "longer" } else { "shorter" };
    let holds = if longer { ba > cfq } else { ba < cfq };
    let ends = both(outcomes, Part::Terasort, |outcome| ends_by_vm(outcome, task)).unwrap_or_default();
    let [of_cfq, of_ba] = ends.map(|[first, last]| format!("{first:.0} to {last:.0} s"));
    let ours = format!(
        "{cfq:.0} s with cfq, {ba:.0} s with BA ({:+.0} %); the VMs end it at {of_cfq} and {of_ba}",
        (ba / cfq - 1.0) * 100.0
    );
    let says = format!("BA makes Terasort's {} phase {word}", TASKS[task]);
    claim("Figure 5(c)", &says, ours, Verdict::of(usize::from(holds), 1))
}

/// When the first and the last VM end a phase, in seconds.
fn ends_by_vm(outcome: &Outcome, task: usize) -> [f64; 2] {
    let ends = || outcome.events.iter().filter_map(|events| events.get(task).copied().flatten().map(|[_, last]| last));
    [ends().fold(f64::INFINITY, f64::min), ends().fold(0.0, f64::max)]
}

fn phases_overlap(outcomes: &Outcomes<'_>) -> Claim {
    let of = |outcome: &Outcome| (phase_length(outcome, 0) + phase_length(outcome, 2), phase(outcome, 2)[1]);
    let found = both(outcomes, Part::Terasort, of).unwrap_or_default();
    let right = found.iter().filter(|(sum, whole)| sum > whole).count();
    let listed: Vec<String> = found.iter().map(|(sum, whole)| format!("{sum:.0} s in a run of {whole:.0} s")).collect();
    let says = "map and reduce phase overlap: their sum is longer than the whole";
    claim("Section 4", says, format!("cfq, BA: {}", listed.join(", ")), Verdict::of(right, found.len()))
}

/// The changes of context switches and of the seek distance with BA, per cent: means over the seeds, as in Figure 7.
fn reductions(outcomes: &Outcomes<'_>, part: Part) -> [f64; 2] {
    [outcomes.both(part, |outcome| outcome.switches as f64), outcomes.both(part, |outcome| outcome.seek_sectors as f64)]
        .map(|both| mean(&gains(&both)))
}

fn less_switching(outcomes: &Outcomes<'_>) -> Claim {
    let mut right = 0;
    let mut listed = Vec::new();
    for (part, name) in INTERFERENCE {
        let [switches, seeks] = reductions(outcomes, part);
        right += usize::from(switches < 0.0) + usize::from(seeks < 0.0);
        listed.push(format!("{name} {switches:+.0} % and {seeks:+.0} %"));
    }
    let says = "BA reduces context switches and seek distance in each benchmark, and Terasort's seek distance";
    claim("Figures 5 and 7", says, listed.join("; "), Verdict::of(right, 2 * INTERFERENCE.len()))
}

/// From this gain on, in per cent, BA is taken to improve what it does with fewer switches and shorter seeks.
const GAIN: f64 = 5.0;

/// The paper's explanation of its gains, by the benchmarks of which Figures 5 and 7 show switches or seeks. The least
/// gain was set when the gains had been seen.
fn gains_follow(outcomes: &Outcomes<'_>) -> Claim {
    let times = both(outcomes, Part::Terasort, |outcome| phase(outcome, 2)[1]).unwrap_or_default();
    let (mut right, mut all, mut listed) = (0, 0, Vec::new());
    for (part, name) in INTERFERENCE {
        let fewer = reductions(outcomes, part).iter().all(|change| *change < 0.0);
        let improved: Vec<(&str, f64)> = match part {
            Part::Iozone => PHASES.into_iter().zip(iozone_gains(outcomes)).collect(),
            Part::Fio(reads) => vec![("bandwidth", fio_gain(outcomes, reads).0)],
            _ => vec![("time saved", (1.0 - times[1] / times[0]) * 100.0)],
        };
        all += improved.len();
        right += improved.iter().filter(|(_, gain)| fewer && *gain >= GAIN).count();
        let of: Vec<String> = improved.iter().map(|(what, gain)| format!("{what} {gain:+.1} %")).collect();
        listed.push(format!("{name} {}", of.join(", ")));
    }
    let ours = format!("{}; with both reduced, {right} of {all} gain {GAIN} % or more", listed.join("; "));
    let says = "BA's improvement is due to fewer context switches and shorter seeks";
    Claim { evidence: Evidence::Seen, ..claim("Figure 7", says, ours, Verdict::of(right, all)) }
}

fn one_vm_owns_the_disk(outcomes: &Outcomes<'_>) -> Claim {
    let second = (1_000_000_000 / INTERVAL.as_ns()) as usize;
    let greatest_share = |outcome: &Outcome| {
        let share = |shares: &Vec<f64>| {
            let all: f64 = shares.iter().sum();
            (all > 0.0).then(|| shares.iter().copied().fold(0.0, f64::max) / all)
        };
        mean(&outcome.windows(second).iter().filter_map(share).collect::<Vec<_>>()) * 100.0
    };
    let [cfq, ba] = both(outcomes, Part::Dd { vms: 4 }, greatest_share).unwrap_or_default();
    let ours = format!("the VM with most has {ba:.0} % of a second's bytes with BA, {cfq:.0} % with cfq");
    let says = "BA lets one VM use most of the bandwidth during a quantum";
    of_dd("Figure 8", says, ours, Verdict::of(usize::from(ba > 50.0 && cfq < 50.0), 1))
}

/// "Similar" is what the paper calls 20 to 25 MB/s in Figure 3: the most is at most 1.25 times the least.
fn similar_shares(outcomes: &Outcomes<'_>) -> Claim {
    let [cfq, ba] = both(outcomes, Part::Dd { vms: 4 }, Outcome::bandwidths).unwrap_or_default();
    let listed: Vec<String> = ba.iter().map(|rate| format!("{rate:.1}")).collect();
    let least = ba.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ba.iter().copied().fold(0.0, f64::max);
    let ours = format!(
        "{} MB/s with BA; Jain's index {:.3} with BA, {:.3} with cfq",
        listed.join(", "),
        jain(&ba),
        jain(&cfq)
    );
    let says = "with BA four VMs achieve similar bandwidth";
    of_dd("Figure 9", says, ours, Verdict::of(usize::from(most <= 1.25 * least), 1))
}

fn enhances_both(outcomes: &Outcomes<'_>) -> Claim {
    let part = Part::Dd { vms: 4 };
    let rates = both(outcomes, part, Outcome::sum_of_bandwidths).unwrap_or_default();
    let indices = both(outcomes, part, |outcome| jain(&outcome.bandwidths())).unwrap_or_default();
    let right = [rates, indices].iter().filter(|[cfq, ba]| ba > cfq).count();
    let ours = format!(
        "while all read 1 GB: {:.1} and {:.1} MB/s with cfq and BA, Jain's index {:.3} and {:.3}",
        rates[0], rates[1], indices[0], indices[1]
    );
    of_dd("Section 4", "BA can enhance both performance and fairness", ours, Verdict::of(right, 2))
}
