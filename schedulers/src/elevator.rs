//! The one-way elevator with short back seeks that anticipatory and cfq have in common
//! (`as_choose_req`, `cfq_choose_req`).

/// Whether of two sectors the first is served before the second with the head at `head`. The nearer goes first. A
/// distance behind the head counts `penalty` times, and beyond `back_max` sectors only if there is nothing else. At
/// equal cost the higher sector goes first.
pub(crate) fn is_before(head: u64, back_max: u64, penalty: u64, first: u64, second: u64) -> bool {
    let cost = |sector: u64| match sector.checked_sub(head) {
        Some(ahead) => Some(ahead),
        None if head - sector <= back_max => Some((head - sector).saturating_mul(penalty)),
        None => None,
    };
    match (cost(first), cost(second)) {
        (Some(one), Some(other)) if one != other => one < other,
        (Some(_), Some(_)) => first >= second,
        // Both too far behind: from the one further behind there is one back seek only.
        (None, None) => first <= second,
        (reachable, _) => reachable.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearer_goes_first_and_behind_counts_more() {
        for (head, first, second, is_first) in [
            (1000, 1010, 1020, true),
            // Ten behind count twenty.
            (1000, 990, 1019, false),
            (1000, 990, 1021, true),
            (1000, 990, 1020, false),
            (1000, 1020, 990, true),
            // At most 100 behind.
            (1000, 900, 1201, true),
            (1000, 899, 5000, false),
            (1000, 5000, 899, true),
            // From the furthest behind on.
            (1000, 100, 200, true),
            (1000, 200, 100, false),
        ] {
            assert_eq!(is_before(head, 100, 2, first, second), is_first, "{first} or {second} from {head}");
        }
    }

    #[test]
    fn the_ends_of_the_address_space_do_not_overflow() {
        assert!(is_before(u64::MAX, u64::MAX, u64::MAX, u64::MAX, 0));
        assert!(!is_before(0, u64::MAX, 2, u64::MAX, 0));
    }
}
