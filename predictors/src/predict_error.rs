//! Errors of predictors: the reasons why there is no forecast.

use traces::results::isolation::IsolationProfile;

/// The reason why there is no forecast.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PredictError {
    /// Fewer than two VMs.
    #[error("a consolidation needs at least two VMs, and there is {0}")]
    TooFew(usize),
    /// Two VMs of the same name.
    #[error("two VMs are called {0}; give one of them another name (NAME=FILE)")]
    SameName(String),
    /// A profile that is not possible, or lacks something.
    #[error("{vm}: {what}")]
    Profile {
        /// The VM.
        vm: String,
        /// What is wrong, and what to do.
        what: String,
    },
    /// Profiles that contradict one another.
    #[error("{0}")]
    Disagree(String),
    /// The method does not hold for these VMs.
    #[error("{0}")]
    DoesNotHold(String),
}

impl PredictError {
    pub(crate) fn profile(alone: &IsolationProfile, what: impl Into<String>) -> PredictError {
        PredictError::Profile { vm: alone.vm.clone(), what: what.into() }
    }
}
