//! What the plugin tells `iocast serve` while it runs, one line of JSON each.

use serde::{Deserialize, Serialize};
use traces::results::serving::Serving;

/// A line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Told {
    /// Clients can connect.
    Ready,
    /// How it goes.
    Going(Box<Serving>),
    /// How it went. The log, if there is one, is complete.
    Ended(Box<Serving>),
}
