//! The figures of a served drive: requests by VM, lateness and response times, and the log's metadata.

use traces::results::SCHEMA_VERSION;
use traces::results::serving::{ServedVm, Serving};
use traces::statistics::Distribution;
use traces::trace::Clock;
use traces::{Layer, Nanos, Operation, Request, Sectors, StreamId, TraceMeta, VmId};

use crate::checked::ServedParts;
use crate::clock::zero_unix_ns;
use crate::description::{Export, VmBy};

/// The VM's name if there is one unnamed export.
const ONLY_VM: &str = "vm0";

/// Counts, and the VMs seen so far.
#[derive(Default)]
pub(crate) struct Accounts {
    lateness: Distribution,
    response: Distribution,
    vms: Vec<ServedVm>,
    connections: u32,
    failed: u64,
}

impl Accounts {
    pub(crate) fn new(parts: &ServedParts) -> Accounts {
        let vms = match parts.description.vm_by {
            VmBy::Export => parts.exports.iter().map(|export| served_vm(vm_name(export))).collect(),
            VmBy::Connection => Vec::new(),
        };
        Accounts { vms, ..Accounts::default() }
    }

    /// Counts a connection to the export with this index. Returns its VM and its stream.
    pub(crate) fn connected(&mut self, vm_by: VmBy, export: usize) -> (VmId, StreamId) {
        let number = self.connections;
        self.connections += 1;
        let vm = match vm_by {
            VmBy::Export => export as u16,
            VmBy::Connection => {
                // Connections beyond the last VM id share that id.
                let vm = number.min(u32::from(u16::MAX)) as u16;
                if usize::from(vm) == self.vms.len() {
                    self.vms.push(served_vm(connection_name(number)));
                }
                vm
            }
        };
        (VmId(vm), StreamId(number))
    }

    /// The name of a VM that has connected.
    pub(crate) fn vm_name(&self, vm: VmId) -> &str {
        self.vms.get(usize::from(vm.0)).map_or(ONLY_VM, |served| &served.vm)
    }

    /// Counts a completion.
    pub(crate) fn complete(&mut self, lateness: Nanos, response: Nanos, failed: bool) {
        self.lateness.add(lateness);
        self.response.add(response);
        self.failed += u64::from(failed);
    }

    /// Counts a request.
    pub(crate) fn count(&mut self, request: &Request) {
        if let Some(vm) = self.vms.get_mut(usize::from(request.vm.0)) {
            count(vm, request);
        }
    }

    /// The figures so far.
    pub(crate) fn report(&self, parts: &ServedParts, span_ns: Nanos) -> Serving {
        Serving {
            schema_version: SCHEMA_VERSION,
            program: traces::program_version(),
            drive: parts.drive.clone(),
            scheduler: parts.scheduler.clone(),
            options: parts.description.options(),
            span_ns,
            lateness: self.lateness.figures(),
            response_time: self.response.figures(),
            vms: self.vms.clone(),
            failed: self.failed,
            logged: None,
            log_error: None,
            image_error: None,
        }
    }

    /// The log's metadata.
    pub(crate) fn meta(&self, format: &str, report: &Serving, parts: &ServedParts, capacity: Sectors) -> TraceMeta {
        let mut meta = TraceMeta::new(format, Layer::Wire, "monotonic");
        meta.clock = Clock { name: "monotonic".to_owned(), zero_unix_ns: Some(zero_unix_ns()) };
        meta.capacity_sectors = Some(capacity);
        meta.vms = report.vms.iter().map(|vm| vm.vm.clone()).collect();
        if meta.vms.is_empty() {
            // The first connection's.
            meta.vms.push(connection_name(0));
        }
        meta.streams = (0..self.connections).map(|number| (number, connection_name(number))).collect();
        let mut add = |key: &str, value: String| meta.provenance.insert(key.to_owned(), value);
        add("captured_by", format!("{} serve", report.program));
        add("drive", parts.description.drive.without_folders().to_string());
        add("scheduler", parts.description.scheduler.to_string());
        add("times", "completed is the drive's own time; replies were later by the lateness".to_owned());
        add("lost_events", "0".to_owned());
        for (key, value) in &report.options {
            add(&format!("option.{key}"), value.clone());
        }
        for export in &parts.exports {
            let at = Sectors::new(export.begin.sector()).bytes();
            let (lba, _) = parts.description.placement.sectors(at, 1, parts.image.length(), capacity);
            add(&format!("place_sectors.{}", vm_name(export)), lba.to_string());
        }
        for (name, ns) in &report.lateness.percentiles_ns {
            add(&format!("lateness_{name}_ns"), ns.to_string());
        }
        if let Some(max) = report.lateness.moments.max_ns {
            add("lateness_max_ns", max.to_string());
        }
        meta
    }
}

fn vm_name(export: &Export) -> String {
    if export.name.is_empty() { ONLY_VM.to_owned() } else { export.name.clone() }
}

pub(crate) fn connection_name(number: u32) -> String {
    format!("connection-{number}")
}

fn served_vm(vm: String) -> ServedVm {
    ServedVm { vm, ..ServedVm::default() }
}

fn count(vm: &mut ServedVm, request: &Request) {
    let bytes = request.sectors().bytes();
    match request.operation {
        Operation::Read => {
            vm.reads += 1;
            vm.read_bytes += bytes;
        }
        Operation::Write => {
            vm.writes += 1;
            vm.written_bytes += bytes;
        }
        Operation::Flush => vm.flushes += 1,
        Operation::Discard => vm.discards += 1,
    }
}
