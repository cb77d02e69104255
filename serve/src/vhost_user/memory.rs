//! A guest's memory, as the client hands it over.

use std::fs::File;

use rustix::fs::{SealFlags, fcntl_get_seals};
use vhost::vhost_user::Error;
use vhost::vhost_user::message::VhostUserMemoryRegion;
use vm_memory::{GuestAddress, GuestMemoryMmap, GuestRegionMmap};

/// The most memory that a client may hand over. The mappings of all clients fit the server's address space.
const BYTES_MAX: u64 = 1 << 40;

/// A guest's memory, mapped.
pub(super) struct Memory {
    pub(super) mapped: GuestMemoryMmap,
    regions: Vec<Region>,
}

/// A region, by which the client's addresses become the guest's.
struct Region {
    client: u64,
    guest: u64,
    bytes: u64,
}

impl Memory {
    /// Maps the regions.
    ///
    /// # Errors
    /// A region is not in a memory file that keeps its length (`F_SEAL_SHRINK`): an access behind the end of a shortened
    /// file would kill the server. Or the regions are too large, or overlap.
    pub(super) fn map(regions: &[VhostUserMemoryRegion], files: Vec<File>) -> Result<Memory, Error> {
        let total = regions.iter().try_fold(0u64, |sum, region| sum.checked_add(region.memory_size));
        if total.is_none_or(|bytes| bytes > BYTES_MAX) {
            return Err(Error::InvalidOperation("the guest has more memory than 1 TiB"));
        }
        let mut mapped = Vec::new();
        let mut kept = Vec::new();
        for (region, file) in regions.iter().zip(files) {
            check_file(region, &file)?;
            let mapping = GuestRegionMmap::new(region.mmap_region(file)?, GuestAddress(region.guest_phys_addr));
            mapped.push(mapping.ok_or(Error::InvalidParam)?);
            kept.push(Region { client: region.user_addr, guest: region.guest_phys_addr, bytes: region.memory_size });
        }
        mapped.sort_by_key(|region| vm_memory::GuestMemoryRegion::start_addr(region).0);
        let mapped = GuestMemoryMmap::from_regions(mapped).map_err(|_| Error::InvalidParam)?;
        Ok(Memory { mapped, regions: kept })
    }

    /// The guest's address of one of the client's.
    pub(super) fn guest_address(&self, client: u64) -> Option<u64> {
        let region = self
            .regions
            .iter()
            .find(|region| client.checked_sub(region.client).is_some_and(|offset| offset < region.bytes))?;
        Some(region.guest + (client - region.client))
    }
}

fn check_file(region: &VhostUserMemoryRegion, file: &File) -> Result<(), Error> {
    if !fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
        return Err(Error::InvalidOperation("the guest's memory is not a memfd sealed against shrinking"));
    }
    let length = file.metadata().map_err(Error::ReqHandlerError)?.len();
    match region.mmap_offset.checked_add(region.memory_size) {
        Some(end) if end <= length => Ok(()),
        _ => Err(Error::InvalidParam),
    }
}
