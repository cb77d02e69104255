//! What comes over a network: captures of iSCSI, and the bytes of an NBD client.

use std::cell::RefCell;
use std::fs::File;
use std::io::{BufReader, Read, Write, sink};
use std::iter;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use capture::iscsi::{Analysis, AnalysisOptions, PacketReader, PacketWriter, Renamer, ScrubOptions, Scrubber};
use serve::{Description, Limits, Listener, ServedDrive, Server, check};

use crate::client::{Client, FLUSH, FUA, NO_HOLE, READ, TRIM, WRITE, ZERO, option, request};
use crate::conversation::{ConversationPlan, RawPacket, file, generate, pcapng};
use crate::decoys::DecoyFault;
use crate::harness::{Mutator, Target};

/// Inputs of a short run.
const SHORT_RUN: u64 = 300;

/// Bytes before each packet of a capture and of the capture itself, as [`file`] writes them.
const RECORD_BYTES: usize = 16;
const FILE_BYTES: usize = 24;

/// Bytes that a client takes of the replies before it hangs up.
const TAKEN_BYTES: u64 = 1 << 20;

fn conversations() -> Vec<Vec<RawPacket>> {
    let of = |seed: u64| {
        let plan = ConversationPlan {
            seed,
            connections: 1 + seed as usize % 2,
            commands: 20,
            header_digest: seed % 2 == 1,
            data_digest: seed % 3 == 1,
            login: seed % 4 != 3,
            segment_max: 1448,
            batch: 4,
            fault: seed.is_multiple_of(2).then_some(DecoyFault::Tag),
        };
        generate(&plan).packets
    };
    (0..8).map(of).collect()
}

fn captures() -> Vec<Vec<u8>> {
    let of = |(number, packets): (usize, &Vec<RawPacket>)| match number {
        0 | 1 => pcapng(packets, number == 1),
        2 => file(packets, 128),
        _ => file(packets, usize::MAX),
    };
    conversations().iter().enumerate().map(of).collect()
}

/// A conversation with packets that are damaged in themselves, missing, repeated or in another order.
fn damaged_packets(mutator: &mut Mutator, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut rest = &seeds[mutator.below(seeds.len())][FILE_BYTES..];
    let mut packets = Vec::new();
    while let Some(head) = rest.first_chunk::<RECORD_BYTES>() {
        let length = u32::from_le_bytes(*head[8..].first_chunk().unwrap()) as usize;
        let time_ns = 1_700_000_000_000_000_000 + packets.len() as u64 * 1_000_000;
        let Some(bytes) = rest.get(RECORD_BYTES..RECORD_BYTES + length) else { break };
        packets.push(RawPacket { time_ns, bytes: bytes.to_vec() });
        rest = &rest[RECORD_BYTES + length..];
    }
    for _ in 0..=mutator.below(8) {
        let (at, other) = (mutator.below(packets.len()), mutator.below(packets.len()));
        match mutator.below(8) {
            0 => packets.swap(at, other),
            1 if packets.len() > 1 => drop(packets.remove(at)),
            2 => packets.insert(at, packets[other].clone()),
            _ => {
                let from = packets[other].bytes.clone();
                mutator.damage(&mut packets[at].bytes, &[from]);
            }
        }
    }
    file(&packets, usize::MAX)
}

/// Makes records of a capture and scrubs it. Says whether it has a record.
fn analyse(path: &Path, way: usize) -> bool {
    let input = Box::new(BufReader::new(File::open(path).unwrap()));
    let Ok(mut reader) = PacketReader::from_reader(path, input, way.is_multiple_of(2)) else { return false };
    let rename = way.is_multiple_of(3).then(|| Renamer::new(&[7; 16]).unwrap());
    let options = ScrubOptions { keep_login: way.is_multiple_of(5), rename };
    let mut scrubber = Scrubber::new(PacketWriter::new("scrubbed", Box::new(sink())).unwrap(), options);
    let mut analysis = Analysis::new(AnalysisOptions::default());
    let mut has_record = false;
    while let Ok(Some(packet)) = reader.packet() {
        scrubber.packet(&packet, &mut analysis).unwrap();
        has_record |= iter::from_fn(|| analysis.record()).count() > 0;
    }
    analysis.finish(&mut scrubber);
    has_record |= iter::from_fn(|| analysis.record()).count() > 0;
    scrubber.finish().unwrap();
    let _ = (analysis.figures(reader.counts()), analysis.meta());
    has_record
}

/// What clients send: every option and command, with payloads.
fn sessions() -> Vec<Vec<u8>> {
    let name = |wanted: &[u8]| [&[0, 0, 0, 3][..], b"web", wanted].concat();
    let (go, info) = (option(7, &name(&[0, 1, 0, 3])), option(6, &name(&[0, 0])));
    let commands = [READ, WRITE, FLUSH, TRIM, ZERO].iter().enumerate().flat_map(|(cookie, &command)| {
        let flags = [0, FUA, 0, FUA, NO_HOLE][cookie];
        let payload = if command == WRITE { vec![7; 1024] } else { Vec::new() };
        [request(command, flags, cookie as u64, 4096, 1024), payload].concat()
    });
    let commands: Vec<u8> = commands.collect();
    let end = request(2, 0, 9, 0, 0);
    let (flags, old) = (3u32.to_be_bytes(), option(1, b"web"));
    vec![
        [&flags[..], &option(3, b""), &info, &go, &commands, &end].concat(),
        [&flags[..], &old, &commands, &commands].concat(),
        [&[0, 0, 0, 1][..], &option(8, b""), &go, &commands.repeat(30)].concat(),
        [&flags[..], &option(2, b"")].concat(),
    ]
}

/// A server for the rest of this process, and a client of it that must be served whatever others send.
fn nbd() -> impl Fn(&Path, usize) -> bool + Send {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let listener = Listener::unix(&socket).unwrap();
    let mut description = Description::new("fixed:service=0".parse().unwrap(), "memory:4m".parse().unwrap());
    description.exports = vec!["web@0:2m".parse().unwrap(), "mail@2m:2m".parse().unwrap()];
    std::thread::spawn(move || {
        let drive = ServedDrive::begin(check(description).unwrap()).unwrap();
        Server::new(drive, vec![listener], Limits::default()).unwrap().run(None).unwrap();
    });
    let staying = RefCell::new(None);
    move |path: &Path, way: usize| {
        let _folder = &folder;
        let mut client = UnixStream::connect(&socket).unwrap();
        client.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // The server may have hung up.
        let _ = client.write_all(&std::fs::read(path).unwrap());
        let mut replies = Vec::new();
        if !way.is_multiple_of(4) {
            let _ = client.shutdown(Shutdown::Write);
            let _ = (&client).take(TAKEN_BYTES).read_to_end(&mut replies);
        }
        drop(client);
        let mut staying = staying.borrow_mut();
        let staying = staying.get_or_insert_with(|| Client::connect(&socket, "mail").unwrap());
        staying.write(512, &[way as u8; 16], 0);
        assert_eq!(staying.read(512, 16), [way as u8; 16], "the other client was disturbed");
        // The magic of a reply in the transmission phase.
        replies.windows(4).any(|four| *four == [0x67, 0x44, 0x66, 0x98])
    }
}

pub(crate) fn targets() -> Vec<Target> {
    let whole = conversations().iter().map(|packets| file(packets, usize::MAX)).collect();
    let packets = Target::new("iscsi-packets", "input.pcap", whole, SHORT_RUN, analyse);
    vec![
        Target::new("pcap", "input.pcap", captures(), SHORT_RUN, analyse),
        Target { damage: damaged_packets, ..packets },
        Target::new("nbd", "input", sessions(), SHORT_RUN, nbd()),
    ]
}
