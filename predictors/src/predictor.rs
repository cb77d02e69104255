//! What every predictor does, and what it says.

use traces::results::isolation::IsolationProfile;
use traces::results::prediction::Forecast;

use crate::check;
use crate::twin::Recording;

/// A method that says what machines get of a device they share.
pub trait Predictor {
    /// What `alone`, two or more machines that have passed [`check::check`], get together. `recordings` are of the same machines in the
    /// same order, or there are none.
    ///
    /// # Errors
    /// The method does not hold for them, or a profile lacks what it needs.
    fn predict(&self, alone: &[IsolationProfile], recordings: &[Recording]) -> Result<Consolidation, PredictError>;
}

/// Checks the profiles and asks `predictor`. Whatever it says is finite and not negative.
///
/// # Errors
/// What is wrong with a profile; why the method does not hold.
pub fn predict(
    predictor: &dyn Predictor,
    alone: &[IsolationProfile],
    recordings: &[Recording],
) -> Result<Consolidation, PredictError> {
    check::check(alone)?;
    let consolidation = predictor.predict(alone, recordings)?;
    consolidation.check()?;
    Ok(consolidation)
}

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

/// Machines together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Consolidation {
    /// In the order in which they were given.
    pub vms: Vec<VmForecast>,
    /// Share of reads among all requests, where the method has a formula of its own for it; else it follows from the rates.
    pub mix_read: Option<f64>,
    /// What to know about the figures.
    pub notes: Vec<String>,
}

/// What a machine gets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct VmForecast {
    /// Reads.
    pub reads: OperationForecast,
    /// Writes.
    pub writes: OperationForecast,
}

/// Reads or writes of a machine; nothing where the method says nothing, or the machine has none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OperationForecast {
    /// Throughput, requests per second.
    pub iops: Option<f64>,
    /// Mean response time (D2C), ns.
    pub response_ns: Option<f64>,
}

impl Consolidation {
    /// As it is stored.
    pub fn forecast(&self) -> Forecast {
        let each = |of: fn(&VmForecast) -> Option<f64>| -> Vec<Option<f64>> { self.vms.iter().map(of).collect() };
        let read_iops = each(|vm| vm.reads.iops);
        let write_iops = each(|vm| vm.writes.iops);
        // A machine without such requests adds none; a method that says nothing of any has no total.
        let total =
            |rates: &[Option<f64>]| rates.iter().any(Option::is_some).then(|| rates.iter().flatten().sum::<f64>());
        let (reads, writes) = (total(&read_iops), total(&write_iops));
        let of_rates = || {
            let all = reads.unwrap_or(0.0) + writes.unwrap_or(0.0);
            (all > 0.0).then(|| reads.unwrap_or(0.0) / all)
        };
        Forecast {
            read_response_ns: each(|vm| vm.reads.response_ns),
            write_response_ns: each(|vm| vm.writes.response_ns),
            read_iops,
            write_iops,
            total_read_iops: reads,
            total_write_iops: writes,
            mix_read: self.mix_read.or_else(of_rates),
            notes: self.notes.clone(),
        }
    }

    /// That no figure is one that nobody could use.
    fn check(&self) -> Result<(), PredictError> {
        let of_vm = |vm: &VmForecast| [vm.reads, vm.writes].map(|operation| [operation.iops, operation.response_ns]);
        let figures = self.vms.iter().flat_map(of_vm).flatten().flatten().chain(self.mix_read);
        let wrong = figures.into_iter().find(|figure| !figure.is_finite() || *figure < 0.0);
        wrong.map_or(Ok(()), |figure| {
            Err(PredictError::DoesNotHold(format!("the method leads to a figure of {figure} for these machines")))
        })
    }
}
