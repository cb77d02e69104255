//! What Noorshams et al. 2014 say in words about their measurements and their model, beside what ours show.

use traces::results::reproduction::{Claim, Evidence, Verdict};

use super::experiment::{Measurements, errors};
use super::results::{KINDS, Seed, summary};

/// The claims.
pub fn claims(seeds: &[Seed]) -> Vec<Claim> {
    vec![linear(seeds), priorities(seeds), vms_like_threads(seeds), below_ten_per_cent(seeds), means(seeds)]
}

fn claim(place: &str, says: &str, ours: String, verdict: Verdict) -> Claim {
    let evidence = Evidence::Forecast;
    Claim { place: place.to_owned(), says: says.to_owned(), ours, verdict, evidence }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    values.iter().sum::<f64>() / values.len() as f64
}

/// Squared correlation of points.
fn correlation(points: &[(f64, f64)]) -> f64 {
    let means = [mean(points.iter().map(|point| point.0)), mean(points.iter().map(|point| point.1))];
    let sum = |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|(x, y)| of(x - means[0], y - means[1])).sum::<f64>();
    sum(&|x, y| x * y).powi(2) / (sum(&|x, _| x * x) * sum(&|_, y| y * y))
}

/// "Strong" is taken as nine tenths of the variance.
fn linear(seeds: &[Seed]) -> Claim {
    let least = [0, 1].map(|kind| {
        let squared = seeds.iter().map(|seed| correlation(&seed.measured.line(kind)[1..]));
        squared.fold(f64::INFINITY, f64::min)
    });
    let right = least.iter().filter(|squared| **squared >= 0.9).count();
    let ours = format!(
        "the line explains {:.2} % of the variance of reads, {:.2} % of writes",
        100.0 * least[0],
        100.0 * least[1]
    );
    claim("Section V.B", "mean response times grow linearly with 10 to 100 threads", ours, Verdict::of(right, 2))
}

/// Without priorities a request waits for all that came before it, so that reads and writes take equally long.
fn priorities(seeds: &[Seed]) -> Claim {
    let off = |kind: usize| {
        mean(seeds.iter().flat_map(|seed| {
            let service = seed.models.published.service;
            let without = move |threads: [f64; 2]| threads[0] * service[0] + threads[1] * service[1];
            seed.measured.one_vm.iter().map(move |point| without(point.threads) / point.responses[kind] - 1.0)
        })) * 100.0
    };
    let [reads, writes] = [off(0), off(1)];
    let right = usize::from(reads > 0.0) + usize::from(writes < 0.0);
    let ours = format!("the model errs by {reads:+.1} % for reads and by {writes:+.1} % for writes in the mean");
    let says = "without priorities the model overestimates reads and underestimates writes of one VM";
    claim("Section V.C", says, ours, Verdict::of(right, 2))
}

fn apart(measured: &Measurements, kind: usize) -> f64 {
    let pairs = measured.one_vm.iter().zip(&measured.two_vms);
    mean(pairs.map(|(one, two)| (two.responses[kind] / one.responses[kind] - 1.0).abs())) * 100.0
}

/// The measure is the paper's own: an error of less than 10 % on average.
fn vms_like_threads(seeds: &[Seed]) -> Claim {
    let of = [0, 1].map(|kind| mean(seeds.iter().map(|seed| apart(&seed.measured, kind))));
    let right = of.iter().filter(|apart| **apart < 10.0).count();
    let ours = format!("two VMs differ from one by {:.1} % for reads and {:.1} % for writes in the mean", of[0], of[1]);
    let says = "a reading and a writing VM can be aggregated to one VM with both";
    // The testbed has no limit for each VM because of this.
    Claim { evidence: Evidence::ChosenOn, ..claim("Section V.D", says, ours, Verdict::of(right, 2)) }
}

/// Mean errors of the published model for two VMs: a seed's reads and writes.
fn forecast_errors(seed: &Seed) -> [f64; 2] {
    let all = errors(&seed.measured.two_vms, |_| &seed.models.published);
    all.map(|errors| summary("mean", &errors.iter().map(|error| 100.0 * error.abs()).collect::<Vec<_>>()))
}

/// A claim about these errors: they are of a testbed that was kept because two VMs are like one on it.
fn of_two_vms(place: &str, says: &str, ours: String, verdict: Verdict) -> Claim {
    Claim { evidence: Evidence::ChosenOn, ..claim(place, says, ours, verdict) }
}

fn below_ten_per_cent(seeds: &[Seed]) -> Claim {
    let all: Vec<f64> = seeds.iter().map(|seed| mean(forecast_errors(seed).into_iter())).collect();
    let right = all.iter().filter(|error| **error < 10.0).count();
    let ours = format!("{:.1} % over reads and writes", mean(all.iter().copied()));
    of_two_vms("Abstract", "the prediction error is below 10 % on average", ours, Verdict::of(right, all.len()))
}

fn means(seeds: &[Seed]) -> Claim {
    let all: Vec<[f64; 2]> = seeds.iter().map(forecast_errors).collect();
    let right = all.iter().map(|[reads, writes]| usize::from(*reads < 8.0) + usize::from(*writes < 11.0)).sum();
    let listed = [0, 1].map(|kind| format!("{:.1} % for {}", mean(all.iter().map(|of| of[kind])), KINDS[kind]));
    let says = "the mean prediction error is below 8 % for reads and below 11 % for writes";
    of_two_vms("Section I", says, listed.join(", "), Verdict::of(right, 2 * all.len()))
}
