//! Data on their way between a guest's memory and the image.

use std::io;
use std::sync::Arc;

use vm_memory::{Bytes, GuestAddress};

use super::memory::Memory;
use crate::image::Image;

/// A range of a guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) address: GuestAddress,
    pub(super) bytes: u32,
}

/// Where data go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    ToGuest,
    FromGuest,
}

/// Data that are yet to be moved. The memory stays mapped until then, even if the client goes.
pub(crate) struct Transfer {
    memory: Arc<Memory>,
    direction: Direction,
    /// The segments, the next one last.
    segments: Vec<Segment>,
    /// The next byte of the image.
    at: u64,
}

impl Transfer {
    pub(super) fn new(memory: Arc<Memory>, direction: Direction, mut segments: Vec<Segment>, at: u64) -> Transfer {
        segments.reverse();
        Transfer { memory, direction, segments, at }
    }

    /// Moves a piece of at most the length of `scratch`. Returns whether all data are moved.
    ///
    /// # Errors
    /// The image's, or a range outside the guest's memory.
    pub(crate) fn step(&mut self, image: &Image, scratch: &mut [u8]) -> io::Result<bool> {
        let left: u64 = self.segments.iter().map(|segment| u64::from(segment.bytes)).sum();
        let count = left.min(scratch.len() as u64) as usize;
        let piece = &mut scratch[..count];
        match self.direction {
            Direction::ToGuest => {
                image.read(piece, self.at)?;
                self.each_part(piece, |memory, part, address| memory.write_slice(part, address))?;
            }
            Direction::FromGuest => {
                self.each_part(piece, |memory, part, address| memory.read_slice(part, address))?;
                image.write(piece, self.at)?;
            }
        }
        self.at += count as u64;
        Ok(self.segments.is_empty())
    }

    /// Calls `copy` for each part of `piece` that lies in one segment, and removes these parts from the segments.
    fn each_part<F>(&mut self, mut piece: &mut [u8], copy: F) -> io::Result<()>
    where
        F: Fn(&vm_memory::GuestMemoryMmap, &mut [u8], GuestAddress) -> Result<(), vm_memory::GuestMemoryError>,
    {
        while !piece.is_empty()
            && let Some(segment) = self.segments.last_mut()
        {
            let count = piece.len().min(segment.bytes as usize);
            let (part, rest) = piece.split_at_mut(count);
            copy(&self.memory.mapped, part, segment.address).map_err(io::Error::other)?;
            segment.address.0 += count as u64;
            segment.bytes -= count as u32;
            if segment.bytes == 0 {
                self.segments.pop();
            }
            piece = rest;
        }
        Ok(())
    }
}
