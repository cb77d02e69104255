//! Machines and their device, told from recordings and ready to be played together.

use traces::Nanos;
use traces::results::isolation::IsolationProfile;
use traces::results::prediction::DevicePolicy;

use super::device::{self, Fit, Played};
use super::learned::Learned;
use super::play::{self, Table, play};
use super::policy::Policy;
use super::recording::Recording;
use super::{Inferred, Order, REQUESTS_MIN, ahead, infer, recorded, spread};
use crate::predictor::{OperationForecast, PredictError, VmForecast};

/// What the recordings of machines alone tell of the machines and of the device that they are to share.
pub struct Model<'a> {
    /// First those of the machines that are played.
    recordings: &'a [Recording],
    machines: Vec<Inferred>,
    fitted: Fit,
    order: Order,
    /// Whether the order is.
    sure: bool,
    /// What each machine gets of the device in a play alone.
    alone: Vec<VmForecast>,
    /// Of others' recordings.
    told_by_others: Option<String>,
    seed: u64,
}

impl<'a> Model<'a> {
    /// Of the machines of the profiles `alone`, whose are the first of the `recordings`; all of these tell of the device.
    ///
    /// # Errors
    /// [`PredictError::DoesNotHold`] if a recording is missing or times follow nothing, [`PredictError::Profile`] if one has too few requests.
    pub fn infer(
        alone: &[IsolationProfile],
        recordings: &'a [Recording],
        seed: u64,
    ) -> Result<Model<'a>, PredictError> {
        enough(alone, recordings)?;
        let machines = alone.len();
        let learned = Learned::of_machines(recordings, machines);
        let told_by_others = learned.told_by_others(machines);
        let Learned { recordings, one_by_one, policy, sure, .. } = learned;
        // Of others only what an array's streams wait for is told.
        let one_after_another = one_by_one.is_some() && policy != Policy::Unknown;
        let telling = if one_after_another { machines } else { recordings.len() };
        let inferred: Vec<Inferred> = recordings[..telling].iter().map(infer).collect();
        let delay = one_by_one.as_ref().map_or(Nanos::ZERO, |fitted| fitted.delay);
        let order = Order { policy, durable_first: ahead::goes_ahead(recordings, delay) };
        let played = device::fit(recordings, &inferred, machines, order, one_by_one, seed)?;
        let Played { fitted, alone } = played.ok_or_else(|| {
            PredictError::DoesNotHold(
                "the recordings' service times follow no line; their times cannot be right".to_owned(),
            )
        })?;
        Ok(Model { recordings, machines: inferred, fitted, order, sure, alone, told_by_others, seed })
    }

    /// What each machine gets of the device together with the others.
    ///
    /// # Errors
    /// [`PredictError::DoesNotHold`] if they cannot be played.
    pub fn forecast(&self) -> Result<Vec<VmForecast>, PredictError> {
        let machines = 0..self.alone.len();
        let table = Table { fitted: &self.fitted, order: self.order, seed: self.seed, machines, most: play::ALL };
        let together = play(self.recordings, &self.machines, &table)?;
        let several = matches!(self.fitted, Fit::Several(_));
        let vm = |((together, played), recording): ((&VmForecast, &VmForecast), &Recording)| {
            let recorded = recorded(recording);
            VmForecast {
                reads: scaled(together.reads, played.reads, recorded.reads, several),
                writes: scaled(together.writes, played.writes, recorded.writes, several),
            }
        };
        Ok(together.iter().zip(&self.alone).zip(self.recordings).map(vm).collect())
    }

    /// In which order the device takes what waits for it.
    pub fn policy(&self) -> DevicePolicy {
        DevicePolicy { name: self.order.policy.kind().to_owned(), sure: self.sure }
    }

    /// What the device is, in words, and what others' recordings told of it.
    pub fn shown(&self) -> Vec<String> {
        [shown(&self.fitted, self.order, self.sure)].into_iter().chain(self.told_by_others.clone()).collect()
    }
}

/// That there is a recording of each machine, with requests in it that a device can have.
fn enough(alone: &[IsolationProfile], recordings: &[Recording]) -> Result<(), PredictError> {
    if recordings.len() < alone.len() {
        return Err(PredictError::DoesNotHold(
            "the twin plays captures, and a profile tells no single requests; give the captures themselves".to_owned(),
        ));
    }
    for (profile, recording) in alone.iter().zip(recordings) {
        if recording.len() < REQUESTS_MIN {
            let few = recording.len();
            let what =
                format!("{few} requests with completions; the twin learns the device from {REQUESTS_MIN} at least");
            return Err(PredictError::profile(profile, what));
        }
        if recording.end().sector() == u64::MAX {
            let what = "from its place on the device requests reach beyond the last address; give it another place";
            return Err(PredictError::profile(profile, what));
        }
    }
    Ok(())
}

/// What the device is, in words.
fn shown(fitted: &Fit, order: Order, sure: bool) -> String {
    match fitted {
        Fit::OneByOne(_) => format!(
            "the device takes requests in this order{}: {}{}; it is {} away",
            if sure { "" } else { ", which is not sure" },
            order.policy,
            if order.durable_first { ", durable writes ahead of all" } else { "" },
            Nanos::from_us(fitted.delay().as_ns() / 1000)
        ),
        Fit::Members(fitted) => fitted.to_string(),
        Fit::Several(_) => "the device serves several at once, or in no known order: response times go by what is \
                            under way"
            .to_owned(),
    }
}

/// By what power of the share that is left of a figure's own time what it is off by alone counts.
const FADES: f64 = 0.5;

/// The forecast is what the twin makes of machines together. What it is off by alone is put right, but the less the longer responses get:
/// then they are other machines' doing, of which it says nothing.
fn scaled(
    together: OperationForecast,
    played: OperationForecast,
    recorded: OperationForecast,
    several: bool,
) -> OperationForecast {
    let responses = played.response_ns.zip(together.response_ns);
    let own = responses.map_or(1.0, |(played, together)| (played / together).clamp(0.0, 1.0));
    let counts = own.powf(FADES);
    let figure = |together: Option<f64>, played: Option<f64>, recorded: Option<f64>| {
        let off = recorded.zip(played.filter(|played| *played > 0.0)).map(|(recorded, played)| recorded / played);
        together.map(|together| together * off.map_or(1.0, |off| off.powf(counts)))
    };
    OperationForecast {
        iops: figure(together.iops, played.iops, recorded.iops),
        response_ns: figure(together.response_ns, played.response_ns, recorded.response_ns),
        percentiles_ns: std::array::from_fn(|index| {
            let of = |operation: &OperationForecast| operation.percentiles_ns[index];
            figure(of(&together), of(&played), of(&recorded))
        }),
        spread: spread::of(&together, &played, &recorded, several),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(response_ms: f64, iops: f64) -> OperationForecast {
        OperationForecast::of_means(Some(iops), Some(response_ms * 1e6))
    }

    #[test]
    fn what_the_twin_is_off_by_alone_fades_as_others_make_it_wait() {
        let (played, recorded) = (operation(10.0, 100.0), operation(20.0, 50.0));
        let forecast = |response_ms: f64, iops: f64| {
            let scaled = scaled(operation(response_ms, iops), played, recorded, false);
            (scaled.response_ns.unwrap() / 1e6, scaled.iops.unwrap())
        };
        // Nobody else: all of it.
        assert_eq!(forecast(10.0, 100.0), (20.0, 50.0));
        // Four times as long: the square root of the factor.
        let (response, iops) = forecast(40.0, 25.0);
        assert!((response - 40.0 * 2f64.sqrt()).abs() < 1e-9 && (iops - 25.0 / 2f64.sqrt()).abs() < 1e-9);
        // Faster than alone is no less its own.
        assert_eq!(forecast(5.0, 200.0), (10.0, 100.0));
    }
}
