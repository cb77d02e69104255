//! Compares each command with `tshark -T fields` on the same file: arrival, opcode, address, length, unit, status and
//! response time. tshark reassembles TCP and IP, finds the PDUs, dissects the commands and names each response by
//! itself. It does not report the tasks that task management ended; this test derives them from the requests and
//! responses that tshark dissects.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use traces::results::wire::WireCapture;
use traces::{Operation, Record, TraceMeta};

use crate::conversation::{RawPacket, analysed_with_meta, file};
use crate::session::{SessionScript, fragmented, generate, tagged, version_6};

const FIELDS: [&str; 21] = [
    "frame.number",
    "frame.time_epoch",
    "tcp.stream",
    "tcp.segment",
    "iscsi.opcode",
    "iscsi.initiatortasktag",
    "iscsi.cmdsn",
    "iscsi.I",
    "iscsi.request_frame",
    "iscsi.response_frame",
    "iscsi.time",
    "iscsi.scsiresponse.status",
    "iscsi.scsidata.S",
    "iscsi.taskmanfun.function",
    "iscsi.taskmanfun.referencedtasktag",
    "iscsi.taskmanfun.response",
    "scsi.lun",
    "scsi_sbc.opcode",
    // Commands of 6 bytes; of 10 and 12; of 16.
    "scsi_sbc.rdwr6.lba",
    "scsi_sbc.rdwr10.lba",
    "scsi_sbc.rdwr16.lba",
];
const LENGTHS: [&str; 3] = ["scsi_sbc.rdwr6.xferlen", "scsi_sbc.rdwr10.xferlen", "scsi_sbc.rdwr12.xferlen"];
const COMMAND: u64 = 1;
const TASK_REQUEST: u64 = 2;
const TASK_RESPONSE: u64 = 0x22;
/// Linux's ECANCELED.
const CANCELED: i32 = 125;

/// A packet as tshark prints it: values by field. A PDU appears at the packet with its last byte.
type DissectedPacket = BTreeMap<&'static str, String>;

/// A command, in the fields that both report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SeenCommand {
    arrival_ns: u64,
    /// Read, write or flush.
    operation: u8,
    lba: u64,
    blocks: u64,
    lun: u64,
    completed_ns: Option<u64>,
    error: i32,
}

/// tshark's dissection of a file.
struct TsharkView {
    commands: Vec<SeenCommand>,
    opcodes: BTreeMap<u64, u64>,
    /// Commands that have a response.
    answered: u64,
    aborted: u64,
    /// Command numbers between the first and the last that no PDU has.
    missing_numbers: u64,
    connections: usize,
}

fn text<'a>(shown: &'a DissectedPacket, name: &str) -> Option<&'a str> {
    shown.get(name).map(String::as_str).filter(|text| !text.is_empty())
}

/// A number that tshark prints once, or repeatedly with the same value: for the header and for the command in it.
fn number(shown: &DissectedPacket, name: &str) -> Option<u64> {
    let all = text(shown, name)?;
    let text = all.split(',').next()?;
    assert!(all.split(',').all(|other| other == text), "tshark shows {name} as {all}");
    // tshark prints some numbers as bytes.
    let digits = if name == "scsi_sbc.rdwr16.lba" { Some(text) } else { text.strip_prefix("0x") };
    let parsed = match digits {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    Some(parsed.unwrap_or_else(|_| panic!("tshark shows {name} as {text}")))
}

/// Parses seconds with nine decimal places.
fn nanoseconds(text: &str) -> u64 {
    let (seconds, fraction) = text.split_once('.').unwrap();
    assert_eq!(fraction.len(), 9, "{text}");
    seconds.parse::<u64>().unwrap() * 1_000_000_000 + fraction.parse::<u64>().unwrap()
}

/// Every packet as tshark prints it, in two passes, so that commands name their responses.
fn shown(packets: &[RawPacket]) -> Vec<DissectedPacket> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shapes.pcap");
    std::fs::write(&path, file(packets, usize::MAX)).unwrap();
    let names: Vec<&'static str> = FIELDS.into_iter().chain(LENGTHS).collect();
    let mut command = Command::new("tshark");
    command.args(["-n", "-2", "-T", "fields", "-E", "separator=/t", "-r"]).arg(&path);
    names.iter().for_each(|name| _ = command.args(["-e", name]));
    let output = command.output().expect("tshark is in the Debian package tshark");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = String::from_utf8(output.stdout).unwrap();
    let one = |line: &str| names.iter().copied().zip(line.split('\t').map(str::to_owned)).collect();
    shown.lines().map(one).collect()
}

/// Commands and their ends, by tshark.
fn by_tshark(packets: &[RawPacket]) -> TsharkView {
    let shown = shown(packets);
    let time = |frame: u64| {
        nanoseconds(&shown[frame as usize - 1]["frame.time_epoch"]) - nanoseconds(&shown[0]["frame.time_epoch"])
    };
    let mut tshark = TsharkView {
        commands: Vec::new(),
        opcodes: BTreeMap::new(),
        answered: 0,
        aborted: 0,
        missing_numbers: missing_numbers(&shown),
        connections: shown.iter().filter_map(|one| number(one, "tcp.stream")).collect::<BTreeSet<_>>().len(),
    };
    let aborted = aborted(&shown);
    for one in shown.iter().filter(|one| number(one, "iscsi.opcode") == Some(COMMAND)) {
        let frame = number(one, "frame.number").unwrap();
        let opcode = number(one, "scsi_sbc.opcode").unwrap();
        *tshark.opcodes.entry(opcode).or_default() += 1;
        let first = text(one, "tcp.segment").map_or(frame, |frames| frames.split(',').next().unwrap().parse().unwrap());
        let answer = number(one, "iscsi.response_frame").map(|frame| &shown[frame as usize - 1]);
        let end = answer.map(|answer| time(number(answer, "frame.number").unwrap()));
        if let (Some(answer), Some(end)) = (answer, end) {
            assert_eq!(number(answer, "iscsi.request_frame"), Some(frame));
            assert_eq!(nanoseconds(text(answer, "iscsi.time").unwrap()), end - time(frame));
        }
        let is_aborted = aborted.contains(&frame);
        tshark.answered += u64::from(answer.is_some());
        tshark.aborted += u64::from(is_aborted);
        let operation = match opcode {
            0x08 | 0x28 | 0x88 | 0xa8 => Operation::Read,
            0x2a | 0x8a | 0xaa => Operation::Write,
            0x35 => Operation::Flush,
            _ => continue,
        };
        let any = |names: &[&str]| names.iter().find_map(|name| number(one, name)).unwrap_or(0);
        // Linux's error number for the status.
        let error = match answer.and_then(|answer| number(answer, "iscsi.scsiresponse.status")) {
            None if is_aborted => CANCELED,
            None | Some(0) => 0,
            Some(2) => 5,
            Some(8 | 0x28) => 16,
            Some(0x18) => 52,
            Some(other) => panic!("status {other:#x}"),
        };
        tshark.commands.push(SeenCommand {
            arrival_ns: time(first),
            operation: operation as u8,
            lba: any(&FIELDS[18..]),
            blocks: any(&LENGTHS),
            lun: number(one, "scsi.lun").unwrap(),
            completed_ns: end,
            error,
        });
    }
    tshark.commands.sort_unstable();
    tshark
}

/// Numbers between the session's first and last that no command or task management request has.
fn missing_numbers(shown: &[DissectedPacket]) -> u64 {
    let counted = |one: &&DissectedPacket| {
        matches!(number(one, "iscsi.opcode"), Some(COMMAND | TASK_REQUEST)) && number(one, "iscsi.I") == Some(0)
    };
    let numbers: Vec<u32> =
        shown.iter().filter(counted).map(|one| number(one, "iscsi.cmdsn").unwrap() as u32).collect();
    // The numbers wrap at 2³².
    let from = |number: u32| number.wrapping_sub(numbers[0]) as i32;
    let (first, last) =
        (numbers.iter().map(|&one| from(one)).min().unwrap(), numbers.iter().map(|&one| from(one)).max().unwrap());
    let different: BTreeSet<u32> = numbers.iter().copied().collect();
    (last - first + 1) as u64 - different.len() as u64
}

/// The packets of commands that task management ended: commands before a successful request, without a response.
fn aborted(shown: &[DissectedPacket]) -> BTreeSet<u64> {
    let frame = |one: &DissectedPacket| number(one, "frame.number").unwrap();
    let same = |one: &DissectedPacket, other: &DissectedPacket, name: &str| number(one, name) == number(other, name);
    let mut aborted = BTreeSet::new();
    for (at, request) in shown.iter().enumerate().filter(|(_, one)| number(one, "iscsi.opcode") == Some(TASK_REQUEST)) {
        let mut behind = shown[at..].iter().filter(|one| number(one, "iscsi.opcode") == Some(TASK_RESPONSE));
        let response =
            behind.find(|one| same(one, request, "tcp.stream") && same(one, request, "iscsi.initiatortasktag"));
        if response.and_then(|response| number(response, "iscsi.taskmanfun.response")) != Some(0) {
            continue;
        }
        let one_task = number(request, "iscsi.taskmanfun.function") == Some(1);
        let ended = |one: &&DissectedPacket| {
            let meant = if one_task {
                same(one, request, "tcp.stream")
                    && number(one, "iscsi.initiatortasktag") == number(request, "iscsi.taskmanfun.referencedtasktag")
            } else {
                same(one, request, "scsi.lun")
            };
            number(one, "iscsi.opcode") == Some(COMMAND) && text(one, "iscsi.response_frame").is_none() && meant
        };
        aborted.extend(shown[..at].iter().filter(ended).map(frame));
    }
    aborted
}

/// The same by iocast.
fn by_iocast(packets: &[RawPacket]) -> (Vec<SeenCommand>, WireCapture) {
    let (records, figures, meta) = analysed_with_meta(file(packets, usize::MAX));
    let mut commands: Vec<SeenCommand> = records.iter().map(|record| seen_command(record, &meta)).collect();
    commands.sort_unstable();
    (commands, figures)
}

fn seen_command(record: &Record, meta: &TraceMeta) -> SeenCommand {
    let request = &record.request;
    let (_, lun) = meta.vms[usize::from(request.vm.0)].rsplit_once("/lun").unwrap();
    SeenCommand {
        arrival_ns: request.arrival.as_ns(),
        operation: request.operation as u8,
        lba: request.lba.sector(),
        blocks: request.sectors().count(),
        lun: lun.parse().unwrap(),
        completed_ns: record.observed.completed.map(|time| time.as_ns()),
        error: record.observed.error,
    }
}

/// Opcodes by the names in our figures.
fn named(opcodes: &BTreeMap<u64, u64>) -> BTreeMap<String, u64> {
    let name = |opcode: u64| match opcode {
        0x00 => "TEST UNIT READY",
        0x08 => "READ(6)",
        0x28 => "READ(10)",
        0x2a => "WRITE(10)",
        0x35 => "SYNCHRONIZE CACHE(10)",
        0x88 => "READ(16)",
        0x8a => "WRITE(16)",
        0xa8 => "READ(12)",
        0xaa => "WRITE(12)",
        other => panic!("opcode {other:#x}"),
    };
    opcodes.iter().map(|(&opcode, &count)| (name(opcode).to_owned(), count)).collect()
}

/// Checks that both report the same for every command of a complete capture.
fn agree(packets: &[RawPacket], commands: u64) -> (TsharkView, WireCapture) {
    let (tshark, (iocast, figures)) = (by_tshark(packets), by_iocast(packets));
    assert_eq!(tshark.opcodes.values().sum::<u64>(), commands, "tshark does not see all");
    for (iocast, tshark) in iocast.iter().zip(&tshark.commands) {
        assert_eq!(iocast, tshark);
    }
    assert_eq!(iocast.len(), tshark.commands.len());
    assert_eq!(figures.opcodes, named(&tshark.opcodes));
    let counts = &figures.commands;
    assert_eq!((counts.paired, counts.aborted), (tshark.answered, tshark.aborted));
    assert_eq!((counts.lost, counts.unanswered), (tshark.missing_numbers, commands - tshark.answered - tshark.aborted));
    assert_eq!((counts.orphan_responses, counts.reused_tags), (0, 0));
    assert_eq!(figures.tcp.connections, tshark.connections as u64);
    (tshark, figures)
}

const ONE: SessionScript = SessionScript { seed: 1, connections: 1, commands: 80, aborts: false };

#[test]
fn commands_over_ipv4_match_tshark() {
    let (tshark, _) = agree(&generate(ONE), 80);
    assert_eq!((tshark.answered, tshark.missing_numbers), (80, 0));
}

#[test]
fn commands_over_ipv6_match_tshark() {
    let packets: Vec<RawPacket> =
        generate(ONE).iter().enumerate().map(|(at, packet)| version_6(packet, at % 3 == 0)).collect();
    assert_eq!(agree(&packets, 80).0.answered, 80);
}

#[test]
fn commands_behind_one_and_two_vlan_tags_match_tshark() {
    for kinds in [&[0x8100][..], &[0x88a8, 0x8100]] {
        let plain = generate(ONE);
        let packets: Vec<RawPacket> = plain.iter().map(|packet| tagged(packet, kinds)).collect();
        assert_eq!(agree(&packets, 80).0.answered, 80);
        let packets: Vec<RawPacket> = plain.iter().map(|packet| tagged(&version_6(packet, false), kinds)).collect();
        assert_eq!(agree(&packets, 80).0.answered, 80);
    }
}

/// Two interleaved connections of one session. Both use the same tags; command numbers are the session's.
#[test]
fn commands_of_two_connections_in_one_session_match_tshark() {
    let packets = generate(SessionScript { connections: 2, ..ONE });
    let (tshark, figures) = agree(&packets, 80);
    assert_eq!((tshark.answered, tshark.missing_numbers, tshark.connections), (80, 0, 2));
    // One initiator, whichever connection carries the command.
    assert_eq!(figures.units.len(), 3);
}

#[test]
fn aborted_commands_match_tshark() {
    for connections in 1..=2 {
        for seed in 0..4 {
            let script = SessionScript { seed, connections, commands: 120, aborts: true };
            let packets = generate(script);
            let commands = shown(&packets).iter().filter(|one| number(one, "iscsi.opcode") == Some(COMMAND)).count();
            let (tshark, _) = agree(&packets, commands as u64);
            assert!(tshark.aborted >= 8 && tshark.answered >= 40, "{} {}", tshark.aborted, tshark.answered);
            assert_eq!(tshark.answered + tshark.aborted, commands as u64);
        }
    }
}

/// A session's packets; each `every`-th packet is fragmented if it is long. Also the number of fragments.
fn partly_fragmented(seed: u64, every: usize) -> (Vec<RawPacket>, u64) {
    let mut packets = Vec::new();
    let mut fragments = 0;
    for (at, packet) in generate(SessionScript { seed, commands: 300, ..ONE }).into_iter().enumerate() {
        if at % every == every - 1 && packet.bytes.len() > 500 {
            let parts = fragmented(&packet, at as u16);
            fragments += parts.len() as u64;
            packets.extend(parts);
        } else {
            packets.push(packet);
        }
    }
    (packets, fragments)
}

/// tshark reassembles fragments, iocast does not. Commands in fragments are counted as lost; for every other command
/// both report the same. In the last three cases the first command is fragmented. In one of them the next PDU with the
/// status number is fragmented too; in one the capture ends among lost PDUs.
#[test]
fn commands_outside_ip_fragments_match_tshark() {
    for (seed, every) in [(1, 23), (2, 11), (3, 7), (4, 5), (33, 5), (278, 5), (1436, 5)] {
        let (packets, _) = partly_fragmented(seed, every);
        let (tshark, (iocast, _)) = (by_tshark(&packets), by_iocast(&packets));
        assert_eq!((tshark.answered, tshark.missing_numbers), (300, 0));
        let all: BTreeMap<u64, &SeenCommand> = tshark.commands.iter().map(|one| (one.arrival_ns, one)).collect();
        for one in &iocast {
            let tshark = all[&one.arrival_ns];
            // Its response was fragmented, or follows a fragment, where PDU boundaries are unknown.
            let unanswered = SeenCommand { completed_ns: None, error: 0, ..*tshark };
            assert!(one == tshark || *one == unanswered, "seed {seed}: {one:?}, tshark {tshark:?}");
        }
        adds_up(seed, every);
    }
}

/// Checks that every command of [`partly_fragmented`] is found or counted as lost. Returns the number lost.
fn adds_up(seed: u64, every: usize) -> u64 {
    let (packets, fragments) = partly_fragmented(seed, every);
    let (_, figures) = by_iocast(&packets);
    let counts = &figures.commands;
    assert_eq!(figures.packets.fragments, fragments);
    let sums = (counts.commands + counts.lost, counts.paired + counts.unanswered);
    assert_eq!(sums, (300, counts.commands), "seed {seed}, every {every}: {counts:?}");
    assert!(counts.paired >= 200, "seed {seed}, every {every}: {counts:?}");
    counts.lost
}

#[test]
fn commands_in_ip_fragments_are_counted_as_lost() {
    for every in [23, 11, 7, 5] {
        let lost: u64 = (1..60).map(|seed| adds_up(seed, every)).sum();
        assert!(lost > 0, "every {every}");
    }
}
