//! Record files of `btrecord`, which `btreplay` replays: one file per processor, `DEVICE.replay.N`.
//! Little-endian words of 64 bits: a header of the file, then bunches of requests.
//!
//! | header | |
//! |---|---|
//! | 0 | version: 0x010000 (1.0.0) or 0x000903 (0.9.3), which are alike |
//! | 8 | genesis: time of the first bunch, ns |
//! | 16 | bunches in the file |
//! | 24 | requests in the file |
//!
//! | bunch | |
//! |---|---|
//! | 0 | requests in it, 1 to 512 |
//! | 8 | when, ns |
//! | 16 + 24·i | first sector of 512 bytes |
//! | 24 + 24·i | length in bytes |
//! | 32 + 24·i | 1 read, 0 write (32 bits), and 32 bits of padding |
//!
//! Structures of blktrace's `btreplay/btrecord.h`; checked against the programs of blktrace 1.2.0.
//!
//! *btrecord* takes the queue events (Q) of a blktrace capture and puts up to 8 of them within 10 ms into a bunch
//! (`-M`, `-m`). The bunch has the time of the first; the others seem to arrive with it. Every request but a read
//! becomes a write: a flush is a write of zero bytes, by which it is recognised; a discard cannot be distinguished from
//! a write. Its header counts one bunch less than there are, and the requests of that bunch not either.
//!
//! *Writing.* Times are exact: a bunch for every time of arrival. Flags, priorities and processors are lost. All goes
//! into one file, because btreplay refuses to run with more files than the host has processors. btreplay looks for
//! `DEVICE.replay.0` and replays onto `/dev/DEVICE`, with every `_` of the name made a `/`. So its command line begins
//! with a link of that name, unless the output is called so. It replays writes as reads unless given `-W`.

mod reader;
mod writer;

use std::path::{Path, PathBuf};

use crate::error::ReadError;
use crate::formats::check::Takes;
use crate::formats::replayer::{Replay, Replayer, quoted};
use crate::formats::{Created, Format, Opened, per_cpu};
use crate::trace::{ReadOptions, WriteOptions};

/// The format's row in [`crate::formats::FORMATS`].
pub const FORMAT: Format = Format {
    name: "btreplay",
    summary: "Record files of blktrace's btrecord, which btreplay replays: DEVICE.replay.N",
    units: "ns; addresses in 512-byte sectors, lengths in bytes",
    traps: "As btrecord makes them, up to 8 requests within 10 ms share the time of the first (-M 1 keeps times \
            apart), and discards look like writes. A flush is a write of zero bytes, which btreplay repeats as such. \
            Discards cannot be written; flags and priorities are lost.",
    recognises,
    extensions: &["replay.0"],
    open,
    members,
    create: Some(create),
    replayer: Some(Replayer {
        command,
        note: "-W replays writes as such, and not as reads; -N leaves out the recorded times",
    }),
    ..Format::READ_ONLY
};

fn command(replay: &Replay) -> Result<String, String> {
    let device = replay.device_or_placeholder();
    if device.contains('_') {
        return Err(format!("`{device}`: btreplay makes a `/` of each `_`; name the device by a path without"));
    }
    let name = match device.strip_prefix("/dev/") {
        Some(name) => name.to_owned(),
        None if device.starts_with('/') => format!("..{device}"),
        None if replay.device.is_none() => device.to_owned(),
        None => return Err(format!("`{device}`: btreplay needs the full path of the device")),
    };
    let name = name.replace('/', "_");
    let folder = replay.file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let expected = format!("{name}{INFIX}0");
    let file = replay.file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let folder_word = quoted(&folder.display().to_string());
    let run = format!("btreplay -d {folder_word} -W {}", quoted(&name));
    if file == expected {
        return Ok(run);
    }
    let link = quoted(&folder.join(expected).display().to_string());
    Ok(format!("ln -s {} {link} && {run}", quoted(&file)))
}

const INFIX: &str = ".replay.";
/// Version 1.0.0, which is written.
const VERSION: u64 = 0x01_00_00;
const VERSIONS: [u64; 2] = [VERSION, 0x00_09_03];
const BUNCH_PACKETS_MAX: usize = 512;
const PACKET_BYTES: usize = 24;
const BUNCH_HEADER_BYTES: usize = 16;

/// The header of a file.
struct Header {
    version: u64,
    genesis: u64,
    bunches: u64,
    packets: u64,
}

impl Header {
    const BYTES: usize = 32;

    fn encode(&self) -> Vec<u8> {
        [self.version, self.genesis, self.bunches, self.packets].map(u64::to_le_bytes).concat()
    }

    fn decode(bytes: &[u8; Header::BYTES]) -> Header {
        let [version, genesis, bunches, packets] = [0, 1, 2, 3].map(|at| word(bytes, at));
        Header { version, genesis, bunches, packets }
    }
}

/// The word of 64 bits with this index.
fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at * 8..at * 8 + 8].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

fn recognises(path: &Path, head: &[u8]) -> bool {
    if head.is_empty() {
        return per_cpu::files(path, INFIX).is_ok_and(|files| !files.is_empty());
    }
    head.len() >= Header::BYTES && VERSIONS.contains(&word(head, 0))
}

/// The record files of a device by processor; a file with a name of its own is of processor 0.
fn files(path: &Path) -> Result<Vec<(u32, PathBuf)>, ReadError> {
    let files = per_cpu::files(path, INFIX)?;
    Ok(if files.is_empty() { vec![(0, path.to_owned())] } else { files.into_iter().collect() })
}

fn members(path: &Path) -> Result<Vec<PathBuf>, ReadError> {
    Ok(files(path)?.into_iter().map(|(_, file)| file).collect())
}

fn open(path: &Path, options: &ReadOptions) -> Opened {
    Takes::default().check(path, FORMAT.name, options)?;
    Ok(Box::new(reader::BtreplayReader::open(&files(path)?, options)?))
}

fn create(path: &Path, options: &WriteOptions) -> Created {
    Ok(Box::new(writer::BtreplayWriter::create(path, options)?))
}
