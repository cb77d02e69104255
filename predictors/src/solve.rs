//! Solves the normal equations of least squares by Gaussian elimination.

/// Solves `square` x = `right`. `square` is symmetric without negative eigenvalues, as in least squares. An unknown is
/// 0 if the equations do not depend on it, or only in a combination of the unknowns before it. `None` if a figure is
/// not finite.
pub(crate) fn solve<const N: usize>(mut square: [[f64; N]; N], mut right: [f64; N]) -> Option<[f64; N]> {
    let scale: [f64; N] = std::array::from_fn(|index| square[index][index]);
    for column in 0..N {
        // The pivot that is left is rounding error, and so is its whole row.
        if square[column][column] <= 1e-12 * scale[column] {
            square[column] = std::array::from_fn(|index| if index == column { 1.0 } else { 0.0 });
            right[column] = 0.0;
            (column + 1..N).for_each(|row| square[row][column] = 0.0);
            continue;
        }
        let (pivot, known) = (square[column], right[column]);
        for row in column + 1..N {
            let factor = square[row][column] / pivot[column];
            square[row].iter_mut().zip(&pivot).skip(column).for_each(|(value, above)| *value -= factor * above);
            right[row] -= factor * known;
        }
    }
    let mut found = [0.0; N];
    for row in (0..N).rev() {
        let known: f64 = (row + 1..N).map(|index| square[row][index] * found[index]).sum();
        found[row] = (right[row] - known) / square[row][row];
    }
    found.iter().all(|value| value.is_finite()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::solve;

    #[test]
    fn solution_fulfils_equations_and_undetermined_unknowns_are_zero() {
        assert_eq!(
            solve([[4.0, 2.0, 0.0], [2.0, 5.0, 0.0], [0.0, 0.0, 0.0]], [14.0, 19.0, 0.0]),
            Some([2.0, 3.0, 0.0])
        );
        // The second equation equals the first.
        assert_eq!(solve([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 2.0]], [3.0, 3.0, 8.0]), Some([3.0, 0.0, 4.0]));
        assert!(solve([[f64::NAN]], [1.0]).is_none());
    }
}
