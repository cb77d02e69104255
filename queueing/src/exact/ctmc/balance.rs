//! The long-run probabilities of the states of a Markov chain.

use super::CtmcError;

/// Sweeps end when no probability changes by more than this share.
const TOLERANCE: f64 = 1e-13;

/// The most sweeps.
pub(super) const SWEEPS_MAX: usize = 200_000;

/// Changes of probabilities below this do not count.
const PROBABILITY_MIN: f64 = 1e-20;

/// The probabilities of the states in the long run.
pub(super) fn balance(states: usize, transitions: &[(usize, usize, f64)]) -> Result<Vec<f64>, CtmcError> {
    let mut incoming: Vec<Vec<(usize, f64)>> = vec![Vec::new(); states];
    let mut outgoing = vec![0.0; states];
    for &(from, to, rate) in transitions.iter().filter(|(from, to, _)| from != to) {
        incoming[to].push((from, rate));
        outgoing[from] += rate;
    }
    let mut probabilities = vec![1.0 / states as f64; states];
    // A state that is never left keeps everything.
    if let Some(last) = outgoing.iter().position(|rate| *rate == 0.0) {
        probabilities = (0..states).map(|state| f64::from(u8::from(state == last))).collect();
    } else {
        sweep(&incoming, &outgoing, &mut probabilities)?;
    }
    let likeliest = (0..states).max_by(|one, other| probabilities[*one].total_cmp(&probabilities[*other]));
    let mut reaches = vec![false; states];
    let mut stack: Vec<usize> = likeliest.into_iter().collect();
    while let Some(state) = stack.pop() {
        if !std::mem::replace(&mut reaches[state], true) {
            stack.extend(incoming[state].iter().map(|(from, _)| *from).filter(|from| !reaches[*from]));
        }
    }
    // Where every state reaches one that lasts, there is a single set of states that lasts.
    if reaches.contains(&false) { Err(CtmcError::Several) } else { Ok(probabilities) }
}

/// Gauss-Seidel sweeps over the balance equations, until the probabilities settle.
fn sweep(incoming: &[Vec<(usize, f64)>], outgoing: &[f64], probabilities: &mut [f64]) -> Result<(), CtmcError> {
    for _ in 0..SWEEPS_MAX {
        let mut change = 0.0_f64;
        for (state, incoming) in incoming.iter().enumerate() {
            let flow: f64 = incoming.iter().map(|&(from, rate)| probabilities[from] * rate).sum();
            let after = flow / outgoing[state];
            change = change.max((after - probabilities[state]).abs() / after.max(PROBABILITY_MIN));
            probabilities[state] = after;
        }
        let sum: f64 = probabilities.iter().sum();
        probabilities.iter_mut().for_each(|probability| *probability /= sum);
        if change < TOLERANCE {
            return Ok(());
        }
    }
    Err(CtmcError::NotSettled)
}
