//! The long-run probabilities of the states of a Markov chain.

use super::CtmcError;

/// Sweeps end when no probability changes by more than this share.
const TOLERANCE: f64 = 1e-13;

/// They go on while later changes would add up to more than this share.
const REST_MAX: f64 = 1e-9;

/// The most states that are eliminated. It takes time in the cube of their number.
const ELIMINATED_MAX: usize = 600;

/// The most work of all sweeps: rates between states that are looked at. It takes about ten seconds.
const WORK_MAX: usize = 4_000_000_000;

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
    if let Some(eliminated) = eliminate(&incoming) {
        probabilities = eliminated;
    } else if let Some(last) = outgoing.iter().position(|rate| *rate == 0.0) {
        probabilities = (0..states).map(|state| f64::from(u8::from(state == last))).collect();
    } else {
        sweep(&incoming, &outgoing, &mut probabilities, WORK_MAX / transitions.len())?;
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

/// Few states are eliminated one by one without a subtraction (Grassmann, Taksar and Heyman 1985), so that each
/// probability has all its digits however far the rates lie apart. `None` of many states, and where a state is not left
/// for one before it.
fn eliminate(incoming: &[Vec<(usize, f64)>]) -> Option<Vec<f64>> {
    let states = incoming.len();
    if states > ELIMINATED_MAX {
        return None;
    }
    let mut rates = vec![vec![0.0; states]; states];
    for (to, incoming) in incoming.iter().enumerate() {
        incoming.iter().for_each(|&(from, rate)| rates[from][to] += rate);
    }
    for last in (1..states).rev() {
        let (rest, row) = rates.split_at_mut(last);
        let row = &row[0];
        let leaves: f64 = row[..last].iter().sum();
        if leaves == 0.0 {
            return None;
        }
        for from in rest {
            from[last] /= leaves;
            let share = from[last];
            if share > 0.0 {
                from[..last].iter_mut().zip(row).for_each(|(rate, onward)| *rate += share * onward);
            }
        }
    }
    let mut probabilities = vec![1.0; states];
    for state in 1..states {
        probabilities[state] = (0..state).map(|from| probabilities[from] * rates[from][state]).sum();
    }
    let sum: f64 = probabilities.iter().sum();
    probabilities.iter_mut().for_each(|probability| *probability /= sum);
    Some(probabilities)
}

/// At most so many Gauss-Seidel sweeps over the balance equations, until the probabilities settle.
fn sweep(
    incoming: &[Vec<(usize, f64)>],
    outgoing: &[f64],
    probabilities: &mut [f64],
    sweeps_max: usize,
) -> Result<(), CtmcError> {
    let mut before = f64::INFINITY;
    for _ in 0..sweeps_max {
        let mut change = 0.0_f64;
        for (state, incoming) in incoming.iter().enumerate() {
            let flow: f64 = incoming.iter().map(|&(from, rate)| probabilities[from] * rate).sum();
            let after = flow / outgoing[state];
            change = change.max((after - probabilities[state]).abs() / after.max(PROBABILITY_MIN));
            probabilities[state] = after;
        }
        let sum: f64 = probabilities.iter().sum();
        probabilities.iter_mut().for_each(|probability| *probability /= sum);
        // If changes go on to shrink by the same factor, this is what they add up to.
        let rest = change / (1.0 - change / before).max(f64::MIN_POSITIVE);
        if change < TOLERANCE && rest < REST_MAX {
            return Ok(());
        }
        before = change;
    }
    Err(CtmcError::NotSettled)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two rings of so many states, with a rate between them: each ring is left for the other at its first state.
    fn rings(of: usize, [there, back]: [f64; 2]) -> (Vec<Vec<(usize, f64)>>, Vec<f64>) {
        let (mut incoming, mut outgoing) = (vec![Vec::new(); 2 * of], vec![0.0; 2 * of]);
        let mut add = |from: usize, to: usize, rate: f64| {
            incoming[to].push((from, rate));
            outgoing[from] += rate;
        };
        for state in 0..of {
            // Rates differ, so that the states do, too.
            add(state, (state + 1) % of, 1.0 + state as f64);
            add(of + state, of + (state + 1) % of, 1.0 + state as f64);
            add(state, (state + of - 1) % of, 0.5);
        }
        add(0, of, there);
        add(of, 0, back);
        (incoming, outgoing)
    }

    #[test]
    fn sweeps_agree_with_elimination() {
        let (incoming, outgoing) = rings(20, [0.1, 0.3]);
        let mut swept = vec![1.0 / 40.0; 40];
        assert_eq!(sweep(&incoming, &outgoing, &mut swept, 100_000), Ok(()));
        let eliminated = eliminate(&incoming).unwrap_or_default();
        assert_eq!(eliminated.len(), 40);
        for (swept, eliminated) in swept.iter().zip(eliminated) {
            assert!((swept / eliminated - 1.0).abs() < 1e-9, "{swept} {eliminated}");
        }
    }

    #[test]
    fn probabilities_that_hardly_move_have_not_settled() {
        // From sweep to sweep almost nothing passes between the rings, and in the long run three quarters do.
        let (incoming, outgoing) = rings(20, [1e-10, 3e-10]);
        assert_eq!(sweep(&incoming, &outgoing, &mut [1.0 / 40.0; 40], 20_000), Err(CtmcError::NotSettled));
        let eliminated = eliminate(&incoming).unwrap_or_default();
        assert!((eliminated[0] / (eliminated[20] * 3.0) - 1.0).abs() < 1e-9, "{eliminated:?}");
    }
}
