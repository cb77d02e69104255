//! Coloured queueing Petri nets (Bause 1993), with the semantics of SimQPN (Kounev, Spinner, Meier 2010).
//!
//! Tokens of some color lie in places. A transition takes tokens from places and puts tokens into places, in one of its
//! modes. A queueing place serves its tokens in a queue first. After service a token lies in the depository of the
//! place, where transitions may take it. All times and rates are in one time unit that the user chooses.
//!
//! Firing: immediate transitions go before all that takes time, those of the highest priority first. Among enabled
//! transitions of that priority one is drawn by transition weight, then one of its enabled modes by firing weight. The
//! numbers of tokens play no part in the choice. Tokens that a service of no length completes come back with the next
//! event, after all enabled immediate transitions have fired.

mod bounded;
pub(crate) mod compiled;
pub mod description;
pub mod draw;
pub mod qpe;
mod subnet;
pub mod validate;

use crate::distribution::Distribution;

/// A queueing Petri net. Indices refer to the vectors of this struct.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Net {
    /// What the net is called.
    pub name: String,
    /// Names of the colors.
    pub colors: Vec<String>,
    /// The queues, each of which serves one place or several.
    pub queues: Vec<Queue>,
    /// The places.
    pub places: Vec<Place>,
    /// The transitions.
    pub transitions: Vec<Transition>,
}

/// A queue with servers.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// The order of service.
    pub discipline: Discipline,
    /// Number of servers; an infinite server ignores it.
    pub servers: u32,
}

/// The order in which a queue serves tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// First come, first served.
    Fcfs,
    /// Processor sharing: n tokens on c servers are each served at rate min(1, c / n).
    Ps,
    /// Infinite server: each token is served at once, such as a client that thinks.
    Is,
    /// A waiting token at random, each with the same probability.
    Random,
    /// Head of line: the waiting token of the highest priority, first come first served within it; not preemptive.
    Priority,
}

/// A place.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// Its name.
    pub name: String,
    /// Whether and how it serves tokens.
    pub kind: PlaceKind,
    /// The order in which tokens leave.
    pub departure: Departure,
    /// The colors that may lie in it.
    pub colors: Vec<PlaceColor>,
}

/// The kind of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceKind {
    /// Tokens are available at once.
    Ordinary,
    /// Tokens are available after service in the queue with this index.
    Queueing(usize),
    /// Tokens pass the queue with this index in no time.
    Immediate(usize),
}

/// The order in which tokens leave a depository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// Each token is available.
    Normal,
    /// Only the token that came first is available, whatever its color.
    Fifo,
}

/// A color in a place.
#[derive(Clone, Debug, PartialEq)]
pub struct PlaceColor {
    /// Index of the color.
    pub color: usize,
    /// Tokens at the start. Those of a queueing place start in the queue.
    pub initial: u32,
    /// The service time; of timed queueing places.
    pub service: Option<Distribution>,
    /// Priority in a head-of-line queue: greater goes first.
    pub priority: i32,
}

/// A transition.
#[derive(Clone, Debug, PartialEq)]
pub struct Transition {
    /// Its name.
    pub name: String,
    /// When it fires.
    pub timing: Timing,
    /// Its modes.
    pub modes: Vec<Mode>,
}

/// When an enabled transition fires.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Timing {
    /// At once.
    Immediate {
        /// Greater goes first.
        priority: i32,
        /// Weight among the enabled transitions of the same priority; above zero.
        weight: f64,
    },
    /// Each enabled mode waits for its own delay, drawn when it becomes enabled and dropped when it is disabled.
    Timed,
}

/// A mode (transition color): which tokens a firing takes and puts.
#[derive(Clone, Debug, PartialEq)]
pub struct Mode {
    /// Its name.
    pub name: String,
    /// Weight among the enabled modes of an immediate transition; above zero.
    pub weight: f64,
    /// The firing delay of a mode of a timed transition.
    pub delay: Option<Distribution>,
    /// Tokens that it takes.
    pub inputs: Vec<Arc>,
    /// Tokens that it puts.
    pub outputs: Vec<Arc>,
}

/// Tokens of one color in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arc {
    /// Index of the place.
    pub place: usize,
    /// Index of the color.
    pub color: usize,
    /// How many.
    pub count: u32,
}
