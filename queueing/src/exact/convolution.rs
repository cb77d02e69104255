//! Convolution: closed networks of several classes by their normalising constants (Buzen 1973; Reiser and Kobayashi
//! 1975).
//!
//! In product form the probability of a state is a product of a factor for each station, over the sum G of these
//! products over all states. Throughput is G without a customer of the class over G. A station of one server adds to
//! the network's constants by G(n) = G'(n) + Σ_k D_k G(n - e_k), where G' is without it. For c servers D_k is divided
//! by c, and G' gives way to its sum with weights C(m) = (1 - |m| / c) · Π D_k^(m_k) / m_k!, |m| < c. The sums have no
//! negative terms, so they keep their digits. The constants are numbers of any magnitude.

use super::lattice::Lattice;
use super::network::{ClosedNetwork, Method, NetworkError, Queue, Reduced, Solved};
use super::scaled::Scaled;

/// The most numbers of eight bytes in memory: 256 MB.
const NUMBERS_MAX: u64 = 1 << 25;

/// The most sums of constants: some seconds.
const STEPS_MAX: u64 = 1 << 30;

/// Solves `network` exactly.
///
/// Time and memory grow with the product of (customers + 1) of all classes; the time for a station of several servers
/// also with the number of ways to keep them busy.
///
/// # Errors
/// Figures that are missing or not possible; a network that takes too much memory or time.
pub fn solve(network: &ClosedNetwork) -> Result<Solved, NetworkError> {
    let reduced = network.reduced()?;
    // Two numbers for each of four constants: of all, of all but a station, while it is added, its factors. Half a
    // number for each class: the vector.
    let of_vector = 8 + reduced.customers.len().div_ceil(2) as u64;
    let lattice = Lattice::new(&reduced.customers, of_vector, NUMBERS_MAX)?;
    let convolution = Convolution::new(&reduced, lattice)?;
    let (throughput, residence) = convolution.solve();
    Ok(reduced.solved(Method::Convolution, &throughput, &residence))
}

struct Convolution<'a> {
    delay: &'a [f64],
    queues: &'a [Queue],
    lattice: Lattice,
    /// All vectors of customers in their order, class after class.
    vectors: Vec<u32>,
    /// By queue: the vectors with fewer customers than servers, and their weights C; none for one server.
    weights: Vec<Vec<(usize, Scaled)>>,
}

impl<'a> Convolution<'a> {
    fn new(reduced: &'a Reduced<'_>, lattice: Lattice) -> Result<Convolution<'a>, NetworkError> {
        let classes = reduced.customers.len();
        let mut vector = vec![0; classes];
        let mut vectors = Vec::with_capacity(lattice.points * classes);
        for _ in 0..lattice.points {
            vectors.extend_from_slice(&vector);
            lattice.advance(&mut vector);
        }
        let mut convolution =
            Convolution { delay: &reduced.delay, queues: &reduced.queues, lattice, vectors, weights: Vec::new() };
        let several = reduced.queues.iter().filter(|queue| queue.servers > 1).count() as u64;
        let mut steps = 0_u64;
        for queue in &reduced.queues {
            // Weights take memory, so steps are counted before the next ones.
            let weights = convolution.weights(queue);
            let of_vector = (weights.len() + classes) as u64 * (several + 1);
            steps = steps.saturating_add(of_vector.saturating_mul(convolution.lattice.points as u64));
            if steps > STEPS_MAX {
                return Err(NetworkError::TooLarge { needed: steps, of: "steps or more", most: STEPS_MAX });
            }
            convolution.weights.push(weights);
        }
        Ok(convolution)
    }

    fn vector(&self, number: usize) -> &[u32] {
        &self.vectors[number * self.delay.len()..][..self.delay.len()]
    }

    /// By vector: the sum of one customer fewer of each class, times that class's factor.
    fn fewer(&self, values: &[Scaled], number: usize, factors: &[f64]) -> Scaled {
        let mut sum = Scaled::ZERO;
        for (class, customers) in self.vector(number).iter().enumerate() {
            if *customers > 0 {
                sum = sum.plus(values[number - self.lattice.strides[class]].times(factors[class]));
            }
        }
        sum
    }

    /// The factors of a station alone: by the number of ways in which customers can be there, and their speed.
    fn factors(&self, queue: &Queue) -> Vec<Scaled> {
        let mut factors = vec![Scaled::ONE; self.lattice.points];
        for number in 1..self.lattice.points {
            let all: u64 = self.vector(number).iter().copied().map(u64::from).sum();
            let speed = all.min(queue.servers as u64) as f64;
            factors[number] = self.fewer(&factors, number, &queue.demands).times(1.0 / speed);
        }
        factors
    }

    fn weights(&self, queue: &Queue) -> Vec<(usize, Scaled)> {
        if queue.servers == 1 {
            return Vec::new();
        }
        let all = |number: usize| self.vector(number).iter().copied().map(u64::from).sum::<u64>();
        let factors = self.factors(queue).into_iter().enumerate();
        let idle = factors.filter(|(number, _)| all(*number) < queue.servers as u64);
        idle.map(|(number, factor)| (number, factor.times(1.0 - all(number) as f64 / queue.servers as f64))).collect()
    }

    /// Constants of the network that only thinks.
    fn thinking(&self) -> Vec<Scaled> {
        let mut constants = vec![Scaled::ONE; self.lattice.points];
        for number in 1..self.lattice.points {
            let vector = self.vector(number);
            let class = vector.iter().position(|customers| *customers > 0).unwrap_or(0);
            let fewer = constants[number - self.lattice.strides[class]];
            constants[number] = fewer.times(self.delay[class] / f64::from(vector[class]));
        }
        constants
    }

    /// Adds a station to the network of those constants.
    fn add(&self, constants: &mut Vec<Scaled>, number: usize) {
        let queue = &self.queues[number];
        if queue.servers > 1 {
            *constants = self.weighted(constants, &self.weights[number]);
        }
        self.spread(constants, queue);
    }

    fn weighted(&self, constants: &[Scaled], weights: &[(usize, Scaled)]) -> Vec<Scaled> {
        let sum = |number: usize| {
            let vector = self.vector(number);
            let fits = |part: usize| self.vector(part).iter().zip(vector).all(|(part, whole)| part <= whole);
            let parts = weights.iter().take_while(|(part, _)| *part <= number).filter(|(part, _)| fits(*part));
            parts.fold(Scaled::ZERO, |sum, (part, weight)| sum.plus(weight.product(constants[number - part])))
        };
        (0..self.lattice.points).map(sum).collect()
    }

    /// G(n) = G'(n) + Σ_k D_k / c · G(n - e_k), in place.
    fn spread(&self, constants: &mut [Scaled], queue: &Queue) {
        let factors: Vec<f64> = queue.demands.iter().map(|demand| demand / queue.servers as f64).collect();
        for number in 1..self.lattice.points {
            constants[number] = constants[number].plus(self.fewer(constants, number, &factors));
        }
    }

    /// Throughput by class, and residence by queue and class.
    fn solve(&self) -> (Vec<f64>, Vec<Vec<f64>>) {
        let mut constants = self.thinking();
        (0..self.queues.len()).for_each(|number| self.add(&mut constants, number));
        let last = self.lattice.points - 1;
        let rate = |class: usize| constants[last - self.lattice.strides[class]].over(constants[last]);
        let throughput: Vec<f64> = (0..self.delay.len()).map(rate).collect();
        let of_queue = |number: usize| {
            let queue = &self.queues[number];
            if queue.servers == 1 { self.one_server(&constants, queue) } else { self.several_servers(number) }
        };
        (throughput, (0..self.queues.len()).map(of_queue).collect())
    }

    /// The residences at a station of one server: an arrival finds what a second such station would hold.
    fn one_server(&self, constants: &[Scaled], queue: &Queue) -> Vec<f64> {
        let mut doubled = constants.to_vec();
        self.spread(&mut doubled, queue);
        let last = self.lattice.points - 1;
        let residence = |class: usize| {
            let fewer = last - self.lattice.strides[class];
            queue.demands[class] * doubled[fewer].over(constants[fewer])
        };
        (0..self.delay.len()).map(residence).collect()
    }

    /// The residences at a station of several servers: the sum over what can be there, by Little's law.
    fn several_servers(&self, number: usize) -> Vec<f64> {
        let mut others = self.thinking();
        (0..self.queues.len()).filter(|other| *other != number).for_each(|other| self.add(&mut others, other));
        let factors = self.factors(&self.queues[number]);
        let last = self.lattice.points - 1;
        let residence = |class: usize| {
            let (mut present, mut rate) = (Scaled::ZERO, Scaled::ZERO);
            let stride = self.lattice.strides[class];
            for part in 0..=last {
                let customers = self.vector(part)[class];
                present = present.plus(factors[part].product(others[last - part]).times(f64::from(customers)));
                if customers < self.vector(last)[class] {
                    rate = rate.plus(factors[part].product(others[last - part - stride]));
                }
            }
            present.over(rate)
        };
        (0..self.delay.len()).map(residence).collect()
    }
}
