//! Reads the folder of results that `iocast capture lab` wrote.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicU64;

use anyhow::{Context, Result};
use capture::lab::{Plan, RESULTS_FILE};
use traces::results::lab::LabResults;
use traces::trace::ReadOptions;
use traces::{Nanos, SECTOR_BYTES, Sectors};

use crate::capture::lab::missing;
use crate::predict::profiles::{Alone, DiskPlace, Window, measure};

/// A folder of lab results.
pub struct Lab<'a> {
    pub folder: &'a Path,
    pub results: LabResults,
    pub plan: Plan,
    /// The VMs of each group.
    pub groups: BTreeMap<String, Vec<String>>,
    window: Window,
}

impl Lab<'_> {
    /// Reads the folder.
    ///
    /// # Errors
    /// A folder without lab results.
    pub fn read(folder: &Path) -> Result<Lab<'_>> {
        let path = folder.join(RESULTS_FILE);
        let text = traces::read_text(&path).with_context(|| {
            format!("{}: cannot be read; name a folder of results that iocast capture lab wrote", path.display())
        })?;
        let results: LabResults =
            serde_json::from_str(&text).with_context(|| format!("{}: is no result of a lab", path.display()))?;
        if let Some(missing) = missing(&results) {
            eprintln!("iocast: warning: {}: {missing}", folder.display());
        }
        let plan = Plan::read_kept(&folder.join("plan.toml"))?;
        let groups =
            results.runs.iter().map(|run| (run.group.clone(), run.vms.iter().map(|vm| vm.vm.clone()).collect()));
        let second = |seconds: u32| Nanos::from_s(seconds.into());
        let names = "`warm_up_seconds` and `seconds` in the lab's plan";
        let window = Window { start: second(plan.warm_up_seconds), end: Some(second(plan.seconds)), names };
        Ok(Lab { folder, groups: groups.collect(), window, results, plan })
    }

    /// Measures each of `vms` in the run of the group that `group` names for it.
    ///
    /// # Errors
    /// A trace that cannot be read.
    pub fn measured(&self, vms: &[String], repetition: u32, group: impl Fn(&str) -> String) -> Result<Alone> {
        let (mut profiles, mut traces) = (Vec::new(), Vec::new());
        for vm in vms {
            let folder = self.folder.join("runs").join(group(vm)).join(repetition.to_string());
            let path = folder.join(format!("{vm}.parquet"));
            let place = self.place(vm);
            let none = AtomicU64::new(0);
            let (profile, trace) = measure(vm, &path, &ReadOptions::default(), self.window, place, &none)?;
            profiles.push(profile);
            traces.push(trace);
        }
        Ok(Alone { profiles, traces })
    }

    /// The name of its folder.
    ///
    /// # Errors
    /// The current folder is not known.
    pub fn name(&self) -> Result<String> {
        let whole = std::path::absolute(self.folder)?;
        Ok(whole.file_name().unwrap_or_default().to_string_lossy().into_owned())
    }

    /// What a VM of the plan runs: the name of its job without folder and ending.
    pub fn workload(&self, vm: usize) -> String {
        let planned = &self.plan.vms[vm];
        let named = planned.workload.as_deref().or(planned.filebench.as_deref()).unwrap_or_default();
        Path::new(named).file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The part of each run that is measured.
    pub fn window(&self) -> Window {
        self.window
    }

    /// The place of a VM's disk according to the plan.
    fn place(&self, vm: &str) -> DiskPlace {
        let sectors = |bytes: u64| Sectors::new(bytes / SECTOR_BYTES);
        let index = self.plan.vms.iter().position(|planned| planned.name == vm);
        let first = index.map_or(Sectors::ZERO, |index| sectors(self.plan.place(index)));
        DiskPlace { first, device: Some(sectors(self.plan.lun.size)) }
    }
}
