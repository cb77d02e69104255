use proptest::prelude::*;

use super::*;

fn curve(points: &[(u32, u64)]) -> Option<SeekCurve> {
    SeekCurve::new(&points.iter().map(|&(d, ns)| (d, Nanos::from_ns(ns))).collect::<Vec<_>>())
}

#[test]
fn curve_meets_its_points_and_is_linear_between_them() {
    let curve = curve(&[(1, 500_000), (3, 700_000), (103, 1_700_000)]).unwrap();
    let times: Vec<u64> = [0, 1, 2, 3, 53, 103, 203].map(|d| curve.time(d).as_ns()).to_vec();
    assert_eq!(times, [0, 500_000, 600_000, 700_000, 1_200_000, 1_700_000, 2_700_000]);
}

#[test]
fn contradictory_points_are_refused() {
    for points in [&[][..], &[(2, 5)], &[(1, 5), (1, 6)], &[(1, 5), (2, 4)], &[(1, u64::MAX)]] {
        assert!(curve(points).is_none(), "{points:?}");
    }
}

proptest! {
    #[test]
    fn the_piece_of_a_distance_is_the_last_that_begins_before_it(
        rises in prop::collection::vec((1u32..100_000, 0u64..1_000_000), 0..30),
        distances in prop::collection::vec(prop_oneof![1u32..2000, 1u32..4_000_000, any::<u32>()], 1..100),
    ) {
        let mut points = vec![(1, 1000)];
        for (cylinders, ns) in rises {
            let (from, time) = points[points.len() - 1];
            points.push((from + cylinders, time + ns));
        }
        let curve = curve(&points).unwrap();
        let ends = points.iter().flat_map(|&(from, _)| [from.max(2) - 1, from, from + 1]);
        for distance in ends.chain(distances).filter(|&distance| distance > 0) {
            let piece = *curve.pieces.iter().rev().find(|piece| piece.from <= distance).unwrap();
            let rise = (u128::from(distance - piece.from) * u128::from(piece.slope)) >> 20;
            prop_assert_eq!(u128::from(curve.time(distance).as_ns()), u128::from(piece.start_ns) + rise);
        }
    }
}
