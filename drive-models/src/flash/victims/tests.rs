use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn victim_has_the_fewest_valid_units_of_a_scan(
        gains in prop::collection::vec(0u32..9, 1..20), losses in prop::collection::vec(0usize..20, 0..60),
    ) {
        let mut victims = Victims::new(gains.len() as u32, 8);
        let mut plain = gains.clone();
        for (block, &count) in gains.iter().enumerate() {
            (0..count).for_each(|_| victims.gain(block as u32));
            victims.close(block as u32);
        }
        for block in losses {
            if let Some(count) = plain.get_mut(block).filter(|count| **count > 0) {
                *count -= 1;
                victims.lose(block as u32);
            }
        }
        plain.sort_unstable();
        let mut taken = Vec::new();
        while let Some(block) = victims.take_least() {
            taken.push(victims.valid(block));
        }
        prop_assert_eq!(taken, plain);
    }
}
