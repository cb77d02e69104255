//! The replay engine. A [`Source`] decides when requests arrive. A [`Host`] serves them on a simulated clock: a
//! scheduling [`Stage`] over a drive, or a whole [`Stack`] of stages. [`Observer`]s measure the replay. The main loop
//! is [`Engine::run`].

pub mod active_time;
pub mod decision_log;
pub mod decisions;
pub mod engine;
pub mod figures;
mod flush;
pub mod history;
pub mod host;
mod limits;
pub mod live;
pub mod measured;
mod merge;
pub mod metrics;
pub mod observer;
pub mod overload;
mod request_rows;
mod requests;
pub mod rotational;
pub mod source;
pub mod sources;
pub mod stack;
pub mod stage;

pub use active_time::ActiveTime;
pub use decision_log::DecisionLog;
pub use decisions::Decisions;
pub use decisions::arrivals::Pacing;
pub use decisions::free::RecordedRun;
pub use engine::{Ended, Engine, Outcome};
pub use history::HistoryRecorder;
pub use host::Host;
pub use measured::{MeasuredError, Measurements};
pub use metrics::Metrics;
pub use observer::{Observer, Served};
pub use overload::Overload;
pub use request_rows::RequestRows;
pub use source::{Next, ReplayError, Source};
pub use stack::Stack;
pub use stage::{Limits, Stage};
