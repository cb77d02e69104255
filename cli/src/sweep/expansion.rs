//! All tasks of a plan, each made when it is asked for: a plan may have millions.

use std::sync::atomic::Ordering;

use anyhow::{Result, ensure};
use rand::Rng as _;
use rand::SeedableRng as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use rayon::prelude::*;
use replay::sources::{OneDevice, TimeWindow, extent};
use traces::formats;
use traces::random::unit;
use traces::trace::ReadOptions;

use super::plan::{Checked, Pairs};
use super::task::Task;
use crate::error::UsageError;
use crate::progress::Progress;

/// A trace alone, or two of them, by their numbers.
type Load = (u32, Option<u32>);

/// The tasks of a plan. They stand by trace, so that neighbours read the same file.
pub struct Expansion {
    plan: Checked,
    /// Each with the number of a window.
    loads: Vec<(Load, u32)>,
    /// What was left out of the pairs, for people.
    pub pruned: Vec<String>,
}

impl Expansion {
    /// The tasks of `plan`. Reads the traces only if pairs are chosen by their load.
    ///
    /// # Errors
    /// A plan without tasks.
    pub fn new(plan: Checked) -> Result<Expansion> {
        let traces = u32::try_from(plan.traces.len())?;
        let mut pruned = Vec::new();
        let mut loads: Vec<Load> = Vec::new();
        if plan.pairs.as_ref().is_none_or(|pairs| pairs.alone) {
            loads.extend((0..traces).map(|trace| (trace, None)));
        }
        if let Some(pairs) = &plan.pairs {
            let busy = busy(&plan, pairs, &mut pruned);
            loads.extend(drawn(&busy, pairs, &mut pruned));
        }
        loads.sort_unstable();
        let loads = with_windows(&plan, &loads);
        let expansion = Expansion { plan, loads, pruned };
        let nothing = "the plan has no task: there are no two traces to pair, or no window is theirs; set `alone = true`, or name \
                       more traces";
        ensure!(expansion.len() > 0, UsageError(nothing.to_owned()));
        Ok(expansion)
    }

    fn schedulings(&self) -> u64 {
        (self.plan.schedulers.len() + self.plan.stacks.len()) as u64
    }

    /// The paths of the traces below the plan's folder.
    pub fn traces(&self) -> &[String] {
        &self.plan.traces
    }

    /// The number of tasks.
    pub fn len(&self) -> u64 {
        self.loads.len() as u64 * self.plan.drives.len() as u64 * self.schedulings()
    }

    /// A task by its number.
    ///
    /// # Panics
    /// There are not that many.
    pub fn task(&self, number: u64) -> Task {
        let plan = &self.plan;
        let mut rest = number;
        let mut next = |count: u64| {
            let at = rest % count;
            rest /= count;
            at as usize
        };
        let scheduling = next(self.schedulings());
        let drive = next(plan.drives.len() as u64);
        let ((trace, beside), window) = self.loads[rest as usize];
        let window = &plan.windows[window as usize];
        let name = |trace: u32| plan.traces[trace as usize].clone();
        let scheduler = plan.schedulers.get(scheduling).cloned();
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let ns = |time: traces::Nanos| signed(time.as_ns());
        Task {
            number: signed(number),
            folder: plan.folder.clone(),
            trace: name(trace),
            beside: beside.map(name),
            drive: plan.drives[drive].clone(),
            stack: scheduling.checked_sub(plan.schedulers.len()).map(|stack| plan.stacks[stack].clone()),
            // Each layer of a stack has its own.
            depth: scheduler.is_some().then_some(plan.depth).flatten().map(i64::from),
            scheduler,
            pacing: plan.pacing.clone(),
            map: plan.map.clone(),
            start_ns: ns(window.start),
            end_ns: window.end.map(ns),
            limit: window.limit.map(signed),
            quantities: plan.quantities.clone(),
        }
    }

    /// All tasks in their order.
    pub fn tasks(&self) -> impl Iterator<Item = Task> + '_ {
        (0..self.len()).map(|number| self.task(number))
    }
}

/// Each of `loads` with each of its windows. A pair has those of both of its traces.
fn with_windows(plan: &Checked, loads: &[Load]) -> Vec<(Load, u32)> {
    let mut of_trace: Vec<Vec<u32>> = vec![Vec::new(); plan.traces.len()];
    for (number, window) in (0_u32..).zip(&plan.windows) {
        match &window.traces {
            Some(traces) => traces.iter().for_each(|trace| of_trace[*trace as usize].push(number)),
            None => of_trace.iter_mut().for_each(|of| of.push(number)),
        }
    }
    let of_load = |load: &Load| {
        let both = [Some(load.0), load.1].into_iter().flatten();
        let mut windows: Vec<u32> = both.flat_map(|trace| of_trace[trace as usize].iter().copied()).collect();
        windows.sort_unstable();
        windows.dedup();
        let load = *load;
        windows.into_iter().map(move |window| (load, window))
    };
    loads.iter().flat_map(of_load).collect()
}

/// The traces that are paired. One that cannot be read is not; its task alone says why.
fn busy(plan: &Checked, pairs: &Pairs, pruned: &mut Vec<String>) -> Vec<u32> {
    let all = 0..plan.traces.len() as u32;
    if pairs.busier_than_iops <= 0.0 {
        return all.collect();
    }
    let rate = |trace: &u32| {
        let path = std::path::Path::new(&plan.folder).join(&plan.traces[*trace as usize]);
        let options = ReadOptions::default();
        let mut reader = OneDevice::new(&path, formats::open(&path, &options).ok()?);
        let extent = extent(&mut reader, TimeWindow::default()).ok()?;
        let seconds = extent.last_arrival.saturating_since(extent.first_arrival).as_s_f64();
        (seconds > 0.0).then(|| extent.records as f64 / seconds)
    };
    let progress = Progress::jobs("reading", plan.traces.len() as u64);
    let done = progress.counter(0);
    let is_busy = |trace: &u32| {
        let is_busy = rate(trace).is_some_and(|rate| rate >= pairs.busier_than_iops);
        done.fetch_add(1, Ordering::Relaxed);
        is_busy
    };
    let busy: Vec<u32> = all.into_par_iter().filter(is_busy).collect();
    let quiet = plan.traces.len() - busy.len();
    if quiet > 0 {
        let (traces, iops) = (plan.traces.len(), pairs.busier_than_iops);
        pruned
            .push(format!("of {traces} traces {quiet} are not paired: fewer than {iops} requests per second, or none"));
    }
    busy
}

/// The pairs of these traces, or as many as are wanted of them: each in the order with the probability that leaves as
/// many as are still wanted (Knuth, The Art of Computer Programming 2, 3.4.2, algorithm S).
fn drawn(traces: &[u32], pairs: &Pairs, pruned: &mut Vec<String>) -> Vec<Load> {
    let count = traces.len() as u64;
    let mut left = count * count.saturating_sub(1) / 2;
    let mut wanted = pairs.most.unwrap_or(left).min(left);
    if wanted < left {
        pruned.push(format!("{wanted} of {left} pairs are drawn, with seed {}", pairs.seed));
    }
    let mut generator = Xoshiro256PlusPlus::seed_from_u64(pairs.seed);
    let mut loads = Vec::new();
    for (at, one) in traces.iter().enumerate() {
        for other in &traces[at + 1..] {
            if wanted == left || unit(generator.next_u64()) * (left as f64) < wanted as f64 {
                loads.push((*one, Some(*other)));
                wanted -= 1;
            }
            left -= 1;
            if wanted == 0 {
                return loads;
            }
        }
    }
    loads
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(most: Option<u64>, seed: u64) -> Pairs {
        Pairs { alone: true, busier_than_iops: 0.0, most, seed }
    }

    #[test]
    fn as_many_pairs_as_wanted_are_drawn_and_each_as_often() {
        let traces: Vec<u32> = (0..8).collect();
        let all = drawn(&traces, &pairs(None, 1), &mut Vec::new());
        assert_eq!(all.len(), 28);
        let mut often = std::collections::BTreeMap::new();
        for seed in 0..2_000 {
            let some = drawn(&traces, &pairs(Some(7), seed), &mut Vec::new());
            assert_eq!(some.len(), 7);
            assert!(some.is_sorted() && some.iter().all(|pair| all.contains(pair)));
            some.into_iter().for_each(|pair| *often.entry(pair).or_insert(0_u32) += 1);
        }
        // 2000 times a quarter, with a standard deviation of 19.
        assert!(all.iter().all(|pair| (420..580).contains(&often[pair])), "{often:?}");
        let twice = [(); 2].map(|()| drawn(&traces, &pairs(Some(7), 3), &mut Vec::new()));
        assert_eq!(twice[0], twice[1]);
        assert!(drawn(&traces, &pairs(Some(0), 3), &mut Vec::new()).is_empty());
        assert!(drawn(&traces[..1], &pairs(None, 3), &mut Vec::new()).is_empty());
    }
}
