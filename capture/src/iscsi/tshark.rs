//! Wireshark's tshark as a second engine: it reassembles TCP, finds the PDUs and dissects the commands. Its output
//! becomes records by the same pairing code as that of our own PDU walk.
//!
//! tshark shows a PDU at the packet with its last byte, and lists the packets that the PDU spans; the first of them
//! gives the arrival. It is slow: a few thousand commands per second.
//!
//! Packets are piped to tshark through this module, from a file or from dumpcap. A live capture therefore leaves no
//! packets on a disk, and the times of packets that tshark does not show are known.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use traces::results::wire::WireCapture;
use traces::{ReadError, Record, TraceMeta};

use super::analysis::common_figures;
use super::live::read_stderr;
use super::packets::{FileCounts, PacketReader};
use super::pdu::{self, HEADER_BYTES, Header};
use super::reassembly::PacketRef;
use super::tasks::{ConnectionTasks, WireState};
use crate::programs;

const PROGRAM: &str = "tshark";
/// The protocols and fields that tshark prints.
const PROTOCOLS: &str = "frame ip ipv6 tcp tcp.segments iscsi scsi scsi_sbc.read.flags scsi_sbc.writesame_flags";

/// The packets that tshark prints: commands, logins, task management, and the PDUs that end commands.
const DISPLAY_FILTER: &str = "iscsi.opcode == 1 || iscsi.opcode == 2 || iscsi.opcode == 3 || iscsi.opcode == 0x21 || \
    iscsi.opcode == 0x22 || iscsi.scsidata.S == 1";

/// Why the analysis by tshark failed.
#[derive(Debug, thiserror::Error)]
pub enum TsharkError {
    /// tshark is not installed.
    #[error("{PROGRAM} is not installed; `iocast doctor --for capture iscsi` names its package")]
    NotInstalled,
    /// tshark cannot be run or read.
    #[error("{PROGRAM} cannot be run: {0}")]
    NotRun(#[from] io::Error),
    /// tshark failed.
    #[error("{PROGRAM} has failed: {0}")]
    Failed(String),
    /// The packets cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// The analysis of packets by tshark.
#[derive(Default)]
pub struct TsharkAnalysis {
    state: WireState,
    connections: BTreeMap<u32, ConnectionTasks>,
    stream_names: BTreeMap<u32, String>,
    /// The packets' times in ns since 1970, in file order.
    times: Vec<u64>,
    /// Packets that tshark printed before their times were known.
    untimed: VecDeque<DissectedPacket>,
    position_bytes: u64,
    commands: u64,
    finished: bool,
    records: u64,
    /// Responses that tshark assigns to another command than our pairing does.
    pub disagreements: u64,
    frames_of_commands: BTreeMap<(u32, u32), u64>,
}

/// One packet as tshark prints it.
#[derive(Default)]
struct DissectedPacket {
    frame: u64,
    stream: u32,
    from: String,
    to: String,
    /// The first packet of the PDU that ends in this one.
    first_segment: Option<u64>,
    pdus: Vec<BTreeMap<String, String>>,
    /// Whether the following fields belong to the last PDU.
    in_pdu: bool,
}

/// A reader that also writes everything it reads to tshark.
struct Tee<R> {
    input: R,
    to: ChildStdin,
}

impl<R: Read> Read for Tee<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.input.read(buffer)?;
        self.to.write_all(&buffer[..bytes])?;
        Ok(bytes)
    }
}

/// The time of a packet that was read, and the bytes of input up to its end.
type PacketTime = (u64, u64);

/// Reads all packets, which pipes them to tshark, and sends their times. Times never go back.
fn feed(
    path: &Path,
    tee: Tee<Box<dyn Read + Send>>,
    lenient: bool,
    packet_times: &Sender<PacketTime>,
) -> Result<FileCounts, ReadError> {
    let mut reader = PacketReader::from_reader(path, Box::new(tee), lenient)?;
    let mut newest = 0;
    while let Some(packet) = reader.packet()? {
        newest = packet.time_ns.max(newest);
        // If tshark has failed, the channel is closed; `finish` reports the failure.
        let _ = packet_times.send((newest, reader.position_bytes()));
    }
    Ok(reader.counts().clone())
}

/// Starts tshark on its standard input.
fn spawn(ports: &[u16]) -> Result<Child, TsharkError> {
    let mut command = programs::command(PROGRAM);
    command.args(["-n", "-l", "-r", "-", "-Y", DISPLAY_FILTER, "-T", "pdml", "-j", PROTOCOLS]);
    command.args(["-o", "tcp.reassemble_out_of_order:TRUE"]);
    for port in ports {
        command.args(["-d", &format!("tcp.port=={port},iscsi")]);
    }
    // An interrupt from the terminal stops the capture only; tshark analyses the captured packets to the end.
    command.process_group(0);
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    spawned.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => TsharkError::NotInstalled,
        _ => TsharkError::NotRun(error),
    })
}

/// Waits until tshark and the thread that feeds it have ended.
fn finish(
    mut child: Child,
    stderr: JoinHandle<String>,
    feeder: JoinHandle<Result<FileCounts, ReadError>>,
) -> Result<FileCounts, TsharkError> {
    let status = child.wait()?;
    let (stderr, feeder) = (stderr.join().unwrap_or_default(), feeder.join());
    // If tshark has failed, the feeding thread fails too.
    if !status.success() {
        let stderr: Vec<&str> = stderr.lines().filter(|line| !line.starts_with("Running as user")).take(2).collect();
        return Err(TsharkError::Failed(stderr.join(" ")));
    }
    feeder
        .map_err(|_| TsharkError::Failed("the thread that feeds it has panicked".to_owned()))?
        .map_err(TsharkError::Read)
}

impl TsharkAnalysis {
    /// Runs tshark on the packets of `input`, a pcap or pcapng file or a live capture, and calls `each` whenever
    /// records may be ready. `path` is the name in messages. With `lenient`, a last packet that is cut off counts as
    /// the end.
    ///
    /// # Errors
    /// tshark is missing or fails, the packets cannot be read, or `each` fails.
    pub fn run<E: From<TsharkError>>(
        &mut self,
        path: &Path,
        input: Box<dyn Read + Send>,
        lenient: bool,
        ports: &[u16],
        mut each: impl FnMut(&mut TsharkAnalysis) -> Result<(), E>,
    ) -> Result<FileCounts, E> {
        let mut child = spawn(ports)?;
        let (Some(to), Some(output), Some(errors)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(TsharkError::Failed("its pipes are missing".to_owned()).into());
        };
        let stderr = read_stderr(errors);
        let (sender, packet_times) = channel();
        let path = path.to_owned();
        let feeder = std::thread::spawn(move || feed(&path, Tee { input, to }, lenient, &sender));
        let mut output = BufReader::with_capacity(1 << 18, output);
        let (mut line, mut shown) = (Vec::new(), DissectedPacket::default());
        loop {
            line.clear();
            if output.read_until(b'\n', &mut line).map_err(TsharkError::NotRun)? == 0 {
                break;
            }
            let text = String::from_utf8_lossy(&line);
            if self.line(&text, &mut shown) {
                self.untimed.push_back(std::mem::take(&mut shown));
                // Never wait here: tshark may block until its output is read.
                packet_times.try_iter().for_each(|feeder| self.add_time(feeder));
                self.take_timed();
                each(self)?;
            }
        }
        packet_times.iter().for_each(|feeder| self.add_time(feeder));
        self.take_timed();
        let counts = finish(child, stderr, feeder)?;
        for tasks in self.connections.values_mut() {
            tasks.close(&mut self.state);
        }
        self.finished = true;
        each(self)?;
        Ok(counts)
    }

    fn add_time(&mut self, (time_ns, position_bytes): PacketTime) {
        self.state.zero_ns.get_or_insert(time_ns);
        self.times.push(time_ns);
        self.position_bytes = position_bytes;
    }

    /// Handles the packets whose times are known.
    fn take_timed(&mut self) {
        while self.untimed.front().is_some_and(|shown| shown.frame <= self.times.len() as u64)
            && let Some(shown) = self.untimed.pop_front()
        {
            self.packet(&shown);
        }
    }

    /// Parses a line of PDML. Returns true at the end of a packet.
    fn line(&mut self, line: &str, shown: &mut DissectedPacket) -> bool {
        let line = line.trim_start();
        if line.starts_with("<packet") {
            *shown = DissectedPacket::default();
        } else if line.starts_with("</packet") {
            return true;
        } else if line.starts_with("<proto") {
            match attribute(line, "name") {
                Some("iscsi") => {
                    shown.pdus.push(BTreeMap::new());
                    shown.in_pdu = true;
                }
                // The command itself, not its data.
                Some("scsi") => {
                    shown.in_pdu = attribute(line, "showname").is_some_and(|name| name.starts_with("SCSI CDB"));
                }
                _ => {}
            }
        } else if line.starts_with("<field")
            && let (Some(name), Some(value)) = (attribute(line, "name"), attribute(line, "show"))
        {
            match name {
                "frame.number" => shown.frame = value.parse().unwrap_or_default(),
                "tcp.stream" => shown.stream = value.parse().unwrap_or_default(),
                "ip.src" | "ipv6.src" => shown.from = in_brackets(value),
                "ip.dst" | "ipv6.dst" => shown.to = in_brackets(value),
                "tcp.srcport" => shown.from.push_str(&format!(":{value}")),
                "tcp.dstport" => shown.to.push_str(&format!(":{value}")),
                "tcp.segment" => {
                    let segment = value.parse().unwrap_or_default();
                    shown.first_segment = Some(shown.first_segment.map_or(segment, |first: u64| first.min(segment)));
                }
                "iscsi.keyvalue" => {
                    if let (Some(pdu), Some((key, value))) = (shown.pdus.last_mut(), value.split_once('=')) {
                        pdu.insert(format!("key {key}"), value.to_owned());
                    }
                }
                _ if shown.in_pdu && (name.starts_with("iscsi.") || name.starts_with("scsi")) => {
                    if let Some(pdu) = shown.pdus.last_mut() {
                        pdu.entry(name.to_owned()).or_insert_with(|| value.to_owned());
                    }
                }
                _ => {}
            }
        }
        false
    }

    fn packet(&mut self, shown: &DissectedPacket) {
        let at = |frame: u64| PacketRef { frame, time_ns: self.time(frame) };
        let end = at(shown.frame);
        let mut begin = at(shown.first_segment.unwrap_or(shown.frame));
        self.state.reorder.now(self.state.time(end));
        for pdu in &shown.pdus {
            let opcode = number(pdu, "iscsi.opcode") as u8;
            if matches!(
                opcode,
                pdu::COMMAND
                    | pdu::LOGIN_REQUEST
                    | pdu::TASK_REQUEST
                    | pdu::RESPONSE
                    | pdu::TASK_RESPONSE
                    | pdu::DATA_IN
            ) {
                self.pdu(pdu, opcode, shown, begin, end);
            }
            begin = end;
        }
    }

    fn time(&self, frame: u64) -> u64 {
        frame.checked_sub(1).and_then(|index| self.times.get(index as usize)).copied().unwrap_or_default()
    }

    fn pdu(
        &mut self,
        fields: &BTreeMap<String, String>,
        opcode: u8,
        shown: &DissectedPacket,
        begin: PacketRef,
        end: PacketRef,
    ) {
        let is_request = matches!(opcode, pdu::COMMAND | pdu::LOGIN_REQUEST | pdu::TASK_REQUEST);
        let (initiator, target) = if is_request { (&shown.from, &shown.to) } else { (&shown.to, &shown.from) };
        let number_of = self.connections.len() as u32 + 1;
        let tasks = self.connections.entry(shown.stream).or_insert_with(|| {
            self.stream_names.insert(number_of, initiator.clone());
            ConnectionTasks::new(initiator.clone(), target.clone(), number_of)
        });
        let mut header: Header = [0; HEADER_BYTES];
        header[0] = opcode;
        let tag = number(fields, "iscsi.initiatortasktag") as u32;
        header[16..20].copy_from_slice(&tag.to_be_bytes());
        match opcode {
            pdu::LOGIN_REQUEST => {
                for (key, name) in [("key InitiatorName", &mut tasks.initiator), ("key TargetName", &mut tasks.target)]
                {
                    if let Some(value) = fields.get(key) {
                        value.clone_into(name);
                    }
                }
            }
            pdu::COMMAND => {
                self.commands += 1;
                self.frames_of_commands.insert((shown.stream, tag), shown.frame);
                command(fields, &mut header);
                tasks.request(begin, &header, &mut self.state);
            }
            pdu::TASK_REQUEST => {
                header[1] = 0x80 | number(fields, "iscsi.taskmanfun.function") as u8;
                header[8..10].copy_from_slice(&(number(fields, "scsi.lun") as u16).to_be_bytes());
                let referenced = number(fields, "iscsi.taskmanfun.referencedtasktag") as u32;
                header[20..24].copy_from_slice(&referenced.to_be_bytes());
                tasks.request(begin, &header, &mut self.state);
            }
            pdu::TASK_RESPONSE => {
                header[2] = number(fields, "iscsi.taskmanfun.response") as u8;
                tasks.response(begin, &header, &mut self.state);
            }
            _ => {
                let command_frame = self.frames_of_commands.remove(&(shown.stream, tag));
                let tshark_frame = number(fields, "iscsi.request_frame");
                self.disagreements +=
                    u64::from(command_frame.is_some_and(|frame| tshark_frame != 0 && frame != tshark_frame));
                header[1] = if opcode == pdu::DATA_IN { 0x81 } else { 0x80 };
                header[2] = number(fields, "iscsi.scsiresponse.response") as u8;
                header[3] = number(fields, "iscsi.scsiresponse.status") as u8;
                // tshark has checked the sequence numbers.
                header[24..28].copy_from_slice(&[0; 4]);
                tasks.response(begin, &header, &mut self.state);
                tasks.ended(Some(end), &mut self.state);
            }
        }
    }

    /// Bytes of the input up to the end of the last packet whose time is known.
    pub fn position_bytes(&self) -> u64 {
        self.position_bytes
    }

    /// The next record; after the run, every remaining record.
    pub fn record(&mut self) -> Option<Record> {
        let record = self.state.reorder.next(self.finished)?;
        self.records += 1;
        Some(record)
    }

    /// The metadata of the trace.
    pub fn meta(&self) -> TraceMeta {
        self.state.meta(&self.stream_names)
    }

    /// The figures of the capture.
    pub fn figures(&self, file: &FileCounts) -> WireCapture {
        let mut figures = common_figures(&self.state, file, self.records);
        figures.engine = PROGRAM.to_owned();
        figures.packets.packets = self.times.len() as u64;
        figures.tcp.connections = self.connections.len() as u64;
        (figures.first_packet_unix_ns, figures.last_packet_unix_ns) =
            (self.times.first().copied().unwrap_or_default(), self.times.iter().copied().max().unwrap_or_default());
        figures
            .notes
            .push(format!("tshark assigns {} responses to other commands than iocast does", self.disagreements));
        figures
    }
}

/// The value of an XML attribute.
fn attribute<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let begin = line.find(&format!(" {name}=\""))? + name.len() + 3;
    let length = line[begin..].find('"')?;
    Some(&line[begin..begin + length])
}

fn in_brackets(address: &str) -> String {
    if address.contains(':') { format!("[{address}]") } else { address.to_owned() }
}

/// A number as tshark prints it: decimal, hexadecimal, or bytes separated by colons. Zero if the field is missing.
fn number(fields: &BTreeMap<String, String>, name: &str) -> u64 {
    let Some(text) = fields.get(name) else { return 0 };
    let parsed = match text.strip_prefix("0x") {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16),
        None if text.contains(':') => u64::from_str_radix(&text.replace(':', ""), 16),
        None => text.parse(),
    };
    parsed.unwrap_or_default()
}

/// Writes the command that tshark dissected into a header, so that the common pairing code can handle it.
fn command(fields: &BTreeMap<String, String>, header: &mut Header) {
    let first = |names: &[&str]| {
        let name = names.iter().find(|name| fields.contains_key(&format!("scsi_sbc.{name}")))?;
        Some(number(fields, &format!("scsi_sbc.{name}")))
    };
    let lba = first(&["rdwr6.lba", "rdwr10.lba", "rdwr16.lba", "wrverify.lba", "wrverify.lba64"]).unwrap_or_default();
    let blocks =
        first(&["rdwr6.xferlen", "rdwr10.xferlen", "rdwr12.xferlen", "wrverify.xferlen", "wrverify.xferlen32"]);
    let blocks = blocks.unwrap_or_default();
    header[1] = 0x80;
    header[8..10].copy_from_slice(&(number(fields, "scsi.lun") as u16).to_be_bytes());
    let bytes = number(fields, "iscsi.scsicommand.expecteddatatransferlength") as u32;
    header[20..24].copy_from_slice(&bytes.to_be_bytes());
    let opcode = if fields.contains_key("scsi_sbc.opcode") { "scsi_sbc.opcode" } else { "scsi_spc.opcode" };
    let cdb = &mut header[32..48];
    cdb[0] = number(fields, opcode) as u8;
    match cdb[0] {
        0x00..=0x1f => {
            cdb[1..4].copy_from_slice(&(lba as u32).to_be_bytes()[1..]);
            cdb[4] = blocks as u8;
        }
        0x20..=0x5f => {
            cdb[2..6].copy_from_slice(&(lba as u32).to_be_bytes());
            cdb[7..9].copy_from_slice(&(blocks as u16).to_be_bytes());
        }
        0xa0..=0xbf => {
            cdb[2..6].copy_from_slice(&(lba as u32).to_be_bytes());
            cdb[6..10].copy_from_slice(&(blocks as u32).to_be_bytes());
        }
        _ => {
            cdb[2..10].copy_from_slice(&lba.to_be_bytes());
            cdb[10..14].copy_from_slice(&(blocks as u32).to_be_bytes());
        }
    }
    let set = |name: &str| fields.get(name).is_some_and(|value| matches!(value.as_str(), "1" | "True" | "true"));
    if set("scsi_sbc.rdwr.fua") || set("scsi_sbc.fua") || set("scsi_sbc.unmap") {
        cdb[1] |= 8;
    }
}
