//! The search of a placement: best fit, then single moves and swaps, then iterated local search.
//!
//! Iterated local search moves a few VMs at random, improves the assignment from there, and keeps it if it is better.
//! So the search can leave assignments that no single move or swap improves.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::results::isolation::IsolationProfile;

use super::cost::{Cost, cost, forecast, slim, standings, taken};
use super::{PlaceError, Placement, Standing, Task};
use crate::check;

/// Most passes over all moves and swaps; each pass but the last lowers the cost.
const PASSES: usize = 100;
/// Bounds the number of perturbations: their passes together try about this many moves and swaps.
const PERTURBED_TRIES_MAX: usize = 50_000;
/// Most perturbations.
const PERTURBATIONS_MAX: usize = 100;
/// Random moves in a perturbation.
const PERTURBATION_MOVES: usize = 3;

/// Searches an assignment of VMs to LUNs, and returns the best one that it finds.
///
/// # Errors
/// No VM or no LUN; an impossible profile; no assignment found that keeps separations or fits the LUNs.
pub fn place(task: &Task<'_>) -> Result<Placement, PlaceError> {
    let (vms, luns) = (task.limits.len(), task.alone.len());
    if vms == 0 || luns == 0 {
        return Err(PlaceError::Nothing { vms, luns });
    }
    for alone in &task.alone {
        if alone.len() > 1 {
            check::check(alone)?;
        }
    }
    let slim = slimmed(task);
    let mut search = Search::new(&slim);
    search.best_fit()?;
    search.improve();
    search.perturb();
    if let Some(lun) = search.costs.iter().position(|cost| cost.overfull > 0.0) {
        let all: Vec<usize> = (0..vms).collect();
        return Err(PlaceError::Capacity {
            takes: taken(task, &all),
            there: taken(task, &search.members[lun]),
            holds: task.drive_capacity[lun].unwrap_or_default(),
        });
    }
    Ok(search.placement())
}

/// The best assignment that moves and swaps of single VMs reach from `lun_of`, which keeps the separations. For
/// forecasts that are too expensive for [`place`].
pub fn improve(task: &Task<'_>, lun_of: &[usize]) -> Placement {
    let slim = slimmed(task);
    let mut search = Search::new(&slim);
    for lun in 0..task.alone.len() {
        let members: Vec<usize> = (0..lun_of.len()).filter(|&vm| lun_of[vm] == lun).collect();
        let cost = search.cost(lun, members.clone());
        search.set(lun, members, cost);
    }
    search.improve();
    search.placement()
}

/// The task with profiles that hold only what the search needs.
fn slimmed<'a>(task: &Task<'a>) -> Task<'a> {
    Task {
        limits: task.limits.clone(),
        alone: task.alone.iter().map(|alone| alone.iter().map(slim).collect()).collect(),
        drive_capacity: task.drive_capacity.clone(),
        takes: task.takes.clone(),
        separate: task.separate.clone(),
        ..*task
    }
}

struct Search<'a> {
    task: &'a Task<'a>,
    /// By VM: its LUN; `None` until the VM is placed.
    lun_of: Vec<Option<usize>>,
    /// By LUN: its VMs in ascending order.
    members: Vec<Vec<usize>>,
    costs: Vec<Cost>,
    /// By VM: the VMs that must not share its LUN.
    apart: Vec<Vec<usize>>,
    /// The costs of all groups that were forecast so far.
    known: BTreeMap<(usize, Vec<usize>), Cost>,
    random: Xoshiro256PlusPlus,
}

/// Two LUNs as a VM leaves one for the other, with their new costs.
struct Exchange {
    from: usize,
    to: usize,
    left: (Vec<usize>, Cost),
    joined: (Vec<usize>, Cost),
}

impl<'a> Search<'a> {
    fn new(task: &'a Task<'a>) -> Search<'a> {
        let (vms, luns) = (task.limits.len(), task.alone.len());
        let mut apart = vec![Vec::new(); vms];
        for &(one, other) in &task.separate {
            apart[one].push(other);
            apart[other].push(one);
        }
        Search {
            task,
            lun_of: vec![None; vms],
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

    /// Whether separations allow `vm` on `lun` after `leaving` has left it.
    fn may_go(&self, vm: usize, lun: usize, leaving: Option<usize>) -> bool {
        let there = |other: &usize| self.lun_of[*other] == Some(lun) && Some(*other) != leaving;
        !self.apart[vm].iter().any(there)
    }

    /// The members of `lun`, without the VM `without` and with the VM `with`.
    fn changed(&self, lun: usize, without: Option<usize>, with: Option<usize>) -> Vec<usize> {
        let mut members: Vec<usize> =
            self.members[lun].iter().copied().filter(|&vm| Some(vm) != without).chain(with).collect();
        members.sort_unstable();
        members
    }

    fn set(&mut self, lun: usize, members: Vec<usize>, cost: Cost) {
        members.iter().for_each(|&vm| self.lun_of[vm] = Some(lun));
        (self.members[lun], self.costs[lun]) = (members, cost);
    }

    fn best_fit(&mut self) -> Result<(), PlaceError> {
        let busy = |profile: &IsolationProfile| {
            let of = [&profile.reads, &profile.writes]
                .map(|kind| kind.iops * kind.service_ns.or(kind.response_ns).unwrap_or(0.0));
            of[0] + of[1]
        };
        let mut order: Vec<usize> = (0..self.lun_of.len()).collect();
        let load = |vm: &usize| busy(&self.task.alone[0][*vm]);
        // VMs with the most separations go first, because they would find no LUN later.
        order.sort_by(|a, b| {
            (self.apart[*b].len(), load(b))
                .partial_cmp(&(self.apart[*a].len(), load(a)))
                .unwrap_or(std::cmp::Ordering::Equal)
                .then(a.cmp(b))
        });
        for vm in order {
            let mut best: Option<(Cost, usize, Vec<usize>, Cost)> = None;
            for lun in 0..self.members.len() {
                if !self.may_go(vm, lun, None) {
                    continue;
                }
                let members = self.changed(lun, None, Some(vm));
                let cost = self.cost(lun, members.clone());
                let grown = cost.minus(self.costs[lun]);
                if best.as_ref().is_none_or(|(least, ..)| grown.less_than(*least)) {
                    best = Some((grown, lun, members, cost));
                }
            }
            let (_, lun, members, cost) =
                best.ok_or_else(|| PlaceError::Separations(self.task.alone[0][vm].vm.clone()))?;
            self.set(lun, members, cost);
        }
        Ok(())
    }

    /// Moves one VM, or swaps two, while that lowers the cost.
    fn improve(&mut self) {
        let vms = self.lun_of.len();
        let mut order: Vec<usize> = (0..vms).collect();
        for _ in 0..PASSES {
            for last in (1..vms).rev() {
                order.swap(last, self.random.random_range(0..=last));
            }
            let mut improved = false;
            for &vm in &order {
                for lun in 0..self.members.len() {
                    improved |= self.exchange_if_better(vm, lun, None);
                }
                for &other in &order {
                    if let Some(lun) = self.lun_of[other] {
                        improved |= self.exchange_if_better(vm, lun, Some(other));
                    }
                }
            }
            if !improved {
                return;
            }
        }
    }

    /// Moves a few VMs at random and improves from there, several times; keeps each result that is better.
    fn perturb(&mut self) {
        let (vms, luns) = (self.lun_of.len(), self.members.len());
        let perturbations = (PERTURBED_TRIES_MAX / (vms * (vms + luns))).min(PERTURBATIONS_MAX);
        for _ in 0..perturbations {
            let before = (self.total(), self.lun_of.clone(), self.members.clone(), self.costs.clone());
            for _ in 0..PERTURBATION_MOVES {
                let (vm, to) = (self.random.random_range(0..vms), self.random.random_range(0..luns));
                // VMs that must be apart can keep a LUN from each other: then they change places.
                let other = self.members[to].iter().copied().find(|other| self.apart[vm].contains(other));
                if let Some(exchange) = self.exchange(vm, to, other) {
                    self.carry_out(exchange);
                }
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

    /// Moves `vm` to the LUN `to`, and `other` from there to the LUN of `vm`, if that lowers the cost. Returns whether
    /// it did.
    fn exchange_if_better(&mut self, vm: usize, to: usize, other: Option<usize>) -> bool {
        let Some(exchange) = self.exchange(vm, to, other) else { return false };
        let before = self.costs[exchange.from].plus(self.costs[exchange.to]);
        let better = exchange.left.1.plus(exchange.joined.1).less_than(before);
        if better {
            self.carry_out(exchange);
        }
        better
    }

    /// `vm` on the LUN `to`, and `other` from there on the LUN of `vm`. `None` if separations forbid it, or `vm` is
    /// there already.
    fn exchange(&mut self, vm: usize, to: usize, other: Option<usize>) -> Option<Exchange> {
        let from = self.lun_of[vm].filter(|&from| from != to)?;
        if !self.may_go(vm, to, other) || other.is_some_and(|other| !self.may_go(other, from, Some(vm))) {
            return None;
        }
        let (left, joined) = (self.changed(from, Some(vm), other), self.changed(to, other, Some(vm)));
        let (left_cost, joined_cost) = (self.cost(from, left.clone()), self.cost(to, joined.clone()));
        Some(Exchange { from, to, left: (left, left_cost), joined: (joined, joined_cost) })
    }

    fn carry_out(&mut self, exchange: Exchange) {
        self.set(exchange.from, exchange.left.0, exchange.left.1);
        self.set(exchange.to, exchange.joined.0, exchange.joined.1);
    }

    fn placement(&self) -> Placement {
        let lun_of = self.lun_of.iter().map(|lun| lun.unwrap_or_default()).collect();
        Placement { forecasts: self.known.len() as u64, ..judge(self.task, lun_of) }
    }
}

/// The forecast of an assignment (by VM: its LUN) as a placement.
pub fn judge(task: &Task<'_>, lun_of: Vec<usize>) -> Placement {
    let mut all = Cost::default();
    let mut stand: Vec<Standing> = Vec::new();
    let mut forecasts = 0;
    for lun in 0..task.alone.len() {
        let members: Vec<usize> = (0..lun_of.len()).filter(|&vm| lun_of[vm] == lun).collect();
        all = all.plus(cost(task, lun, &members));
        forecasts += 1;
        for (&vm, got) in members.iter().zip(forecast(task, lun, &members)) {
            stand.extend(standings(&task.limits[vm], &task.alone[lun][vm], vm, &got));
        }
    }
    stand.sort_by(|a, b| a.slack.total_cmp(&b.slack).then(a.vm.cmp(&b.vm)));
    Placement { lun_of, exceeded: all.exceeded, lost: all.lost, standings: stand, forecasts }
}
