//! A request as it stands in a guest's memory (virtio 1.2, section 5.2.6): a header, data, and a byte for the status.

use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_ID_BYTES, VIRTIO_BLK_S_IOERR, VIRTIO_BLK_S_UNSUPP, VIRTIO_BLK_T_DISCARD, VIRTIO_BLK_T_FLUSH,
    VIRTIO_BLK_T_GET_ID, VIRTIO_BLK_T_IN, VIRTIO_BLK_T_OUT, VIRTIO_BLK_T_WRITE_ZEROES,
    VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP,
};
use virtio_queue::desc::split::Descriptor;
use vm_memory::{Bytes, GuestAddress, GuestMemory, GuestMemoryMmap, Permissions};

use super::config::SEGMENTS_MAX;
use super::transfer::Segment;
use crate::requests::Command;

/// The most bytes that one read or write may have, as over NBD.
const BYTES_MAX: u64 = crate::nbd::PAYLOAD_BYTES_MAX as u64;
/// The most descriptors of a request: the segments, header and status.
const DESCRIPTORS_MAX: usize = SEGMENTS_MAX as usize + 2;
const HEADER_BYTES: usize = 16;
/// One range to discard or zero.
const RANGE_BYTES: u64 = 16;
const SECTOR_BYTES: u64 = traces::SECTOR_BYTES;

/// A request that can be answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BlockRequest {
    pub(super) kind: Kind,
    /// Where the status goes.
    pub(super) status: GuestAddress,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A command for bytes of the export, and the segments of its data.
    Command { command: Command, offset: u64, bytes: u64, data: Vec<Segment> },
    /// The device's name goes to these segments.
    Identify(Vec<Segment>),
    /// The request is refused with this status.
    Refused(u8),
}

/// What a device can do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Abilities {
    /// The length of the export, in bytes.
    pub(super) bytes: u64,
    pub(super) discards: bool,
}

/// Parses the request in a chain of descriptors. `None` if the chain is broken, so that no status can be delivered: it
/// does not end, is too long, has no byte for the status, or parts of it are not in the guest's memory.
pub(super) fn parse(
    descriptors: impl Iterator<Item = Descriptor>,
    memory: &GuestMemoryMmap,
    abilities: Abilities,
) -> Option<BlockRequest> {
    let (readable, mut writable) = segments(descriptors, memory)?;
    let status = split_last_byte(&mut writable)?;
    Some(BlockRequest { kind: kind(readable, writable, memory, abilities), status })
}

/// The segments that the guest has written, and those that the device writes.
fn segments(
    descriptors: impl Iterator<Item = Descriptor>,
    memory: &GuestMemoryMmap,
) -> Option<(Vec<Segment>, Vec<Segment>)> {
    let (mut readable, mut writable) = (Vec::new(), Vec::new());
    let mut is_complete = false;
    for (index, descriptor) in descriptors.enumerate() {
        let (address, bytes) = (descriptor.addr(), descriptor.len());
        let is_valid = index < DESCRIPTORS_MAX
            && address.0.checked_add(bytes.into()).is_some()
            && memory.check_range(address, bytes as usize, Permissions::ReadWrite)
            && (descriptor.is_write_only() || writable.is_empty());
        if !is_valid {
            return None;
        }
        let segments = if descriptor.is_write_only() { &mut writable } else { &mut readable };
        if bytes > 0 {
            segments.push(Segment { address, bytes });
        }
        // The iterator also stops where it cannot go on.
        is_complete = !descriptor.has_next();
    }
    is_complete.then_some((readable, writable))
}

/// Takes the last byte off the segments.
fn split_last_byte(segments: &mut Vec<Segment>) -> Option<GuestAddress> {
    let last = segments.last_mut()?;
    last.bytes -= 1;
    let at = GuestAddress(last.address.0 + u64::from(last.bytes));
    if last.bytes == 0 {
        segments.pop();
    }
    Some(at)
}

fn kind(mut readable: Vec<Segment>, writable: Vec<Segment>, memory: &GuestMemoryMmap, abilities: Abilities) -> Kind {
    let (refused, unsupported) = (Kind::Refused(VIRTIO_BLK_S_IOERR as u8), Kind::Refused(VIRTIO_BLK_S_UNSUPP as u8));
    let Some(header) = take::<HEADER_BYTES>(&mut readable, memory) else { return refused };
    let (code, sector) = (le_u32(&header, 0), le_u64(&header, 8));
    let (command, data) = match code {
        VIRTIO_BLK_T_IN => (Command::Read, writable),
        VIRTIO_BLK_T_OUT => (Command::Write { fua: false }, readable),
        VIRTIO_BLK_T_FLUSH => {
            return Kind::Command { command: Command::Flush, offset: 0, bytes: 0, data: Vec::new() };
        }
        VIRTIO_BLK_T_GET_ID if length(&writable) >= VIRTIO_BLK_ID_BYTES.into() => return Kind::Identify(writable),
        VIRTIO_BLK_T_DISCARD if !abilities.discards => return unsupported,
        VIRTIO_BLK_T_DISCARD | VIRTIO_BLK_T_WRITE_ZEROES => return zeroing(code, readable, memory, abilities),
        VIRTIO_BLK_T_GET_ID => return refused,
        _ => return unsupported,
    };
    let bytes = length(&data);
    let offset = within(sector, bytes, abilities).filter(|_| bytes <= BYTES_MAX && bytes.is_multiple_of(SECTOR_BYTES));
    offset.map_or(refused, |offset| Kind::Command { command, offset, bytes, data })
}

/// A request with a range to discard or zero.
fn zeroing(code: u32, mut readable: Vec<Segment>, memory: &GuestMemoryMmap, abilities: Abilities) -> Kind {
    let refused = Kind::Refused(VIRTIO_BLK_S_IOERR as u8);
    if length(&readable) != RANGE_BYTES {
        return refused;
    }
    let Some(range) = take::<{ RANGE_BYTES as usize }>(&mut readable, memory) else { return refused };
    let (sector, sectors, flags) = (le_u64(&range, 0), le_u32(&range, 8), le_u32(&range, 12));
    let may_discard = flags & VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP != 0;
    let is_discard = code == VIRTIO_BLK_T_DISCARD;
    if flags & !VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP != 0 || (is_discard && may_discard) {
        return Kind::Refused(VIRTIO_BLK_S_UNSUPP as u8);
    }
    let bytes = u64::from(sectors) * SECTOR_BYTES;
    let command =
        if is_discard { Command::Discard { fua: false } } else { Command::WriteZeroes { fua: false, may_discard } };
    let offset = within(sector, bytes, abilities).filter(|_| bytes <= u32::MAX.into());
    offset.map_or(refused, |offset| Kind::Command { command, offset, bytes, data: Vec::new() })
}

/// The offset of `sector`, if the range lies within the export.
fn within(sector: u64, bytes: u64, abilities: Abilities) -> Option<u64> {
    let offset = sector.checked_mul(SECTOR_BYTES)?;
    offset.checked_add(bytes).is_some_and(|end| end <= abilities.bytes).then_some(offset)
}

fn length(segments: &[Segment]) -> u64 {
    segments.iter().map(|segment| u64::from(segment.bytes)).sum()
}

/// Reads `N` bytes from the front of the segments, and removes them.
fn take<const N: usize>(segments: &mut Vec<Segment>, memory: &GuestMemoryMmap) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let mut at = 0;
    while at < N {
        let first = segments.first_mut()?;
        let count = (N - at).min(first.bytes as usize);
        memory.read_slice(&mut bytes[at..at + count], first.address).ok()?;
        first.address.0 += count as u64;
        first.bytes -= count as u32;
        if first.bytes == 0 {
            segments.remove(0);
        }
        at += count;
    }
    Some(bytes)
}

fn le_u32(bytes: &[u8; 16], at: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(field)
}

fn le_u64(bytes: &[u8; 16], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(field)
}

#[cfg(test)]
#[path = "chain_tests.rs"]
mod tests;
