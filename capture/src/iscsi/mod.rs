//! iSCSI on the wire: reads captured packets, live or from files, and makes a trace of them.
//!
//! `packets` reads pcap and pcapng; `frames` finds the TCP segment in a frame; `reassembly` puts one direction of a
//! connection in order; `pdu_walk` goes from PDU to PDU; `tasks` pairs commands with their responses; `reorder` emits
//! the records in order of arrival. [`Analysis`] combines them.
//!
//! A command arrives in the packet that holds the first byte of its header. It completes in the packet that holds the
//! last byte of the PDU with its status: a SCSI response, or a Data-In with the status bit. Lengths are taken from
//! headers, so payload is skipped and need not have been captured.

mod analysis;
mod backlog;
mod cdb;
mod digest;
mod frames;
mod interface;
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
