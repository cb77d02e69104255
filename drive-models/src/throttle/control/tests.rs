use super::*;

const K: ThrottleScale = ThrottleScale::from_millionths(2_000_000);

fn control(lower_at: u64) -> Control {
    let (least, largest) = (ThrottleScale::from_millionths(1_000_000), ThrottleScale::from_millionths(4_000_000));
    Control::new(K, Some(Rules { raise: 1500, lower: 750, lower_at, least, largest }))
}

#[test]
fn a_late_completion_raises_k_once_for_all_that_left_with_it() {
    let mut control = control(0);
    let before = control.stamp();
    assert_eq!((control.late(before), control.k().millionths()), (Some(ChangeCause::Late), 3_000_000));
    assert_eq!((control.late(before), control.k().millionths()), (None, 3_000_000));
    // Up to the largest, and then no more.
    let now = control.stamp();
    assert_eq!((control.late(now), control.k().millionths()), (Some(ChangeCause::Late), 4_000_000));
    let now = control.stamp();
    assert_eq!((control.late(now), control.k().millionths()), (None, 4_000_000));
}

#[test]
fn a_long_queue_lowers_k_and_is_counted_afresh() {
    let mut control = control(2);
    let before = control.stamp();
    assert_eq!(control.holds(before), None);
    control.released(before);
    assert_eq!((control.holds(before), control.holds(before)), (None, Some(ChangeCause::LongQueue)));
    assert_eq!(control.k().millionths(), 1_500_000);
    // Those from before neither count nor are missed when they go.
    control.released(before);
    assert_eq!((control.holds(before), control.holds(before)), (None, None));
    let now = control.stamp();
    assert_eq!((control.holds(now), control.holds(now)), (None, Some(ChangeCause::LongQueue)));
    assert_eq!(control.k().millionths(), 1_125_000);
    let now = control.stamp();
    assert_eq!((control.holds(now), control.holds(now)), (None, Some(ChangeCause::LongQueue)));
    let now = control.stamp();
    assert_eq!((control.holds(now), control.holds(now), control.k().millionths()), (None, None, 1_000_000));
}

#[test]
fn late_completion_raises_k_although_its_own_k_was_larger() {
    let mut control = control(1);
    let before = control.stamp();
    assert_eq!(control.holds(before), Some(ChangeCause::LongQueue));
    assert_eq!((control.late(before), control.k().millionths()), (Some(ChangeCause::Late), 2_250_000));
}

#[test]
fn fixed_k_is_not_changed_by_late_or_held_completions() {
    let mut control = Control::new(K, None);
    let now = control.stamp();
    assert_eq!((control.late(now), control.holds(now), control.k()), (None, None, K));
}
