use proptest::prelude::*;

use super::*;

#[test]
fn a_mask_has_a_bit_for_each_sector() {
    for from in 0..=128 {
        for to in from..=128 {
            let slow = (from..to).fold(0u128, |bits, bit| bits | 1 << bit);
            assert_eq!(mask(from, to), slow, "{from}..{to}");
        }
    }
}

#[test]
fn tracks_at_equal_distances_lie_apart_and_neighbours_together() {
    const TRACKS: u64 = 4096;
    let tracks: Tracks<u8> = Tracks::new(TRACKS as usize);
    for distance in [1, 7, 15, 16, 17, 48, 1000, 1024, 4096] {
        let mut found = vec![0; tracks.buckets.len()];
        (0..TRACKS).for_each(|nth| found[tracks.bucket(nth * distance)] += 1);
        let most = found.into_iter().max().unwrap();
        assert!(most <= 6, "{distance}: {most}");
    }
    let group: std::collections::BTreeSet<usize> = (320..336).map(|track| tracks.bucket(track)).collect();
    let first = *group.first().unwrap();
    assert!(group.len() == 16 && first.is_multiple_of(16) && *group.last().unwrap() == first + 15, "{group:?}");
}

proptest! {
    /// Against a vector in order of use.
    #[test]
    fn tracks_equal_a_vector_in_order_of_use(steps in prop::collection::vec((0u64..40, 0u8..4), 0..300)) {
        let mut tracks: Tracks<u64> = Tracks::new(8);
        let mut slow: Vec<(u64, bool)> = Vec::new();
        for (track, what) in steps {
            let at = slow.iter().position(|&(known, _)| known == track);
            prop_assert_eq!(tracks.find(track).is_some(), at.is_some());
            match (tracks.find(track), at, what) {
                (None, None, _) => {
                    let slot = tracks.insert(track);
                    tracks[slot] = track * 3;
                    slow.push((track, true));
                }
                (Some(slot), Some(at), 0) => {
                    tracks.remove(slot);
                    slow.remove(at);
                }
                (Some(slot), Some(at), 1) => {
                    tracks.unlist(slot);
                    slow[at].1 = false;
                }
                (Some(slot), Some(at), _) => {
                    prop_assert_eq!(tracks[slot], track * 3);
                    tracks.list(slot);
                    slow.remove(at);
                    slow.push((track, true));
                }
                _ => unreachable!("checked above"),
            }
            prop_assert_eq!(tracks.len(), slow.len());
            let oldest = tracks.oldest().map(|slot| tracks.track(slot));
            prop_assert_eq!(oldest, slow.iter().find(|(_, listed)| *listed).map(|&(track, _)| track));
        }
    }
}
