//! The calibrated storage of the net, and what clients get of it.

use queueing::exact::closed_form::TwoClasses;

use super::mixes::{MeasuredMix, Surface, WeightLine, log_ratio};
use super::net::{Group, Served, solve};
use crate::predict_error::PredictError;

/// Mean service time from the line `slope`·t + `intercept` through the response times of t = 10, 20, … 100 threads. It
/// is that response time at 25 threads, divided by 25: a response is then 25 services (paper, equations (1) and (2)).
pub fn service_of_line(slope: f64, intercept: f64) -> f64 {
    (25.0 * slope + intercept) / 25.0
}

/// Mean service time, seconds, from mean response times (seconds) at thread counts, by the least-squares line through
/// them. As in the paper, a single thread, which waits for nobody, is left out if there are other points. With one
/// thread count the line goes through the origin. `None` without points, if response times do not grow with threads, or
/// if the service time is not positive.
pub fn service_of_responses(all: &[(f64, f64)]) -> Option<f64> {
    let several: Vec<(f64, f64)> = all.iter().copied().filter(|point| point.0 > 1.0).collect();
    let points = if several.is_empty() { all } else { &several };
    let count = points.len() as f64;
    let threads = points.iter().map(|point| point.0).sum::<f64>() / count;
    let response = points.iter().map(|point| point.1).sum::<f64>() / count;
    let along: f64 = points.iter().map(|point| (point.0 - threads) * (point.1 - response)).sum();
    let spread: f64 = points.iter().map(|point| (point.0 - threads) * (point.0 - threads)).sum();
    let slope = if spread > 0.0 { along / spread } else { response / threads };
    let service = service_of_line(slope, response - slope * threads);
    (slope > 0.0 && service > 0.0).then_some(service)
}

/// Events of a simulation of clients that think.
const EVENTS: u64 = 300_000;

/// How often the refined model is solved again with the number of requests that it found at the storage.
const ROUNDS: usize = 3;

/// Events of a simulation in the search for the weights of a VM alone. With a fifth of them the logarithm of the ratio
/// is off by up to 0.2, and forecast response times by a tenth.
const EVENTS_OF_SEARCH: u64 = 150_000;

/// The search for a ratio of weights ends at this factor up and down, as a logarithm, after so many halvings.
const SEARCH: (f64, u32) = (6.0, 9);

/// What the storage does at a mix of reads and writes.
#[derive(Clone, Debug, PartialEq)]
pub enum Mixing {
    /// As published: w_r / w_w is a function of t_r / t_w, and service times do not depend on the mix.
    Published(WeightLine),
    /// Refined: weights and service times are functions of t_r and t_w.
    Refined(Surface),
}

/// The calibrated storage.
#[derive(Clone, Debug, PartialEq)]
pub struct Storage {
    /// Mean service times of reads and of writes alone, seconds.
    pub service: [f64; 2],
    /// The shape of gamma's distribution of each.
    pub shape: [f64; 2],
    /// What it does with both.
    pub mixing: Mixing,
}

/// Gamma's shape k = (μ/σ)² (paper, equation (3)), of a mean and a standard deviation; 1 without a deviation, which
/// makes it exponential. It is kept within 0.01 and 1000.
pub fn shape(service: f64, deviation: Option<f64>) -> f64 {
    match deviation.filter(|deviation| *deviation > 0.0) {
        Some(deviation) => (service / deviation).powi(2).clamp(0.01, 1000.0),
        None => 1.0,
    }
}

impl Storage {
    /// Calibrated as published, from response times only: those of reads and of writes alone gave `service`; the weights
    /// follow the line through the measured mixes.
    pub fn published(service: [f64; 2], shape: [f64; 2], mixes: &[MeasuredMix]) -> Storage {
        let points: Vec<[f64; 2]> = mixes.iter().map(|mix| [log_ratio(mix.threads), mix.log_weight()]).collect();
        Storage { service, shape, mixing: Mixing::Published(WeightLine::through(&points)) }
    }

    /// Calibrated by the same response times, with service times that depend on the mix.
    ///
    /// # Errors
    /// Why there is no surface through the mixes.
    pub fn refined(service: [f64; 2], shape: [f64; 2], mixes: &[MeasuredMix]) -> Result<Storage, String> {
        Ok(Storage { service, shape, mixing: Mixing::Refined(Surface::through(mixes)?) })
    }

    /// w_r / w_w, and the mean service times of reads and writes in seconds, with so many threads of both.
    pub fn at(&self, threads: [f64; 2]) -> (f64, [f64; 2]) {
        match &self.mixing {
            Mixing::Published(line) => (line.weight(log_ratio(threads)), self.service),
            Mixing::Refined(surface) => {
                let (weight, cycle) = surface.at(threads);
                let reads = weight / (1.0 + weight);
                let usual = reads * self.service[0] + (1.0 - reads) * self.service[1];
                (weight, self.service.map(|service| service * cycle / usual))
            }
        }
    }

    /// Weights and service times where one of the kinds may have no threads.
    fn of(&self, threads: [f64; 2]) -> ([f64; 2], [f64; 2]) {
        if threads.contains(&0.0) {
            return ([1.0, 1.0], self.service);
        }
        let (weight, service) = self.at(threads);
        ([weight, 1.0], service)
    }

    /// Mean response times, seconds, of so many threads without think time; `None` of a kind without threads.
    pub fn responses(&self, threads: [f64; 2]) -> [Option<f64>; 2] {
        let (weights, service) = self.of(threads);
        TwoClasses { clients: threads, service, weights }.responses()
    }

    /// What each group of clients gets.
    ///
    /// # Errors
    /// A time or weight that no net has.
    pub fn serve(&self, groups: &[Group]) -> Result<Vec<Served>, PredictError> {
        let threads = total(groups.iter().map(|group| (group.kind, group.clients)));
        if groups.iter().all(|group| group.think == 0.0) {
            let responses = self.responses(threads);
            let of = |group: &Group| {
                let response = responses[group.kind].unwrap_or(f64::NAN);
                Served { rate: group.clients / response, response }
            };
            return Ok(groups.iter().map(of).collect());
        }
        let mut served = self.simulated(groups, threads, EVENTS)?;
        if matches!(self.mixing, Mixing::Refined(_)) {
            // Of clients that think, the storage sees those that wait for it.
            for _ in 0..ROUNDS {
                let waiting =
                    served.iter().zip(groups).map(|(served, group)| (group.kind, served.rate * served.response));
                served = self.simulated(groups, total(waiting), EVENTS)?;
            }
        }
        Ok(served)
    }

    /// The same by simulation, with weights and service times of so many threads.
    fn simulated(&self, groups: &[Group], threads: [f64; 2], events: u64) -> Result<Vec<Served>, PredictError> {
        let (weights, service) = self.of(threads);
        let distributions = [0, 1].map(|kind| (service[kind], self.shape[kind]));
        let served = solve(groups, distributions, weights, events)
            .map_err(|error| PredictError::DoesNotHold(error.to_string()))?;
        if served.iter().all(|served| served.rate > 0.0 && served.response.is_finite()) {
            return Ok(served);
        }
        Err(PredictError::DoesNotHold(
            "some requests are so rare beside the others that a simulation of the net served none of them".to_owned(),
        ))
    }

    /// The logarithm of w_r / w_w that gives a measured mix its response times, by search and simulation as published.
    /// [`MeasuredMix::log_weight`] is the same in closed form.
    ///
    /// # Errors
    /// A time that no net has.
    pub fn searched_log_weight(&self, mix: &MeasuredMix) -> Result<Option<f64>, PredictError> {
        let groups = [0, 1].map(|kind| Group { kind, clients: mix.threads[kind], think: 0.0 });
        Storage::log_weight_of(self.service, self.shape, groups, mix.responses)
    }

    /// The logarithm of w_r / w_w at which two groups, of reads and of writes, have the response times (seconds) that
    /// were measured, by search as in the paper: the ratio of both falls as the weight of reads grows. `None` if no
    /// weights within the bounds of the search have them, as of clients that hardly ever wait.
    ///
    /// # Errors
    /// A time that no net has.
    pub fn log_weight_of(
        service: [f64; 2],
        shape: [f64; 2],
        groups: [Group; 2],
        responses: [f64; 2],
    ) -> Result<Option<f64>, PredictError> {
        let wanted = log_ratio(responses);
        let (bound, halvings) = SEARCH;
        let (mut low, mut high) = (-bound, bound);
        for _ in 0..halvings {
            let middle = (low + high) / 2.0;
            let line = WeightLine::through(&[[0.0, middle]]);
            let storage = Storage { service, shape, mixing: Mixing::Published(line) };
            let served = storage.simulated(&groups, [1.0, 1.0], EVENTS_OF_SEARCH)?;
            if log_ratio([served[0].response, served[1].response]) > wanted {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok((low > -bound && high < bound).then_some((low + high) / 2.0))
    }
}

/// Sums by kind.
fn total(of: impl Iterator<Item = (usize, f64)>) -> [f64; 2] {
    let mut sums = [0.0; 2];
    of.for_each(|(kind, clients)| sums[kind] += clients);
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_times_are_those_of_the_line_at_25_threads() {
        assert_eq!(service_of_line(2.0, 50.0), 4.0);
        let found = service_of_responses(&[(10.0, 0.07), (20.0, 0.09), (30.0, 0.11)]).unwrap();
        assert!((found - 0.004).abs() < 1e-12, "{found}");
        assert!((service_of_responses(&[(10.0, 0.07)]).unwrap() - 0.007).abs() < 1e-12);
        // One thread does not wait: it is on no line of threads that do.
        let with_one = service_of_responses(&[(1.0, 0.5), (10.0, 0.07), (20.0, 0.09), (30.0, 0.11)]).unwrap();
        assert!((with_one - 0.004).abs() < 1e-12 && service_of_responses(&[(1.0, 0.5)]) == Some(0.5), "{with_one}");
        for odd in
            [&[][..], &[(10.0, 0.1), (20.0, 0.01)], &[(10.0, 0.05), (20.0, 0.049)], &[(100.0, 0.001), (200.0, 2.0)]]
        {
            assert_eq!(service_of_responses(odd), None, "{odd:?}");
        }
        assert_eq!((shape(4.0, Some(2.0)), shape(4.0, None), shape(4.0, Some(0.0))), (4.0, 1.0, 1.0));
    }

    #[test]
    fn refined_storage_returns_its_mixes_and_the_published_one_those_that_fit_it() {
        // The third mix takes longer than reads and writes alone do.
        let mix = |threads: [f64; 2], responses: [f64; 2]| MeasuredMix { threads, responses };
        let mixes = [
            mix([10.0, 10.0], [0.075, 0.15]),
            mix([40.0, 10.0], [0.2, 0.1]),
            mix([10.0, 40.0], [0.15, 0.9]),
            mix([40.0, 40.0], [0.3, 0.6]),
        ];
        let refined = Storage::refined([0.005, 0.005], [1.0; 2], &mixes).unwrap();
        for mix in mixes {
            for (found, expected) in refined.responses(mix.threads).into_iter().zip(mix.responses) {
                assert!((found.unwrap() / expected - 1.0).abs() < 1e-9, "{found:?}, {expected}");
            }
        }
        // The first and the last mix have the same thread ratio and the same weights, and cycles of 5 ms.
        let published = Storage::published([0.005, 0.005], [1.0; 2], &[mixes[0], mixes[3]]);
        assert!((published.responses([10.0, 10.0])[0].unwrap() - 0.075).abs() < 1e-12);
        assert!((published.responses([40.0, 40.0])[1].unwrap() - 0.6).abs() < 1e-12);
    }

    #[test]
    fn clients_that_think_see_the_refined_storage_of_those_that_wait() {
        // A request takes 5 ms where one of each waits, and 10 ms in a crowd.
        let mix = |threads: [f64; 2], cycle: f64| MeasuredMix {
            threads,
            responses: threads.map(|threads| 2.0 * threads * cycle),
        };
        let mixes = [mix([1.0, 1.0], 0.005), mix([40.0, 1.0], 0.01), mix([1.0, 40.0], 0.01), mix([40.0, 40.0], 0.01)];
        let refined = Storage::refined([0.008, 0.008], [1.0; 2], &mixes).unwrap();
        let groups = [0, 1].map(|kind| Group { kind, clients: 40.0, think: 1.5 });
        let served = refined.serve(&groups).unwrap();
        let few = refined.simulated(&groups, [1.0, 1.0], EVENTS).unwrap();
        let crowd = refined.simulated(&groups, [40.0, 40.0], EVENTS).unwrap();
        assert!((served[0].response / few[0].response - 1.0).abs() < 0.02, "{served:?} {few:?}");
        assert!(crowd[0].response > 1.5 * served[0].response, "{served:?} {crowd:?}");
    }

    #[test]
    fn search_finds_the_weights_that_a_vm_was_simulated_with() {
        let groups = [Group { kind: 0, clients: 4.0, think: 0.004 }, Group { kind: 1, clients: 6.0, think: 0.01 }];
        let (service, shape) = ([0.001, 0.002], [1.0, 2.0]);
        let line = WeightLine::through(&[[0.0, 0.8]]);
        let made = Storage { service, shape, mixing: Mixing::Published(line) };
        let responses = made.serve(&groups).unwrap().iter().map(|served| served.response).collect::<Vec<f64>>();
        let found = Storage::log_weight_of(service, shape, groups, [responses[0], responses[1]]).unwrap().unwrap();
        // Clients that send a request once in a thousand years are not simulated.
        let rare = Group { kind: 0, clients: 1.0, think: 3e10 };
        assert!(made.serve(&[rare, groups[1]]).unwrap_err().to_string().contains("served none of them"));
        assert!((found - 0.8).abs() < 0.1, "{found}");
        // No weights make a read take a thousandth of a write's time.
        let none = Storage::log_weight_of(service, shape, groups, [responses[1] / 1e3, responses[1]]).unwrap();
        assert_eq!(none, None);
    }

    #[test]
    fn searched_weights_of_a_mix_are_those_of_the_closed_form() {
        let mix = MeasuredMix { threads: [10.0, 30.0], responses: [0.03, 0.06] };
        let storage = Storage::published([0.001, 0.002], [0.4, 2.0], &[mix]);
        let found = storage.searched_log_weight(&mix).unwrap().unwrap();
        assert!((found - mix.log_weight()).abs() < 0.05, "{found}");
    }
}
