//! Matches two sequences in order. Keys that are unique in both come first (patience), then keys that are unique
//! between those, then the longest common subsequence of the rest.

use super::Key;

/// The most cells of the table for a longest common subsequence. A longer stretch without unique keys stays unmatched.
const CELLS_MAX: usize = 1 << 22;

/// Pairs of indices of equal keys, each index used once, rising in both sequences.
pub fn in_order(left: &[Key], right: &[Key]) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    let mut open = vec![(0, left.len(), 0, right.len())];
    while let Some((mut a, mut a_end, mut b, mut b_end)) = open.pop() {
        while a < a_end && b < b_end && left[a] == right[b] {
            pairs.push((a, b));
            (a, b) = (a + 1, b + 1);
        }
        while a < a_end && b < b_end && left[a_end - 1] == right[b_end - 1] {
            (a_end, b_end) = (a_end - 1, b_end - 1);
            pairs.push((a_end, b_end));
        }
        if a == a_end || b == b_end {
            continue;
        }
        let anchors = rising(&unique(&left[a..a_end], &right[b..b_end]));
        if anchors.is_empty() {
            if (a_end - a).saturating_mul(b_end - b) <= CELLS_MAX {
                let common = longest_common(&left[a..a_end], &right[b..b_end]);
                pairs.extend(common.into_iter().map(|(i, j)| (a + i, b + j)));
            }
            continue;
        }
        let (mut from_a, mut from_b) = (a, b);
        for (i, j) in anchors {
            pairs.push((a + i, b + j));
            open.push((from_a, a + i, from_b, b + j));
            (from_a, from_b) = (a + i + 1, b + j + 1);
        }
        open.push((from_a, a_end, from_b, b_end));
    }
    pairs.sort_unstable();
    pairs
}

/// For each key whether it occurs only once.
pub(super) fn once(keys: &[Key]) -> Vec<bool> {
    let mut is_once = vec![false; keys.len()];
    for group in sorted(keys).chunk_by(|a, b| a.0 == b.0) {
        if let [(_, index)] = group {
            is_once[*index] = true;
        }
    }
    is_once
}

fn sorted(keys: &[Key]) -> Vec<(Key, usize)> {
    let mut sorted: Vec<(Key, usize)> = keys.iter().copied().zip(0..).collect();
    sorted.sort_unstable();
    sorted
}

/// Keys that occur once on each side, by their index on the left.
fn unique(left: &[Key], right: &[Key]) -> Vec<(usize, usize)> {
    let singles = |keys: &[Key]| -> Vec<(Key, usize)> {
        let sorted = sorted(keys);
        sorted.chunk_by(|a, b| a.0 == b.0).filter(|group| group.len() == 1).map(|group| group[0]).collect()
    };
    let (left, right) = (singles(left), singles(right));
    let mut pairs = Vec::new();
    let mut at = 0;
    for (key, index) in left {
        while right.get(at).is_some_and(|(other, _)| *other < key) {
            at += 1;
        }
        if let Some(&(other, place)) = right.get(at)
            && other == key
        {
            pairs.push((index, place));
        }
    }
    pairs.sort_unstable();
    pairs
}

/// The longest part of pairs, which rise on the left, that rises on the right too.
fn rising(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // The last pair of the best chain of each length, and of each pair the one before it.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (index, &(_, right)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|&end| pairs[end].1 < right);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        if length == ends.len() {
            ends.push(index);
        } else {
            ends[length] = index;
        }
    }
    let mut chain = Vec::with_capacity(ends.len());
    let mut next = ends.last().copied();
    while let Some(index) = next {
        chain.push(pairs[index]);
        next = before[index];
    }
    chain.reverse();
    chain
}

fn longest_common(left: &[Key], right: &[Key]) -> Vec<(usize, usize)> {
    let width = right.len() + 1;
    let mut lengths = vec![0u32; (left.len() + 1) * width];
    for i in (0..left.len()).rev() {
        for j in (0..right.len()).rev() {
            lengths[i * width + j] = if left[i] == right[j] {
                lengths[(i + 1) * width + j + 1] + 1
            } else {
                lengths[(i + 1) * width + j].max(lengths[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j, mut pairs) = (0, 0, Vec::new());
    while i < left.len() && j < right.len() {
        if left[i] == right[j] {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if lengths[(i + 1) * width + j] >= lengths[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

/// The most matches that follow one another without a gap on either side.
pub(super) fn longest_run(pairs: &[(usize, usize)]) -> usize {
    pairs.chunk_by(|one, next| (one.0 + 1, one.1 + 1) == *next).map(<[_]>::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request::Operation;

    fn keys(numbers: &[u8]) -> Vec<Key> {
        numbers.iter().map(|&lba| Key { lba: u64::from(lba), sectors: 8, operation: Operation::Read }).collect()
    }

    #[test]
    fn pairs_of_one_request_on_the_right_are_not_chained() {
        assert_eq!(rising(&[(0, 5), (1, 5), (2, 6), (3, 4)]), [(1, 5), (2, 6)]);
    }

    proptest! {
        #[test]
        fn matches_are_a_common_subsequence(
            left in prop::collection::vec(0u8..12, 0..60), right in prop::collection::vec(0u8..12, 0..60),
        ) {
            let (left, right) = (keys(&left), keys(&right));
            let pairs = in_order(&left, &right);
            for two in pairs.windows(2) {
                prop_assert!(two[0].0 < two[1].0 && two[0].1 < two[1].1);
            }
            for &(a, b) in &pairs {
                prop_assert_eq!(left[a], right[b]);
            }
            prop_assert!(pairs.len() <= longest_common(&left, &right).len());
        }

        #[test]
        fn trace_with_requests_left_out_matches_completely(
            all in prop::collection::vec(any::<u16>(), 1..300), missing in prop::collection::vec(any::<bool>(), 300),
        ) {
            let key = |&lba: &u16| Key { lba: u64::from(lba), sectors: 8, operation: Operation::Write };
            let whole: Vec<Key> = all.iter().map(key).collect();
            let part: Vec<Key> = whole.iter().zip(&missing).filter(|(_, gone)| !**gone).map(|(key, _)| *key).collect();
            prop_assert_eq!(in_order(&whole, &part).len(), part.len());
        }
    }

    #[test]
    fn without_unique_keys_the_longest_common_subsequence_is_found() {
        let (left, right) = (keys(&[1, 2, 1, 2, 3, 3]), keys(&[2, 2, 1, 1, 3, 3]));
        assert_eq!(in_order(&left, &right).len(), 4);
        assert_eq!(longest_run(&in_order(&left, &left)), 6);
    }
}
