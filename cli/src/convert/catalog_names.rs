//! Where a trace belongs in a catalogue, by what is known of its origin. Of an anonymous trace all names are pseudonyms.

use std::path::Path;

use traces::TraceMeta;
use traces::anonymise::Anonymiser;
use traces::input::COMPRESSED;
use traces::trace::{AddressSpace, NO_NAME};

use crate::arguments::Convert;

/// The names of a trace.
pub struct Names {
    pub host: Option<String>,
    /// By number; one for a trace on one device.
    pub devices: Vec<Option<String>>,
    /// The file's, without its ending.
    pub file: String,
}

impl Names {
    /// The names of the trace at `input`, of which the command line has `notes`.
    pub fn of(
        arguments: &Convert,
        notes: &[(String, String)],
        input: &Path,
        meta: &TraceMeta,
        anonymiser: Option<&Anonymiser>,
    ) -> Names {
        let shown = |(kind, name): (&str, String)| match anonymiser {
            Some(anonymiser) => anonymiser.pseudonym(kind, &name),
            None => name,
        };
        let name = input.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let file = match anonymiser {
            // The pseudonym that stands in the trace's metadata.
            Some(anonymiser) => anonymiser.pseudonym("converted_from", &name),
            None => without_endings(&name),
        };
        Names {
            host: host(arguments, notes, meta).map(shown),
            devices: devices(arguments, notes, meta).into_iter().map(|device| device.map(shown)).collect(),
            file,
        }
    }
}

/// A name with its kind, by which pseudonyms differ.
type Named = (&'static str, String);

/// A note on the origin: one of the command line before one of the trace.
fn note(notes: &[(String, String)], meta: &TraceMeta, key: &'static str) -> Option<Named> {
    // Of several with one key the last stands in the metadata.
    let given = notes.iter().rev().find(|(of, _)| of == key).map(|(_, name)| name);
    given.or_else(|| meta.provenance.get(key)).map(|name| (key, name.clone()))
}

/// The host by the origin, by the command line for a trace without, or the one VM that was recorded: it is the host of
/// its disk.
fn host(arguments: &Convert, notes: &[(String, String)], meta: &TraceMeta) -> Option<Named> {
    let of_origin = note(notes, meta, "host").or_else(|| note(notes, meta, "hostname"));
    let given = || Some(("host", arguments.host.clone()?));
    let of_vm = || match meta.vms.as_slice() {
        [vm] if meta.address_space == AddressSpace::Shared && vm != NO_NAME => Some(("vm", vm.clone())),
        _ => None,
    };
    named(of_origin).or_else(given).or_else(|| named(of_vm()))
}

/// The devices that a trace of several names, or the one device by the origin, or by the command line.
fn devices(arguments: &Convert, notes: &[(String, String)], meta: &TraceMeta) -> Vec<Option<Named>> {
    if meta.address_space == AddressSpace::PerVm {
        return meta.vms.iter().map(|name| named(Some(("vm", name.clone())))).collect();
    }
    let captured = || {
        let names = meta.provenance.get("capture.devices")?;
        (!names.contains(',')).then(|| ("device", names.clone()))
    };
    let numbered = || {
        let (_, name) = meta.provenance.iter().find(|(key, _)| key.ends_with(".device"))?;
        Some(("device", name.clone()))
    };
    let given = || Some(("device", arguments.device_name.clone()?));
    vec![named(note(notes, meta, "device")).or_else(|| named(captured())).or_else(given).or_else(|| named(numbered()))]
}

/// A name that is not empty: a partition needs one.
fn named(name: Option<Named>) -> Option<Named> {
    name.filter(|(_, name)| !name.is_empty())
}

/// A file's name without its ending, and without that of a compression.
fn without_endings(name: &str) -> String {
    let plain = COMPRESSED.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
    Path::new(plain).file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_no_part_of_a_name() {
        let names = ["web.parquet", "web.csv.gz", "sda.blktrace.0", "web", ".csv", "a.b.zst"];
        assert_eq!(names.map(without_endings), ["web", "web", "sda.blktrace", "web", ".csv", "a"]);
    }
}
