//! The status lines that the plugin prints on standard output for `iocast serve`: one JSON object per line.

use serde::{Deserialize, Serialize};
use traces::results::serving::Serving;

/// One status line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StatusLine {
    /// Clients can connect.
    Ready,
    /// The figures so far.
    #[serde(rename = "going")]
    Progress(Box<Serving>),
    /// The final figures. The log, if there is one, is complete.
    Ended(Box<Serving>),
}
