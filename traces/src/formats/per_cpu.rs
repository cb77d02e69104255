//! Captures of one file per processor: `STEM.INFIX.N`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::error::{Place, ReadError};
use crate::input::COMPRESSED;

/// The stem and processor of a file's name; `None` if it is not named like one. `infix` has its
/// points: `.blktrace.`.
pub(crate) fn parse_name<'a>(name: &'a str, infix: &str) -> Option<(&'a str, u32)> {
    let plain = COMPRESSED.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
    let (stem, cpu) = plain.rsplit_once(infix)?;
    if !cpu.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((stem, cpu.parse().ok()?))
}

/// The files of the capture that `path` is the stem or a member of, by processor. Empty if there
/// are none, and if `path` is a file with a name of its own.
///
/// # Errors
/// A folder that cannot be read; a processor that is there twice, plain and compressed.
pub(crate) fn files(path: &Path, infix: &str) -> Result<BTreeMap<u32, PathBuf>, ReadError> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Ok(BTreeMap::new()) };
    let stem = match parse_name(name, infix) {
        Some((stem, _)) => stem,
        None if path.is_file() => return Ok(BTreeMap::new()),
        None => name,
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let fail = |error| ReadError::io(folder, Place::Whole, error);
    let mut by_cpu: BTreeMap<u32, PathBuf> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let file_name = entry.map_err(fail)?.file_name();
        let Some((of, cpu)) = file_name.to_str().and_then(|name| parse_name(name, infix)) else { continue };
        if of != stem {
            continue;
        }
        // Not the entry's path: that would add a `./` that the user did not write.
        let file = path.with_file_name(&file_name);
        if let Some(other) = by_cpu.insert(cpu, file.clone()) {
            let [first, second] = if other < file { [other, file] } else { [file, other] };
            let why = format!("CPU {cpu} is there twice, as {} and {}", first.display(), second.display());
            return Err(ReadError::malformed(path, Place::Whole, why).remedy("keep one of them"));
        }
    }
    Ok(by_cpu)
}
