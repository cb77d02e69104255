//! How a storage divides its time at a mix of reading and writing threads, and between measured mixes.

use libm::{exp, log};

/// Mean response times of reads and writes, measured while so many threads read and write without think time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredMix {
    /// Reading and writing threads, above zero.
    pub threads: [f64; 2],
    /// Mean response times of reads and of writes, seconds, above zero.
    pub responses: [f64; 2],
}

impl MeasuredMix {
    /// Requests per second of each kind, by Little's law.
    pub fn rates(&self) -> [f64; 2] {
        [0, 1].map(|kind| self.threads[kind] / self.responses[kind])
    }

    /// Mean time between completions, seconds.
    fn cycle(&self) -> f64 {
        1.0 / self.rates().iter().sum::<f64>()
    }

    /// Logarithm of the ratio of weights that gives these response times: w_r / w_w = (t_r / ρ_r) / (t_w / ρ_w).
    pub fn log_weight(&self) -> f64 {
        log_ratio(self.rates())
    }
}

/// Logarithm of the first by the second.
pub fn log_ratio(of: [f64; 2]) -> f64 {
    log(of[0] / of[1])
}

/// The paper's w_r / w_w = f(t_r / t_w). Here f is the straight line by least squares through the logarithms of both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WeightLine {
    /// Means of the logarithms of thread ratio and of weight ratio.
    means: [f64; 2],
    slope: f64,
}

impl WeightLine {
    /// The line through points of (logarithm of thread ratio, logarithm of weight ratio). It is level if the thread
    /// ratios do not differ. Without points the weights are those of first come, first served.
    pub fn through(points: &[[f64; 2]]) -> WeightLine {
        if points.is_empty() {
            return WeightLine { means: [0.0; 2], slope: 1.0 };
        }
        let means = [0, 1].map(|axis| points.iter().map(|point| point[axis]).sum::<f64>() / points.len() as f64);
        let sum = |axis: usize| -> f64 {
            points.iter().map(|point| (point[0] - means[0]) * (point[axis] - means[axis])).sum()
        };
        let spread = sum(0);
        WeightLine { means, slope: if spread > 1e-6 { sum(1) / spread } else { 0.0 } }
    }

    /// The same line, at most as steep as in first come, first served, and not falling: more reading threads get reads no
    /// smaller part of the storage, and no more than in proportion.
    pub fn bounded(self) -> WeightLine {
        WeightLine { slope: self.slope.clamp(0.0, 1.0), ..self }
    }

    /// w_r / w_w at a thread ratio, given by its logarithm.
    pub fn weight(&self, log_threads: f64) -> f64 {
        exp(self.means[1] + self.slope * (log_threads - self.means[0]))
    }
}

/// The most mixes of a surface. Its equations take time in the cube of it.
const MIXES_MAX: usize = 400;

/// A surface through measured mixes: a polyharmonic spline r with a linear part over the logarithms of the threads. It
/// meets each measured mix. Outside of the measured thread counts it keeps the value at their edge.
#[derive(Clone, Debug, PartialEq)]
pub struct Surface {
    places: Vec<[f64; 2]>,
    /// Factor of the distance to each place, then the linear part: constant, reads, writes. Of the logarithm of the
    /// weight ratio and of the logarithm of the cycle time.
    factors: [Vec<f64>; 2],
}

impl Surface {
    /// The surface through the mixes.
    ///
    /// # Errors
    /// Why there is none: too few or too many mixes, a mix given twice, or all on one line.
    pub fn through(mixes: &[MeasuredMix]) -> Result<Surface, String> {
        let count = mixes.len();
        if !(3..=MIXES_MAX).contains(&count) {
            return Err(format!("3 to {MIXES_MAX} mixes of reading and writing threads, not {count}"));
        }
        let places: Vec<[f64; 2]> = mixes.iter().map(|mix| mix.threads.map(log)).collect();
        let size = count + 3;
        let mut rows = vec![vec![0.0; size + 2]; size];
        for (index, (place, mix)) in places.iter().zip(mixes).enumerate() {
            let row = basis(&places, *place);
            for (column, value) in row.iter().enumerate() {
                rows[index][column] = *value;
                if column >= count {
                    rows[column][index] = *value;
                }
            }
            rows[index][size] = mix.log_weight();
            rows[index][size + 1] = log(mix.cycle());
        }
        let factors =
            eliminate(rows).ok_or("mixes that differ in reading and in writing threads, each given once".to_owned())?;
        Ok(Surface { places, factors })
    }

    /// w_r / w_w and the mean time between completions, seconds, with so many threads.
    pub fn at(&self, threads: [f64; 2]) -> (f64, f64) {
        let place = [0, 1].map(|kind| {
            let logs = || self.places.iter().map(|place| place[kind]);
            let [least, most] = [logs().fold(f64::INFINITY, f64::min), logs().fold(f64::NEG_INFINITY, f64::max)];
            log(threads[kind]).clamp(least, most)
        });
        let basis = basis(&self.places, place);
        let value = |factors: &[f64]| exp(factors.iter().zip(&basis).map(|(factor, value)| factor * value).sum());
        (value(&self.factors[0]), value(&self.factors[1]))
    }
}

/// The distances of `at` to all places, then 1 and its coordinates.
fn basis(places: &[[f64; 2]], at: [f64; 2]) -> Vec<f64> {
    let distance = |place: &[f64; 2]| libm::hypot(place[0] - at[0], place[1] - at[1]);
    places.iter().map(distance).chain([1.0, at[0], at[1]]).collect()
}

/// Solves linear equations by Gaussian elimination with the greatest pivot of each column. The last two columns of
/// `rows` are two right sides. `None` if the equations do not determine the unknowns.
fn eliminate(mut rows: Vec<Vec<f64>>) -> Option<[Vec<f64>; 2]> {
    let size = rows.len();
    for column in 0..size {
        let pivot = (column..size).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        rows.swap(column, pivot);
        let (above, below) = rows.split_at_mut(column + 1);
        let pivot = &above[column];
        if !pivot[column].is_finite() || pivot[column].abs() < 1e-9 {
            return None;
        }
        for row in below {
            let factor = row[column] / pivot[column];
            row.iter_mut().zip(pivot).skip(column).for_each(|(value, above)| *value -= factor * above);
        }
    }
    let mut found = [vec![0.0; size], vec![0.0; size]];
    for (side, found) in found.iter_mut().enumerate() {
        for row in (0..size).rev() {
            let known: f64 = (row + 1..size).map(|column| rows[row][column] * found[column]).sum();
            found[row] = (rows[row][size + side] - known) / rows[row][row];
        }
    }
    found.iter().flatten().all(|value| value.is_finite()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mix(threads: [f64; 2], responses: [f64; 2]) -> MeasuredMix {
        MeasuredMix { threads, responses }
    }

    #[test]
    fn line_goes_through_the_logarithms_of_points_on_a_power() {
        let points = [0.2_f64, 1.0, 5.0].map(|ratio| [log(ratio), log(3.0 * ratio.powf(0.7))]);
        let line = WeightLine::through(&points);
        assert!((line.weight(log(2.0)) - 3.0 * 2.0_f64.powf(0.7)).abs() < 1e-12);
        // A line that is too steep or falls is turned about its mean.
        for (from, expected) in [(3.0, 1.0), (-1.0, 0.0)] {
            let bounded = WeightLine::through(&[[0.0, 0.0], [2.0, 2.0 * from]]).bounded();
            assert!((log(bounded.weight(2.0)) - (from + expected)).abs() < 1e-12, "{from}");
        }
        // One ratio says nothing of others; none says first come, first served.
        assert!((WeightLine::through(&points[..1]).weight(log(9.0)) / line.weight(log(0.2)) - 1.0).abs() < 1e-12);
        assert!((WeightLine::through(&[]).weight(log(9.0)) - 9.0).abs() < 1e-12);
    }

    #[test]
    fn surface_meets_each_mix_and_is_exact_between_mixes_on_a_power_of_threads() {
        // X_r = 40 t_r^0.5 / t_w^0.2, X_w = 25 t_w^0.3: the weight ratio is a power, the cycle is not.
        let of = |threads: [f64; 2]| {
            let rates = [40.0 * threads[0].powf(0.5) / threads[1].powf(0.2), 25.0 * threads[1].powf(0.3)];
            mix(threads, [threads[0] / rates[0], threads[1] / rates[1]])
        };
        let threads = [[1.0, 2.0], [1.0, 30.0], [20.0, 4.0], [50.0, 50.0], [7.0, 9.0]];
        let surface = Surface::through(&threads.map(of)).unwrap();
        for at in threads {
            let (weight, cycle) = surface.at(at);
            assert!((log(weight) - of(at).log_weight()).abs() < 1e-9 && (cycle / of(at).cycle() - 1.0).abs() < 1e-9);
        }
        let between = [12.0, 20.0];
        assert!((log(surface.at(between).0) - of(between).log_weight()).abs() < 1e-9);
        assert!((surface.at(between).1 / of(between).cycle() - 1.0).abs() < 0.1);
        assert_eq!(surface.at([900.0, 20.0]), surface.at([50.0, 20.0]));
    }

    #[test]
    fn surface_needs_three_mixes_that_span_both_thread_counts() {
        let of = |threads: [f64; 2]| mix(threads, [1.0, 2.0]);
        let few = Surface::through(&[of([1.0, 1.0]), of([2.0, 1.0])]).unwrap_err();
        assert_eq!(few, "3 to 400 mixes of reading and writing threads, not 2");
        for threads in [[[1.0, 1.0], [2.0, 2.0], [4.0, 4.0]], [[1.0, 1.0], [2.0, 1.0], [1.0, 1.0]]] {
            assert!(Surface::through(&threads.map(of)).unwrap_err().contains("each given once"));
        }
    }
}
