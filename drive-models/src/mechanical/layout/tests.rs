//! The arithmetic against a walk over every physical sector.

use proptest::prelude::*;

use super::*;

/// One addressable sector as the walk finds it.
#[derive(Clone, Copy, Debug)]
struct Walked {
    cylinder: u32,
    head: u32,
    sector: u32,
    /// Turns since the zone's first sector, and the zone's sectors of a track.
    turned: f64,
    per_track: u32,
    zone: usize,
}

/// Lists the sectors of a zone one by one, in order, as a drive would format them.
fn walk(zone: &Zone, index: usize, count: u64, heads: u32) -> Vec<Walked> {
    let as_turns = |units: u64| units as f64 / TURN as f64;
    let (mut found, mut passed, mut turned, mut physical) = (Vec::new(), 0u32, 0.0, 0u64);
    let mut front = zone.front;
    for band in 0.. {
        let mut order: Vec<u32> = (0..heads).collect();
        let backwards = match zone.head_order {
            HeadOrder::Same => false,
            HeadOrder::Alternating => band % 2 == 1,
            HeadOrder::AlternatingFromLast => band % 2 == 0,
        };
        if backwards {
            order.reverse();
        }
        for (run, head) in order.into_iter().enumerate() {
            let mut across: Vec<u32> = (0..zone.band_cylinders).collect();
            if run % 2 == 1 {
                across.reverse();
            }
            for (nth, offset) in across.into_iter().enumerate() {
                if physical > 0 {
                    turned += as_turns(match (nth, run) {
                        (0, 0) => {
                            let track = physical / u64::from(zone.sectors_per_track);
                            let group = track.is_multiple_of(u64::from(zone.spare.tracks));
                            zone.steps.band + if group { zone.spare.late } else { 0 }
                        }
                        (0, _) => zone.steps.head,
                        _ => zone.steps.cylinder,
                    });
                }
                for sector in 0..zone.sectors_per_track {
                    let group = u64::from(zone.spare.tracks * zone.sectors_per_track);
                    let spare = physical % group >= group - u64::from(zone.spare.sectors);
                    let due =
                        zone.slips.iter().rev().find(|slip| slip.0 as usize <= found.len()).map_or(0, |slip| slip.1);
                    if !spare {
                        if front > 0 {
                            front -= 1;
                        } else if passed < due {
                            passed += 1;
                        } else {
                            let cylinder = zone.first_cylinder + band * zone.band_cylinders + offset;
                            let per_track = zone.sectors_per_track;
                            found.push(Walked { cylinder, head, sector, turned, per_track, zone: index });
                            if found.len() as u64 == count {
                                return found;
                            }
                        }
                    }
                    turned += 1.0 / f64::from(zone.sectors_per_track);
                    physical += 1;
                }
            }
        }
    }
    unreachable!()
}

const HEAD_ORDERS: [HeadOrder; 3] = [HeadOrder::Same, HeadOrder::Alternating, HeadOrder::AlternatingFromLast];

prop_compose! {
    fn any_zone()(
        per_track in 1u32..12, band_cylinders in 1u32..4, head_order in prop::sample::select(&HEAD_ORDERS[..]),
        angle: u32,
        cylinder in 0u64..TURN, head in 0u64..TURN, band in 0u64..2 * TURN,
        tracks in 1u32..5, late in prop::sample::select(vec![0, 1, TURN / 3, TURN - 1]), spares in 0u32..5,
        front in 0u64..30,
        steps in prop::collection::vec((1u32..15, 0u32..4), 0..4),
    ) -> Zone {
        let (mut at, mut passed) = (0, 0);
        let mut slips = Vec::new();
        for (distance, more) in steps {
            (at, passed) = (at + distance, passed + more);
            slips.push((at, passed));
        }
        Zone {
            sectors_per_track: per_track, band_cylinders, head_order, angle: Angle(angle),
            steps: Skews { cylinder, head, band },
            spare: Spare { late, tracks, sectors: spares.min(tracks * per_track - 1) },
            front, slips, ..Zone::default()
        }
    }
}

/// A layout of `zones` with `sectors` in each, and every sector of it walked.
fn laid_out(heads: u32, zones: Vec<(Zone, u64)>) -> (PlatterLayout, Vec<Walked>) {
    let (mut lbn, mut all, mut made) = (0, Vec::new(), Vec::new());
    for (index, (mut zone, sectors)) in zones.into_iter().enumerate() {
        (zone.first_lbn, zone.first_cylinder) = (lbn, index as u32 * 1000);
        if zone.spare.late > 0 {
            zone.spare.tracks *= heads * zone.band_cylinders;
        }
        all.extend(walk(&zone, index, sectors, heads));
        lbn += sectors;
        made.push(zone);
    }
    (PlatterLayout::new(heads, lbn, made), all)
}

/// Angles are rounded to 2⁻³² turns once per term.
const TOLERANCE: f64 = 16.0 / TURN as f64;

fn near(a: f64, b: f64) -> bool {
    let off = (a - b).rem_euclid(1.0);
    off.min(1.0 - off) < TOLERANCE
}

proptest! {
    #[test]
    fn a_request_is_where_the_walk_finds_it(
        heads in 1u32..5,
        zones in prop::collection::vec((any_zone(), 1u64..120), 1..4),
        at: prop::sample::Index, length in 1u64..100,
    ) {
        let (layout, all) = laid_out(heads, zones);
        let start = at.index(all.len());
        let extent = layout.extent(start as u64, length);
        let end = (start + length as usize).min(all.len());
        let (first, last) = (all[start], all[end - 1]);
        for (place, walked) in [(extent.first, first), (extent.last, last)] {
            prop_assert_eq!((place.cylinder, place.head, place.sector), (walked.cylinder, walked.head, walked.sector));
            let angle = f64::from(layout.zones[walked.zone].angle.0) / TURN as f64;
            prop_assert!(near(f64::from(place.angle.0) / TURN as f64, angle + walked.turned), "{place:?} {walked:?}");
        }
        prop_assert_eq!(extent.first, layout.place(start as u64));
        // Sector by sector: the wait for the next one is its distance from the end of the last.
        let mut turned = 0.0;
        let mut until: Option<Walked> = None;
        for sector in &all[start..end] {
            if let Some(before) = until {
                let gap = sector.turned - before.turned - 1.0 / f64::from(before.per_track);
                turned += if sector.zone == before.zone {
                    gap
                } else {
                    let angle = |walked: &Walked| {
                        f64::from(layout.zones[walked.zone].angle.0) / TURN as f64 + walked.turned
                    };
                    let wait = (angle(sector) - angle(&before) - 1.0 / f64::from(before.per_track)).rem_euclid(1.0);
                    if 1.0 - wait < TOLERANCE { 0.0 } else { wait }
                };
            }
            turned += 1.0 / f64::from(sector.per_track);
            until = Some(*sector);
        }
        let ours = extent.turned as f64 / TURN as f64;
        let apart = (ours - turned).abs();
        prop_assert!(apart < TOLERANCE || near(ours, turned) && apart < 1.0 + TOLERANCE);
    }

    #[test]
    fn nothing_panics_beyond_the_capacity(zone in any_zone(), lbn: u64, sectors: u64) {
        let (layout, _) = laid_out(2, vec![(zone, 50)]);
        layout.place(lbn);
        layout.extent(lbn, sectors);
    }
}

#[test]
fn skew_shorter_than_the_head_switch_costs_a_turn() {
    let zone = Zone {
        sectors_per_track: 4,
        band_cylinders: 1,
        steps: Skews { cylinder: 0, head: 100, band: 300 },
        ..Zone::default()
    };
    let (mut layout, _) = laid_out(2, vec![(zone, 16)]);
    let before = layout.extent(0, 16).turned;
    layout.settle(100, 301);
    assert_eq!(layout.extent(0, 16).turned, before + TURN);
    assert_eq!(layout.extent(0, 8).turned, 2 * TURN + 100);
}
