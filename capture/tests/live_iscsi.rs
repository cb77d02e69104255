//! A live capture of an iSCSI conversation over real TCP, in a network namespace of its own.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod live;

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use iocast_capture::iscsi::{Analysis, AnalysisOptions, LiveCapture, PacketReader, interrupt};

const COMMANDS: u32 = 500;

#[test]
fn every_command_of_a_live_conversation_is_recorded() {
    if !live::in_namespace("every_command_of_a_live_conversation_is_recorded") {
        return;
    }
    let (capture, output) =
        LiveCapture::begin("lo", &[3260], 262_144).expect("dumpcap: Debian package wireshark-common");
    let process = capture.process();
    std::thread::sleep(Duration::from_secs(2));
    let conversation = std::thread::spawn(move || {
        live::converse(COMMANDS);
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
    conversation.join().unwrap();
    capture.finish().unwrap();
    let figures = analysis.figures(reader.counts());
    assert_eq!(figures.packets.dropped, 0);
    assert_eq!((figures.commands.commands, figures.commands.paired), (u64::from(COMMANDS), u64::from(COMMANDS)));
    for (number, record) in (0..COMMANDS).zip(&records) {
        let request = &record.request;
        assert_eq!((request.operation, request.lba.sector(), request.sectors().count()), live::access(number));
    }
    assert_eq!(records.len(), COMMANDS as usize);
    assert!(records.iter().all(|record| record.response_time().is_some_and(|time| time.as_ns() > 0)));
}

#[test]
fn missing_interface_is_named_in_the_error() {
    let (capture, mut output) = LiveCapture::begin("nosuch0", &[3260], 262_144).unwrap();
    let mut nothing = Vec::new();
    output.read_to_end(&mut nothing).unwrap();
    let error = capture.finish().unwrap_err().to_string();
    assert!(error.contains("dumpcap cannot capture on nosuch0") && error.contains("ip link"), "{error}");
}
