//! fio's I/O logs (`write_iolog`, `read_iolog`), versions 2 and 3: text, one action a line.
//!
//! ```text
//! fio version 3 iolog
//! 504 /dev/vda open
//! 512 /dev/vda read 28672 4096
//! ```
//!
//! Version 3 (fio 3.31 and later) begins each line with the time in µs since the log began: the
//! time at which fio issued the request. Then follow a file, an action, and for a request offset
//! and length in bytes. `add`, `open` and `close` are about the file; `read`, `write`, `trim`
//! (here a discard), `sync` and `datasync` (both a flush) are requests.
//!
//! Version 2 is the same without times, so that all requests arrive at zero unless there are lines
//! `FILE wait N 0`. By fio's manual N is in µs since the wait before. In fact fio
//! (3.33, `iolog.c`) waits until N ms after its own start, and not at all if that is over. Such a
//! line is read in this way here.
//!
//! Files are devices, each a VM with addresses of its own.
//!
//! *Writing* is in version 3. Times are cut off to whole µs, which never changes their order. A log
//! that would begin at 0 begins at 1 µs instead, with all of it 1 µs later: fio forgets the gap
//! behind a time of zero. The file is called `disk`, or `vm0`, `vm1`, … where VMs are devices of
//! their own; fio's `--replay_redirect=/dev/…` sends all to one device. With
//! [`WriteOptions::replay_device`] the log names that device itself. Flags, priorities, processes and
//! completions are lost.
//!
//! *Replaying.* fio 3.33 creates a file that is missing, with a size of its own choice, and does not
//! mind what it cannot read there; `allow_file_create=0` makes that an error. With a queue (`iodepth`)
//! it looks for completions only when the queue is full, unless `iodepth_batch_complete_min=0`; what is
//! then still in flight at the end is in no figure.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;

use crate::error::Problem;
use crate::formats::check::{Bad, Takes};
use crate::formats::devices::Devices;
use crate::formats::number::integer;
use crate::formats::output::{Inexpressible, Ledger, LineEncoder, TextWriter};
use crate::formats::replayer::{Replay, Replayer, quoted};
use crate::formats::scale::{Scale, Units};
use crate::formats::text::{LineParser, TextFormat, TextReader};
use crate::formats::{Created, Format, Opened};
use crate::input::look_at;
use crate::record::Record;
use crate::request::{Operation, Request};
use crate::trace::{AddressSpace, ReadOptions, TimeUnit, TraceMeta, WriteOptions};
use crate::units::{Lba, Nanos, Sectors, Timestamp};

/// The format's row in [`crate::formats::FORMATS`].
pub const FORMAT: Format = Format {
    name: "fio-iolog",
    summary: "fio I/O log (write_iolog), version 2 or 3: [µs] file action [offset length]",
    units: "µs (version 2: waits in ms since the start); bytes",
    traps: "Version 2 has no times: all requests arrive at 0 unless there are wait lines. fio takes these for ms since \
            its start, although its manual says µs since the last one. Written times are cut off to µs. fio 3.33 skips \
            trims when it replays, and forgets the gap behind a time of 0. Flags and priorities are lost.",
    recognises,
    extensions: &["iolog"],
    open,
    create: Some(create),
    replayer: Some(Replayer {
        command,
        note: "--replay_no_stall=1 leaves out the recorded times; fio 3.33 then counts the last requests in flight \
               only with --iodepth=1",
    }),
    ..Format::READ_ONLY
};

/// Of version 3; the times of version 2 are in ms.
const TEXT: TextFormat = TextFormat {
    name: FORMAT.name,
    layer: FORMAT.layer,
    clock: "fio, since its log began",
    epoch_unix_s: None,
    units: Units { time: TimeUnit::Microseconds, address_bytes: 1, length_bytes: 1 },
    takes: Takes { device: true, operation: false, units: true, think_time: false },
    reorder: Nanos::ZERO,
};

const TITLE: &[u8] = b"fio version ";
const TITLE_2: &[u8] = b"fio version 2 iolog";
const TITLE_3: &[u8] = b"fio version 3 iolog";

fn recognises(_path: &Path, head: &[u8]) -> bool {
    head.starts_with(TITLE)
}

fn open(path: &Path, options: &ReadOptions) -> Opened {
    let mut text = TEXT;
    if look_at(path)?.starts_with(TITLE_2) {
        text.units.time = TimeUnit::Milliseconds;
    }
    let devices = Devices::new(options);
    let parser = |scale| Parser { scale, version: None, now: Timestamp::ZERO, devices: devices.clone() };
    Ok(Box::new(TextReader::open(path, options, &text, parser)?))
}

fn create(path: &Path, options: &WriteOptions) -> Created {
    let mut ledger = Ledger::new(path, FORMAT.name, options);
    let device = options.replay_device.clone();
    if device.is_some() {
        ledger = ledger.of_one_device();
    }
    let space = if device.is_some() { AddressSpace::Shared } else { options.address_space };
    let encoder = Encoder { space, device, opened: BTreeSet::new(), late_us: None, last_us: 0 };
    Ok(Box::new(TextWriter::create(path, ledger, encoder)?))
}

/// The longest name of a file that fio reads from a log.
const FILE_BYTES_MAX: usize = 255;

fn command(replay: &Replay) -> Result<String, String> {
    let device = replay.device_or_placeholder();
    if device.is_empty() || device.len() > FILE_BYTES_MAX || device.contains(|letter: char| letter.is_whitespace()) {
        return Err(format!("`{device}`: fio reads names of 1 to {FILE_BYTES_MAX} bytes without blanks from a log"));
    }
    // fio takes a colon for the end of a name.
    let mut words = vec![format!("--read_iolog={}", replay.file.display().to_string().replace(':', "\\:"))];
    if replay.device.is_none() && replay.devices <= 1 {
        words.push(format!("--replay_redirect={device}"));
    }
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let queue = "--ioengine=libaio --direct=1 --iodepth=256 --iodepth_batch_complete_min=0 --allow_file_create=0";
    Ok(format!("fio --name=replay {} {queue}", words.join(" ")))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Two,
    Three,
}

struct Parser {
    scale: Scale,
    version: Option<Version>,
    /// How long version 2 has waited.
    now: Timestamp,
    devices: Devices,
}

impl LineParser for Parser {
    fn parse(&mut self, line: &[u8], meta: &mut TraceMeta) -> Result<Option<Record>, Bad> {
        let version = match self.version {
            Some(_) if line.starts_with(TITLE) => {
                return Err(Bad::malformed("a second title: fio has appended the log of another run; split the file"));
            }
            Some(version) => version,
            None => {
                self.version = Some(parse_title(line)?);
                return Ok(None);
            }
        };
        let mut fields = [&b""[..]; 5];
        let mut found = 0;
        for field in line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty()) {
            if let Some(place) = fields.get_mut(found) {
                *place = field;
            }
            found += 1;
        }
        match (version, found) {
            (Version::Two, 2) => is_about_a_file(fields[1]).map(|()| None),
            (Version::Two, 4) if fields[1] == b"wait" => self.wait(fields[2]).map(|()| None),
            (Version::Two, 4) => self.request(self.now, [fields[0], fields[1], fields[2], fields[3]], meta),
            (Version::Three, 3) => is_about_a_file(fields[2]).map(|()| None),
            (Version::Three, 5) => {
                let time = Timestamp::from_ns(self.scale.time("time", fields[0])?);
                self.request(time, [fields[1], fields[2], fields[3], fields[4]], meta)
            }
            (Version::Two, _) => Err(Bad::malformed(format!("expected 2 or 4 fields, found {found}"))),
            (Version::Three, _) => Err(Bad::malformed(format!("expected 3 or 5 fields, found {found}"))),
        }
    }

    fn at_end(&self) -> Result<(), Problem> {
        self.devices.at_end()
    }
}

fn parse_title(line: &[u8]) -> Result<Version, Bad> {
    match line.trim_ascii_end() {
        TITLE_2 => Ok(Version::Two),
        TITLE_3 => Ok(Version::Three),
        _ => Err(Bad::malformed("expected the title `fio version 2 iolog` or `fio version 3 iolog`")),
    }
}

fn is_about_a_file(action: &[u8]) -> Result<(), Bad> {
    match action {
        b"add" | b"open" | b"close" => Ok(()),
        _ => Err(unknown(action)),
    }
}

fn unknown(action: &[u8]) -> Bad {
    let shown = String::from_utf8_lossy(&action[..action.len().min(40)]);
    Bad::unsupported(format!("unknown action `{shown}`"))
}

impl Parser {
    fn wait(&mut self, until: &[u8]) -> Result<(), Bad> {
        let until = self.scale.time("wait", until)?;
        // One that is over already is none.
        self.now = self.now.max(Timestamp::from_ns(until));
        Ok(())
    }

    fn request(&mut self, at: Timestamp, fields: [&[u8]; 4], meta: &mut TraceMeta) -> Result<Option<Record>, Bad> {
        let [file, action, offset, length] = fields;
        let operation = match action {
            b"read" => Operation::Read,
            b"write" => Operation::Write,
            b"trim" => Operation::Discard,
            b"sync" | b"datasync" => Operation::Flush,
            _ => return Err(unknown(action)),
        };
        let (offset, length) = (integer("offset", offset)?, integer("length", length)?);
        // fio gives a flush the place of the request before it.
        let (lba, sectors) = match operation {
            Operation::Flush => (Lba::ZERO, Sectors::ZERO),
            _ => self.scale.extent(offset, length)?,
        };
        let Some(vm) = self.devices.named(file, meta)? else { return Ok(None) };
        let mut request = Request::new(at, operation, lba, sectors);
        request.vm = vm;
        Ok(Some(Record::arrived(request)))
    }
}

/// fio keeps lengths in 32 bits and offsets in 64 with sign.
const SECTORS_MAX: u64 = u32::MAX as u64 / 512;
const END_MAX: u64 = i64::MAX as u64 / 512;

struct Encoder {
    space: AddressSpace,
    /// The name of the one file, if it is not `disk`.
    device: Option<String>,
    /// VMs whose files have been opened.
    opened: BTreeSet<u16>,
    /// By how much all is late, so that nothing happens at zero.
    late_us: Option<u64>,
    last_us: u64,
}

impl Encoder {
    fn file(&self, vm: u16) -> String {
        match &self.device {
            Some(device) => device.clone(),
            None if self.space == AddressSpace::PerVm => format!("vm{vm}"),
            None => "disk".to_owned(),
        }
    }
}

impl LineEncoder for Encoder {
    fn begin(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(TITLE_3);
        out.push(b'\n');
    }

    fn record(&mut self, record: &Record, out: &mut Vec<u8>) -> Result<(), Inexpressible> {
        let request = &record.request;
        if request.sectors().count() > SECTORS_MAX {
            return Err(Inexpressible("lengths of 4 GiB and more"));
        }
        if request.end().sector() > END_MAX {
            return Err(Inexpressible("addresses beyond 8 EiB"));
        }
        let us = request.arrival.as_ns() / 1_000;
        let us = us + *self.late_us.get_or_insert(u64::from(us == 0));
        self.last_us = us;
        let vm = if self.space == AddressSpace::PerVm { request.vm.0 } else { 0 };
        let file = self.file(vm);
        // Writing to memory does not fail.
        if self.opened.insert(vm) {
            let _ = writeln!(out, "{us} {file} add\n{us} {file} open");
        }
        let (action, offset, length) = match request.operation {
            Operation::Read => ("read", request.lba.sector() * 512, request.sectors().bytes()),
            Operation::Write => ("write", request.lba.sector() * 512, request.sectors().bytes()),
            Operation::Discard => ("trim", request.lba.sector() * 512, request.sectors().bytes()),
            Operation::Flush => ("sync", 0, 0),
        };
        let _ = writeln!(out, "{us} {file} {action} {offset} {length}");
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        for &vm in &self.opened {
            let _ = writeln!(out, "{} {} close", self.last_us, self.file(vm));
        }
    }
}
