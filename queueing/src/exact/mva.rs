//! Exact mean value analysis of closed networks of several classes (Reiser and Lavenberg 1980).
//!
//! A customer that arrives at a station finds what the network without it would show at any moment. So the solution of
//! a network follows from those with one customer fewer, from the empty network on.
//!
//! Let D be the customer's demand at a station of c servers. Let Q be the mean number of customers there, and p(j) the
//! probability of j customers. With n customers in the network, the customer stays for
//!
//! > R(n) = D / c · (1 + Q(n - 1) + Σ_j (c - 1 - j) p(j | n - 1)), j from 0 to c - 2.
//!
//! For several servers p(j | n) = X D p(j - 1 | n - 1) / j, summed over the classes. The usual p(0) = 1 - Σ p(j) loses
//! all digits at a busy station. Here p(0 | n) = p(0 | n - 1) · X(n) / X'(n), where X' is the throughput of the network
//! without the station (Reiser 1981). It only multiplies, and so keeps its digits. Its price: m stations of several
//! servers need 2^m networks.

use super::lattice::Lattice;
use super::network::{ClosedNetwork, Method, NetworkError, Queue, Reduced, Solved};

/// The most numbers in memory: 256 MB.
const NUMBERS_MAX: u64 = 1 << 25;

/// The most updates of a number for a class: some seconds.
const STEPS_MAX: u64 = 1 << 32;

/// Solves `network` exactly.
///
/// Time and memory grow with the product of (customers + 1) of all classes, times two for each station of several
/// servers.
///
/// # Errors
/// Figures that are missing or not possible; a network that takes too much memory or time.
pub fn solve(network: &ClosedNetwork) -> Result<Solved, NetworkError> {
    let reduced = network.reduced()?;
    let mut analysis = Analysis::new(&reduced)?;
    for present in 0..1 << analysis.several.len() {
        analysis.solve(present);
    }
    Ok(reduced.solved(Method::MeanValueAnalysis, &analysis.throughput, &analysis.residence))
}

struct Analysis<'a> {
    delay: &'a [f64],
    queues: &'a [Queue],
    lattice: Lattice,
    /// The queues of several servers, and where each one's probabilities start in a vector's. Bit i of a set of present
    /// stations is for the i-th.
    several: Vec<(usize, usize)>,
    /// By vector and queue: the services, in mean demands, for which an arrival that finds the vector stays.
    stay: Vec<f64>,
    /// By vector: the probabilities of 0, 1, … servers - 2 customers at each queue of several servers.
    chances: Vec<f64>,
    /// How many probabilities a vector has.
    chances_of_vector: usize,
    /// By set of present stations and vector: throughput of the first class that has customers. Infinite if the rounds
    /// of a class take no time.
    firsts: Vec<f64>,
    throughput: Vec<f64>,
    /// By queue and class.
    residence: Vec<Vec<f64>>,
}

impl<'a> Analysis<'a> {
    fn new(reduced: &'a Reduced<'_>) -> Result<Analysis<'a>, NetworkError> {
        let queues = &reduced.queues;
        let mut several = Vec::new();
        let mut chances = 0;
        for (number, queue) in queues.iter().enumerate().filter(|(_, queue)| queue.servers > 1) {
            several.push((number, chances));
            chances += queue.servers - 1;
        }
        let networks = 1_u64.checked_shl(several.len() as u32).unwrap_or(u64::MAX);
        let of_vector = (queues.len() + chances) as u64;
        let lattice = Lattice::new(&reduced.customers, networks.saturating_add(of_vector), NUMBERS_MAX)?;
        let classes = reduced.customers.len();
        let steps = (lattice.points as u64 * networks).saturating_mul(of_vector).saturating_mul(classes as u64);
        if steps > STEPS_MAX {
            return Err(NetworkError::TooLarge { needed: steps, of: "steps", most: STEPS_MAX });
        }
        Ok(Analysis {
            delay: &reduced.delay,
            queues,
            several,
            stay: vec![0.0; lattice.points * queues.len()],
            chances: vec![0.0; lattice.points * chances],
            chances_of_vector: chances,
            firsts: vec![0.0; lattice.points * networks as usize],
            throughput: vec![0.0; classes],
            residence: vec![vec![0.0; classes]; queues.len()],
            lattice,
        })
    }

    /// Solves the network that has only the stations of several servers whose bits are set in `present`. It needs the
    /// solutions of all networks with fewer of them.
    fn solve(&mut self, present: usize) {
        let absent = |number: usize| {
            self.several.iter().enumerate().any(|(bit, (queue, _))| *queue == number && present & 1 << bit == 0)
        };
        let queues: Vec<usize> = (0..self.queues.len()).filter(|number| !absent(*number)).collect();
        let timeless: Vec<bool> = (0..self.delay.len())
            .map(|class| {
                self.delay[class] == 0.0 && queues.iter().all(|queue| self.queues[*queue].demands[class] == 0.0)
            })
            .collect();
        let mut vector = vec![0_u32; self.delay.len()];
        self.start(&queues);
        for number in 1..self.lattice.points {
            self.lattice.advance(&mut vector);
            let first = present * self.lattice.points + number;
            if vector.iter().zip(&timeless).any(|(customers, timeless)| *customers > 0 && *timeless) {
                self.firsts[first] = f64::INFINITY;
                continue;
            }
            self.rounds(number, &vector, &queues);
            let first_class = vector.iter().position(|customers| *customers > 0).unwrap_or(0);
            self.firsts[first] = self.throughput[first_class];
            for bit in (0..self.several.len()).filter(|bit| present & 1 << bit != 0) {
                let without = self.firsts[(present & !(1 << bit)) * self.lattice.points + number];
                self.chances(number, &vector, bit, first_class, without);
            }
            self.stays(number, &queues);
        }
    }

    /// The empty network: an arrival finds nobody.
    fn start(&mut self, queues: &[usize]) {
        for (queue, first) in &self.several {
            self.chances[*first..*first + self.queues[*queue].servers - 1].fill(0.0);
            self.chances[*first] = 1.0;
        }
        for queue in queues {
            self.stay[*queue] = 1.0;
        }
    }

    /// Residences and throughput of the vector of that number from those with one customer fewer.
    fn rounds(&mut self, number: usize, vector: &[u32], queues: &[usize]) {
        for (class, customers) in vector.iter().enumerate() {
            self.throughput[class] = 0.0;
            if *customers == 0 {
                continue;
            }
            let found = (number - self.lattice.strides[class]) * self.queues.len();
            let mut round = self.delay[class];
            for queue in queues {
                let residence = self.queues[*queue].demands[class] * self.stay[found + queue];
                self.residence[*queue][class] = residence;
                round += residence;
            }
            self.throughput[class] = f64::from(*customers) / round;
        }
    }

    /// The probabilities of few customers at a queue of several servers. `without` is the throughput of `first_class`
    /// in the network without that queue.
    fn chances(&mut self, number: usize, vector: &[u32], bit: usize, first_class: usize, without: f64) {
        let (queue, first) = self.several[bit];
        let at = |number: usize| number * self.chances_of_vector + first;
        let now = at(number);
        let before = at(number - self.lattice.strides[first_class]);
        self.chances[now] = self.chances[before] * (self.throughput[first_class] / without);
        let count = self.queues[queue].servers - 1;
        self.chances[now + 1..now + count].fill(0.0);
        for class in (0..vector.len()).filter(|class| vector[*class] > 0) {
            let before = at(number - self.lattice.strides[class]);
            let rate = self.throughput[class] * self.queues[queue].demands[class];
            for customers in 1..count {
                self.chances[now + customers] += rate * self.chances[before + customers - 1] / customers as f64;
            }
        }
    }

    /// How long an arrival that finds the vector of that number stays.
    fn stays(&mut self, number: usize, queues: &[usize]) {
        for queue in queues {
            let by_class = self.throughput.iter().zip(&self.residence[*queue]);
            let customers: f64 = by_class.map(|(rate, residence)| rate * residence).sum();
            self.stay[number * self.queues.len() + queue] = 1.0 + customers;
        }
        for (queue, first) in self.several.iter().filter(|(queue, _)| queues.contains(queue)) {
            let servers = self.queues[*queue].servers;
            let chances = &self.chances[number * self.chances_of_vector + first..][..servers - 1];
            let idle: f64 = chances.iter().enumerate().map(|(busy, chance)| (servers - 1 - busy) as f64 * chance).sum();
            let stay = &mut self.stay[number * self.queues.len() + queue];
            *stay = (*stay + idle) / servers as f64;
        }
    }
}
