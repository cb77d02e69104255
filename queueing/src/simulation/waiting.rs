//! Tokens that wait for a server, in the order of the queue's discipline.

use std::collections::VecDeque;

use rand::Rng;
use traces::random::unit;

use crate::net::Discipline;

/// A token in a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) slot: usize,
    /// When it came to the place.
    pub(super) entered: f64,
}

/// The waiting tokens of a queue.
#[derive(Clone, Debug)]
pub(super) enum Waiting {
    /// By rank of priority, first come first served within one. A queue without priorities has one rank.
    Lines(Vec<VecDeque<Token>>),
    /// In no order.
    Any(Vec<Token>),
}

impl Waiting {
    pub(super) fn new(discipline: Discipline, ranks: usize) -> Waiting {
        match discipline {
            Discipline::Random => Waiting::Any(Vec::new()),
            Discipline::Priority => Waiting::Lines(vec![VecDeque::new(); ranks]),
            Discipline::Fcfs | Discipline::Ps | Discipline::Is => Waiting::Lines(vec![VecDeque::new()]),
        }
    }

    #[inline]
    pub(super) fn add(&mut self, token: Token, rank: usize) {
        match self {
            Waiting::Any(tokens) => tokens.push(token),
            Waiting::Lines(lines) => {
                let last = lines.len() - 1;
                lines[rank.min(last)].push_back(token);
            }
        }
    }

    /// Takes the token that a free server serves next.
    #[inline]
    pub(super) fn next(&mut self, random: &mut impl Rng) -> Option<Token> {
        match self {
            Waiting::Any(tokens) if tokens.is_empty() => None,
            Waiting::Any(tokens) => {
                let at = (unit(random.next_u64()) * tokens.len() as f64) as usize;
                Some(tokens.swap_remove(at.min(tokens.len() - 1)))
            }
            Waiting::Lines(lines) => lines.iter_mut().find_map(VecDeque::pop_front),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    #[test]
    fn random_order_serves_each_waiting_token_as_often() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut first = [0_u32; 4];
        for _ in 0..40_000 {
            let mut waiting = Waiting::new(Discipline::Random, 1);
            (0..4).for_each(|slot| waiting.add(Token { slot, entered: 0.0 }, 0));
            waiting.next(&mut random).into_iter().for_each(|token| first[token.slot] += 1);
        }
        // Five standard deviations of 87.
        assert!(first.iter().all(|count| count.abs_diff(10_000) < 435), "{first:?}");
    }
}
