//! Cases of simulated guests, whose truth is known on every device (`validate cross --synthetic`).

use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result};
use predictors::synthetic::{Campaign, SyntheticSetup};
use rayon::prelude::*;
use replay::Stage;
use replay::host::Single;
use traces::results::cross::CrossCase;
use traces::{Record, Sectors, Timestamp};

use super::{Captured, Outcome, compared};
use crate::progress::Progress;
use crate::validate::guest_queue::{Target, replay};

/// The devices: slow and fast, alone and with company inside, one request at a time and many.
const SETUPS: [SyntheticSetup; 6] = [
    SyntheticSetup { drive: "cheetah-15k4-mechanical", scheduler: "fifo", depth: 1, policy: "" },
    SyntheticSetup { drive: "atlas-10k", scheduler: "mq-deadline", depth: 1, policy: "" },
    SyntheticSetup { drive: "sata-500", scheduler: "bfq:rotational=on", depth: 1, policy: "" },
    SyntheticSetup { drive: "ds8700-raid5-7", scheduler: "none", depth: 32, policy: "" },
    SyntheticSetup { drive: "sata-ssd", scheduler: "none", depth: 32, policy: "" },
    SyntheticSetup { drive: "nvme-ssd", scheduler: "kyber", depth: 32, policy: "" },
];
/// The size of each VM's disk.
const DISK: Sectors = Sectors::new(700 << 11);

/// Every VM of a campaign from each device to each other.
pub fn cases(campaign: &Campaign) -> Result<Vec<Outcome>> {
    let progress = Progress::jobs("replaying", (campaign.vms * SETUPS.len() * SETUPS.len()) as u64);
    let done = progress.counter(0);
    let of_vm = |vm: usize| -> Result<Vec<Outcome>> {
        let mut recorded: Vec<Vec<Record>> = Vec::new();
        for setup in SETUPS {
            recorded.push(campaign.recorded(setup, vm, DISK)?);
            done.fetch_add(1, Ordering::Relaxed);
        }
        let mut found = Vec::new();
        for (from, captured) in recorded.iter().enumerate() {
            for (to, truth) in recorded.iter().enumerate().filter(|(to, _)| *to != from) {
                found.push(one(campaign, vm, [SETUPS[from], SETUPS[to]], [captured, truth])?);
                done.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(found)
    };
    let found: Vec<Vec<Outcome>> = (0..campaign.vms).into_par_iter().map(of_vm).collect::<Result<_>>()?;
    Ok(found.into_iter().flatten().collect())
}

fn one(campaign: &Campaign, vm: usize, [from, to]: [SyntheticSetup; 2], records: [&[Record]; 2]) -> Result<Outcome> {
    let built = drive_models::build(&to.drive.parse()?)?;
    let (capacity, scheduler) = (built.drive.capacity(), schedulers::build(&to.scheduler.parse()?)?.scheduler);
    let host = Single::new(Stage::new(scheduler, to.limits()), built.drive);
    let window = (Timestamp::ZERO + campaign.warm_up, Timestamp::ZERO + campaign.span);
    let [captured, truth] = records.map(|records| Captured { records, window });
    let case = CrossCase {
        vm: Campaign::name(0, vm),
        workload: campaign.drawn(vm, DISK).join(" + "),
        from: from.drive.to_owned(),
        to: to.drive.to_owned(),
        repetition: 1,
        stack: format!("{}@depth={}", to.scheduler, to.depth),
        drive: to.drive.to_owned(),
        ..CrossCase::default()
    };
    let target = Target { place: Sectors::ZERO, capacity };
    let replayed = replay(captured.records, Path::new(&case.vm), target, None, host)
        .with_context(|| format!("{} from {} to {}", case.vm, case.from, case.to))?;
    Ok(compared(case, &captured, replayed, &truth))
}
