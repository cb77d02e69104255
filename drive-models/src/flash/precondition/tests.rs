use std::thread;

use rand::RngExt;
use traces::spec::{Settings, Spec};

use super::*;
use crate::flash::MODEL;

fn geometry(settings: &str) -> FlashGeometry {
    let spec: Spec = format!("flash:capacity=64m,page=4k{settings}").parse().unwrap();
    FlashGeometry::new(&Settings::resolve(&spec, MODEL.tunables).unwrap()).unwrap()
}

/// As it was first written: through the crate rand, and one unit after the other.
fn slowly_random(geometry: &FlashGeometry, seed: u64) -> Vec<(u32, u32, u32)> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut units: Vec<u32> = (0..geometry.units as u32).collect();
    for last in (1..units.len()).rev() {
        units.swap(last, random.random_range(0..=last));
    }
    let (mut filled, mut left) = (Vec::new(), units.into_iter());
    for (block, valid) in valid_by_age(geometry).into_iter().enumerate() {
        let mut missing = valid;
        for offset in 0..geometry.block_units() {
            if missing == 0 {
                break;
            }
            let chance = (u64::from(random.next_u32()) * u64::from(geometry.block_units() - offset)) >> 32;
            if chance < u64::from(missing) {
                filled.push((block as u32, offset, left.next().unwrap()));
                missing -= 1;
            }
        }
    }
    filled
}

#[test]
fn random_drive_is_that_of_the_slow_way() {
    for (settings, seed) in
        [(",channels=2,dies=2", 3), (",channels=2,planes=1,over_provisioning=0.4", 4), (",channels=1,dies=3", 5)]
    {
        let geometry = geometry(settings);
        let drive = filled(&geometry, "random", seed);
        let expected = slowly_random(&geometry, seed);
        assert_eq!(expected.len() as u64, geometry.units);
        for (block, offset, unit) in expected {
            let place = block * geometry.block_units() + offset;
            assert_eq!(drive.find(unit), crate::flash::ftl::UnitLocation::Cells(place));
        }
        drive.audit();
    }
}

#[test]
fn drives_that_are_made_at_once_are_each_what_was_asked_for() {
    let (some, others) = (geometry(",channels=1"), geometry(",channels=2,dies=2,planes=1"));
    let units = |drive: &Ftl| (0..1000).map(|unit| drive.find(unit)).collect::<Vec<_>>();
    let wanted = [(some, "random", 1), (some, "random", 2), (others, "random", 1), (some, "sequential", 1)];
    thread::scope(|scope| {
        for nth in 0..16 {
            let (geometry, precondition, seed) = wanted[nth % wanted.len()];
            scope.spawn(move || {
                let expected = units(&filled(&geometry, precondition, seed));
                assert_eq!(units(&preconditioned(&geometry, precondition, seed)), expected);
            });
        }
    });
}
