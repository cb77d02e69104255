//! Best fit, then moves and swaps; then, again and again, a few machines are moved at random and the rest is improved from there (iterated
//! local search), which leaves assignments that no single move or swap makes better.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::results::isolation::IsolationProfile;

use super::cost::{Cost, cost, forecast, slim, standings, taken};
use super::{PlaceError, Placement, Standing, Task};
use crate::check;

/// Passes over all moves and swaps at most; each lowers the cost.
const PASSES: usize = 100;
/// So many moves and swaps are tried in passes that follow a random change, which bounds how many changes there are.
const TRIES_SHAKEN: usize = 50_000;
/// The most such changes, and how many machines each moves.
const SHAKES: usize = 100;
const SHAKEN: usize = 3;

/// The best assignment that is found.
///
/// # Errors
/// There is nothing to place; a profile cannot be; separations that cannot be kept.
pub fn place(task: &Task<'_>) -> Result<Placement, PlaceError> {
    let (machines, luns) = (task.limits.len(), task.alone.len());
    if machines == 0 || luns == 0 {
        return Err(PlaceError::Nothing { machines, luns });
    }
    for alone in &task.alone {
        if alone.len() > 1 {
            check::check(alone)?;
        }
    }
    let slim = Task {
        limits: task.limits.clone(),
        alone: task.alone.iter().map(|alone| alone.iter().map(slim).collect()).collect(),
        drive_capacity: task.drive_capacity.clone(),
        takes: task.takes.clone(),
        separate: task.separate.clone(),
        ..*task
    };
    let mut search = Search::new(&slim);
    search.best_fit()?;
    search.improve();
    search.shake();
    if let Some(lun) = search.costs.iter().position(|cost| cost.overfull > 0.0) {
        let everybody: Vec<usize> = (0..machines).collect();
        return Err(PlaceError::Capacity {
            takes: taken(task, &everybody),
            there: taken(task, &search.members[lun]),
            holds: task.drive_capacity[lun].unwrap_or_default(),
        });
    }
    Ok(search.placement())
}

struct Search<'a> {
    task: &'a Task<'a>,
    /// By machine; nothing until it is placed.
    lun_of: Vec<Option<usize>>,
    /// By LUN, ascending.
    members: Vec<Vec<usize>>,
    costs: Vec<Cost>,
    /// By machine: whom it must be apart from.
    apart: Vec<Vec<usize>>,
    known: BTreeMap<(usize, Vec<usize>), Cost>,
    random: Xoshiro256PlusPlus,
}

impl<'a> Search<'a> {
    fn new(task: &'a Task<'a>) -> Search<'a> {
        let (machines, luns) = (task.limits.len(), task.alone.len());
        let mut apart = vec![Vec::new(); machines];
        for &(one, other) in &task.separate {
            apart[one].push(other);
            apart[other].push(one);
        }
        Search {
            task,
            lun_of: vec![None; machines],
            members: vec![Vec::new(); luns],
            costs: vec![Cost::default(); luns],
            apart,
            known: BTreeMap::new(),
            random: Xoshiro256PlusPlus::seed_from_u64(task.seed),
        }
    }

    fn cost(&mut self, lun: usize, members: Vec<usize>) -> Cost {
        let task = self.task;
        *self.known.entry((lun, members)).or_insert_with_key(|(lun, members)| cost(task, *lun, members))
    }

    /// Whether `machine` may go to `lun`, from which `leaving` goes.
    fn may_go(&self, machine: usize, lun: usize, leaving: Option<usize>) -> bool {
        let there = |other: &usize| self.lun_of[*other] == Some(lun) && Some(*other) != leaving;
        !self.apart[machine].iter().any(there)
    }

    /// The members of a LUN without one and with another.
    fn changed(&self, lun: usize, without: Option<usize>, with: Option<usize>) -> Vec<usize> {
        let mut members: Vec<usize> =
            self.members[lun].iter().copied().filter(|&machine| Some(machine) != without).chain(with).collect();
        members.sort_unstable();
        members
    }

    fn set(&mut self, lun: usize, members: Vec<usize>, cost: Cost) {
        members.iter().for_each(|&machine| self.lun_of[machine] = Some(lun));
        (self.members[lun], self.costs[lun]) = (members, cost);
    }

    fn best_fit(&mut self) -> Result<(), PlaceError> {
        let busy = |profile: &IsolationProfile| {
            let of = [&profile.reads, &profile.writes]
                .map(|kind| kind.iops * kind.service_ns.or(kind.response_ns).unwrap_or(0.0));
            of[0] + of[1]
        };
        let mut order: Vec<usize> = (0..self.lun_of.len()).collect();
        let load = |machine: &usize| busy(&self.task.alone[0][*machine]);
        // Whom many must be apart from goes first, or finds no place.
        order.sort_by(|a, b| {
            (self.apart[*b].len(), load(b))
                .partial_cmp(&(self.apart[*a].len(), load(a)))
                .unwrap_or(std::cmp::Ordering::Equal)
                .then(a.cmp(b))
        });
        for machine in order {
            let mut best: Option<(Cost, usize, Vec<usize>, Cost)> = None;
            for lun in 0..self.members.len() {
                if !self.may_go(machine, lun, None) {
                    continue;
                }
                let members = self.changed(lun, None, Some(machine));
                let cost = self.cost(lun, members.clone());
                let grown = cost.minus(self.costs[lun]);
                if best.as_ref().is_none_or(|(least, ..)| grown.less_than(*least)) {
                    best = Some((grown, lun, members, cost));
                }
            }
            let (_, lun, members, cost) =
                best.ok_or_else(|| PlaceError::Separations(self.task.alone[0][machine].vm.clone()))?;
            self.set(lun, members, cost);
        }
        Ok(())
    }

    /// Moves one machine, or swaps two, while that lowers the cost.
    fn improve(&mut self) {
        let machines = self.lun_of.len();
        let mut order: Vec<usize> = (0..machines).collect();
        for _ in 0..PASSES {
            for last in (1..machines).rev() {
                order.swap(last, self.random.random_range(0..=last));
            }
            let mut improved = false;
            for &machine in &order {
                for lun in 0..self.members.len() {
                    improved |= self.exchange(machine, lun, None);
                }
                for &other in &order {
                    if let Some(lun) = self.lun_of[other] {
                        improved |= self.exchange(machine, lun, Some(other));
                    }
                }
            }
            if !improved {
                return;
            }
        }
    }

    /// Moves a few machines at random and improves from there; keeps what is better.
    fn shake(&mut self) {
        let (machines, luns) = (self.lun_of.len(), self.members.len());
        let shakes = (TRIES_SHAKEN / (machines * (machines + luns))).min(SHAKES);
        for _ in 0..shakes {
            let before = (self.total(), self.lun_of.clone(), self.members.clone(), self.costs.clone());
            for _ in 0..SHAKEN {
                let (machine, to) = (self.random.random_range(0..machines), self.random.random_range(0..luns));
                let from = self.lun_of[machine].filter(|&from| from != to && self.may_go(machine, to, None));
                let Some(from) = from else { continue };
                let (left, joined) = (self.changed(from, Some(machine), None), self.changed(to, None, Some(machine)));
                let (left_cost, joined_cost) = (self.cost(from, left.clone()), self.cost(to, joined.clone()));
                self.set(from, left, left_cost);
                self.set(to, joined, joined_cost);
            }
            self.improve();
            if !self.total().less_than(before.0) {
                (_, self.lun_of, self.members, self.costs) = before;
            }
        }
    }

    fn total(&self) -> Cost {
        self.costs.iter().copied().fold(Cost::default(), Cost::plus)
    }

    /// Sends `machine` to the LUN `to`, and `other`, which is there, to where it was; whether that was better, and done.
    fn exchange(&mut self, machine: usize, to: usize, other: Option<usize>) -> bool {
        let Some(from) = self.lun_of[machine].filter(|&from| from != to) else { return false };
        if !self.may_go(machine, to, other) || other.is_some_and(|other| !self.may_go(other, from, Some(machine))) {
            return false;
        }
        let (left, joined) = (self.changed(from, Some(machine), other), self.changed(to, other, Some(machine)));
        let (left_cost, joined_cost) = (self.cost(from, left.clone()), self.cost(to, joined.clone()));
        if !left_cost.plus(joined_cost).less_than(self.costs[from].plus(self.costs[to])) {
            return false;
        }
        self.set(from, left, left_cost);
        self.set(to, joined, joined_cost);
        true
    }

    fn placement(&self) -> Placement {
        let all = self.total();
        let mut stand: Vec<Standing> = Vec::new();
        for (lun, members) in self.members.iter().enumerate() {
            for (&machine, got) in members.iter().zip(forecast(self.task, lun, members)) {
                stand.extend(standings(&self.task.limits[machine], &self.task.alone[lun][machine], machine, &got));
            }
        }
        stand.sort_by(|a, b| a.slack.total_cmp(&b.slack).then(a.machine.cmp(&b.machine)));
        Placement {
            lun_of: self.lun_of.iter().map(|lun| lun.unwrap_or_default()).collect(),
            exceeded: all.exceeded,
            lost: all.lost,
            standings: stand,
            forecasts: self.known.len() as u64,
        }
    }
}
