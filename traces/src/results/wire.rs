//! What `iocast capture iscsi` says of a capture of iSCSI.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A capture of iSCSI: packets, TCP, PDUs, commands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireCapture {
    /// [`super::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// What took the packets apart: `iocast` or `tshark`.
    pub engine: String,
    /// First and last packet, nanoseconds since 1970 UTC.
    pub first_packet_unix_ns: u64,
    /// See `first_packet_unix_ns`.
    pub last_packet_unix_ns: u64,
    /// Packets.
    pub packets: PacketFigures,
    /// TCP.
    pub tcp: TcpFigures,
    /// PDUs.
    pub pdus: PduFigures,
    /// SCSI commands.
    pub commands: CommandFigures,
    /// Each initiator's logical units.
    pub units: Vec<UnitFigures>,
    /// Commands by name of their opcode.
    pub opcodes: BTreeMap<String, u64>,
    /// Records of the trace.
    pub records: u64,
    /// What a reader of the figures should know.
    pub notes: Vec<String>,
}

/// Packets of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketFigures {
    /// All.
    pub packets: u64,
    /// Their bytes on the wire.
    pub wire_bytes: u64,
    /// Bytes of them that were captured.
    pub captured_bytes: u64,
    /// Of other protocols and ports.
    pub other: u64,
    /// IP fragments, which are not put together: their content counts as lost.
    pub fragments: u64,
    /// Cut off within their headers.
    pub cut_headers: u64,
    /// Dropped by the capturing program, by its own count.
    pub dropped: u64,
    /// Earlier than the one before them.
    pub backwards: u64,
    /// The largest such step.
    pub backwards_max_ns: u64,
    /// Blocks of a pcapng file that hold no packet.
    pub other_blocks: u64,
    /// Packets without a time.
    pub untimed: u64,
    /// Whether the file's last packet was cut off.
    pub truncated: bool,
}

/// TCP segments with payload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpFigures {
    /// Connections.
    pub connections: u64,
    /// Segments with payload.
    pub segments: u64,
    /// Of these, without anything new: sent again.
    pub repeated: u64,
    /// Captured before their turn.
    pub early: u64,
    /// Captured in part: cut by the snap length.
    pub cut: u64,
    /// Gaps in the streams.
    pub gaps: u64,
    /// Bytes in them.
    pub missing_bytes: u64,
}

/// iSCSI PDUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PduFigures {
    /// All.
    pub pdus: u64,
    /// With a header in several packets.
    pub straddling: u64,
    /// Times the chain of PDUs was lost because a header was beyond the snap length.
    pub lost_by_cut: u64,
    /// Because it was in a gap.
    pub lost_by_gap: u64,
    /// Because something else was there.
    pub lost_by_content: u64,
    /// Times it was found again, or found in a connection that was open already.
    pub found: u64,
    /// Packets passed over without it.
    pub skipped_packets: u64,
    /// Headers with a wrong digest.
    pub wrong_digests: u64,
}

impl PduFigures {
    /// Adds those of another stream.
    pub fn add(&mut self, other: &PduFigures) {
        self.pdus += other.pdus;
        self.straddling += other.straddling;
        self.lost_by_cut += other.lost_by_cut;
        self.lost_by_gap += other.lost_by_gap;
        self.lost_by_content += other.lost_by_content;
        self.found += other.found;
        self.skipped_packets += other.skipped_packets;
        self.wrong_digests += other.wrong_digests;
    }
}

/// SCSI commands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandFigures {
    /// All that were seen.
    pub commands: u64,
    /// With their response.
    pub paired: u64,
    /// Ended by task management.
    pub aborted: u64,
    /// Without an end in the capture.
    pub unanswered: u64,
    /// Command numbers that were never seen: commands (or pings) that the capture lost.
    pub lost: u64,
    /// Responses without a command.
    pub orphan_responses: u64,
    /// Task tags used again before the response to their last use.
    pub reused_tags: u64,
    /// Completed with an error.
    pub failed: u64,
    /// UNMAP commands whose list was not captured: not in the trace.
    pub unmaps_without_list: u64,
    /// Reads and writes of no blocks: not in the trace.
    pub empty: u64,
    /// Beyond what a trace can express: not in the trace.
    pub inexpressible: u64,
    /// R2T PDUs.
    pub ready_to_transfer: u64,
    /// Data-In PDUs.
    pub data_in: u64,
    /// Data-Out PDUs.
    pub data_out: u64,
}

/// One initiator's use of one logical unit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitFigures {
    /// Its name as a VM of the trace.
    pub vm: String,
    /// The initiator's name or address.
    pub initiator: String,
    /// The target's name or address.
    pub target: String,
    /// Logical unit number.
    pub lun: String,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Where that is known from.
    pub block_size_from: String,
    /// Commands of any kind.
    pub commands: u64,
    /// Reads, and their bytes.
    pub reads: u64,
    /// See `reads`.
    pub read_bytes: u64,
    /// Writes, and their bytes.
    pub writes: u64,
    /// See `writes`.
    pub written_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discarded ranges.
    pub discards: u64,
}
