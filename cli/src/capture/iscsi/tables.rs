//! The figures of an iSCSI capture as tables and warnings.

use anyhow::Result;
use traces::results::wire::WireCapture;

use crate::output::{self, Table};
use crate::output_format::OutputFormat;

pub fn print(figures: &WireCapture, format: OutputFormat) -> Result<()> {
    let mut text = String::new();
    for table in [units(figures), opcodes(figures), counts(figures)] {
        text.push_str(&table.render(format));
        text.push('\n');
    }
    for note in &figures.notes {
        text.push_str(&format!("{}\n", output::line(note, format)));
    }
    output::print(text.trim_end_matches('\n'))?;
    output::print("\n")
}

fn units(figures: &WireCapture) -> Table {
    let header =
        ["VM", "LUN", "block", "from", "commands", "reads", "MB read", "writes", "MB written", "flushes", "discards"];
    let megabytes = |bytes: u64| output::number(Some(bytes as f64 / 1e6));
    let rows = figures.units.iter().map(|unit| {
        vec![
            unit.vm.clone(),
            unit.lun.clone(),
            unit.block_bytes.to_string(),
            unit.block_size_from.clone(),
            unit.commands.to_string(),
            unit.reads.to_string(),
            megabytes(unit.read_bytes),
            unit.writes.to_string(),
            megabytes(unit.written_bytes),
            unit.flushes.to_string(),
            unit.discards.to_string(),
        ]
    });
    Table {
        title: format!("Logical units, engine {}", figures.engine),
        header: header.map(str::to_owned).to_vec(),
        rows: rows.collect(),
        text_columns: 4,
    }
}

fn opcodes(figures: &WireCapture) -> Table {
    let rows = figures.opcodes.iter().map(|(name, count)| vec![name.clone(), count.to_string()]);
    Table {
        title: "Commands".to_owned(),
        header: vec!["command".to_owned(), "seen".to_owned()],
        rows: rows.collect(),
        text_columns: 1,
    }
}

fn counts(figures: &WireCapture) -> Table {
    let WireCapture { packets, tcp, pdus, commands, .. } = figures;
    // Counts that are always printed, then those printed if above zero.
    let always = [
        ("packets", packets.packets),
        ("TCP connections", tcp.connections),
        ("PDUs", pdus.pdus),
        ("commands", commands.commands),
        ("with a response", commands.paired),
        ("without a response", commands.unanswered),
        ("lost (numbers never seen)", commands.lost),
        ("records of the trace", figures.records),
    ];
    let sometimes = [
        ("packets of other protocols", packets.other),
        ("IP fragments", packets.fragments),
        ("packets cut within headers", packets.cut_headers),
        ("packets dropped by the capture", packets.dropped),
        ("packets earlier than their predecessor", packets.backwards),
        ("packets without a time", packets.untimed),
        ("segments sent again", tcp.repeated),
        ("segments out of order", tcp.early),
        ("segments cut by the snap length", tcp.cut),
        ("gaps in streams", tcp.gaps),
        ("headers that span packets", pdus.straddling),
        ("PDU boundaries lost at the snap length", pdus.lost_by_cut),
        ("PDU boundaries lost in gaps", pdus.lost_by_gap),
        ("PDU boundaries lost otherwise", pdus.lost_by_content),
        ("PDU boundaries found again", pdus.found),
        ("wrong header digests", pdus.wrong_digests),
        ("aborted", commands.aborted),
        ("failed", commands.failed),
        ("responses without a command", commands.orphan_responses),
        ("task tags reused too early", commands.reused_tags),
        ("UNMAPs without their list", commands.unmaps_without_list),
        ("accesses of zero blocks", commands.empty),
        ("inexpressible", commands.inexpressible),
    ];
    let sometimes = sometimes.into_iter().filter(|&(_, count)| count > 0);
    let rows = always.into_iter().chain(sometimes).map(|(name, count)| vec![name.to_owned(), count.to_string()]);
    Table {
        title: "Capture".to_owned(),
        header: vec!["what".to_owned(), "count".to_owned()],
        rows: rows.collect(),
        text_columns: 1,
    }
}

/// Warns on standard error about losses in the trace.
pub fn warn(figures: &WireCapture) {
    let WireCapture { packets, commands, .. } = figures;
    let missing = [
        (packets.truncated.into(), "packet at the end of the file was cut off"),
        (packets.dropped, "packets were dropped by the capturing program"),
        (commands.lost, "command numbers were never seen: the capture lost these commands or pings"),
        (packets.fragments, "IP fragments were skipped"),
        (commands.unmaps_without_list, "UNMAPs are left out: their lists were not captured"),
        (commands.inexpressible, "commands are left out: a trace cannot express them"),
    ];
    for (count, what) in missing {
        if count > 0 {
            eprintln!("iocast: warning: {count} {what}");
        }
    }
    if let Some(unit) = figures
        .units
        .iter()
        .find(|unit| unit.block_size_from == "assumed" && unit.reads + unit.writes + unit.discards > 0)
    {
        note!("iocast: note: the block size of {} is unknown; 512 bytes are assumed", unit.vm);
    }
}
