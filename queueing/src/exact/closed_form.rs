//! The net of Noorshams et al. 2014 (`nets/noorshams2014.toml`) with clients that never think.
//!
//! A client sends its next request at the moment its last one was served, but the scheduler chooses before: the client
//! that was just served is not among those that wait. With two clients or more of each class both classes always wait,
//! and a read is chosen with probability p = w_r / (w_r + w_w). A mean request then takes p μ_r + (1 - p) μ_w, so
//!
//! > X_r = p / (p μ_r + (1 - p) μ_w), X_w = (1 - p) / (p μ_r + (1 - p) μ_w).
//!
//! If reads have a single client, a write follows each read for certain. Choices are then a Markov chain of two states:
//! from read to write with probability 1, from write to read with probability p, or 1 if writes have a single client,
//! too. Its balance π_r · 1 = π_w · p gives the share of reads p / (1 + p). In the same way for writes.
//!
//! Only means of the service times matter, since choices do not depend on times. Response times follow from Little's
//! law.

/// Throughput of reads and of writes, per unit of time, if this share of requests are reads. `service` has the mean
/// service times of reads and writes.
pub fn throughput(reads: f64, service: [f64; 2]) -> [f64; 2] {
    let mean = reads * service[0] + (1.0 - reads) * service[1];
    [reads / mean, (1.0 - reads) / mean]
}

/// Clients of reads and of writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoClasses {
    /// How many clients read and how many write. From one on they need not be whole: the mean of several numbers.
    pub clients: [f64; 2],
    /// The mean service times, above 0, in any one unit.
    pub service: [f64; 2],
    /// The weights by which reads and writes are chosen, above 0.
    pub weights: [f64; 2],
}

impl TwoClasses {
    /// The share of reads among the requests; NaN without clients.
    pub fn share_of_reads(&self) -> f64 {
        let [reads, writes] = self.weights.map(|weight| weight / (self.weights[0] + self.weights[1]));
        // The probability that the other class is next behind a read, and behind a write.
        let [behind_read, behind_write] = match self.clients {
            [0.0, 0.0] => return f64::NAN,
            [_, 0.0] => return 1.0,
            [0.0, _] => return 0.0,
            [one, other] => [if one <= 1.0 { 1.0 } else { writes }, if other <= 1.0 { 1.0 } else { reads }],
        };
        behind_write / (behind_read + behind_write)
    }

    /// Throughput of reads and of writes, per unit of time.
    pub fn throughput(&self) -> [f64; 2] {
        if self.clients == [0.0; 2] {
            return [0.0; 2];
        }
        throughput(self.share_of_reads(), self.service)
    }

    /// Mean response times of reads and of writes: waiting and service. `None` of a class without clients.
    pub fn responses(&self) -> [Option<f64>; 2] {
        let throughput = self.throughput();
        [0, 1].map(|class| (self.clients[class] > 0.0).then(|| self.clients[class] / throughput[class]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: [f64; 2], expected: [f64; 2]) {
        let off = [0, 1].map(|class| (found[class] - expected[class]).abs());
        assert!(off.iter().all(|off| *off < 5e-5), "{found:?} instead of {expected:?}");
    }

    fn of(clients: [f64; 2]) -> TwoClasses {
        TwoClasses { clients, service: [1.0, 0.5], weights: [2.0, 1.0] }
    }

    #[test]
    fn classes_that_always_wait_are_served_by_their_weights() {
        near(of([30.0, 10.0]).throughput(), [0.8, 0.4]);
        let [reads, writes] = of([30.0, 10.0]).responses();
        near([reads.unwrap_or(0.0), writes.unwrap_or(0.0)], [37.5, 25.0]);
        assert_eq!(of([3.0, 0.0]).throughput(), [1.0, 0.0]);
        assert_eq!(of([0.0, 3.0]).responses(), [None, Some(1.5)]);
        assert_eq!((of([0.0, 0.0]).throughput(), of([0.0, 0.0]).responses()), ([0.0; 2], [None; 2]));
    }

    #[test]
    fn single_client_never_follows_itself() {
        near(of([1.0, 1.0]).throughput(), [2.0 / 3.0; 2]);
        near(of([1.0, 10.0]).throughput(), [0.571_43, 0.857_14]);
        // The mirrored case: writes have the single client.
        near(of([10.0, 1.0]).throughput(), [0.857_14, 0.285_71]);
    }
}
