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
