//! The figures that both engines report: our own analysis and tshark's.

use std::collections::BTreeMap;

use traces::results::SCHEMA_VERSION;
use traces::results::wire::{PacketFigures, WireCapture};

use super::super::cdb;
use super::super::packets::FileCounts;
use super::super::tasks::WireState;

/// The figures in the state that both engines share.
pub fn common_figures(state: &WireState, file: &FileCounts, records: u64) -> WireCapture {
    let mut commands = state.counts.clone();
    commands.lost = state.sessions.lost();
    let mut opcodes = BTreeMap::new();
    for (&opcode, &count) in &state.opcodes {
        let name = match cdb::name(opcode) {
            "other" => format!("opcode {opcode:#04x}"),
            name => name.to_owned(),
        };
        *opcodes.entry(name).or_default() += count;
    }
    let packets = PacketFigures {
        dropped: file.dropped,
        other_blocks: file.other_blocks,
        untimed: file.untimed,
        truncated: file.truncated,
        ..PacketFigures::default()
    };
    WireCapture {
        schema_version: SCHEMA_VERSION,
        engine: "iocast".to_owned(),
        packets,
        commands,
        units: state.units.figures(),
        opcodes,
        records,
        ..WireCapture::default()
    }
}
