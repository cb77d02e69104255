//! Writes pcap with nanosecond times, plain, gzip or zstd.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::Packet;

/// The declared snap length: that of tcpdump and dumpcap.
const SNAP_BYTES: u32 = 262_144;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const ZSTD_LEVEL: i32 = 6;

enum PacketSink {
    Plain(Box<dyn Write>),
    Gzip(GzEncoder<Box<dyn Write>>),
    Zstd(zstd::Encoder<'static, Box<dyn Write>>),
}

/// Writes packets of one link type.
pub struct PacketWriter {
    sink: PacketSink,
    link_number: Option<u16>,
}

impl PacketWriter {
    /// Begins a file. It is compressed if `name` ends in `.gz` or `.zst`.
    ///
    /// # Errors
    /// zstd cannot be set up.
    pub fn new(name: &str, out: Box<dyn Write>) -> io::Result<PacketWriter> {
        let sink = if name.ends_with(".gz") {
            PacketSink::Gzip(GzEncoder::new(out, Compression::new(6)))
        } else if name.ends_with(".zst") {
            PacketSink::Zstd(zstd::Encoder::new(out, ZSTD_LEVEL)?)
        } else {
            PacketSink::Plain(out)
        };
        Ok(PacketWriter { sink, link_number: None })
    }

    /// Writes a packet.
    ///
    /// # Errors
    /// The output fails, or the packet has another link type than the first, which the format cannot express.
    pub fn write(&mut self, packet: &Packet<'_>) -> io::Result<()> {
        let first = self.link_number.is_none();
        let link = *self.link_number.get_or_insert(packet.link_number);
        if link != packet.link_number {
            let what = format!(
                "packet {} has link type {}, but the first packet has {link}, and a pcap file has only one; split the \
                 capture by interface first (tshark -Y 'frame.interface_id == 0' -w FILE)",
                packet.number, packet.link_number
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        if first {
            self.header(link)?;
        }
        let mut head = [0; 16];
        let fields = [
            (packet.time_ns / 1_000_000_000) as u32,
            (packet.time_ns % 1_000_000_000) as u32,
            packet.bytes.len() as u32,
            packet.wire_bytes,
        ];
        for (place, field) in head.chunks_exact_mut(4).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        self.put(&head)?;
        self.put(packet.bytes)
    }

    fn header(&mut self, link: u16) -> io::Result<()> {
        let mut head = Vec::with_capacity(24);
        head.extend_from_slice(&MAGIC_NANOSECONDS.to_le_bytes());
        head.extend_from_slice(&[2, 0, 4, 0]);
        head.extend_from_slice(&[0; 8]);
        head.extend_from_slice(&SNAP_BYTES.to_le_bytes());
        head.extend_from_slice(&u32::from(link).to_le_bytes());
        self.put(&head)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.sink {
            PacketSink::Plain(out) => out.write_all(bytes),
            PacketSink::Gzip(out) => out.write_all(bytes),
            PacketSink::Zstd(out) => out.write_all(bytes),
        }
    }

    /// Flushes all packets, so that the file can be read up to here.
    ///
    /// # Errors
    /// The output fails.
    pub fn flush(&mut self) -> io::Result<()> {
        match &mut self.sink {
            PacketSink::Plain(out) => out.flush(),
            PacketSink::Gzip(out) => out.flush(),
            PacketSink::Zstd(out) => out.flush(),
        }
    }

    /// Completes the file. A file without packets becomes an empty capture of Ethernet.
    ///
    /// # Errors
    /// The output fails.
    pub fn finish(mut self) -> io::Result<()> {
        if self.link_number.is_none() {
            self.header(1)?;
        }
        let mut out = match self.sink {
            PacketSink::Plain(out) => out,
            PacketSink::Gzip(out) => out.finish()?,
            PacketSink::Zstd(out) => out.finish()?,
        };
        out.flush()
    }
}
