//! The VMs of a replay: which traces, and where on the drive their addresses lie.

use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::Result;
use replay::sources::{AddressMap, Mapping, OneDevice, TimeWindow, VmTrace};
use traces::input::is_reopenable;
use traces::origin::{short_name, without_folders};
use traces::quantity::parse_sectors;
use traces::results::TraceProvenance;
use traces::trace::{Extent, ReadOptions};
use traces::{Lba, Sectors, TraceReader, formats};

use crate::error::UsageError;

/// A VM with its trace, the trace's format and its address map.
pub struct Vm {
    pub name: String,
    pub path: PathBuf,
    pub format: &'static formats::Format,
    pub map: AddressMap,
    /// The sectors that it takes up before wrapping or scaling; empty if the trace was not scanned.
    range: Range<u64>,
    pub sha256: String,
    /// Bytes on disk, for progress.
    pub bytes: u64,
}

/// VMs are placed at multiples of this number of sectors: 1 MiB, as partitioning tools do.
const ALIGNMENT: u64 = 2048;

/// A VM's trace, and the place of its sector 0 on the drive if one was given.
#[derive(Clone, Debug)]
pub struct Named {
    pub name: String,
    pub path: PathBuf,
    pub place: Option<Sectors>,
}

/// The VMs `named`, on a drive of `capacity`.
///
/// # Errors
/// Traces that cannot be read, footprints that do not fit.
pub fn gather(
    named: Vec<Named>,
    options: &ReadOptions,
    mapping: Mapping,
    window: TimeWindow,
    capacity: Sectors,
) -> Result<Vec<Vm>> {
    if named.iter().any(|vm| !is_reopenable(&vm.path)) {
        return Err(UsageError(
            "a trace is read several times, so it cannot come from standard input or a pipe; \
             `iocast convert - trace.parquet` stores it first"
                .to_owned(),
        )
        .into());
    }
    let scan_needed = matches!(mapping, Mapping::Scale | Mapping::Remap) || named.len() > 1;
    let mut extents = Vec::new();
    for vm in &named {
        extents.push(if scan_needed { Some(extent(&vm.path, options, window)?) } else { None });
    }
    let maps = place_all(&named, &extents, mapping, capacity)?;
    let mut gathered = Vec::new();
    for (vm, (map, range)) in named.into_iter().zip(maps) {
        let format = formats::recognise(&vm.path, options)?;
        let members = (format.members)(&vm.path)?;
        let mut bytes = 0;
        for member in &members {
            bytes += std::fs::metadata(member).map_or(0, |metadata| metadata.len());
        }
        let sha256 = traces::input::digest(&members)?;
        gathered.push(Vm { name: vm.name, path: vm.path, format, map, range, sha256, bytes });
    }
    Ok(gathered)
}

impl Vm {
    /// Opens the trace.
    ///
    /// # Errors
    /// A trace that cannot be opened.
    pub fn open(&self, options: &ReadOptions) -> Result<VmTrace> {
        Ok(self.read_by(self.format.read(&self.path, options)?))
    }

    /// The trace, which `reader` reads.
    pub fn read_by(&self, reader: Box<dyn TraceReader>) -> VmTrace {
        let reader = Box::new(OneDevice::new(&self.path, reader));
        VmTrace { name: self.name.clone(), path: self.path.clone(), reader, map: self.map }
    }

    /// The sectors of a drive that it takes up, rounded up to where another VM may begin; 0 if the trace was not
    /// scanned.
    pub fn takes(&self) -> Sectors {
        aligned(Sectors::new(self.range.end - self.range.start))
    }

    /// The description of the trace in a result, once the trace has been read.
    pub fn provenance(&self, read: &replay::sources::TraceRead) -> TraceProvenance {
        TraceProvenance {
            vm: self.name.clone(),
            path: without_folders(&self.path.to_string_lossy()).to_owned(),
            sha256: self.sha256.clone(),
            format: self.format.name.to_owned(),
            addresses: describe(self.map),
            losses: read.losses.clone(),
            ..TraceProvenance::of(&read.meta, read.requests)
        }
    }
}

/// The number of sectors, rounded up to where another VM may begin.
pub fn aligned(sectors: Sectors) -> Sectors {
    Sectors::new(sectors.count().div_ceil(ALIGNMENT).saturating_mul(ALIGNMENT))
}

fn describe(map: AddressMap) -> String {
    match map {
        AddressMap::Shift { place } => format!("shifted by {place} sectors"),
        AddressMap::Wrap { place } => format!("shifted by {place} sectors, modulo the capacity"),
        AddressMap::Scale { place, extent } => {
            format!("shifted by {place} sectors, then scaled from {extent} sectors to the capacity")
        }
        AddressMap::Move { from, to } => format!("moved from sector {from} to {to}"),
    }
}

/// The VMs of the command line.
///
/// # Errors
/// Names that clash, places that are no sizes.
pub fn name_all(traces: &[String], vms: &[String]) -> Result<Vec<Named>, UsageError> {
    let mut named: Vec<Named> = Vec::new();
    let bare = traces.iter().map(|trace| (None, trace.as_str()));
    let with_name = vms.iter().map(|vm| vm.split_once('=').map_or((None, vm.as_str()), |(name, at)| (Some(name), at)));
    for (name, trace) in bare.chain(with_name) {
        let (path, place) = split_place(trace)?;
        let name = name.filter(|name| !name.is_empty()).map_or_else(|| short_name(&path), str::to_owned);
        if named.iter().any(|vm| vm.name == name) {
            return Err(UsageError(format!("two VMs are named `{name}`; name them with --vm NAME={}", path.display())));
        }
        named.push(Named { name, path, place });
    }
    if named.len() > usize::from(u16::MAX) {
        return Err(UsageError(format!("{} VMs are more than {}", named.len(), u16::MAX)));
    }
    Ok(named)
}

/// `path@64g` → path and place; an `@` that is not followed by a size belongs to the path.
pub fn split_place(trace: &str) -> Result<(PathBuf, Option<Sectors>), UsageError> {
    match trace.rsplit_once('@') {
        Some((path, place)) if !path.is_empty() && !place.contains('/') && !Path::new(trace).exists() => {
            let place = parse_sectors(place).map_err(|error| UsageError(format!("{trace}: {error}")))?;
            Ok((PathBuf::from(path), Some(place)))
        }
        _ => Ok((PathBuf::from(trace), None)),
    }
}

/// Reads a trace for the addresses that it touches within the window.
fn extent(path: &Path, options: &ReadOptions, window: TimeWindow) -> Result<Extent> {
    let mut reader = OneDevice::new(path, formats::open(path, options)?);
    Ok(replay::sources::extent(&mut reader, window)?)
}

fn place_all(
    named: &[Named],
    extents: &[Option<Extent>],
    mapping: Mapping,
    capacity: Sectors,
) -> Result<Vec<(AddressMap, Range<u64>)>, UsageError> {
    let ranges = lay_out(named, extents, mapping);
    let end = ranges.iter().map(|range| range.end).max().unwrap_or(0);
    if mapping == Mapping::Remap && end > capacity.count() {
        return Err(UsageError(format!(
            "the VMs' footprints need {end} sectors, the drive has {capacity}; \
             choose a larger drive or fewer VMs, or shrink them with --map scale (iocast compare, iocast predict)"
        )));
    }
    let map = |(range, extent): (&Range<u64>, &Option<Extent>)| {
        let place = Sectors::new(range.start);
        match mapping {
            Mapping::Scale if end > capacity.count() => AddressMap::Scale { place, extent: Sectors::new(end) },
            Mapping::Exact | Mapping::Scale => AddressMap::Shift { place },
            Mapping::Wrap => AddressMap::Wrap { place },
            Mapping::Remap => AddressMap::Move {
                from: extent.map_or(Lba::ZERO, |extent| extent.lba_min),
                to: Lba::new(place.count()),
            },
        }
    };
    Ok(ranges.iter().zip(extents).map(map).zip(ranges.iter().cloned()).collect())
}

/// The sectors that each VM takes up: at its given place, or else in the first gap that holds it.
fn lay_out(named: &[Named], extents: &[Option<Extent>], mapping: Mapping) -> Vec<Range<u64>> {
    let length = |extent: &Option<Extent>| {
        extent.map_or(0, |extent| match mapping {
            Mapping::Remap => extent.lba_end.sector() - extent.lba_min.sector(),
            _ => extent.lba_end.sector(),
        })
    };
    let placed = |vm: &Named, length: u64| vm.place.map(|at| at.count()..at.count().saturating_add(length));
    let mut ranges: Vec<Option<Range<u64>>> =
        named.iter().zip(extents).map(|(vm, extent)| placed(vm, length(extent))).collect();
    for index in 0..ranges.len() {
        if ranges[index].is_none() {
            let length = length(&extents[index]);
            let taken: Vec<&Range<u64>> = ranges.iter().flatten().collect();
            let behind = taken.iter().map(|range| range.end.div_ceil(ALIGNMENT).saturating_mul(ALIGNMENT));
            let free = |start: &u64| taken.iter().all(|range| !overlap(range, &(*start..start.saturating_add(length))));
            let start = std::iter::once(0).chain(behind).filter(free).min().unwrap_or(0);
            ranges[index] = Some(start..start.saturating_add(length));
        }
    }
    ranges.into_iter().flatten().collect()
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// A warning for every two VMs whose addresses overlap: the drive's cache then serves one with the
/// other's data.
pub fn overlaps(vms: &[Vm]) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, one) in vms.iter().enumerate() {
        for other in vms[index + 1..].iter().filter(|other| overlap(&one.range, &other.range)) {
            warnings.push(format!(
                "VMs {} (sectors {} to {}) and {} (sectors {} to {}) overlap on the drive; give them other places",
                one.name, one.range.start, one.range.end, other.name, other.range.start, other.range.end
            ));
        }
    }
    warnings
}
