//! The traits of forecasting methods, and the forecast that they give.
//!
//! A [`Predictor`] forecasts a [`Consolidation`] from VMs that each ran alone on the device ([`Isolated`]). A
//! [`Corrector`] learns from consolidations of known outcome and corrects the forecasts of predictors. [`predict`]
//! checks what goes in and what comes out: figures are finite and not negative.

use std::collections::BTreeMap;

use traces::results::isolation::{IsolatedOperation, IsolationProfile};
use traces::results::prediction::{DevicePolicy, FORECAST_PERCENTILES, Forecast, Intervals, Outcome, PairPrediction};
use traces::spec::{Settings, Spec, SpecError, Tunable};

use crate::check;
use crate::isolated_trace::IsolatedTrace;
pub use crate::predict_error::PredictError;

/// VMs that each ran alone on the device.
#[derive(Clone, Copy, Debug)]
pub struct Isolated<'a> {
    /// The VMs to forecast.
    pub profiles: &'a [IsolationProfile],
    /// Traces of the same VMs in the same order, followed by those of further VMs that ran alone on the same device.
    /// Empty if there are only profiles.
    pub traces: &'a [IsolatedTrace],
}

impl<'a> Isolated<'a> {
    /// VMs without traces.
    pub fn of_profiles(profiles: &'a [IsolationProfile]) -> Isolated<'a> {
        Isolated { profiles, traces: &[] }
    }
}

/// Forecasts what VMs get of a device they share, from measurements of each alone.
pub trait Predictor {
    /// The forecast for two or more VMs whose profiles have passed [`check::check`].
    ///
    /// # Errors
    /// The assumptions of the method do not hold for the VMs, or a profile lacks a figure that it needs.
    fn predict(&self, alone: Isolated<'_>) -> Result<Consolidation, PredictError>;
}

/// Corrects forecasts by other predictors.
pub trait Corrector {
    /// Names of the predictors whose forecasts it learns from and corrects.
    fn learns_from(&self) -> &'static [&'static str];

    /// Learns from consolidations whose truth is known, with forecasts of [`Corrector::learns_from`]. Forgets what it
    /// learned before.
    fn learn(&mut self, known: &[&PairPrediction]);

    /// The corrected forecast of VMs, whose forecasts by [`Corrector::learns_from`] are in `others`.
    ///
    /// # Errors
    /// It has learned nothing, a forecast is missing, or a corrected figure is not finite.
    fn correct(&self, others: &Outcomes) -> Result<Consolidation, PredictError>;
}

/// A forecasting method, built from its settings.
pub enum Method {
    /// A method that forecasts.
    Predictor(Box<dyn Predictor>),
    /// A method that corrects forecasts.
    Corrector(Box<dyn Corrector>),
}

impl Method {
    /// The predictor, if it is one.
    pub fn predictor(self) -> Option<Box<dyn Predictor>> {
        match self {
            Method::Predictor(predictor) => Some(predictor),
            Method::Corrector(_) => None,
        }
    }

    /// The corrector, if it is one.
    pub fn corrector(self) -> Option<Box<dyn Corrector>> {
        match self {
            Method::Predictor(_) => None,
            Method::Corrector(corrector) => Some(corrector),
        }
    }
}

/// The registry row of a method.
pub struct Entry {
    /// The name on the command line.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Paper or method that it comes from.
    pub origin: &'static str,
    /// Its tunables.
    pub tunables: &'static [Tunable],
    /// Whether it needs isolated traces and refuses VMs with profiles only.
    pub needs_traces: bool,
    /// Whether it is a baseline: a simple forecast that any other has to beat.
    pub baseline: bool,
    /// Builds the method from settings resolved against `tunables`.
    pub build: fn(&Settings) -> Result<Method, SpecError>,
}

impl Entry {
    /// The method with `spec`'s settings.
    ///
    /// # Errors
    /// An unknown tunable with the nearest ones; a value that is not accepted.
    pub fn build(&self, spec: &Spec) -> Result<Method, SpecError> {
        (self.build)(&Settings::resolve(spec, self.tunables)?)
    }

    /// The method with its default settings.
    ///
    /// # Errors
    /// A default that is not accepted.
    pub fn by_default(&self) -> Result<Method, SpecError> {
        self.build(&Spec { name: self.name.to_owned(), given: Vec::new() })
    }
}

/// Forecasts of the same VMs by several predictors, by their names.
pub type Outcomes = BTreeMap<String, Outcome>;

/// Checks the profiles and returns the forecast of `predictor`. Its figures are finite and not negative.
///
/// # Errors
/// A profile is not possible, or the method does not hold.
pub fn predict(predictor: &dyn Predictor, alone: Isolated<'_>) -> Result<Consolidation, PredictError> {
    check::check(alone.profiles)?;
    let consolidation = predictor.predict(alone)?;
    consolidation.check()?;
    Ok(consolidation)
}

/// The forecast for VMs together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Consolidation {
    /// By VM, in the order in which they were given.
    pub vms: Vec<VmForecast>,
    /// Share of reads among all requests, if the method has a formula of its own for it. Otherwise it follows from the
    /// rates.
    pub mix_read: Option<f64>,
    /// The dispatch order of the device, if the method infers it.
    pub policy: Option<DevicePolicy>,
    /// Notes on the figures for the user.
    pub notes: Vec<String>,
}

/// The forecast for a VM.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct VmForecast {
    /// Reads.
    pub reads: OperationForecast,
    /// Writes.
    pub writes: OperationForecast,
}

impl VmForecast {
    /// Measured figures in the form of a forecast.
    pub fn measured(profile: &IsolationProfile) -> VmForecast {
        let [reads, writes] = [&profile.reads, &profile.writes].map(OperationForecast::measured);
        VmForecast { reads, writes }
    }
}

/// The forecast for the reads or writes of a VM. A figure is `None` if the method does not forecast it or the VM has no
/// such requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OperationForecast {
    /// Throughput, requests per second.
    pub iops: Option<f64>,
    /// Mean response time (D2C), ns.
    pub response_ns: Option<f64>,
    /// Percentiles of the response time in the order of [`FORECAST_PERCENTILES`], ns.
    pub percentiles_ns: [Option<f64>; FORECAST_PERCENTILES.len()],
    /// Requests that were measured; `None` of figures that were not.
    pub requests: Option<u64>,
    /// How far the figures may be off, if the method states it.
    pub spread: Option<Spread>,
}

/// Standard deviations of the logarithms of forecast figures. With 0.1, about two thirds of the figures are off by less
/// than a tenth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// That of the throughput.
    pub iops: f64,
    /// That of the mean response time.
    pub response: f64,
    /// That of the 99th percentile of the response time, if the method states it.
    pub p99: Option<f64>,
}

impl Spread {
    /// The deviations that are stated.
    pub fn deviations(&self) -> impl Iterator<Item = f64> + use<> {
        [Some(self.iops), Some(self.response), self.p99].into_iter().flatten()
    }
}

/// Standard deviations on either side that hold nine tenths of a normal distribution, the probability
/// [`traces::results::prediction::STATED`] of intervals.
const INTERVAL_DEVIATIONS: f64 = 1.6449;

impl OperationForecast {
    /// A forecast of means only.
    pub fn of_means(iops: Option<f64>, response_ns: Option<f64>) -> OperationForecast {
        OperationForecast { iops, response_ns, ..OperationForecast::default() }
    }

    /// Measured figures in the form of a forecast.
    pub fn measured(operation: &IsolatedOperation) -> OperationForecast {
        let any = operation.iops > 0.0;
        let percentile = |(_, name): (u32, &str)| operation.response_percentiles_ns.get(name).map(|&ns| ns as f64);
        OperationForecast {
            iops: any.then_some(operation.iops),
            response_ns: operation.response_ns.filter(|_| any),
            percentiles_ns: FORECAST_PERCENTILES.map(|named| percentile(named).filter(|_| any)),
            requests: Some(operation.requests),
            spread: None,
        }
    }

    /// The percentile of this name, if it is forecast.
    pub fn percentile(&self, name: &str) -> Option<f64> {
        self.percentiles_ns[FORECAST_PERCENTILES.iter().position(|(_, other)| *other == name)?]
    }

    fn interval(figure: Option<f64>, spread: Option<f64>) -> Option<[f64; 2]> {
        let (figure, spread) = figure.zip(spread)?;
        let factor = libm::exp(INTERVAL_DEVIATIONS * spread);
        Some([figure / factor, figure * factor])
    }

    fn iops_interval(&self) -> Option<[f64; 2]> {
        Self::interval(self.iops, self.spread.map(|spread| spread.iops))
    }

    fn response_interval(&self) -> Option<[f64; 2]> {
        Self::interval(self.response_ns, self.spread.map(|spread| spread.response))
    }

    fn p99_interval(&self) -> Option<[f64; 2]> {
        Self::interval(self.percentile("p99"), self.spread.and_then(|spread| spread.p99))
    }
}

impl From<&Forecast> for Consolidation {
    /// The consolidation of a stored forecast, without its intervals.
    fn from(forecast: &Forecast) -> Consolidation {
        type Named = BTreeMap<String, Vec<Option<f64>>>;
        let at = |figures: &[Option<f64>], index: usize| figures.get(index).copied().flatten();
        let at_count = |counts: &[Option<u64>], index: usize| counts.get(index).copied().flatten();
        let percentiles = |named: &Named, index: usize| {
            FORECAST_PERCENTILES.map(|(_, name)| named.get(name).and_then(|figures| at(figures, index)))
        };
        let vm = |index: usize| VmForecast {
            reads: OperationForecast {
                iops: at(&forecast.read_iops, index),
                response_ns: at(&forecast.read_response_ns, index),
                percentiles_ns: percentiles(&forecast.read_percentiles_ns, index),
                requests: at_count(&forecast.read_requests, index),
                spread: None,
            },
            writes: OperationForecast {
                iops: at(&forecast.write_iops, index),
                response_ns: at(&forecast.write_response_ns, index),
                percentiles_ns: percentiles(&forecast.write_percentiles_ns, index),
                requests: at_count(&forecast.write_requests, index),
                spread: None,
            },
        };
        Consolidation {
            vms: (0..forecast.read_iops.len()).map(vm).collect(),
            mix_read: forecast.mix_read,
            policy: forecast.policy.clone(),
            notes: forecast.notes.clone(),
        }
    }
}

impl Consolidation {
    /// The truth in the form of a forecast: what VMs got together, from the profile of each.
    pub fn measured(together: &[IsolationProfile]) -> Consolidation {
        Consolidation { vms: together.iter().map(VmForecast::measured).collect(), ..Consolidation::default() }
    }

    /// The forecast in the form in which it is stored.
    pub fn forecast(&self) -> Forecast {
        let each = |of: fn(&VmForecast) -> Option<f64>| -> Vec<Option<f64>> { self.vms.iter().map(of).collect() };
        let read_iops = each(|vm| vm.reads.iops);
        let write_iops = each(|vm| vm.writes.iops);
        // A VM without such requests adds none. A method that forecasts none for any VM has no total.
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
            read_percentiles_ns: self.percentiles(|vm| &vm.reads),
            write_percentiles_ns: self.percentiles(|vm| &vm.writes),
            read_requests: self.requests(|vm| &vm.reads),
            write_requests: self.requests(|vm| &vm.writes),
            intervals_90: self.intervals(),
            total_read_iops: reads,
            total_write_iops: writes,
            mix_read: self.mix_read.or_else(of_rates),
            policy: self.policy.clone(),
            notes: self.notes.clone(),
        }
    }

    /// By name: the percentiles that are forecast for at least one VM.
    fn percentiles(&self, of: fn(&VmForecast) -> &OperationForecast) -> BTreeMap<String, Vec<Option<f64>>> {
        let named = FORECAST_PERCENTILES.iter().enumerate().map(|(index, (_, name))| {
            let each = self.vms.iter().map(|vm| of(vm).percentiles_ns[index]);
            ((*name).to_owned(), each.collect::<Vec<Option<f64>>>())
        });
        named.filter(|(_, each)| each.iter().any(Option::is_some)).collect()
    }

    /// The requests that were measured; empty of figures that were not.
    fn requests(&self, of: fn(&VmForecast) -> &OperationForecast) -> Vec<Option<u64>> {
        let measured = self.vms.iter().any(|vm| of(vm).requests.is_some());
        if measured { self.vms.iter().map(|vm| of(vm).requests).collect() } else { Vec::new() }
    }

    fn intervals(&self) -> Option<Intervals> {
        let each = |of: fn(&VmForecast) -> Option<[f64; 2]>| self.vms.iter().map(of).collect();
        let says = |vm: &VmForecast| vm.reads.spread.is_some() || vm.writes.spread.is_some();
        let named = |each: Vec<Option<[f64; 2]>>| if each.iter().any(Option::is_some) { each } else { Vec::new() };
        self.vms.iter().any(says).then(|| Intervals {
            read_response_ns: each(|vm| vm.reads.response_interval()),
            write_response_ns: each(|vm| vm.writes.response_interval()),
            read_iops: each(|vm| vm.reads.iops_interval()),
            write_iops: each(|vm| vm.writes.iops_interval()),
            read_p99_ns: named(each(|vm| vm.reads.p99_interval())),
            write_p99_ns: named(each(|vm| vm.writes.p99_interval())),
        })
    }

    /// Checks that every figure is finite and not negative.
    pub(crate) fn check(&self) -> Result<(), PredictError> {
        let of_operation = |operation: OperationForecast| {
            let spread = operation.spread.into_iter().flat_map(|spread| spread.deviations());
            let figures = [operation.iops, operation.response_ns].into_iter().chain(operation.percentiles_ns);
            figures.flatten().chain(spread)
        };
        let of_vm = |vm: &VmForecast| [vm.reads, vm.writes].into_iter().flat_map(of_operation);
        let figures = self.vms.iter().flat_map(of_vm).chain(self.mix_read);
        let wrong = figures.into_iter().find(|figure| !figure.is_finite() || *figure < 0.0);
        wrong.map_or(Ok(()), |figure| {
            Err(PredictError::DoesNotHold(format!("the method leads to a figure of {figure} for these VMs")))
        })
    }
}
