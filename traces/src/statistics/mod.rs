//! What a trace is like, measured in one pass and in bounded memory.
//!
//! [`Statistics`] watches a capture's events ([`crate::events::Watch`]); [`Timeline`] lets it watch
//! traces that hold records only.

mod consecutive;
mod depth;
mod distribution;
mod events;
mod found;
mod groups;
mod histogram;
mod interval;
mod queue_length;
mod seeks;
mod series;
mod sizes;
mod spans;
mod stages;
mod timeline;
mod whole;

pub use distribution::Distribution;
pub use interval::mean_and_half_width;
pub use queue_length::QueueLength;
pub use series::{Interval, Series, SeriesWriter};
pub use spans::Spans;
pub use timeline::Timeline;
pub use whole::Statistics;
