//! Placements against the best of all assignments, and the limits, separations and capacities that they keep.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use iocast_predictors::place::{Figure, Forecasts, Limits, PlaceError, Placement, Task, forecast, place};
use iocast_predictors::{Predictor, build};
use proptest::prelude::*;
use traces::Sectors;
use traces::results::isolation::{IsolatedOperation, IsolationProfile};

/// A VM that keeps a device of this speed busy for the share `busy` of the time. At speed 1 its reads take 5 ms.
fn vm_profile(name: usize, busy: f64, speed: f64) -> IsolationProfile {
    let reads = IsolatedOperation {
        requests: 1000,
        iops: busy * 200.0 * speed,
        response_ns: Some(5e6 / speed / (1.05 - busy)),
        service_ns: Some(5e6 / speed),
        found_total: Some(busy),
        found_reads: Some(busy),
        response_percentiles_ns: BTreeMap::from([("p99".to_owned(), 40_000_000)]),
        ..IsolatedOperation::default()
    };
    IsolationProfile { vm: format!("vm{name}"), busy_share: Some(busy), reads, ..IsolationProfile::default() }
}

fn sum() -> Box<dyn Predictor> {
    build(&"sum".parse().unwrap()).unwrap().predictor().unwrap()
}

fn task<'a>(busy: &[f64], luns: usize, predictor: &'a dyn Predictor) -> Task<'a> {
    task_on(busy, &vec![1.0; luns], predictor)
}

/// A LUN of each speed.
fn task_on<'a>(busy: &[f64], speeds: &[f64], predictor: &'a dyn Predictor) -> Task<'a> {
    let luns = speeds.len();
    let on = |speed: &f64| busy.iter().enumerate().map(|(name, busy)| vm_profile(name, *busy, *speed)).collect();
    Task {
        limits: vec![Limits::default(); busy.len()],
        alone: speeds.iter().map(on).collect(),
        drive_capacity: vec![None; luns],
        takes: vec![Sectors::ZERO; busy.len()],
        separate: Vec::new(),
        forecasts: Forecasts::Profiles(predictor),
        seed: 1,
    }
}

/// The cost of an assignment by its definition: by how much limits are exceeded, the sum of slowdowns beyond 1, and the
/// sum of lost shares of throughput, both against the best LUN of the VM. VMs on an overloaded device lose throughput in the same proportion.
fn cost(task: &Task<'_>, lun_of: &[usize]) -> (f64, f64, f64) {
    let (mut exceeded, mut slowdown, mut lost) = (0.0, 0.0, 0.0);
    for lun in 0..task.alone.len() {
        let there: Vec<usize> = (0..lun_of.len()).filter(|&vm| lun_of[vm] == lun).collect();
        let busy: f64 = there.iter().map(|&vm| task.alone[lun][vm].busy_share.unwrap()).sum();
        let kept = if there.len() > 1 && busy > 1.0 { 1.0 / busy } else { 1.0 };
        for vm in there {
            let iops = |lun: usize| task.alone[lun][vm].reads.iops;
            let left = iops(lun) * kept / (0..task.alone.len()).map(iops).fold(0.0, f64::max);
            lost += 1.0 - left;
            slowdown += 1.0 / left - 1.0;
            if let Some(limit) = task.limits[vm].read_iops {
                exceeded += (1.0 - iops(lun) * kept / limit).max(0.0);
            }
        }
    }
    (exceeded, slowdown, lost)
}

fn every_assignment(vms: usize, luns: usize) -> impl Iterator<Item = Vec<usize>> {
    let count = luns.pow(vms as u32);
    (0..count).map(move |number| (0..vms as u32).map(|vm| number / luns.pow(vm) % luns).collect())
}

fn fits(task: &Task<'_>, lun_of: &[usize]) -> bool {
    let taken = |lun: usize| -> u64 {
        let there = (0..lun_of.len()).filter(|&vm| lun_of[vm] == lun);
        there.map(|vm| task.takes[vm].count()).sum()
    };
    (0..task.drive_capacity.len())
        .all(|lun| task.drive_capacity[lun].is_none_or(|drive_capacity| taken(lun) <= drive_capacity.count()))
}

fn keeps_apart(task: &Task<'_>, lun_of: &[usize]) -> bool {
    task.separate.iter().all(|&(one, other)| lun_of[one] != lun_of[other])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    /// The placement costs at most a twentieth of a VM more than the best of all, and its stated cost is right.
    #[test]
    fn placement_is_near_the_best_of_all_assignments(
        busy in prop::collection::vec(0.05..0.95f64, 2..7),
        speeds in prop::collection::vec(prop_oneof![Just(1.0), 0.5..2.0f64], 1..4),
        limited in 0usize..3,
        apart in any::<bool>(),
        takes in prop::collection::vec(1u64..20, 7),
        drive_capacity in prop::collection::vec(prop::option::weighted(0.5, 20u64..80), 4),
    ) {
        let predictor = sum();
        let luns = speeds.len();
        let mut task = task_on(&busy, &speeds, &*predictor);
        for (limits, busy) in task.limits.iter_mut().zip(&busy).take(limited) {
            limits.read_iops = Some(busy * 200.0 * 0.9);
        }
        if apart && luns > 1 {
            task.separate.push((0, 1));
        }
        task.takes = takes.into_iter().take(busy.len()).map(Sectors::new).collect();
        let drive_capacity = drive_capacity.into_iter().take(luns);
        task.drive_capacity = drive_capacity.map(|drive_capacity| drive_capacity.map(Sectors::new)).collect();
        let possible = |lun_of: &Vec<usize>| keeps_apart(&task, lun_of) && fits(&task, lun_of);
        let all = || every_assignment(busy.len(), luns).filter(possible);
        let Ok(placed) = place(&task) else {
            prop_assert!(all().next().is_none(), "no placement was found, but {:?} fits", all().next());
            return Ok(());
        };
        prop_assert!(keeps_apart(&task, &placed.lun_of) && fits(&task, &placed.lun_of));
        let (exceeded, slowdown, lost) = cost(&task, &placed.lun_of);
        prop_assert!((exceeded - placed.exceeded).abs() < 1e-6 && (lost - placed.lost).abs() < 1e-6);
        let best = all().map(|lun_of| cost(&task, &lun_of)).min_by(|a, b| a.partial_cmp(b).unwrap()).unwrap();
        prop_assert!(exceeded <= best.0 + 0.05, "{exceeded} {best:?}");
        prop_assert!(exceeded > best.0 + 1e-9 || slowdown <= 1.02 * best.1 + 0.05, "{slowdown} {best:?}");
    }
}

#[test]
fn vm_goes_to_the_faster_of_two_free_luns() {
    let predictor = sum();
    for (speeds, faster) in [([0.5, 1.0], 1), ([1.0, 0.5], 0)] {
        let found = placed(&task_on(&[0.4], &speeds, &*predictor));
        assert_eq!((found.lun_of, found.lost), (vec![faster], 0.0));
        // Apart from it, the other one loses half.
        let mut both = task_on(&[0.4, 0.4], &speeds, &*predictor);
        both.separate.push((0, 1));
        assert_eq!(placed(&both).lost, 0.5);
    }
}

fn placed(task: &Task<'_>) -> Placement {
    place(task).unwrap()
}

#[test]
fn limits_come_before_throughput_and_the_tightest_is_listed_first() {
    let predictor = sum();
    let mut task = task(&[0.9, 0.5, 0.5], 2, &*predictor);
    // The two small VMs lose nothing together.
    let free = placed(&task);
    assert!(free.lun_of[1] == free.lun_of[2] && free.lun_of[0] != free.lun_of[1], "{:?}", free.lun_of);
    assert!(free.standings.is_empty() && free.exceeded == 0.0);
    // Now the small VMs may not share a LUN.
    task.separate.push((1, 2));
    task.limits[1].read_iops = Some(100.0);
    task.limits[2].read_iops = Some(50.0);
    let kept = placed(&task);
    assert!(kept.lun_of[1] != kept.lun_of[0] && kept.lun_of[2] == kept.lun_of[0], "{:?}", kept.lun_of);
    assert_eq!((kept.standings[0].vm, kept.exceeded), (1, 0.0));
    // Beside the large VM a small one gets 71 reads/s, so a limit of 90 is exceeded.
    task.limits[2].read_iops = Some(90.0);
    let exceeded = placed(&task);
    let first = exceeded.standings[0];
    assert_eq!((first.vm, first.figure), (2, Figure::ReadIops));
    assert!(first.slack < 0.0 && exceeded.standings[1].slack >= 0.0, "{:?}", exceeded.standings);
    assert!((exceeded.exceeded + first.slack).abs() < 1e-9);
}

#[test]
fn drive_capacity_comes_before_limits() {
    let predictor = sum();
    let mut task = task(&[0.9, 0.9], 2, &*predictor);
    task.limits.iter_mut().for_each(|limits| limits.read_iops = Some(170.0));
    assert_eq!(placed(&task).exceeded, 0.0);
    // Neither VM fits the second LUN. Together on the first they get 100 reads/s each.
    (task.drive_capacity[1], task.takes) = (Some(Sectors::new(50)), vec![Sectors::new(60); 2]);
    let placed = placed(&task);
    assert_eq!(placed.lun_of, [0, 0]);
    assert!((placed.exceeded - 2.0 * (1.0 - 100.0 / 170.0)).abs() < 1e-9, "{}", placed.exceeded);
}

#[test]
fn overload_is_shared_evenly_among_luns() {
    let predictor = sum();
    let even = task(&[0.6; 8], 2, &*predictor);
    let found = placed(&even);
    assert_eq!(found.lun_of.iter().sum::<usize>(), 4, "{:?}", found.lun_of);
    // Four VMs ask for 2.4 times the capacity of a LUN. Divided unevenly they would lose the same sum.
    assert!((found.lost - 8.0 * (1.0 - 1.0 / 2.4)).abs() < 1e-9, "{}", found.lost);
    // Also if some VMs ask for more: those are not all placed on one LUN for the sake of the others.
    let busy = [0.97, 0.98, 0.35, 0.97, 0.97, 0.98, 0.35, 0.97];
    let found = placed(&task(&busy, 2, &*predictor));
    let asked =
        |lun: usize| busy.iter().zip(&found.lun_of).filter(|(_, of)| **of == lun).map(|(busy, _)| busy).sum::<f64>();
    assert!((asked(0) - asked(1)).abs() < 0.1, "{:?}", found.lun_of);
}

#[test]
fn impossible_tasks_are_refused_with_the_reason() {
    let predictor = sum();
    let empty = Task { alone: Vec::new(), ..task(&[0.5], 1, &*predictor) };
    assert_eq!(place(&empty), Err(PlaceError::Nothing { vms: 1, luns: 0 }));
    let mut apart = task(&[0.5, 0.4, 0.3], 2, &*predictor);
    apart.separate = vec![(0, 1), (0, 2), (1, 2)];
    let said = place(&apart).unwrap_err().to_string();
    assert!(said.contains("too few LUNs for the separations"), "{said}");
    let mut large = task(&[0.5, 0.4, 0.3], 2, &*predictor);
    large.drive_capacity = vec![Some(Sectors::new(100)); 2];
    large.takes = vec![Sectors::new(60); 3];
    let said = place(&large).unwrap_err().to_string();
    assert!(
        said.contains("need 180 sectors")
            && said.contains("the best one puts 120 sectors on a LUN of 100; there are too few"),
        "{said}"
    );
    large.drive_capacity[1] = None;
    assert_eq!(placed(&large).lun_of.iter().filter(|lun| **lun == 0).count(), 1);
    let mut wrong = task(&[0.5, 0.4], 1, &*predictor);
    wrong.alone[0][1].reads.iops = f64::NAN;
    assert!(place(&wrong).unwrap_err().to_string().contains("NaN"));
}

#[test]
fn placement_of_a_hundred_vms_is_near_even_and_repeatable() {
    let predictor = sum();
    let busy: Vec<f64> = (0..100).map(|nth| 0.02 + 0.17 * f64::from(nth * 37 % 100) / 100.0).collect();
    let task = task(&busy, 10, &*predictor);
    let one = placed(&task);
    assert_eq!(one, placed(&task));
    // The VMs ask for 1.04 times the capacity of a LUN. Spread evenly they lose nearly nothing.
    assert!(one.lost < 6.0, "{}", one.lost);
    for lun in 0..10 {
        let members: Vec<usize> = (0..100).filter(|&vm| one.lun_of[vm] == lun).collect();
        assert_eq!(forecast(&task, lun, &members).len(), members.len());
    }
}
