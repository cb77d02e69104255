//! The load of a comparison: traces, or simulated guests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::workloads::plan::GuestPlan;
use anyhow::{Result, ensure};
use replay::Observer;
use replay::sources::{MergedTraces, Pacing, ReplaySource, TimeWindow, paced};
use traces::shared::{SharedReader, Turns, share};
use traces::trace::ReadOptions;
use traces::{Request, RequestId, Sectors, Timestamp};

use super::source::Running;
use super::workloads::{self, Measure};
use crate::arguments::Compare;
use crate::error::UsageError;
use crate::progress::Progress;
use crate::vms::{self, Vm};

/// The load of all replays.
pub enum Load {
    Traces(Vec<Vm>),
    Generated(GuestPlan),
}

/// Moves the progress bar of guests.
pub struct Advance {
    measure: Measure,
    counter: Arc<AtomicU64>,
}

const NOTHING_GIVEN: &str = "there is nothing to replay; give traces (iocast compare web.parquet), traces with names of VMs \
                             (--vm web=web.parquet --vm mail=mail.parquet@64g), or generated workloads (--workload \
                             kim2015-dd --end 60s); `iocast help compare` has examples";

impl Load {
    /// The load of the command line, on a drive of `capacity`.
    ///
    /// # Errors
    /// Traces together with workloads; a trace or workload that cannot be used.
    pub fn gather(arguments: &Compare, options: &ReadOptions, window: TimeWindow, capacity: Sectors) -> Result<Load> {
        let Compare { traces, vms, generated, .. } = arguments;
        let map = &arguments.replaying.map;
        if generated.workloads.is_empty() {
            ensure!(!traces.is_empty() || !vms.is_empty(), UsageError(NOTHING_GIVEN.to_owned()));
            return Ok(Load::Traces(vms::gather(
                vms::name_all(traces, vms)?,
                options,
                map.mapping(),
                window,
                capacity,
            )?));
        }
        ensure!(
            traces.is_empty() && vms.is_empty(),
            UsageError(
                "a comparison replays traces or runs generated workloads (--workload), not both: traces have recorded \
                 times, and workloads wait for the drive"
                    .to_owned()
            )
        );
        Ok(Load::Generated(workloads::gather(generated, window, capacity)?))
    }

    /// Names of the VMs, in the order of their numbers.
    pub fn names(&self) -> Vec<String> {
        match self {
            Load::Traces(vms) => vms.iter().map(|vm| vm.name.clone()).collect(),
            Load::Generated(generated) => generated.names(),
        }
    }

    /// Warnings that hold for all replays.
    pub fn warnings(&self) -> Vec<String> {
        match self {
            Load::Traces(vms) => vms::overlaps(vms),
            Load::Generated(_) => Vec::new(),
        }
    }

    /// The error of a comparison that replayed no request.
    pub fn nothing(&self, window: TimeWindow) -> String {
        match self {
            Load::Traces(vms) if window == TimeWindow::default() => {
                let paths: Vec<String> = vms.iter().map(|vm| vm.path.display().to_string()).collect();
                format!("the traces hold no request: {}", paths.join(", "))
            }
            Load::Traces(_) => "no request lies in the window of --start (--from), --end (--to) and --limit".to_owned(),
            Load::Generated(_) => {
                "the workloads made no request before --end (--to) or --limit; the page cache can absorb them all \
                 (--guest-cache 0 switches it off)"
                    .to_owned()
            }
        }
    }

    /// How much a replay has to do, in the unit in which its progress is counted: bytes of traces, or the measure of
    /// guests. `None` if that is not known.
    pub fn whole(&self) -> Option<u64> {
        match self {
            Load::Traces(vms) => Some(vms.iter().map(|vm| vm.bytes).sum()),
            Load::Generated(generated) => Measure::of(generated.until).1,
        }
    }

    /// The progress bar of this number of replays.
    pub fn progress(&self, replays: usize) -> Progress {
        let of_all = self.whole().map(|whole| whole.saturating_mul(replays as u64));
        match (self, of_all) {
            (Load::Traces(_), of_all) => Progress::new("replaying", of_all.unwrap_or(0), replays),
            (Load::Generated(generated), Some(of_all)) if Measure::of(generated.until).0 == Measure::Time => {
                Progress::simulated("running", of_all, replays)
            }
            (Load::Generated(_), of_all) => Progress::requests("running", of_all, replays),
        }
    }

    /// Readers of the traces for `replays` replays that run at the same time: for each of them one of every trace.
    ///
    /// # Errors
    /// A trace that cannot be opened.
    pub fn share(&self, options: &ReadOptions, replays: usize, turns: &Arc<Turns>) -> Result<Vec<Vec<SharedReader>>> {
        let mut of_replays: Vec<Vec<SharedReader>> = (0..replays).map(|_| Vec::new()).collect();
        let Load::Traces(vms) = self else { return Ok(of_replays) };
        for vm in vms {
            let readers = share(vm.format.read(&vm.path, options)?, replays, turns);
            of_replays.iter_mut().zip(readers).for_each(|(of_replay, reader)| of_replay.push(reader));
        }
        Ok(of_replays)
    }

    /// The source of one replay, and an observer that moves the progress bar if the source does not. `readers` are those
    /// of [`Load::share`]; without them the replay opens the traces itself.
    ///
    /// # Errors
    /// A trace that cannot be read, a guest whose disk is too small.
    pub fn open(
        &self,
        pacing: Pacing,
        options: &ReadOptions,
        window: TimeWindow,
        capacity: Sectors,
        counter: Arc<AtomicU64>,
        readers: Option<Vec<SharedReader>>,
    ) -> Result<(Box<dyn ReplaySource + '_>, Option<Advance>)> {
        match self {
            Load::Traces(vms) => {
                let traces = match readers {
                    Some(readers) => vms.iter().zip(readers).map(|(vm, reader)| vm.read_by(Box::new(reader))).collect(),
                    None => vms.iter().map(|vm| vm.open(options)).collect::<Result<_>>()?,
                };
                let merged = MergedTraces::new(traces, window, capacity).with_progress(counter);
                Ok((paced(merged, pacing), None))
            }
            Load::Generated(generated) => {
                let advance = Advance { measure: Measure::of(generated.until).0, counter };
                Ok((Box::new(Running { generated, guests: generated.source()? }), Some(advance)))
            }
        }
    }
}

impl Observer for Advance {
    fn completed(&mut self, now: Timestamp, _id: RequestId, _request: &Request) {
        match self.measure {
            Measure::Time => self.counter.store(workloads::milliseconds(now), Ordering::Relaxed),
            Measure::Requests => {
                self.counter.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
