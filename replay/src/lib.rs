//! The replay engine: a [`Source`] of requests, a scheduling [`Stage`] and a drive on a simulated
//! clock, watched by [`Observer`]s. Start with [`Engine::run`]: it is the whole engine on a screen.

pub mod decision_log;
pub mod decisions;
pub mod engine;
pub mod figures;
mod flush;
pub mod guest;
pub mod measured;
mod merge;
pub mod metrics;
pub mod observer;
pub mod overload;
pub mod programs;
mod requests;
pub mod sources;
pub mod stage;

pub use decision_log::DecisionLog;
pub use decisions::Decisions;
pub use decisions::arrivals::Pacing;
pub use decisions::free::Recording;
pub use engine::{Ended, Engine, Outcome};
pub use measured::{MeasuredError, Measurements};
pub use metrics::Metrics;
pub use observer::{Observer, Served};
pub use overload::Overload;
pub use sources::{Next, ReplayError, Source};
pub use stage::{Limits, Stage};
