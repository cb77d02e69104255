//! Why a predictor has no forecast.

use traces::results::isolation::IsolationProfile;

/// Why there is no forecast.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PredictError {
    /// Fewer than two machines.
    #[error("a consolidation is of two machines or more, and there is {0}")]
    TooFew(usize),
    /// Two with one name.
    #[error("two machines are called {0}; give one of them another name (NAME=FILE)")]
    SameName(String),
    /// A profile that cannot be.
    #[error("{vm}: {what}")]
    Profile {
        /// The machine.
        vm: String,
        /// What is wrong, and what to do.
        what: String,
    },
    /// Profiles that do not go together.
    #[error("{0}")]
    Disagree(String),
    /// The method does not hold here.
    #[error("{0}")]
    DoesNotHold(String),
}

impl PredictError {
    pub(crate) fn profile(alone: &IsolationProfile, what: impl Into<String>) -> PredictError {
        PredictError::Profile { vm: alone.vm.clone(), what: what.into() }
    }
}
