use super::*;

#[test]
fn falling_stretches_are_levelled_at_their_mean() {
    let points = [(1, 5.0), (2, 9.0), (4, 7.0), (8, 8.0), (9, -3.0)];
    let level = monotone(&points);
    assert_eq!(level, [(1, 5.0), (2, 5.25), (4, 5.25), (8, 5.25), (9, 5.25)]);
    assert_eq!(monotone(&[(1, -2.0), (2, 3.0)]), [(1, 1.0), (2, 3.0)]);
}

#[test]
fn the_ladder_goes_from_one_cylinder_to_the_last() {
    assert_eq!(ladder(10).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 8, 10]);
    assert_eq!(ladder(0).count(), 0);
}
