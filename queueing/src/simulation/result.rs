//! The figures of a simulation.

use super::batches::{Batches, Column, LENGTH, Ratio, busy_column, column};
use super::estimate::estimate;
use super::{Histogram, Replication, Settings, SimulationError};
use crate::net::compiled::Compiled;
use crate::net::{Discipline, Net, PlaceKind};

/// A mean with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean; 0 for what never happened.
    pub mean: f64,
    /// Half the width of the interval (Student's t), if there is more than one value.
    pub half_width: Option<f64>,
}

impl Estimate {
    /// Whether the interval holds `value`.
    pub fn holds(&self, value: f64) -> bool {
        self.half_width.is_some_and(|width| (value - self.mean).abs() <= width)
    }
}

/// What is measured of a color in a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Tokens that leave the place, per time unit.
    Throughput,
    /// Mean number of tokens, in queue and depository.
    Population,
    /// Mean time of a visit, in queue and depository, by Little's law.
    Residence,
    /// Mean time of a visit in the queue: waiting and service.
    QueueResidence,
    /// Mean time of a visit in the depository.
    DepositoryResidence,
}

/// A quantity of a color in a place, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantity {
    /// What.
    pub measure: Measure,
    /// Index of the place.
    pub place: usize,
    /// Index of the color.
    pub color: usize,
}

/// What a simulation found.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulationResult {
    /// Simulated time of all replications together, time units.
    pub time: f64,
    /// Events of all replications.
    pub events: u64,
    /// Services completed, in all replications.
    pub completions: u64,
    /// The share of each replication's events that was dropped as warm-up.
    pub warm_up: Vec<f64>,
    /// Whether the watched quantities are as precise as asked for.
    pub precise: bool,
    /// The places, in the order of the net.
    pub places: Vec<PlaceResult>,
    /// The queues, in the order of the net.
    pub queues: Vec<QueueResult>,
}

/// A place.
#[derive(Clone, Debug, PartialEq)]
pub struct PlaceResult {
    /// Its name.
    pub name: String,
    /// Its colors, in the order of the place.
    pub colors: Vec<ColorResult>,
}

/// A color in a place. Times are in time units.
#[derive(Clone, Debug, PartialEq)]
pub struct ColorResult {
    /// The color's name.
    pub name: String,
    /// See [`Measure::Throughput`]; and so on.
    pub throughput: Estimate,
    /// Mean tokens in queue and depository.
    pub population: Estimate,
    /// Mean residence per visit in both.
    pub residence: Estimate,
    /// Mean residence per visit in the queue; of timed queueing places.
    pub queue_residence: Option<Estimate>,
    /// Mean residence per visit in the depository; of timed queueing places.
    pub depository_residence: Option<Estimate>,
    /// Residence times of all visits, if they were asked for.
    pub histogram: Option<Histogram>,
}

/// A queue.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueResult {
    /// Its name.
    pub name: String,
    /// The mean share of servers that are busy; of an infinite server the mean number of tokens.
    pub utilisation: Estimate,
}

fn ratio(slot: usize, measure: Measure) -> Ratio {
    let [completions, departures, in_queue, in_depository] =
        [Column::Completions, Column::Departures, Column::InQueue, Column::InDepository].map(|at| column(slot, at));
    let (above, below) = match measure {
        Measure::Throughput => (vec![departures], LENGTH),
        Measure::Population => (vec![in_queue, in_depository], LENGTH),
        Measure::Residence => (vec![in_queue, in_depository], departures),
        Measure::QueueResidence => (vec![in_queue], completions),
        Measure::DepositoryResidence => (vec![in_depository], departures),
    };
    Ratio { above, below, scale: 1.0 }
}

/// The watched quantities as ratios; throughput and residence of all queueing places if none are given.
pub(super) fn watched(net: &Net, compiled: &Compiled, given: &[Quantity]) -> Result<Vec<Ratio>, SimulationError> {
    if given.is_empty() {
        let timed = compiled.slots.iter().enumerate().filter(|(_, slot)| slot.service.is_some());
        let both = |(index, _)| [Measure::Throughput, Measure::Residence].map(|measure| ratio(index, measure));
        return Ok(timed.flat_map(both).collect());
    }
    let of = |quantity: &Quantity| {
        let here = |slot: &crate::net::compiled::Slot| (slot.place, slot.color) == (quantity.place, quantity.color);
        let slot = compiled.slots.iter().position(here).ok_or_else(|| {
            SimulationError::Settings(format!(
                "place {} has no color {}: watch colors that a place of the net has ({} places)",
                quantity.place,
                quantity.color,
                net.places.len()
            ))
        })?;
        Ok(ratio(slot, quantity.measure))
    };
    given.iter().map(of).collect()
}

/// The figures of all replications.
pub(super) fn result(
    net: &Net,
    compiled: &Compiled,
    replications: &[Replication],
    warm_ups: &[usize],
    settings: &Settings,
    precise: bool,
) -> SimulationResult {
    let batches: Vec<&Batches> = replications.iter().map(|replication| &replication.batches).collect();
    let of = |ratio: &Ratio| estimate(&batches, warm_ups, ratio, settings.method);
    let color = |slot: usize, name: &str, timed: bool| {
        let of_measure = |measure| of(&ratio(slot, measure));
        let histogram = settings.histograms.then(|| {
            let mut all = Histogram::default();
            replications.iter().for_each(|replication| all.merge(&replication.engine.histograms[slot]));
            all
        });
        ColorResult {
            name: name.to_owned(),
            throughput: of_measure(Measure::Throughput),
            population: of_measure(Measure::Population),
            residence: of_measure(Measure::Residence),
            queue_residence: timed.then(|| of_measure(Measure::QueueResidence)),
            depository_residence: timed.then(|| of_measure(Measure::DepositoryResidence)),
            histogram,
        }
    };
    let place = |(index, place): (usize, &crate::net::Place)| {
        let here = compiled.slots.iter().enumerate().filter(|(_, slot)| slot.place == index);
        let timed = matches!(place.kind, PlaceKind::Queueing(_));
        let colors = here.map(|(slot, compiled)| color(slot, &net.colors[compiled.color], timed)).collect();
        PlaceResult { name: place.name.clone(), colors }
    };
    let queue = |(index, queue): (usize, &crate::net::Queue)| {
        let scale = if queue.discipline == Discipline::Is { 1.0 } else { f64::from(queue.servers) };
        let busy = Ratio { above: vec![busy_column(compiled.slots.len(), index)], below: LENGTH, scale };
        QueueResult { name: queue.name.clone(), utilisation: of(&busy) }
    };
    let completions = |batches: &&Batches| -> f64 {
        let slots = 0..compiled.slots.len();
        let of_row = |row: &[f64]| slots.clone().map(|slot| row[column(slot, Column::Completions)]).sum::<f64>();
        (0..batches.len()).map(|index| of_row(batches.row(index))).sum()
    };
    SimulationResult {
        time: replications.iter().map(|replication| replication.engine.now).sum(),
        events: replications.iter().map(|replication| replication.engine.event_count).sum(),
        completions: batches.iter().map(completions).sum::<f64>() as u64,
        warm_up: batches.iter().zip(warm_ups).map(|(batches, &first)| first as f64 / batches.len() as f64).collect(),
        precise,
        places: net.places.iter().enumerate().map(place).collect(),
        queues: net.queues.iter().enumerate().map(queue).collect(),
    }
}
