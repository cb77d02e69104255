//! iSCSI as it goes over the wire: captures of packets read, live or from files, and made a trace.
//!
//! `packets` reads pcap and pcapng, `frames` finds the TCP segment in a frame, `stream` puts one direction in order,
//! `walk` goes from PDU to PDU, `tasks` pairs commands with what ends them, `recorder` gives records in their order.
//! [`Analysis`] is all of it.
//!
//! A command arrives in the packet that its header begins in. It completes in the packet with the last byte of the PDU that
//! carries its status: a SCSI response, or a Data-In with the status bit. Lengths come from headers, so payload is
//! passed by and need not have been captured.

mod analysis;
mod backlog;
mod cdb;
mod digest;
mod frames;
mod live;
mod logical_units;
mod login_text;
mod packets;
mod pdu;
mod pdu_walk;
mod reassembly;
mod rename;
mod reorder;
mod scrub;
mod sequence_numbers;
mod sessions;
mod tasks;
mod tshark;

pub use analysis::{Analysis, AnalysisOptions, PORT, PacketObserver};
pub use backlog::Backlog;
pub use frames::Endpoint;
pub use live::{LiveCapture, LiveError, interrupt};
pub use packets::{FileCounts, LinkType, Packet, PacketReader, PacketWriter};
pub use pdu_walk::Digests;
pub use rename::Renamer;
pub use scrub::{ScrubCounts, ScrubOptions, Scrubber};
pub use tshark::{TsharkAnalysis, TsharkError};
