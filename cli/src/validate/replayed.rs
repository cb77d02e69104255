//! Forecasts compared with synthetic setups of known VMs (`validate consolidation --replayed`).

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use predictors::Consolidation;
use predictors::synthetic::{Campaign, Ran, SYNTHETIC_SETUPS};
use traces::results::prediction::{DevicePolicy, Forecast, PairPrediction};

use crate::arguments::ValidateConsolidation;
use crate::predict::profiles::Alone;
use crate::predict::{Chosen, outcomes};
use crate::progress::Progress;

/// A line on the origin of the truth, and every group of every synthetic setup with its forecasts.
pub fn pairs(arguments: &ValidateConsolidation, predictors: &[Chosen]) -> Result<(String, Vec<PairPrediction>)> {
    let campaign = Campaign { seed: arguments.seed, vms: usize::from(arguments.vms), ..Campaign::default() };
    let groups = campaign.groups();
    let progress = Progress::jobs("replaying", (SYNTHETIC_SETUPS.len() * groups.len()) as u64);
    let done = progress.counter(0);
    let mut pairs = Vec::new();
    for (index, &setup) in SYNTHETIC_SETUPS.iter().enumerate() {
        let ran = campaign.alone(setup, index)?.into_iter();
        let (profiles, traces) = ran.map(|Ran { profile, trace }| (profile, trace)).unzip();
        let alone = Alone { profiles, traces };
        for members in &groups {
            let together = campaign.together(setup, index, members)?.together;
            let predictors = outcomes(predictors, &alone.of(members), &AtomicU64::new(0));
            let vms = members.iter().map(|&vm| Campaign::name(index, vm)).collect();
            let policy = Some(DevicePolicy { name: setup.policy.to_owned(), sure: true });
            pairs.push(PairPrediction {
                vms,
                truth: Some(Forecast { policy, ..Consolidation::measured(&together).forecast() }),
                predictors,
            });
            done.fetch_add(1, Ordering::Relaxed);
        }
    }
    let setups: Vec<String> =
        SYNTHETIC_SETUPS.iter().map(|setup| format!("{}/{}", setup.scheduler, setup.drive)).collect();
    Ok((format!("replayed: {} VMs in each of {}", campaign.vms, setups.join(", ")), pairs))
}
