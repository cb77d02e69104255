//! All tasks of a plan, each made when it is asked for: a plan may have millions.

use std::ops::Range;
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
use super::task::{Task, digest_of_files};
use crate::error::UsageError;
use crate::output::counted;
use crate::progress::Progress;

/// A trace alone, or two of them, by their numbers.
type Load = (u32, Option<u32>);

/// The tasks of a plan. They stand by trace, so that neighbours read the same file. Their memory does not depend on their
/// number: a fleet has millions of pairs.
pub struct Expansion {
    plan: Checked,
    /// Whether each trace is replayed alone.
    alone: bool,
    besides: Besides,
    /// The windows of each trace; none if all traces have all of them.
    windows: Option<Vec<Vec<u32>>>,
    /// How many loads, each with each of its windows, the traces before each have; the last is the number of all.
    before: Vec<u64>,
    /// The checksum of the files that describe each drive, with a scheduler and then with each stack.
    digests: Vec<Option<String>>,
    /// What was left out of the pairs, for people.
    pub pruned: Vec<String>,
}

/// The traces that share a drive with each, of higher numbers than its own.
enum Besides {
    /// All of these, in ascending order, with one another.
    All(Vec<u32>),
    /// These pairs, in ascending order.
    Drawn(Vec<(u32, u32)>),
}

impl Besides {
    /// Where those of a trace begin, and how many there are.
    fn range(&self, trace: u32) -> (usize, usize) {
        match self {
            Besides::All(traces) => traces.binary_search(&trace).map_or((0, 0), |at| (at + 1, traces.len() - at - 1)),
            Besides::Drawn(pairs) => {
                let start = pairs.partition_point(|pair| pair.0 < trace);
                (start, pairs.partition_point(|pair| pair.0 <= trace) - start)
            }
        }
    }

    fn at(&self, at: usize) -> u32 {
        match self {
            Besides::All(traces) => traces[at],
            Besides::Drawn(pairs) => pairs[at].1,
        }
    }
}

impl Expansion {
    /// The tasks of `plan`. Reads the traces only if pairs are chosen by their load.
    ///
    /// # Errors
    /// A plan without tasks; a profile or stack that cannot be read.
    pub fn new(plan: Checked) -> Result<Expansion> {
        let traces = u32::try_from(plan.traces.len())?;
        let mut pruned = Vec::new();
        let alone = plan.pairs.as_ref().is_none_or(|pairs| pairs.alone);
        let besides = match &plan.pairs {
            Some(pairs) => drawn(busy(&plan, pairs, &mut pruned), pairs, &mut pruned),
            None => Besides::All(Vec::new()),
        };
        let windows = windows_of_traces(&plan);
        let digests = digests(&plan)?;
        let mut expansion = Expansion { plan, alone, besides, windows, before: vec![0], digests, pruned };
        let mut before = 0;
        for trace in 0..traces {
            before += expansion.windows_of_loads(trace);
            expansion.before.push(before);
        }
        let nothing = "the plan has no task: there are no two traces to pair, or no window is theirs; set `alone = true`, or name \
                       more traces";
        ensure!(expansion.len() > 0, UsageError(nothing.to_owned()));
        Ok(expansion)
    }

    fn schedulings(&self) -> u64 {
        (self.plan.schedulers.len() + self.plan.stacks.len()) as u64
    }

    /// The loads of a trace: alone, then beside each of the others.
    fn loads(&self, trace: u32) -> impl Iterator<Item = Load> + '_ {
        let (start, count) = self.besides.range(trace);
        let pairs = (start..start + count).map(move |at| (trace, Some(self.besides.at(at))));
        self.alone.then_some((trace, None)).into_iter().chain(pairs)
    }

    /// The number of the loads of a trace, each with each of its windows.
    fn windows_of_loads(&self, trace: u32) -> u64 {
        match &self.windows {
            None => (u64::from(self.alone) + self.besides.range(trace).1 as u64) * self.plan.windows.len() as u64,
            Some(of_trace) => self.loads(trace).map(|load| windows_of(of_trace, load).len() as u64).sum(),
        }
    }

    /// They themselves.
    fn loads_and_windows(&self, trace: u32) -> impl Iterator<Item = (Load, u32)> + '_ {
        self.loads(trace).flat_map(|load| {
            let windows = match &self.windows {
                Some(of_trace) => windows_of(of_trace, load),
                None => (0..self.plan.windows.len() as u32).collect(),
            };
            windows.into_iter().map(move |window| (load, window))
        })
    }

    /// The paths of the traces below the plan's folder.
    pub fn traces(&self) -> &[String] {
        &self.plan.traces
    }

    /// The number of tasks.
    pub fn len(&self) -> u64 {
        self.before.last().map_or(0, |loads| loads * self.plan.drives.len() as u64 * self.schedulings())
    }

    /// The tasks of these numbers, in their order. The first is found by its number, each other one from the one before.
    pub fn tasks(&self, numbers: Range<u64>) -> impl Iterator<Item = Task> + '_ {
        let of_load = self.plan.drives.len() as u64 * self.schedulings();
        let first = numbers.start / of_load;
        let trace = self.before.partition_point(|before| *before <= first) - 1;
        let loads = (trace as u32..self.plan.traces.len() as u32).flat_map(|trace| self.loads_and_windows(trace));
        let loads = (first..).zip(loads.skip((first - self.before[trace]) as usize));
        let tasks =
            loads.flat_map(move |(at, load)| (0..of_load).map(move |of| self.task(at * of_load + of, of, load)));
        tasks.skip((numbers.start % of_load) as usize).take((numbers.end - numbers.start) as usize)
    }

    /// The task of a load in a window: the one of number `of` among all drives and schedulings.
    fn task(&self, number: u64, of: u64, ((trace, beside), window): (Load, u32)) -> Task {
        let plan = &self.plan;
        let (drive, scheduling) = ((of / self.schedulings()) as usize, (of % self.schedulings()) as usize);
        let window = &plan.windows[window as usize];
        let name = |trace: u32| plan.traces[trace as usize].clone();
        let scheduler = plan.schedulers.get(scheduling).cloned();
        let stack = scheduling.checked_sub(plan.schedulers.len());
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let ns = |time: traces::Nanos| signed(time.as_ns());
        Task {
            number: signed(number),
            folder: plan.folder.clone(),
            trace: name(trace),
            beside: beside.map(name),
            drive: plan.drives[drive].clone(),
            stack: stack.map(|stack| plan.stacks[stack].clone()),
            files_sha256: self.digests[drive * (1 + plan.stacks.len()) + stack.map_or(0, |stack| 1 + stack)].clone(),
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
}

/// The windows of each trace; none if all traces have all of them.
fn windows_of_traces(plan: &Checked) -> Option<Vec<Vec<u32>>> {
    if plan.windows.iter().all(|window| window.traces.is_none()) {
        return None;
    }
    let mut of_trace: Vec<Vec<u32>> = vec![Vec::new(); plan.traces.len()];
    for (number, window) in (0_u32..).zip(&plan.windows) {
        match &window.traces {
            Some(traces) => traces.iter().for_each(|trace| of_trace[*trace as usize].push(number)),
            None => of_trace.iter_mut().for_each(|of| of.push(number)),
        }
    }
    Some(of_trace)
}

/// The windows of a load: a pair has those of both of its traces.
fn windows_of(of_trace: &[Vec<u32>], load: Load) -> Vec<u32> {
    let both = [Some(load.0), load.1].into_iter().flatten();
    let mut windows: Vec<u32> = both.flat_map(|trace| of_trace[trace as usize].iter().copied()).collect();
    windows.sort_unstable();
    windows.dedup();
    windows
}

/// The checksum of the files that describe each drive, with a scheduler and then with each stack.
fn digests(plan: &Checked) -> Result<Vec<Option<String>>> {
    let folder = std::path::Path::new(&plan.folder);
    let with = |drive| [None].into_iter().chain(plan.stacks.iter().map(Some)).map(move |stack| (drive, stack));
    let of =
        |(drive, stack): (&String, Option<&String>)| Ok(digest_of_files(folder, drive, stack.map(String::as_str))?);
    plan.drives.iter().flat_map(with).map(of).collect()
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
        let are = counted(quiet as u64, "is", "are");
        pruned.push(format!("of {traces} traces {are} not paired: fewer than {iops} requests per second, or none"));
    }
    busy
}

/// The pairs of these traces, or as many as are wanted of them: each in the order with the probability that leaves as
/// many as are still wanted (Knuth, The Art of Computer Programming 2, 3.4.2, algorithm S).
fn drawn(traces: Vec<u32>, pairs: &Pairs, pruned: &mut Vec<String>) -> Besides {
    let count = traces.len() as u64;
    let mut left = count * count.saturating_sub(1) / 2;
    let Some(mut wanted) = pairs.most.filter(|most| *most < left) else { return Besides::All(traces) };
    pruned.push(format!("{wanted} of {left} pairs are drawn, with seed {}", pairs.seed));
    let mut generator = Xoshiro256PlusPlus::seed_from_u64(pairs.seed);
    let mut of = Vec::new();
    for (at, one) in traces.iter().enumerate() {
        for other in &traces[at + 1..] {
            if wanted == 0 {
                return Besides::Drawn(of);
            }
            if wanted == left || unit(generator.next_u64()) * (left as f64) < wanted as f64 {
                of.push((*one, *other));
                wanted -= 1;
            }
            left -= 1;
        }
    }
    Besides::Drawn(of)
}

#[cfg(test)]
mod tests {
    use traces::Nanos;

    use super::super::plan::WindowOf;
    use super::*;

    fn pairs(most: Option<u64>, seed: u64) -> Pairs {
        Pairs { alone: true, busier_than_iops: 0.0, most, seed }
    }

    fn drawn_of(traces: &[u32], most: u64, seed: u64) -> Vec<(u32, u32)> {
        match drawn(traces.to_vec(), &pairs(Some(most), seed), &mut Vec::new()) {
            Besides::Drawn(pairs) => pairs,
            Besides::All(_) => panic!("all pairs"),
        }
    }

    #[test]
    fn as_many_pairs_as_wanted_are_drawn_and_each_as_often() {
        let traces: Vec<u32> = (0..8).collect();
        let all: Vec<(u32, u32)> = (0..8).flat_map(|one| (one + 1..8).map(move |other| (one, other))).collect();
        let mut often = std::collections::BTreeMap::new();
        for seed in 0..2_000 {
            let some = drawn_of(&traces, 7, seed);
            assert_eq!(some.len(), 7);
            assert!(some.is_sorted() && some.iter().all(|pair| all.contains(pair)));
            some.into_iter().for_each(|pair| *often.entry(pair).or_insert(0_u32) += 1);
        }
        // 2000 times a quarter, with a standard deviation of 19.
        assert!(all.iter().all(|pair| (420..580).contains(&often[pair])), "{often:?}");
        assert_eq!(drawn_of(&traces, 7, 3), drawn_of(&traces, 7, 3));
        assert!(drawn_of(&traces, 0, 3).is_empty());
        for most in [None, Some(28), Some(100)] {
            assert!(
                matches!(drawn(traces.clone(), &pairs(most, 1), &mut Vec::new()), Besides::All(of) if of == traces)
            );
        }
    }

    /// The loads in their order, each with each of its windows, as lists.
    fn listed(plan: &Checked, pairs: &[(u32, u32)]) -> Vec<(Load, u32)> {
        let mut loads: Vec<Load> = pairs.iter().map(|(one, other)| (*one, Some(*other))).collect();
        if plan.pairs.as_ref().is_none_or(|pairs| pairs.alone) {
            loads.extend((0..plan.traces.len() as u32).map(|trace| (trace, None)));
        }
        loads.sort_unstable();
        let is_of = |window: &WindowOf, trace: u32| window.traces.as_ref().is_none_or(|of| of.contains(&trace));
        let of_load = |load: Load| {
            let windows = (0..).zip(&plan.windows);
            let fit =
                windows.filter(move |(_, of)| is_of(of, load.0) || load.1.is_some_and(|beside| is_of(of, beside)));
            fit.map(move |(number, _)| (load, number)).collect::<Vec<_>>()
        };
        loads.into_iter().flat_map(of_load).collect()
    }

    #[test]
    fn each_task_has_the_load_and_window_of_its_number() {
        let of_all = |end: u64| WindowOf { end: Some(Nanos::from_ns(end)), ..WindowOf::default() };
        let of = |end: u64, traces: &[u32]| WindowOf { traces: Some(traces.to_vec()), ..of_all(end) };
        let windows =
            [vec![of_all(1)], vec![of_all(1), of_all(2), of_all(3)], vec![of_all(1), of(2, &[1, 4]), of(3, &[0])]];
        let names = |kind: &str, count: usize| (0..count).map(|number| format!("{kind}{number}")).collect::<Vec<_>>();
        for windows in windows.into_iter().chain([vec![of(1, &[2])]]) {
            for (of_pairs, alone) in [(None, true), (Some(None), true), (Some(None), false), (Some(Some(4)), true)] {
                let pairs = of_pairs.map(|most| Pairs { alone, ..pairs(most, 5) });
                let plan = Checked {
                    folder: "/".to_owned(),
                    traces: names("trace", 5),
                    schedulers: names("scheduler", 2),
                    stacks: names("stack", 1),
                    drives: names("drive", 3),
                    pacing: "closed".to_owned(),
                    map: "exact".to_owned(),
                    depth: Some(3),
                    windows: windows.clone(),
                    pairs: pairs.clone(),
                    quantities: None,
                };
                let all: Vec<(u32, u32)> = (0..5).flat_map(|one| (one + 1..5).map(move |other| (one, other))).collect();
                let expected = listed(
                    &plan,
                    &match pairs.and_then(|pairs| pairs.most) {
                        Some(most) => drawn_of(&[0, 1, 2, 3, 4], most, 5),
                        None if plan.pairs.is_some() => all,
                        None => Vec::new(),
                    },
                );
                let ends: Vec<Option<i64>> = windows.iter().map(|of| of.end.map(|end| end.as_ns() as i64)).collect();
                let expansion = Expansion::new(plan).unwrap();
                assert_eq!(expansion.len(), expected.len() as u64 * 9);
                let all: Vec<Task> = expansion.tasks(0..expansion.len()).collect();
                for number in [0, 1, 8, 9, 20, expansion.len() - 1] {
                    let number = number.min(expansion.len());
                    assert!(expansion.tasks(number..expansion.len()).eq(all[number as usize..].iter().cloned()));
                }
                for (task, number) in all.into_iter().zip(0..) {
                    let ((trace, beside), window) = expected[number / 9];
                    let beside = beside.map(|beside| format!("trace{beside}"));
                    assert_eq!(
                        (task.number, task.trace, task.beside),
                        (number as i64, format!("trace{trace}"), beside)
                    );
                    assert_eq!((task.end_ns, task.drive), (ends[window as usize], format!("drive{}", number / 3 % 3)));
                    assert_eq!(task.stack.is_some(), number % 3 == 2);
                }
            }
        }
    }
}
