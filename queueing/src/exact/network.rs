//! Closed queueing networks of several classes in product form (Baskett, Chandy, Muntz and Palacios 1975).
//!
//! Times are in any one unit, throughput is per that unit.

use std::fmt;

use thiserror::Error;

/// The shortest and the longest demand that is not zero. Products of some demands then stay within a float's range.
const DEMANDS: std::ops::RangeInclusive<f64> = 1e-18..=1e18;

/// The most servers of a station. The idle station's probability then has no effect where it falls below a float's
/// range.
const SERVERS_MAX: u32 = 512;

/// How a station serves customers. These are the stations whose networks have a product form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// A server for each customer: nobody waits.
    Delay,
    /// All customers share the servers. Each customer uses one server at most. Service has any distribution.
    ProcessorSharing {
        /// How many servers, from 1 to 512.
        servers: u32,
    },
    /// First come, first served, with exponential service that has the same mean for all classes.
    FirstComeFirstServed {
        /// How many servers, from 1 to 512.
        servers: u32,
    },
}

/// A station.
#[derive(Clone, Debug, PartialEq)]
pub struct Station {
    /// How it serves.
    pub discipline: Discipline,
    /// By class: the mean number of visits in a round.
    pub visits: Vec<f64>,
    /// By class: the mean service time of a visit. It does not matter for a class without visits.
    pub service: Vec<f64>,
}

impl Station {
    /// The service that a round of `class` needs here: visits times service time.
    fn demand(&self, class: usize) -> f64 {
        if self.visits[class] == 0.0 { 0.0 } else { self.visits[class] * self.service[class] }
    }

    fn check(&self, place: Place, classes: usize) -> Result<(), NetworkError> {
        for figures in [&self.visits, &self.service] {
            check_count(place, figures, classes)?;
        }
        for class in 0..classes {
            let demand = self.demand(class);
            let possible = self.visits[class] >= 0.0 && (demand == 0.0 || DEMANDS.contains(&demand));
            if !possible {
                return Err(NetworkError::Time { place, class, time: demand });
            }
        }
        match self.discipline {
            Discipline::Delay => return Ok(()),
            Discipline::ProcessorSharing { servers } | Discipline::FirstComeFirstServed { servers } => {
                if !(1..=SERVERS_MAX).contains(&servers) {
                    return Err(NetworkError::Servers { place, servers });
                }
            }
        }
        let mut services = (0..classes).filter(|class| self.visits[*class] > 0.0).map(|class| self.service[class]);
        let first = services.next();
        let differs = services.find(|service| Some(*service) != first);
        match (self.discipline, first, differs) {
            (Discipline::FirstComeFirstServed { .. }, Some(one), Some(other)) => {
                Err(NetworkError::NoProductForm { place, services: [one, other] })
            }
            _ => Ok(()),
        }
    }
}

/// A closed network: its customers think, go round the stations, and think again.
#[derive(Clone, Debug, PartialEq)]
pub struct ClosedNetwork {
    /// By class: how many customers.
    pub customers: Vec<u32>,
    /// By class: the mean time for which a customer thinks between two rounds.
    pub think: Vec<f64>,
    /// The stations.
    pub stations: Vec<Station>,
}

/// How a network was solved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Exact: [`super::mva::solve`].
    MeanValueAnalysis,
    /// Exact: [`super::convolution::solve`].
    Convolution,
    /// An approximation: [`super::approximate::schweitzer`].
    Schweitzer,
    /// An approximation: [`super::approximate::linearizer`].
    Linearizer,
}

impl Method {
    /// Whether the solution is exact, apart from rounding.
    pub fn is_exact(self) -> bool {
        matches!(self, Method::MeanValueAnalysis | Method::Convolution)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Method::MeanValueAnalysis => "mean value analysis (exact)",
            Method::Convolution => "convolution (exact)",
            Method::Schweitzer => "Schweitzer and Bard (an approximation)",
            Method::Linearizer => "Linearizer (an approximation)",
        })
    }
}

/// The solution of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct Solved {
    /// How it was found.
    pub method: Method,
    /// By class: rounds per unit of time. 0 for a class without customers.
    pub throughput: Vec<f64>,
    /// By station and class: the time that a round spends there, waiting and service. 0 for a class without customers.
    pub residence: Vec<Vec<f64>>,
}

impl Solved {
    /// The mean number of customers of `class` at `station`, by Little's law.
    ///
    /// # Panics
    /// The network has no such station or class.
    pub fn customers(&self, station: usize, class: usize) -> f64 {
        self.throughput[class] * self.residence[station][class]
    }
}

/// Where a figure of a network stands. Stations and classes are numbered from 0, as in their lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The think times.
    Think,
    /// A station.
    Station(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Think => f.write_str("the think times"),
            Place::Station(number) => write!(f, "station {number}"),
        }
    }
}

/// Why a network cannot be solved.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum NetworkError {
    /// Figures are missing, or there are too many.
    #[error("{place}: {found} figures for {classes} classes; give one for each class")]
    Figures {
        /// Where.
        place: Place,
        /// How many figures there are.
        found: usize,
        /// How many are needed.
        classes: usize,
    },
    /// A time is out of range.
    #[error("{place}, class {class}: a round takes {time} there; it must take 0, or from 1e-18 to 1e18")]
    Time {
        /// Where.
        place: Place,
        /// The class.
        class: usize,
        /// Visits times service time.
        time: f64,
    },
    /// A number of servers is out of range.
    #[error("{place}: {servers} servers; give from 1 to {SERVERS_MAX}, or make it a delay")]
    Servers {
        /// Where.
        place: Place,
        /// How many.
        servers: u32,
    },
    /// First come, first served, with service times that depend on the class.
    #[error(
        "{place}: classes are served first come, first served, for {} and {}; there is an exact solution only for \
         equal means, so make them equal or simulate the network",
        services[0], services[1]
    )]
    NoProductForm {
        /// Where.
        place: Place,
        /// Two service times that differ.
        services: [f64; 2],
    },
    /// A class neither thinks nor is served.
    #[error("class {class} neither thinks nor is served: its rounds take no time; give it a time")]
    Timeless {
        /// The class.
        class: usize,
    },
    /// An exact solution takes too much memory or time.
    #[error("an exact solution takes {needed} {of}, more than {most}; approximate or simulate the network instead")]
    TooLarge {
        /// How much it takes; the largest number if it is more than that.
        needed: u64,
        /// Of what.
        of: &'static str,
        /// How much is allowed.
        most: u64,
    },
    /// An approximation does not settle.
    #[error("the approximation has not settled after {steps} steps; solve the network exactly or simulate it")]
    Unsettled {
        /// How many steps were made.
        steps: u64,
    },
}

fn check_count(place: Place, figures: &[f64], classes: usize) -> Result<(), NetworkError> {
    if figures.len() == classes {
        return Ok(());
    }
    Err(NetworkError::Figures { place, found: figures.len(), classes })
}

/// A station where customers may wait, as the solvers see it.
pub(super) struct Queue {
    /// Its number in the network.
    pub station: usize,
    /// How many servers: fewer than the network has customers.
    pub servers: usize,
    /// By class that has customers: demands.
    pub demands: Vec<f64>,
}

/// A network reduced to what matters: classes that have customers, and stations where they may wait.
pub(super) struct Reduced<'a> {
    network: &'a ClosedNetwork,
    /// The classes that have customers, by their numbers in the network.
    classes: Vec<usize>,
    /// By those classes: how many customers.
    pub customers: Vec<u32>,
    /// By those classes: time of a round without waiting for others: thinking, and stations that have a server for each
    /// customer.
    pub delay: Vec<f64>,
    pub queues: Vec<Queue>,
}

impl ClosedNetwork {
    pub(super) fn reduced(&self) -> Result<Reduced<'_>, NetworkError> {
        let of_network = self.customers.len();
        check_count(Place::Think, &self.think, of_network)?;
        for (class, time) in self.think.iter().enumerate() {
            if *time != 0.0 && !DEMANDS.contains(time) {
                return Err(NetworkError::Time { place: Place::Think, class, time: *time });
            }
        }
        for (number, station) in self.stations.iter().enumerate() {
            station.check(Place::Station(number), of_network)?;
        }
        let classes: Vec<usize> = (0..of_network).filter(|class| self.customers[*class] > 0).collect();
        let customers: Vec<u32> = classes.iter().map(|class| self.customers[*class]).collect();
        let all: u64 = customers.iter().copied().map(u64::from).sum();
        let mut delay: Vec<f64> = classes.iter().map(|class| self.think[*class]).collect();
        let mut queues = Vec::new();
        for (station, of) in self.stations.iter().enumerate() {
            let demands: Vec<f64> = classes.iter().map(|class| of.demand(*class)).collect();
            match of.discipline {
                Discipline::ProcessorSharing { servers } | Discipline::FirstComeFirstServed { servers }
                    if u64::from(servers) < all =>
                {
                    queues.push(Queue { station, servers: servers as usize, demands });
                }
                _ => delay.iter_mut().zip(&demands).for_each(|(delay, demand)| *delay += demand),
            }
        }
        let takes_time = |class: usize| delay[class] > 0.0 || queues.iter().any(|queue| queue.demands[class] > 0.0);
        match (0..classes.len()).find(|class| !takes_time(*class)) {
            Some(class) => Err(NetworkError::Timeless { class: classes[class] }),
            None => Ok(Reduced { network: self, classes, customers, delay, queues }),
        }
    }
}

impl Reduced<'_> {
    /// The solution of the whole network from throughput by class and residence by queue and class.
    pub fn solved(&self, method: Method, throughput: &[f64], residence: &[Vec<f64>]) -> Solved {
        let of_network = self.network.customers.len();
        let mut solved = Solved {
            method,
            throughput: vec![0.0; of_network],
            residence: vec![vec![0.0; of_network]; self.network.stations.len()],
        };
        for (number, class) in self.classes.iter().enumerate() {
            solved.throughput[*class] = throughput[number];
            for (station, of) in self.network.stations.iter().enumerate() {
                solved.residence[station][*class] = of.demand(*class);
            }
            for (queue, residence) in self.queues.iter().zip(residence) {
                solved.residence[queue.station][*class] = residence[number];
            }
        }
        solved
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failing test may panic anywhere.
    use super::*;

    fn refused(change: impl Fn(&mut ClosedNetwork)) -> String {
        let station = Station {
            discipline: Discipline::FirstComeFirstServed { servers: 1 },
            visits: vec![1.0, 2.0],
            service: vec![3.0; 2],
        };
        let mut network = ClosedNetwork { customers: vec![2, 3], think: vec![0.0; 2], stations: vec![station] };
        assert!(network.reduced().is_ok());
        change(&mut network);
        network.reduced().err().unwrap().to_string()
    }

    #[test]
    fn impossible_figures_are_refused_with_their_place() {
        assert!(refused(|net| net.think.truncate(1)).starts_with("the think times: 1 figures for 2 classes"));
        assert!(refused(|net| net.stations[0].visits.push(1.0)).starts_with("station 0: 3 figures for 2 classes"));
        assert!(refused(|net| net.think[1] = f64::NAN).starts_with("the think times, class 1: a round takes NaN"));
        assert!(refused(|net| net.stations[0].visits[0] = -1.0).starts_with("station 0, class 0: a round takes -3"));
        assert!(refused(|net| net.stations[0].service[1] = 1e18).contains("takes 2000000000000000000 there"));
        assert!(
            refused(|net| net.stations[0].service[0] = 1.0).contains("for 1 and 3; there is an exact solution only")
        );
        let of_none = Discipline::ProcessorSharing { servers: 0 };
        assert!(refused(|net| net.stations[0].discipline = of_none).starts_with("station 0: 0 servers; give from 1"));
        assert!(refused(|net| net.stations[0].visits[1] = 0.0).starts_with("class 1 neither thinks nor is served"));
    }

    #[test]
    fn service_of_a_class_without_visits_does_not_matter() {
        let station = Station {
            discipline: Discipline::FirstComeFirstServed { servers: 1 },
            visits: vec![1.0, 0.0],
            service: vec![3.0, f64::NAN],
        };
        let network = ClosedNetwork { customers: vec![1, 1], think: vec![0.0, 1.0], stations: vec![station] };
        assert_eq!(network.reduced().unwrap().queues[0].demands, [3.0, 0.0]);
    }

    #[test]
    fn station_with_a_server_for_each_customer_is_a_delay() {
        let station = |servers| Station {
            discipline: Discipline::ProcessorSharing { servers },
            visits: vec![1.0],
            service: vec![3.0],
        };
        let network = ClosedNetwork { customers: vec![3], think: vec![1.0], stations: vec![station(3), station(2)] };
        let reduced = network.reduced().unwrap();
        assert_eq!((reduced.delay, reduced.queues.len(), reduced.queues[0].station), (vec![4.0], 1, 1));
    }
}
