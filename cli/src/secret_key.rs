//! Secret keys. They are read from a file or standard input, because every user of the host can read a command line.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use traces::anonymise::AnonymiseError;

use crate::error::UsageError;

/// The name of standard input.
const STANDARD_INPUT: &str = "-";
/// The longest key in bytes. A longer file is something else.
const KEY_BYTES_MAX: u64 = 1 << 16;

/// Reads the key of `option` and makes something of it. White space at the end of the key does not count.
///
/// # Errors
/// No such file, with the advice not to give the key itself; a file that is no key; a key that is too short.
pub fn read<T>(path: &Path, option: &str, make: impl FnOnce(&[u8]) -> Result<T, AnonymiseError>) -> Result<T> {
    let name =
        || if path == Path::new(STANDARD_INPUT) { "standard input".to_owned() } else { path.display().to_string() };
    let mut key = Vec::new();
    // A pipe of a password manager is welcome, too, so a regular file is not asked for.
    let read = match path == Path::new(STANDARD_INPUT) {
        true => io::stdin().lock().take(KEY_BYTES_MAX + 1).read_to_end(&mut key),
        false => match File::open(path) {
            Ok(file) => file.take(KEY_BYTES_MAX + 1).read_to_end(&mut key),
            // What was given may be the key, so the message does not repeat it.
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => {
                let advice = "every user of this host can read a command line, so put the key into a file that only \
                              you can read, or give - for standard input";
                return Err(UsageError(format!("{option} takes a file that holds the key: {error}; {advice}")).into());
            }
            Err(error) => Err(error),
        },
    };
    read.with_context(|| format!("{option} {}: the key cannot be read", name()))?;
    let most = KEY_BYTES_MAX as usize;
    ensure!(key.len() <= most, UsageError(format!("{option} {}: no key, it has more than {most} bytes", name())));
    make(key.trim_ascii_end()).map_err(|error| UsageError(format!("{option} {}: {error}", name())).into())
}
