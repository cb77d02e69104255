//! Cases of simulated guests, whose truth is known on every device (`validate cross --synthetic`).

use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result};
use predictors::synthetic::{Campaign, SyntheticSetup};
use rayon::prelude::*;
use replay::Stage;
use replay::host::Single;
use traces::results::cross::{CrossCase, CrossLeftOut};
use traces::{Nanos, Record, Sectors, Timestamp};

use super::figures::Run;
use super::{REPLAYED_MIN, case, used_up_early};
use crate::progress::Progress;
use crate::validate::guest_queue::{SentBy, Target, replay};

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
pub fn cases(campaign: &Campaign, by: SentBy) -> Result<(Vec<CrossCase>, Vec<CrossLeftOut>)> {
    let progress = Progress::jobs("replaying", (campaign.vms * SETUPS.len() * SETUPS.len()) as u64);
    let done = progress.counter(0);
    let of_vm = |vm: usize| -> Result<Vec<Result<CrossCase, CrossLeftOut>>> {
        let mut recorded: Vec<Vec<Record>> = Vec::new();
        for setup in SETUPS {
            recorded.push(campaign.recorded(setup, vm, DISK)?);
            done.fetch_add(1, Ordering::Relaxed);
        }
        let mut found = Vec::new();
        for (from, captured) in recorded.iter().enumerate() {
            for (to, truth) in recorded.iter().enumerate().filter(|(to, _)| *to != from) {
                let [from, to] = [SETUPS[from], SETUPS[to]];
                found.push(one(campaign, (vm, by), [from, to], captured, truth)?);
                done.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(found)
    };
    let found: Vec<Vec<_>> = (0..campaign.vms).into_par_iter().map(of_vm).collect::<Result<_>>()?;
    let (mut cases, mut left_out) = (Vec::new(), Vec::new());
    for case in found.into_iter().flatten() {
        match case {
            Ok(case) => cases.push(case),
            Err(why) => left_out.push(why),
        }
    }
    Ok((cases, left_out))
}

fn one(
    campaign: &Campaign,
    (vm, by): (usize, SentBy),
    [from, to]: [SyntheticSetup; 2],
    captured: &[Record],
    truth: &[Record],
) -> Result<Result<CrossCase, CrossLeftOut>> {
    let built = drive_models::build(&to.drive.parse()?)?;
    let (capacity, scheduler) = (built.drive.capacity(), schedulers::build(&to.scheduler.parse()?)?.scheduler);
    let name = Campaign::name(0, vm);
    let host = Single::new(Stage::new(scheduler, to.limits()), built.drive);
    let at = |time: Nanos| Timestamp::ZERO + time;
    let (begin, end) = (at(campaign.warm_up), at(campaign.span));
    let target = Target { place: Sectors::ZERO, capacity, end };
    let seen = replay(captured, Path::new(&name), by, target, host)
        .with_context(|| format!("{name} from {} to {}", from.drive, to.drive))?;
    let until = seen.used_up.map_or(end, |used_up| used_up.min(end));
    let span = until.saturating_since(begin);
    let (from, stack) = (from.drive.to_owned(), format!("{}@depth={}", to.scheduler, to.depth));
    if span < REPLAYED_MIN {
        let why = used_up_early(begin, until);
        return Ok(Err(CrossLeftOut { vm: name, from, to: to.drive.to_owned(), why }));
    }
    let runs = [
        Run::captured(captured).figures(begin, end),
        Run { done: seen.done, at_device: seen.served }.figures(begin, until),
        Run::captured(truth).figures(begin, end),
    ];
    let workload = campaign.drawn(vm, DISK).join(" + ");
    let empty =
        CrossCase { vm: name, workload, from, to: to.drive.to_owned(), repetition: 1, stack, ..CrossCase::default() };
    Ok(Ok(case(CrossCase { drive: to.drive.to_owned(), replayed_ns: span.as_ns(), ..empty }, runs)))
}
