//! The intervals of the twin's forecasts.
//!
//! A forecast is less certain the further it is from the trace. Two distances count, each as a logarithm. One is how
//! much a figure changes when the VMs run together, the other how much the simulation of the VM alone misses the trace.
//! The spread is the standard deviation of the figure's logarithm. Its square is the sum of four squares: a constant,
//! both distances, and a term for concurrent devices. A p99 has a further term: few requests determine it, both of the
//! trace and of the truth that it is compared with.
//!
//! The widths were chosen on synthetic setups ([`crate::synthetic`]) of seed 101, whose VMs are others than those that
//! the forecasts are judged on; that of p99 on concurrent devices on the suite's array (train and validation) and the
//! iSCSI lab. `docs/VALIDATION.md` states how many truths lie within the intervals.

use std::collections::BTreeSet;

use crate::predictor::{OperationForecast, Spread};

/// Spread of a figure that does not change and is simulated exactly alone. Chosen on seed 101.
const SPREAD_UNCHANGED: f64 = 0.1;
/// Spread added, in squares, for each unit of the logarithm of the change. Chosen on seed 101.
const SPREAD_PER_LOG_CHANGE: f64 = 0.2;
/// Spread added, in squares, for each unit of the logarithm of the error alone. Chosen on seed 101.
const SPREAD_PER_LOG_ERROR_ALONE: f64 = 1.0;
/// Spread added, in squares, on a device fitted as one that serves several requests at once. Chosen on seed 101.
const SPREAD_CONCURRENT: f64 = 0.35;
/// The same of p99: 91 % of 58 truths lie within the intervals then. Chosen on the array's train and validation and the
/// iSCSI lab.
const SPREAD_CONCURRENT_P99: f64 = 0.6;
/// Standard error of the logarithm of a p99 of one request, for exponentially distributed response times: the square
/// root of 0.99 / 0.01, over ln 100. That of n requests is smaller by the root of n.
const P99_SAMPLING: f64 = 2.16;
/// A forecast of this spread is uncertain: its interval ends at half and at double. Set by judgement; not varied.
const WIDE: f64 = 0.42;

/// Why an interval is wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    /// The figure is several times as large, or as small, as alone.
    Interference,
    /// The simulation of the VM alone misses its capture.
    ErrorAlone,
    /// The device serves several requests at once.
    Concurrent,
    /// Few requests determine a p99.
    FewRequests,
}

impl Cause {
    const ALL: [Cause; 4] = [Cause::Interference, Cause::ErrorAlone, Cause::Concurrent, Cause::FewRequests];

    fn text(self) -> &'static str {
        match self {
            Cause::Interference => "much changes beside the others, which no capture of a VM alone shows",
            Cause::ErrorAlone => "the twin misses the capture of the VM alone",
            Cause::Concurrent => {
                "the device serves several requests at once, in an order that captures of VMs alone do not show"
            }
            Cause::FewRequests => "few requests determine it",
        }
    }

    /// What would narrow intervals of rates and means.
    fn remedy(self) -> &'static str {
        match self {
            Cause::Interference | Cause::Concurrent => "a minute of two VMs together (--learn-from) can narrow them",
            Cause::ErrorAlone => "a longer capture, or a minute beside another VM (--learn-from), can narrow them",
            Cause::FewRequests => "a longer capture narrows them",
        }
    }

    /// What would narrow intervals of p99. What is learned from VMs together says nothing about p99.
    fn remedy_of_p99(self) -> &'static str {
        match self {
            Cause::FewRequests => self.remedy(),
            Cause::Interference | Cause::ErrorAlone | Cause::Concurrent => {
                "only a capture of the VMs together tells more"
            }
        }
    }
}

/// Why intervals of a VM are wide.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wide {
    /// Those of rates and mean response times.
    means: BTreeSet<Cause>,
    p99: BTreeSet<Cause>,
}

/// Why intervals are wide, and of which VMs.
pub(crate) fn notes(vms: &[(&str, &Wide)]) -> Vec<String> {
    let note = |what: &str, is_wide: fn(&Wide, Cause) -> bool, cause: Cause, remedy: &str| {
        let names: Vec<&str> = vms.iter().filter(|(_, wide)| is_wide(wide, cause)).map(|(name, _)| *name).collect();
        (!names.is_empty()).then(|| format!("{}: {what} are wide: {}; {remedy}", names.join(", "), cause.text()))
    };
    let of_cause = |cause: Cause| {
        let means = note("intervals", |wide, cause| wide.means.contains(&cause), cause, cause.remedy());
        // Where means are uncertain, too, that is said.
        let is_wide = |wide: &Wide, cause: Cause| wide.p99.contains(&cause) && !wide.means.contains(&cause);
        means.into_iter().chain(note("intervals of p99", is_wide, cause, cause.remedy_of_p99()))
    };
    Cause::ALL.into_iter().flat_map(of_cause).collect()
}

/// Whether a note of a forecast is one of [`notes`].
pub(crate) fn is_of_wide_intervals(note: &str) -> bool {
    Cause::ALL.iter().any(|cause| note.contains(&format!(" are wide: {};", cause.text())))
}

/// The spread of a forecast, from the figures simulated `together`, `simulated` alone and `measured` alone. Adds to `wide`
/// why any is wide.
pub(crate) fn spread(
    together: &OperationForecast,
    simulated: &OperationForecast,
    measured: &OperationForecast,
    concurrent: bool,
    wide: &mut Wide,
) -> Option<Spread> {
    let of_figure = |figure: fn(&OperationForecast) -> Option<f64>, on_concurrent: f64, sampling: f64| {
        let log = |one: &OperationForecast, other: &OperationForecast| {
            let (one, other) = (figure(one)?, figure(other)?);
            (one > 0.0 && other > 0.0).then(|| libm::log(one / other))
        };
        let (change, error_alone) = (log(together, simulated)?, log(simulated, measured)?);
        let device = if concurrent { on_concurrent } else { 0.0 };
        let terms = [
            (SPREAD_PER_LOG_CHANGE * change.abs(), Cause::Interference),
            (SPREAD_PER_LOG_ERROR_ALONE * error_alone.abs(), Cause::ErrorAlone),
            (device, Cause::Concurrent),
            (sampling, Cause::FewRequests),
        ];
        let squares = terms.iter().map(|(deviation, _)| deviation * deviation);
        let spread = (squares.sum::<f64>() + SPREAD_UNCHANGED * SPREAD_UNCHANGED).sqrt();
        let largest = terms.iter().max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, cause)| *cause);
        Some((spread, largest.filter(|_| spread >= WIDE)))
    };
    let (iops, why_rate) = of_figure(|forecast| forecast.iops, SPREAD_CONCURRENT, 0.0)?;
    let (response, why_response) = of_figure(|forecast| forecast.response_ns, SPREAD_CONCURRENT, 0.0)?;
    let sampling = p99_sampling(together, simulated, measured);
    let p99 = of_figure(|forecast| forecast.percentile("p99"), SPREAD_CONCURRENT_P99, sampling);
    wide.means.extend(why_rate.into_iter().chain(why_response));
    wide.p99.extend(p99.and_then(|(_, why)| why));
    Some(Spread { iops, response, p99: p99.map(|(spread, _)| spread) })
}

/// The standard error of a p99's logarithm, in the trace and in a truth as long as it.
fn p99_sampling(together: &OperationForecast, simulated: &OperationForecast, measured: &OperationForecast) -> f64 {
    let Some(alone) = measured.requests.filter(|requests| *requests > 0).map(|requests| requests as f64) else {
        return 0.0;
    };
    let slower = together.iops.zip(simulated.iops).map_or(1.0, |(together, simulated)| simulated / together);
    P99_SAMPLING * ((1.0 + slower) / alone).sqrt()
}

#[cfg(test)]
mod tests {
    use traces::results::prediction::FORECAST_PERCENTILES;

    use super::*;

    fn spread(
        together: &OperationForecast,
        simulated: &OperationForecast,
        measured: &OperationForecast,
        concurrent: bool,
    ) -> Option<Spread> {
        super::spread(together, simulated, measured, concurrent, &mut Wide::default())
    }

    fn forecast(iops: f64, response_ns: f64) -> OperationForecast {
        OperationForecast { iops: Some(iops), response_ns: Some(response_ns), ..OperationForecast::default() }
    }

    #[test]
    fn spread_grows_with_the_change_the_error_alone_and_concurrent_devices() {
        let of = |together: f64, simulated: f64, measured: f64| {
            spread(&forecast(100.0, together), &forecast(100.0, simulated), &forecast(100.0, measured), false).unwrap()
        };
        let unchanged = Spread { iops: SPREAD_UNCHANGED, response: SPREAD_UNCHANGED, p99: None };
        assert_eq!(of(5.0, 5.0, 5.0), unchanged);
        assert!(of(10.0, 5.0, 5.0).response > 1.5 * SPREAD_UNCHANGED);
        assert_eq!(of(10.0, 5.0, 5.0), of(2.5, 5.0, 5.0));
        assert!(of(5.0, 5.0, 10.0).response > 2.0 * SPREAD_UNCHANGED);
        assert!(spread(&forecast(1.0, 0.0), &forecast(1.0, 1.0), &forecast(1.0, 1.0), false).is_none());
        let p99 = |ns: f64| {
            let percentiles_ns = FORECAST_PERCENTILES.map(|(_, name)| (name == "p99").then_some(ns));
            OperationForecast { percentiles_ns, ..forecast(1.0, 1.0) }
        };
        let changed = spread(&p99(20.0), &p99(5.0), &p99(5.0), false).unwrap();
        assert!(changed.p99.unwrap() > 2.0 * SPREAD_UNCHANGED && changed.response == SPREAD_UNCHANGED);
        let concurrent = spread(&p99(5.0), &p99(5.0), &p99(5.0), true).unwrap();
        assert!(concurrent.iops > 3.0 * SPREAD_UNCHANGED && concurrent.iops == concurrent.response);
        assert!(concurrent.p99.unwrap() > 1.5 * concurrent.response);
    }

    #[test]
    fn p99_of_few_requests_is_uncertain_as_samples_show() {
        use rand::{RngExt, SeedableRng};
        use rand_xoshiro::Xoshiro256PlusPlus;

        let of = |requests: u64, together_iops: f64| {
            let p99 = |iops: f64| OperationForecast {
                percentiles_ns: FORECAST_PERCENTILES.map(|(_, name)| (name == "p99").then_some(1.0)),
                requests: Some(requests),
                ..forecast(iops, 1.0)
            };
            let spread = spread(&p99(together_iops), &p99(1.0), &p99(1.0), false).unwrap().p99.unwrap();
            // Less what is stated for every figure.
            (spread * spread - SPREAD_UNCHANGED * SPREAD_UNCHANGED).sqrt()
        };
        // The p99 of the trace over that of the truth, which has as many requests, or a quarter of them.
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut log_p99 = |count: usize| {
            let mut times: Vec<f64> = (0..count).map(|_| -libm::log(1.0 - random.random::<f64>())).collect();
            times.sort_by(f64::total_cmp);
            libm::log(times[count * 99 / 100])
        };
        for (requests, truth) in [(1000, 1000), (4000, 1000)] {
            let errors: Vec<f64> = (0..2000).map(|_| log_p99(requests) - log_p99(truth)).collect();
            let mean = errors.iter().sum::<f64>() / errors.len() as f64;
            let deviation =
                (errors.iter().map(|error| (error - mean).powi(2)).sum::<f64>() / errors.len() as f64).sqrt();
            let stated = of(requests as u64, truth as f64 / requests as f64);
            assert!((0.9..1.1).contains(&(stated / deviation)), "{requests}, {truth}: {stated} for {deviation}");
        }
    }

    #[test]
    fn notes_name_each_vm_and_cause_once_and_what_would_help() {
        let of = |means: &[Cause], p99: &[Cause]| Wide {
            means: means.iter().copied().collect(),
            p99: p99.iter().copied().collect(),
        };
        let mail = of(&[Cause::Interference], &[Cause::Interference, Cause::FewRequests]);
        let web = of(&[], &[Cause::Interference]);
        let expected = [
            "mail: intervals are wide: much changes beside the others, which no capture of a VM alone shows; a minute of two \
             VMs together (--learn-from) can narrow them",
            "web: intervals of p99 are wide: much changes beside the others, which no capture of a VM alone shows; only a \
             capture of the VMs together tells more",
            "mail: intervals of p99 are wide: few requests determine it; a longer capture narrows them",
        ];
        assert_eq!(notes(&[("mail", &mail), ("web", &web)]), expected);
        assert!(notes(&[("mail", &of(&[], &[]))]).is_empty());
    }

    #[test]
    fn wide_intervals_have_their_largest_term_as_cause() {
        let of = |together: f64, simulated: f64, concurrent: bool, requests: Option<u64>| {
            let with_p99 = |ns: f64| OperationForecast {
                percentiles_ns: FORECAST_PERCENTILES.map(|(_, name)| (name == "p99").then_some(1.0)),
                requests,
                ..forecast(1.0, ns)
            };
            let mut wide = Wide::default();
            super::spread(&with_p99(together), &with_p99(simulated), &with_p99(1.0), concurrent, &mut wide).unwrap();
            let notes = notes(&[("mail", &wide)]);
            assert!(notes.iter().all(|note| is_of_wide_intervals(note)));
            let begins = |note: &String| note.split(": ").nth(1).unwrap().to_owned();
            (
                wide.means.into_iter().collect::<Vec<_>>(),
                wide.p99.into_iter().collect::<Vec<_>>(),
                notes.iter().map(begins).collect::<Vec<_>>(),
            )
        };
        let none: (Vec<Cause>, Vec<Cause>, Vec<String>) = Default::default();
        assert_eq!(of(2.0, 1.0, false, Some(10_000)), none);
        let means = |cause: Cause| (vec![cause], vec![], vec!["intervals are wide".to_owned()]);
        assert_eq!(of(9.0, 1.0, false, Some(10_000)), means(Cause::Interference));
        assert_eq!(of(1.6, 1.6, false, Some(10_000)), means(Cause::ErrorAlone));
        let p99 = |cause: Cause| (vec![], vec![cause], vec!["intervals of p99 are wide".to_owned()]);
        assert_eq!(of(1.0, 1.0, true, Some(10_000)), p99(Cause::Concurrent));
        assert_eq!(of(1.0, 1.0, false, Some(40)), p99(Cause::FewRequests));
        assert_eq!(of(1.0, 1.0, false, None), none);
        let (of_means, of_p99, notes) = of(12.0, 1.0, false, Some(40));
        assert_eq!((of_means, of_p99, notes.len()), (vec![Cause::Interference], vec![Cause::FewRequests], 2));
        assert!(!is_of_wide_intervals("mail: 1 record without a completion is left out"));
    }
}
