//! What kind of device the recordings are of, and how it is fitted: each kind that it may be is fitted, and that is taken with which the
//! machines alone, played, come closest to what was recorded.

use std::ops::Range;

use drive_models::array::Contents;
use drive_models::{DriveModel, SingleServer};
use traces::{Nanos, Timestamp};

use super::cached::Cached;
use super::contents::Filling;
use super::front::Front;
use super::play::{self, Table, play};
use super::policy::Policy;
use super::recording::Recording;
use super::{Inferred, Order, members, recorded, service, serving, several};
use crate::predictor::{OperationForecast, PredictError, VmForecast};

/// So long a play of a machine tells of which kind the device is.
const CHOSEN_BY: Nanos = Nanos::from_s(60);
/// What comes closer by less than this (a logarithm) comes as close.
const AS_CLOSE: f64 = 0.02;

/// Steps in which members' times for a sector are tried, so many to a factor of 2, and so many at most; in the end half a step.
const STEPS: f64 = 4.0;
const STEPS_MOST: i32 = 4;
/// What is further away misses no more than so many times what the nearer misses.
const CLEARLY_LESS: f64 = 0.9;

/// What is off by so much more (a sum of logarithms over a machine's figures) is no likeness.
const FAR_OFF: f64 = 0.3;

/// The device as the recordings show it.
pub(super) enum Fit {
    /// It serves one request after another.
    OneByOne(service::Fitted),
    /// It has members by address.
    Members(members::Fitted),
    /// Several at once, or in no order that is known.
    Several(several::Lines),
}

impl Fit {
    /// Between the place of the recording and the device, as far as it is not in its times.
    pub(super) fn delay(&self) -> Nanos {
        match self {
            Fit::OneByOne(fitted) => fitted.delay,
            Fit::Members(_) | Fit::Several(_) => Nanos::ZERO,
        }
    }

    /// How many requests it takes at once.
    pub(super) fn depth(&self) -> u32 {
        match self {
            Fit::OneByOne(_) => 1,
            Fit::Members(fitted) => fitted.depth,
            Fit::Several(lines) => lines.depth,
        }
    }

    /// Whether it serves one request after another; then it has no cache before it.
    pub(super) fn one_by_one(&self) -> bool {
        matches!(self, Fit::OneByOne(_))
    }

    /// What its read cache holds as machines go on from the beginning of their `recordings`, if that is known.
    pub(super) fn filling<'a>(&self, recordings: &'a [Recording]) -> Option<Filling<'a>> {
        match self {
            Fit::Members(fitted) => fitted.filling(recordings),
            Fit::OneByOne(_) | Fit::Several(_) => None,
        }
    }

    /// Serving `machines`, of the recordings it was fitted to, its cache as full of each as at a time of its recording, and with those `contents`.
    pub(super) fn drive(
        &self,
        machines: Range<usize>,
        full_as: &[Timestamp],
        contents: Option<Contents>,
        seed: u64,
    ) -> Box<dyn DriveModel> {
        let full = |fronts: &[Front]| fronts.iter().zip(full_as).map(|(front, at)| front.at(*at)).collect();
        match self {
            Fit::OneByOne(fitted) => Box::new(SingleServer::new(serving::Device::new(fitted.clone(), machines, seed))),
            Fit::Members(fitted) => {
                let array = fitted.array(machines.len(), contents, seed);
                Box::new(Cached::new(array, full(&fitted.fronts[machines]), fitted.has_read_cache(), seed))
            }
            Fit::Several(lines) => {
                let fronts = full(&lines.fronts[machines.clone()]);
                Box::new(Cached::new(several::Device::new(lines, machines, seed), fronts, false, seed))
            }
        }
    }
}

/// The device with what each machine gets of it alone.
pub(super) struct Played {
    pub(super) fitted: Fit,
    pub(super) alone: Vec<VmForecast>,
}

/// The recordings, and how each machine is played alone.
struct Alone<'a> {
    recordings: &'a [Recording],
    /// Of the first recordings, or of all.
    machines: &'a [Inferred],
    /// So many of the first are of those that the forecast is for.
    own: usize,
    order: Order,
    seed: u64,
}

impl Alone<'_> {
    /// What one machine gets, by no more than so long a play.
    fn one(&self, fitted: &Fit, machine: usize, most: Nanos) -> Result<VmForecast, PredictError> {
        let table = Table { fitted, order: self.order, seed: self.seed, machines: machine..machine + 1, most };
        let played = play(self.recordings, self.machines, &table)?;
        Ok(played.first().copied().unwrap_or_else(|| recorded(&self.recordings[machine])))
    }

    /// By how much what `machines` get alone is off what was recorded: the sum of the absolute logarithms of throughput, mean response and its
    /// percentiles. If it is more than `most`, no more than that is known.
    fn missed(&self, fitted: &Fit, machines: &[usize], most: f64) -> Result<f64, PredictError> {
        let mut missed = 0.0;
        for &machine in machines {
            if missed > most {
                break;
            }
            missed += off(&self.one(fitted, machine, CHOSEN_BY)?, &recorded(&self.recordings[machine]));
        }
        Ok(missed)
    }

    /// The device that serves one request after another, with a cache if one shows: machines alone do not tell well what it does to others,
    /// and are met as well without it. So it has one unless they are met far better without.
    fn one_by_one(&self, plain: service::Fitted) -> Result<Fit, PredictError> {
        let cached = service::with_cache(self.recordings, &plain).map(Fit::OneByOne);
        let plain = Fit::OneByOne(plain);
        let everybody: Vec<usize> = (0..self.own).collect();
        let Some(cached) = cached else { return Ok(plain) };
        let far_better = FAR_OFF * everybody.len() as f64;
        let worse = self.missed(&cached, &everybody, f64::INFINITY)?
            > self.missed(&plain, &everybody, f64::INFINITY)? + far_better;
        Ok(if worse { plain } else { cached })
    }

    /// Of `fits` the first that comes as close as any to what was recorded of `machines`.
    fn closest(&self, mut fits: Vec<Fit>, machines: &[usize]) -> Result<Option<Fit>, PredictError> {
        if fits.len() < 2 {
            return Ok(fits.pop());
        }
        let missed: Vec<f64> =
            fits.iter().map(|fitted| self.missed(fitted, machines, f64::INFINITY)).collect::<Result<_, _>>()?;
        Ok(first_as_close(&missed).map(|place| fits.swap_remove(place)))
    }

    /// `fitted` with members that take so many times as long for a sector that `streams` come closest to what was recorded: what is read ahead
    /// is much longer than what was read at random, and the times of that alone may tell little of it.
    fn with_sectors(&self, fitted: &members::Fitted, streams: &[usize]) -> Result<Fit, PredictError> {
        let with = |step: f64| Fit::Members(fitted.with_sectors((step / STEPS).exp2()));
        let mut best = (0.0, self.missed(&with(0.0), streams, f64::INFINITY)?);
        let mut attempt = |step: f64| -> Result<f64, PredictError> {
            let enough = best.1 * CLEARLY_LESS - AS_CLOSE;
            let missed = self.missed(&with(step), streams, enough)?;
            if missed <= enough {
                best = (step, missed);
            }
            Ok(best.0)
        };
        let mut whole = 0.0;
        for step in (1..=STEPS_MOST).flat_map(|step| [step, -step]) {
            whole = attempt(f64::from(step))?;
        }
        attempt(whole + 0.5)?;
        let step = attempt(whole - 0.5)?;
        Ok(with(step))
    }
}

/// The first that misses as little as any.
fn first_as_close(missed: &[f64]) -> Option<usize> {
    let least = missed.iter().copied().fold(f64::INFINITY, f64::min);
    missed.iter().position(|missed| *missed <= least + AS_CLOSE)
}

fn off(played: &VmForecast, recorded: &VmForecast) -> f64 {
    let of = |played: &OperationForecast, recorded: &OperationForecast| {
        let percentiles = played.percentiles_ns.into_iter().zip(recorded.percentiles_ns);
        let pairs =
            [(played.iops, recorded.iops), (played.response_ns, recorded.response_ns)].into_iter().chain(percentiles);
        let off = |(played, recorded): (Option<f64>, Option<f64>)| Some(libm::log(played? / recorded?).abs());
        pairs.filter_map(off).filter(|off| off.is_finite()).sum::<f64>()
    };
    of(&played.reads, &recorded.reads) + of(&played.writes, &recorded.writes)
}

/// The device as one that serves one request after another, if times follow a line.
pub(super) fn one_by_one(recordings: &[Recording]) -> Option<service::Fitted> {
    service::fit(recordings, service::capacity(recordings)?)
}

/// The device, if times follow anything, as `recordings` show it, the first of which are of the `machines`. It may serve several at once
/// only if its order is unknown, or if it is not `one_by_one`; and if its members show, it has them.
pub(super) fn fit(
    recordings: &[Recording],
    machines: &[Inferred],
    own: usize,
    order: Order,
    one_by_one: Option<service::Fitted>,
    seed: u64,
) -> Result<Option<Played>, PredictError> {
    let alone = Alone { recordings, machines, own, order, seed };
    let one_by_one = one_by_one.map(|plain| alone.one_by_one(plain)).transpose()?;
    let fitted = match service::capacity(recordings) {
        Some(capacity) if one_by_one.is_none() || order.policy == Policy::Unknown => {
            let (members, streams) = members::fits(recordings, capacity);
            let members = members.into_iter().map(Fit::Members).collect();
            match alone.closest(members, &streams)? {
                Some(Fit::Members(members)) => Some(alone.with_sectors(&members, &streams)?),
                _ => {
                    let several = several::fit(recordings, capacity).map(Fit::Several);
                    let everybody: Vec<usize> = (0..own).collect();
                    alone.closest(one_by_one.into_iter().chain(several).collect(), &everybody)?
                }
            }
        }
        _ => one_by_one,
    };
    let Some(fitted) = fitted else { return Ok(None) };
    let alone = (0..own).map(|machine| alone.one(&fitted, machine, play::ALL)).collect::<Result<_, _>>()?;
    Ok(Some(Played { fitted, alone }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_has_a_cache_unless_machines_are_met_far_better_without() {
        use crate::replayed::{Campaign, ROOMS};
        use crate::twin::infer;

        let alone = Campaign::default().alone(ROOMS[0], 0).unwrap();
        let has_cache = |members: [usize; 2]| {
            let recordings = members.map(|machine| alone[machine].recording.clone());
            let machines = [infer(&recordings[0]), infer(&recordings[1])];
            let order = Order { policy: Policy::Fcfs, durable_first: true };
            let fitted = fit(&recordings, &machines, 2, order, one_by_one(&recordings), 1).unwrap().unwrap().fitted;
            let Fit::OneByOne(fitted) = fitted else { panic!("it is none") };
            fitted.has_cache()
        };
        assert!(has_cache([0, 1]));
        // The third writes so much that the cache is full, of which nothing is known.
        assert!(!has_cache([2, 4]));
    }

    #[test]
    fn what_streams_wait_for_tells_what_members_take_for_a_sector() {
        use crate::replayed::{Campaign, ROOMS};
        use crate::twin::infer;

        let campaign = Campaign { machines: 4, span: Nanos::from_s(20), ..Campaign::default() };
        let recordings: Vec<Recording> =
            campaign.alone(ROOMS[3], 3).unwrap().into_iter().map(|ran| ran.recording).collect();
        let machines: Vec<Inferred> = recordings.iter().map(infer).collect();
        let order = Order { policy: Policy::Unknown, durable_first: false };
        let alone = Alone { recordings: &recordings, machines: &machines, own: 4, order, seed: 1 };
        let (mut fits, streams) = members::fits(&recordings, service::capacity(&recordings).unwrap());
        assert_eq!(streams, [0, 1, 3]);
        let fitted = fits.swap_remove(0);
        let missed = |fitted: &Fit| alone.missed(fitted, &streams, f64::INFINITY).unwrap();
        for factor in [1.0, 1.4, 3.5] {
            let wrong = fitted.with_sectors(factor);
            let (before, after) = (missed(&Fit::Members(wrong.clone())), alone.with_sectors(&wrong, &streams).unwrap());
            assert!(missed(&after) < 0.5 * before, "{factor}: {before} {}", missed(&after));
        }
    }

    #[test]
    fn of_those_that_come_as_close_the_first_is_taken() {
        assert_eq!(first_as_close(&[0.5, 0.015, 0.3, 0.0]), Some(1));
        assert_eq!(first_as_close(&[0.5, 0.03, 0.3, 0.0]), Some(3));
        assert_eq!(first_as_close(&[]), None);
    }

    #[test]
    fn what_is_off_counts_both_ways_and_nothing_that_is_missing() {
        let of = |iops: f64, ms: f64| OperationForecast::of_means(Some(iops), Some(ms * 1e6));
        let vm = |reads: OperationForecast| VmForecast { reads, ..VmForecast::default() };
        let found = off(&vm(of(200.0, 5.0)), &vm(of(100.0, 10.0)));
        assert!((found - 2.0 * libm::log(2.0)).abs() < 1e-12, "{found}");
        assert_eq!(off(&VmForecast::default(), &vm(of(100.0, 10.0))), 0.0);
        // Two of equal means are told apart by their percentiles.
        let with = |p99: f64| vm(OperationForecast { percentiles_ns: [None, None, Some(p99)], ..of(100.0, 10.0) });
        assert!((off(&with(3e7), &with(1e7)) - libm::log(3.0)).abs() < 1e-12);
    }
}
