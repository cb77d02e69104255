//! Memory for direct I/O, and the data that is written.

use std::collections::BTreeMap;

use rand::Rng;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use traces::SECTOR_BYTES;

/// The alignment of memory: a page, which suits every device.
const ALIGNMENT: usize = 4096;
/// The most bytes of buffers for writes in flight.
const POOL_BYTES_MAX: usize = 32 << 20;

/// Memory that begins at a page.
#[derive(Debug)]
pub(super) struct AlignedBuffer {
    memory: Vec<u8>,
    begin: usize,
}

impl AlignedBuffer {
    pub(super) fn new(bytes: usize) -> AlignedBuffer {
        let memory = vec![0; bytes + ALIGNMENT];
        let begin = memory.as_ptr().align_offset(ALIGNMENT);
        AlignedBuffer { memory, begin }
    }

    pub(super) fn len(&self) -> usize {
        self.memory.len() - ALIGNMENT
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        let end = self.begin + self.len();
        &mut self.memory[self.begin..end]
    }
}

/// The buffers of writes in flight. Their sizes are powers of two, so that they can be used again.
#[derive(Debug, Default)]
pub(super) struct WriteBuffers {
    free: BTreeMap<usize, Vec<AlignedBuffer>>,
    free_bytes: usize,
    used_bytes: usize,
}

impl WriteBuffers {
    /// Whether there is memory for a write of `bytes`. A write alone always has memory.
    pub(super) fn has(&self, bytes: usize) -> bool {
        self.used_bytes == 0 || self.used_bytes + size_of_buffer(bytes) <= POOL_BYTES_MAX
    }

    /// A buffer of at least `bytes`.
    pub(super) fn take(&mut self, bytes: usize) -> AlignedBuffer {
        let size = size_of_buffer(bytes);
        self.used_bytes += size;
        if let Some(buffer) = self.free.get_mut(&size).and_then(Vec::pop) {
            self.free_bytes -= size;
            return buffer;
        }
        if self.used_bytes + self.free_bytes > POOL_BYTES_MAX {
            self.free.clear();
            self.free_bytes = 0;
        }
        AlignedBuffer::new(size)
    }

    /// Takes back a buffer.
    pub(super) fn give_back(&mut self, buffer: AlignedBuffer) {
        let size = buffer.len();
        self.used_bytes -= size;
        self.free_bytes += size;
        self.free.entry(size).or_default().push(buffer);
    }
}

fn size_of_buffer(bytes: usize) -> usize {
    bytes.next_power_of_two().max(ALIGNMENT)
}

/// Fills `bytes` with the data that a replay with this seed writes from `sector` on. The data of a sector depend on
/// the seed and its address alone, so that a test can check them, and they do not compress.
pub(super) fn fill(seed: u64, sector: u64, bytes: &mut [u8]) {
    for (sector, bytes) in (sector..).zip(bytes.chunks_mut(SECTOR_BYTES as usize)) {
        // An odd factor gives every sector a seed of its own.
        let own = seed ^ sector.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Xoshiro256PlusPlus::seed_from_u64(own).fill_bytes(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_begins_at_a_page() {
        let mut buffer = AlignedBuffer::new(5000);
        assert_eq!((buffer.bytes().as_ptr() as usize % ALIGNMENT, buffer.bytes().len()), (0, 5000));
    }

    #[test]
    fn a_sector_has_the_same_data_in_any_write() {
        let (mut long, mut short) = (vec![0; 4096], vec![0; 512]);
        fill(7, 40, &mut long);
        fill(7, 43, &mut short);
        assert_eq!(long[1536..2048], short);
        assert_ne!(long[..512], long[512..1024]);
        fill(8, 43, &mut short);
        assert_ne!(long[1536..2048], short);
    }

    #[test]
    fn buffers_for_writes_are_bounded_and_used_again() {
        let mut buffers = WriteBuffers::default();
        let half = buffers.take(POOL_BYTES_MAX / 2);
        let place = half.memory.as_ptr();
        assert!(buffers.has(POOL_BYTES_MAX / 2) && !buffers.has(POOL_BYTES_MAX / 2 + 1));
        buffers.give_back(half);
        assert!(buffers.has(2 * POOL_BYTES_MAX), "a write alone has memory");
        assert_eq!(buffers.take(POOL_BYTES_MAX / 2).memory.as_ptr(), place);
        // Another size does not fit beside a free buffer, which is dropped.
        let small: Vec<AlignedBuffer> = (0..4096).map(|_| buffers.take(1)).collect();
        assert_eq!(buffers.used_bytes, POOL_BYTES_MAX);
        small.into_iter().for_each(|buffer| buffers.give_back(buffer));
        assert!(buffers.free_bytes + buffers.used_bytes <= POOL_BYTES_MAX);
    }
}
