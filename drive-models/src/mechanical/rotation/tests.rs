use super::*;

#[test]
fn phase_keeps_to_the_period_over_a_day() {
    let rotation = Rotation::new(3_995_342_000, Angle(0));
    for turns in [1u64, 1000, 21_625_000] {
        let phase = rotation.phase(Timestamp::from_ns(turns * 3_995_342));
        let off = phase.0.wrapping_add(1 << 20);
        assert!(off < 1 << 21, "{turns} turns: {phase:?}");
    }
    let quarter = rotation.phase(Timestamp::from_ns(3_995_342 / 4)).0;
    assert!(quarter.abs_diff(1 << 30) < 4000, "{quarter}");
}

#[test]
fn angle_to_an_earlier_angle_wraps_and_its_time_is_its_share_of_the_period() {
    assert_eq!(Angle(10).until(Angle(5)), TURN - 5);
    let rotation = Rotation::new(4_000_000_000, Angle(0));
    assert_eq!(rotation.time(TURN).as_ns(), 4_000_000);
    assert_eq!(rotation.time(5 * TURN / 4).as_ns(), 5_000_000);
    assert_eq!(rotation.time(TURN / 4_000_000).as_ns(), 1);
}
