//! A live capture of a conversation over real TCP, in a network namespace of its own.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use capture::iscsi::{Analysis, AnalysisOptions, LiveCapture, PacketReader, interrupt};

const COMMANDS: u32 = 500;
const WITHIN: &str = "IOCAST_WITHIN_NAMESPACE";

/// Runs a test of this file again where the network has only a loopback of its own.
fn in_namespace(test: &str) {
    let program = std::env::current_exe().unwrap();
    let script = format!("ip link set lo up && exec {} --exact {test} --nocapture", program.display());
    let output = Command::new("unshare").args(["-n", "sh", "-c", &script]).env(WITHIN, "1").output();
    let output = output.expect("unshare is in the Debian package util-linux");
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "needs root, ip (Debian package iproute2): {said}{errors}");
}

fn header(opcode: u8, flags: u8, data: u32, tag: u32, number: u32) -> [u8; 48] {
    let mut header = [0; 48];
    (header[0], header[1]) = (opcode, flags);
    header[4..8].copy_from_slice(&data.to_be_bytes());
    header[16..20].copy_from_slice(&tag.to_be_bytes());
    header[24..28].copy_from_slice(&number.to_be_bytes());
    header
}

fn target(listener: &TcpListener) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut head = [0; 48];
    for number in 0..COMMANDS {
        stream.read_exact(&mut head).unwrap();
        let tag = u32::from_be_bytes(head[16..20].try_into().unwrap());
        let mut answer = header(0x25, 0x81, 4096, tag, number).to_vec();
        answer[28..32].copy_from_slice(&(number + 1).to_be_bytes());
        answer[32..36].copy_from_slice(&(number + 64).to_be_bytes());
        answer.resize(48 + 4096, 0x5a);
        stream.write_all(&answer).unwrap();
    }
}

fn initiator() {
    let mut stream = TcpStream::connect(("127.0.0.1", 3260)).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut answer = vec![0; 48 + 4096];
    for number in 0..COMMANDS {
        let mut command = header(1, 0xc1, 0, number % 32, number);
        command[20..24].copy_from_slice(&4096u32.to_be_bytes());
        command[28..32].copy_from_slice(&number.to_be_bytes());
        command[32] = 0x28;
        command[34..38].copy_from_slice(&(number * 8).to_be_bytes());
        command[40] = 8;
        stream.write_all(&command).unwrap();
        stream.read_exact(&mut answer).unwrap();
    }
}

#[test]
fn every_command_of_a_live_conversation_is_recorded() {
    if std::env::var_os(WITHIN).is_none() {
        return in_namespace("every_command_of_a_live_conversation_is_recorded");
    }
    let (capture, output) =
        LiveCapture::begin("lo", &[3260], 262_144).expect("dumpcap: Debian package wireshark-common");
    let process = capture.process();
    std::thread::sleep(Duration::from_secs(2));
    let listener = TcpListener::bind(("127.0.0.1", 3260)).unwrap();
    let served = std::thread::spawn(move || target(&listener));
    let played = std::thread::spawn(move || {
        initiator();
        served.join().unwrap();
        std::thread::sleep(Duration::from_secs(1));
        interrupt(process);
    });
    let mut reader = PacketReader::from_reader(Path::new("lo"), Box::new(output), true).unwrap();
    let mut analysis = Analysis::new(AnalysisOptions::default());
    let mut records = Vec::new();
    while let Some(packet) = reader.packet().unwrap() {
        analysis.packet(&packet, &mut ());
        records.extend(std::iter::from_fn(|| analysis.record()));
    }
    analysis.finish(&mut ());
    records.extend(std::iter::from_fn(|| analysis.record()));
    played.join().unwrap();
    capture.finish().unwrap();
    let figures = analysis.figures(reader.counts());
    assert_eq!(figures.packets.dropped, 0);
    assert_eq!((figures.commands.commands, figures.commands.paired), (u64::from(COMMANDS), u64::from(COMMANDS)));
    let addresses: Vec<u64> = records.iter().map(|record| record.request.lba.sector()).collect();
    assert_eq!(addresses, (0..u64::from(COMMANDS)).map(|number| number * 8).collect::<Vec<u64>>());
    assert!(records.iter().all(|record| record.response_time().is_some_and(|time| time.as_ns() > 0)));
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    let (capture, mut output) = LiveCapture::begin("nosuch0", &[3260], 262_144).unwrap();
    let mut nothing = Vec::new();
    output.read_to_end(&mut nothing).unwrap();
    let error = capture.finish().unwrap_err().to_string();
    assert!(error.contains("dumpcap cannot capture on nosuch0") && error.contains("ip link"), "{error}");
}
