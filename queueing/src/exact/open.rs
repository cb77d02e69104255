//! One server with open (Poisson) arrivals and general service times.
//!
//! Times are in any one unit, rates are per that unit.

use thiserror::Error;

/// Arrivals of one class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrivals {
    /// Arrivals per unit of time; of batches, batches.
    pub rate: f64,
    /// The mean service time of one customer.
    pub service: f64,
    /// The mean square of the service time.
    pub service_square: f64,
}

impl Arrivals {
    fn utilisation(&self) -> f64 {
        self.rate * self.service
    }

    /// Figures of some distribution: a mean square is at least the square of the mean, up to rounding.
    fn are_possible(&self) -> bool {
        let Arrivals { rate, service, service_square } = *self;
        let finite = [rate, service, service_square].iter().all(|figure| (0.0..f64::INFINITY).contains(figure));
        finite && is_square(service_square, service)
    }

    fn stay(&self, wait: f64) -> Stay {
        Stay { wait, response: wait + self.service }
    }
}

fn is_square(mean_square: f64, mean: f64) -> bool {
    mean_square >= mean * mean * (1.0 - 1e-9)
}

/// Mean times of a customer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stay {
    /// From arrival to service.
    pub wait: f64,
    /// From arrival to the end of service.
    pub response: f64,
}

/// Why there are no mean times.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum OpenError {
    /// The server cannot keep up.
    #[error("the server's utilisation is {utilisation}; waits have bounds below 1 only: lower a rate or service")]
    Unstable {
        /// Arrivals times service.
        utilisation: f64,
    },
    /// Figures that no arrivals have.
    #[error(
        "class {class}: rate {}, mean service {} and its mean square {} are not possible; give finite numbers from 0 on, \
         the mean square at least the square of the mean",
        arrivals.rate, arrivals.service, arrivals.service_square
    )]
    Arrivals {
        /// The class, from 0.
        class: usize,
        /// Its figures.
        arrivals: Arrivals,
    },
    /// Figures that no sizes of batches have.
    #[error(
        "batches of mean size {size} and mean square {size_square} are not possible; sizes are from 1 on, and the mean \
         square is finite and at least the square of the mean"
    )]
    Batches {
        /// The mean size.
        size: f64,
        /// The mean square of the size.
        size_square: f64,
    },
}

/// The mean time that is left of the service in progress, over all times.
///
/// # Errors
/// Figures that are not possible, or a server that cannot keep up.
fn residual(classes: &[Arrivals]) -> Result<f64, OpenError> {
    if let Some(class) = classes.iter().position(|arrivals| !arrivals.are_possible()) {
        return Err(OpenError::Arrivals { class, arrivals: classes[class] });
    }
    let utilisation: f64 = classes.iter().map(Arrivals::utilisation).sum();
    if utilisation < 1.0 {
        Ok(classes.iter().map(|class| class.rate * class.service_square).sum::<f64>() / 2.0)
    } else {
        Err(OpenError::Unstable { utilisation })
    }
}

/// First come, first served, by class: M/G/1 (Pollaczek 1930, Khinchine 1932). Customers of all classes wait equally.
///
/// # Errors
/// The server cannot keep up, or figures are not possible.
pub fn first_come_first_served(classes: &[Arrivals]) -> Result<Vec<Stay>, OpenError> {
    let utilisation: f64 = classes.iter().map(Arrivals::utilisation).sum();
    let wait = residual(classes)? / (1.0 - utilisation);
    Ok(classes.iter().map(|class| class.stay(wait)).collect())
}

/// First come, first served, if `arrivals` come in batches of mean size `size` and mean square `size_square`: M^X/G/1
/// (Burke 1975). The first of a batch waits as in M/G/1 with a whole batch as the customer. The others also wait for
/// those of their batch before them: (`E[X²] / E[X]` - 1) / 2 services in the mean.
///
/// # Errors
/// The server cannot keep up, or figures are not possible.
pub fn batches(arrivals: Arrivals, size: f64, size_square: f64) -> Result<Stay, OpenError> {
    if !(size >= 1.0 && is_square(size_square, size) && size_square < f64::INFINITY) {
        return Err(OpenError::Batches { size, size_square });
    }
    residual(&[Arrivals { rate: 0.0, ..arrivals }])?;
    let Arrivals { rate, service, service_square } = arrivals;
    let whole = size * service;
    let variance = (service_square - service * service).max(0.0);
    let whole_square = (size * variance + size_square * service * service).max(whole * whole);
    let whole = Arrivals { rate, service: whole, service_square: whole_square };
    let of_first = residual(&[whole])? / (1.0 - whole.utilisation());
    Ok(arrivals.stay(of_first + (size_square / size - 1.0) / 2.0 * service))
}

/// By class, the class of the highest priority first: M/G/1 with non-preemptive priorities, head of line (Cobham 1954).
///
/// # Errors
/// The server cannot keep up with all classes together, or figures are not possible.
pub fn head_of_line(classes: &[Arrivals]) -> Result<Vec<Stay>, OpenError> {
    let residual = residual(classes)?;
    let mut busy = 0.0;
    let of = |class: &Arrivals| {
        let before = busy;
        busy += class.utilisation();
        class.stay(residual / ((1.0 - before) * (1.0 - busy)))
    };
    Ok(classes.iter().map(of).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failing test may panic anywhere.
    use super::*;

    fn wait(arrivals: Arrivals) -> f64 {
        first_come_first_served(&[arrivals]).unwrap()[0].wait
    }

    /// Gamma service of shape 4: E[S²] = 1.25 E[S]².
    fn gamma(service: f64) -> Arrivals {
        Arrivals { rate: 0.4, service, service_square: 1.25 * service * service }
    }

    #[test]
    fn exponential_and_constant_service_wait_as_the_textbook_says() {
        // M/M/1 at 0.5: one service; M/D/1: half of it.
        assert_eq!(wait(Arrivals { rate: 0.5, service: 1.0, service_square: 2.0 }), 1.0);
        assert_eq!(wait(Arrivals { rate: 0.5, service: 1.0, service_square: 1.0 }), 0.5);
    }

    #[test]
    fn priorities_wait_as_in_cobham_and_keep_the_mean_weighted_by_work() {
        let stays = head_of_line(&[gamma(1.0), gamma(0.5)]).unwrap();
        assert!((stays[0].wait - 0.520_833).abs() < 5e-7 && (stays[1].wait - 1.302_083).abs() < 5e-7, "{stays:?}");
        assert_eq!(stays[1].response, stays[1].wait + 0.5);
        // Kleinrock's conservation law: the sum of ρ W does not depend on the order, nor on whether there is one.
        let work = |long: Stay, short: Stay| 0.4 * long.wait + 0.2 * short.wait;
        let other = head_of_line(&[gamma(0.5), gamma(1.0)]).unwrap();
        let equal = first_come_first_served(&[gamma(1.0), gamma(0.5)]).unwrap();
        for (long, short) in [(other[1], other[0]), (equal[0], equal[1])] {
            assert!((work(stays[0], stays[1]) - work(long, short)).abs() < 1e-12);
        }
    }

    #[test]
    fn batches_of_one_wait_as_single_arrivals_and_larger_ones_longer() {
        let arrivals = Arrivals { rate: 0.2, service: 1.0, service_square: 2.0 };
        assert_eq!(batches(arrivals, 1.0, 1.0).unwrap().wait, wait(arrivals));
        // Batches of exactly two: ρ = 0.4, E[S²] = 2·1 + 4 = 6, so 0.6 / 0.6 + 1/2.
        assert!((batches(arrivals, 2.0, 4.0).unwrap().wait - 1.5).abs() < 1e-12);
        // Geometric sizes of mean 2 (mean square 6), exponential service: response = E[S] · 2 / (1 - ρ).
        assert!((batches(arrivals, 2.0, 6.0).unwrap().response - 2.0 / 0.6).abs() < 1e-12);
    }

    #[test]
    fn server_that_cannot_keep_up_is_refused_with_its_utilisation() {
        let class = Arrivals { rate: 1.0, service: 1.0, service_square: 1.0 };
        assert_eq!(first_come_first_served(&[class]), Err(OpenError::Unstable { utilisation: 1.0 }));
        assert!(head_of_line(&[class, class]).unwrap_err().to_string().contains("utilisation is 2;"));
        assert!(batches(gamma(1.0), 3.0, 9.0).unwrap_err().to_string().contains("utilisation is 1.2"));
    }

    #[test]
    fn figures_that_are_not_possible_are_refused_with_their_class() {
        let refused = |wrong: Arrivals| head_of_line(&[gamma(1.0), wrong]).unwrap_err().to_string();
        assert!(refused(Arrivals { rate: f64::NAN, ..gamma(0.5) }).starts_with("class 1: rate NaN"));
        assert!(refused(Arrivals { rate: -1.0, ..gamma(0.5) }).starts_with("class 1: rate -1"));
        assert!(refused(Arrivals { service_square: 0.2, ..gamma(0.5) }).contains("its mean square 0.2"));
        for (size, size_square) in [(0.5, 1.0), (2.0, 3.9), (f64::NAN, 1.0), (2.0, f64::INFINITY)] {
            let refused = batches(gamma(0.5), size, size_square).unwrap_err().to_string();
            assert!(refused.starts_with("batches of mean size"), "{refused}");
        }
        assert!(batches(Arrivals { rate: -1.0, ..gamma(0.5) }, 1.0, 1.0).is_err());
    }
}
