//! What `iocast capture lab` stores: the runs of a plan, each VM's figures as its guest and as the drive saw them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::alignment::AlignmentFigures;

/// The results of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabResults {
    /// [`super::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Program and version.
    pub program: String,
    /// The drive that was served, with its tunables.
    pub drive: String,
    /// The guests' kernel.
    pub kernel: String,
    /// What ran their instructions: `kvm` or `tcg`.
    pub accelerator: String,
    /// How long figures were taken in each run, in seconds: after the warm-up, to the workload's end.
    pub measured_seconds: u32,
    /// The number of runs that the plan asks for; 0 in results of versions that stored complete labs only.
    #[serde(default)]
    pub planned_runs: u32,
    /// Every run, in the order they were made.
    pub runs: Vec<LabRun>,
    /// Over the repetitions of each group.
    pub summary: Vec<LabMean>,
}

impl LabResults {
    /// The number of runs of the plan that have not been made.
    pub fn missing_runs(&self) -> usize {
        (self.planned_runs as usize).saturating_sub(self.runs.len())
    }
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LabRun {
    /// Who ran: `alone-mail`, `together-mail-web`.
    pub group: String,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// The folder of its captures, within that of the results.
    pub folder: String,
    /// When the host let the workloads begin, by its clock.
    pub begun_unix_ns: i64,
    /// The VMs.
    pub vms: Vec<LabVm>,
}

/// A VM in a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LabVm {
    /// Its name.
    pub vm: String,
    /// As blktrace in the guest saw it: requests as queued, response time Q2C, device time D2C.
    pub guest: LabFigures,
    /// As the served drive's log has it: requests as they came, response time from their coming to their completion.
    pub drive: LabFigures,
    /// How the reads and writes that the guest issued (the input) are found among the commands on the wire (the
    /// reference). Also the map from its clock to that of the wire; for disks over iSCSI.
    pub wire: Option<AlignmentFigures>,
    /// How the requests that `iocast capture block` saw queued in the guest (the input) are found among those that
    /// blktrace saw (the reference).
    pub tracefs: Option<AlignmentFigures>,
    /// Processor time that each recorder took in the guest, in nanoseconds by program; where there are two.
    pub recorder_cpu_ns: BTreeMap<String, u64>,
    /// How much later than the host's signal the guest's measured part began, by the drive's clock. `None` if too few
    /// requests are the same in the guest and at the drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_late_ns: Option<i64>,
    /// How long the VM's threads waited for a processor of the host, as a share of the run. Several threads can wait at
    /// once. `None` if it was not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_wait_share: Option<f64>,
    /// What FileBench says of a workload of its own, from its begin to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filebench: Option<LabFileBench>,
}

/// FileBench's summary of a run: operations on files, many of which reach no disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabFileBench {
    /// How many were done.
    pub operations: u64,
    /// How many in a second.
    pub operations_per_s: f64,
    /// Those that read.
    pub reads_per_s: f64,
    /// Those that write.
    pub writes_per_s: f64,
    /// What they moved.
    pub bytes_per_s: f64,
    /// How long one took.
    pub mean_latency_ns: f64,
}

/// Reads and writes of a VM at one place, within the measured seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LabFigures {
    /// Reads.
    pub reads: LabOperation,
    /// Writes.
    pub writes: LabOperation,
}

/// Requests of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LabOperation {
    /// How many completed.
    pub requests: u64,
    /// What they moved.
    pub bytes: u64,
    /// Requests per second.
    pub iops: f64,
    /// Mean response time.
    pub mean_response_ns: f64,
    /// Mean device time; absent where requests are not seen being issued.
    pub mean_device_ns: Option<f64>,
}

/// A figure over the repetitions of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabMean {
    /// Who ran.
    pub group: String,
    /// The VM.
    pub vm: String,
    /// Seen where: `guest` or `drive`.
    pub seen: String,
    /// `read_iops`, `read_response_ns`, `write_iops`, `write_response_ns`.
    pub figure: String,
    /// The mean over the repetitions.
    pub mean: f64,
    /// Its 95 % confidence interval (Student's t), from two repetitions on.
    pub ci95: Option<[f64; 2]>,
}
