//! VMs replayed on a drive, alone and together (`predict --drive`).

use anyhow::{Result, ensure};
use predictors::Consolidation;
use predictors::synthetic::Ran;
use replay::sources::TimeWindow;
use traces::results::isolation::IsolationProfile;
use traces::results::prediction::Forecast;

use super::profiles::{Alone, VmInput};
use crate::arguments::Predict;
use crate::error::UsageError;
use crate::progress::Progress;
use crate::storage::Storage;
use crate::vms::{self, Vm};

/// With fewer requests of a VM, its means are too uncertain to judge a forecast.
const FEW: u64 = 100;

/// Replays every VM alone on `storage`, and the first `together` of them together.
///
/// # Errors
/// A profile among the inputs; traces that cannot be read, do not fit the drive or cannot be replayed closed.
pub fn replay(
    inputs: &[VmInput],
    together: usize,
    storage: &Storage,
    arguments: &Predict,
) -> Result<(Alone, Forecast)> {
    if let Some(profile) = inputs.iter().find(|input| input.is_profile()) {
        let what = "--drive replays traces, and a profile does not hold single requests";
        return Err(UsageError(format!("{}: {what}", profile.named.path.display())).into());
    }
    let options = arguments.reading.options();
    let window = TimeWindow { from: arguments.span.start, to: arguments.span.end, limit: None };
    let mapping = arguments.replayed_on.map.mapping();
    let gather = |inputs: &[VmInput]| {
        let named = inputs.iter().map(|input| input.named.clone()).collect();
        vms::gather(named, &options, mapping, window, storage.capacity)
    };
    // VMs given with --also take no place beside the others.
    let (own, further) = inputs.split_at(together);
    let (own, further) = (gather(own)?, gather(further)?);
    for warning in vms::overlaps(&own) {
        eprintln!("iocast: warning: {warning}");
    }
    let bytes = |vms: &[Vm]| vms.iter().map(|vm| vm.bytes).sum::<u64>();
    let progress = Progress::new("replaying", 2 * bytes(&own) + bytes(&further), inputs.len() + 1);
    let (mut profiles, mut traces) = (Vec::new(), Vec::new());
    for (index, vm) in own.iter().chain(&further).enumerate() {
        let Ran { profile, trace } = storage.replay(&[vm], &options, window, progress.counter(index))?.remove(0);
        let requests = profile.reads.requests + profile.writes.requests;
        let path = vm.path.display();
        ensure!(requests > 0, "{path}: too few requests are left to replay; a rate needs several");
        profiles.push(profile);
        traces.push(trace);
    }
    let own: Vec<&Vm> = own.iter().collect();
    let ran = storage.replay(&own, &options, window, progress.counter(inputs.len()))?;
    let ran: Vec<IsolationProfile> = ran.into_iter().map(|ran| ran.profile).collect();
    let mut truth = Consolidation::measured(&ran).forecast();
    truth.notes.push(rests_on(&ran));
    Ok((Alone { profiles, traces }, truth))
}

/// How long the replay of all VMs together was, and how many requests it measured.
fn rests_on(ran: &[IsolationProfile]) -> String {
    let requests = |profile: &IsolationProfile| profile.reads.requests + profile.writes.requests;
    let of = |profile: &IsolationProfile| format!("{} of {}", requests(profile), profile.vm);
    let span = ran.iter().map(|profile| profile.span_ns).max().unwrap_or_default();
    let fewest = ran.iter().map(requests).min().unwrap_or(0);
    let few = if fewest < FEW { "; that is too few to judge a forecast by" } else { "" };
    format!(
        "measured until the first VM had used up its trace: {:.1} s, with requests {}{few}",
        span.as_s_f64(),
        ran.iter().map(of).collect::<Vec<_>>().join(", ")
    )
}
