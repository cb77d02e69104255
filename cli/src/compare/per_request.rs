//! The table of requests, to which every replay of a comparison adds its rows.

use anyhow::Result;
use replay::RequestRows;
use replay::sources::{TimeWindow, each_within};
use traces::ReadError;
use traces::results::requests::{RequestNames, RequestTable, VmNames, WrittenPart};
use traces::trace::ReadOptions;

use super::load::Load;
use crate::arguments::Compare;
use crate::files::{refuse_existing, try_writing};
use crate::vms::Vm;

/// The table before the replays.
pub struct PerRequest {
    table: RequestTable,
    vms: Vec<VmNames>,
}

impl PerRequest {
    /// The table that the command line asks for. Checks before any work that it can be written.
    ///
    /// # Errors
    /// A file that exists without `--force`, or cannot be written; a trace that cannot be read.
    pub fn planned(
        arguments: &Compare,
        load: &Load,
        options: &ReadOptions,
        window: TimeWindow,
    ) -> Result<Option<PerRequest>> {
        let Some(path) = &arguments.per_request else { return Ok(None) };
        if !arguments.picture.force {
            refuse_existing(std::slice::from_ref(path), "another --per-request")?;
        }
        try_writing(path, "another --per-request")?;
        let vms = match load {
            Load::Traces(vms) => vms.iter().map(|vm| names(vm, options, window)).collect::<Result<_>>()?,
            Load::Generated(_) => load.names().into_iter().map(|vm| VmNames { vm, ..VmNames::default() }).collect(),
        };
        Ok(Some(PerRequest { table: RequestTable::create(path)?, vms }))
    }

    /// The observer that makes the rows of a replay.
    ///
    /// # Errors
    /// The file system's.
    pub fn rows(&self, arguments: &Compare, scheduler: &str, drive: &str) -> Result<RequestRows> {
        let names = RequestNames { scheduler: scheduler.to_owned(), drive: drive.to_owned(), vms: self.vms.clone() };
        Ok(RequestRows::new(self.table.part(&names)?, arguments.replaying.until.active_time(self.vms.len())))
    }

    /// Makes one file of the rows of all replays.
    ///
    /// # Errors
    /// The file system's.
    pub fn join(self, parts: impl IntoIterator<Item = WrittenPart>) -> Result<()> {
        Ok(self.table.join(parts)?)
    }
}

/// The names of a VM and its streams. Readers of other formats than our own know them at the end of the trace only, so
/// that it is read once more.
fn names(vm: &Vm, options: &ReadOptions, window: TimeWindow) -> Result<VmNames> {
    let mut reader = vm.open(options)?.reader;
    if vm.format.name != traces::formats::parquet::FORMAT.name {
        each_within(&mut *reader, window, |_, _| Ok::<(), ReadError>(()))?;
    }
    Ok(VmNames { vm: vm.name.clone(), processes: reader.meta().streams.clone() })
}
