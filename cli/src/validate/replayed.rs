//! Forecasts compared with synthetic setups of known VMs (`validate consolidation --replayed`).

use std::sync::atomic::Ordering;

use anyhow::Result;
use predictors::Consolidation;
use predictors::replayed::{Campaign, ROOMS, Ran};
use traces::results::prediction::{DevicePolicy, Forecast, PairPrediction};

use crate::arguments::ValidateConsolidation;
use crate::predict::profiles::Alone;
use crate::predict::{Chosen, outcomes};
use crate::progress::Progress;

/// A line on the origin of the truth, and every group of every synthetic setup with its forecasts.
pub fn pairs(arguments: &ValidateConsolidation, predictors: &[Chosen]) -> Result<(String, Vec<PairPrediction>)> {
    let campaign = Campaign { seed: arguments.seed, machines: usize::from(arguments.vms), ..Campaign::default() };
    let groups = campaign.groups();
    let progress = Progress::jobs("replaying", (ROOMS.len() * groups.len()) as u64);
    let done = progress.counter(0);
    let mut pairs = Vec::new();
    for (index, &room) in ROOMS.iter().enumerate() {
        let ran = campaign.alone(room, index)?.into_iter();
        let (profiles, recordings) = ran.map(|Ran { profile, recording }| (profile, recording)).unzip();
        let alone = Alone { profiles, recordings };
        for members in &groups {
            let together = campaign.together(room, index, members)?.together;
            let predictors = outcomes(predictors, &alone.of(members));
            let vms = members.iter().map(|&machine| Campaign::name(index, machine)).collect();
            let policy = Some(DevicePolicy { name: room.policy.to_owned(), sure: true });
            pairs.push(PairPrediction {
                vms,
                truth: Some(Forecast { policy, ..Consolidation::measured(&together).forecast() }),
                predictors,
            });
            done.fetch_add(1, Ordering::Relaxed);
        }
    }
    let rooms: Vec<String> = ROOMS.iter().map(|room| format!("{}/{}", room.scheduler, room.drive)).collect();
    Ok((format!("replayed: {} VMs in each of {}", campaign.machines, rooms.join(", ")), pairs))
}
