//! A client's device: what it has set up over its socket.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use traces::Sectors;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight, VhostUserLog,
    VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig, VhostUserSharedMsg,
    VhostUserSingleMemoryRegion, VhostUserVirtioFeatures, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};
use virtio_bindings::virtio_ring::VIRTIO_RING_F_EVENT_IDX;
use virtio_queue::QueueT;
use vm_memory::GuestAddress;

use super::config::{self, QUEUES_MAX};
use super::eventfd::{Call, Kick};
use super::memory::Memory;
use super::ring::Ring;

/// The device of one client.
pub(super) struct Device {
    length: Sectors,
    discards: bool,
    /// The guest's memory, once it is known.
    pub(super) memory: Option<Arc<Memory>>,
    pub(super) rings: Vec<Ring>,
    epoll: Arc<OwnedFd>,
    /// What events of the first ring's kick carry; the next ring's carry one more.
    first_event: u64,
}

impl Device {
    /// A device of this length. The loop waits for the kicks of its rings.
    pub(super) fn new(length: Sectors, discards: bool, epoll: &Arc<OwnedFd>, first_event: u64) -> Result<Device> {
        let rings = (0..QUEUES_MAX).map(|_| Ring::new()).collect::<std::result::Result<Vec<Ring>, _>>();
        let rings = rings.map_err(|_| Error::InvalidParam)?;
        Ok(Device { length, discards, memory: None, rings, epoll: Arc::clone(epoll), first_event })
    }

    fn ring(&mut self, index: u32) -> Result<&mut Ring> {
        self.rings.get_mut(index as usize).ok_or(Error::InvalidParam)
    }

    /// The guest's address of one of the client's.
    fn guest_address(&self, client: u64) -> Result<GuestAddress> {
        let address = self.memory.as_ref().and_then(|memory| memory.guest_address(client));
        address.map(GuestAddress).ok_or(Error::InvalidParam)
    }

    /// Whether requests of this ring are at the drive. The ring takes no further ones: the client is about to stop it.
    pub(super) fn stops(&mut self, index: u32) -> bool {
        self.ring(index).is_ok_and(|ring| {
            ring.is_stopping = true;
            ring.at_drive > 0
        })
    }
}

fn counter(file: Option<File>) -> Result<Option<Call>> {
    file.map(|file| Call::new(file).map_err(Error::ReqHandlerError)).transpose()
}

const NOT_OFFERED: Error = Error::InvalidOperation("it was not offered");

impl VhostUserBackendReqHandlerMut for Device {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        // The protocol gives it up: clients that send it mean that all rings are to stop.
        for ring in &mut self.rings {
            ring.set_kick(None);
            ring.is_enabled = false;
        }
        Ok(())
    }

    fn reset_device(&mut self) -> Result<()> {
        self.reset_owner()
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(config::features(self.discards))
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !config::features(self.discards) != 0 {
            return Err(NOT_OFFERED);
        }
        for ring in &mut self.rings {
            ring.queue.set_event_idx(features & (1 << VIRTIO_RING_F_EVENT_IDX) != 0);
            // Without the protocol's own features there is no message that enables a ring.
            ring.is_enabled |= features & VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits() == 0;
        }
        Ok(())
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _: Option<bool>,
    ) -> Result<Option<Vec<u64>>> {
        self.memory = Some(Arc::new(Memory::map(regions, files)?));
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, entries: u32) -> Result<()> {
        let entries = u16::try_from(entries).map_err(|_| Error::InvalidParam)?;
        self.ring(index)?.queue.try_set_size(entries).map_err(|_| Error::InvalidParam)
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _: VhostUserVringAddrFlags,
        descriptors: u64,
        used: u64,
        available: u64,
        _: u64,
    ) -> Result<()> {
        let [descriptors, used, available] = [descriptors, used, available].map(|client| self.guest_address(client));
        let (descriptors, used, available) = (descriptors?, used?, available?);
        let queue = &mut self.ring(index)?.queue;
        let set = queue.try_set_desc_table_address(descriptors);
        let set = set.and_then(|()| queue.try_set_used_ring_address(used));
        set.and_then(|()| queue.try_set_avail_ring_address(available)).map_err(|_| Error::InvalidParam)
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        let base = u16::try_from(base).map_err(|_| Error::InvalidParam)?;
        self.ring(index)?.queue.set_next_avail(base);
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let ring = self.ring(index)?;
        ring.set_kick(None);
        ring.call = None;
        Ok(VhostUserVringState::new(index, ring.queue.next_avail().into()))
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let file = file.ok_or(Error::InvalidOperation("a ring without a kick would have to be polled"))?;
        let data = self.first_event + u64::from(index);
        let epoll = Arc::clone(&self.epoll);
        let ring = self.ring(index.into())?;
        ring.set_kick(Some(Kick::watch(file, &epoll, data).map_err(Error::ReqHandlerError)?));
        Ok(())
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        self.ring(index.into())?.call = counter(file)?;
        Ok(())
    }

    fn set_vring_err(&mut self, index: u8, file: Option<File>) -> Result<()> {
        self.ring(index.into())?.error = counter(file)?;
        Ok(())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(config::protocol_features())
    }

    fn set_protocol_features(&mut self, features: u64) -> Result<()> {
        if features & !config::protocol_features().bits() != 0 {
            return Err(NOT_OFFERED);
        }
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(QUEUES_MAX.into())
    }

    fn set_vring_enable(&mut self, index: u32, is_enabled: bool) -> Result<()> {
        self.ring(index)?.is_enabled = is_enabled;
        Ok(())
    }

    fn get_config(&mut self, offset: u32, bytes: u32, _: VhostUserConfigFlags) -> Result<Vec<u8>> {
        let config = config::space(self.length, self.discards);
        // Newer fields, of features that are not offered, are zero.
        let known = config.into_iter().chain(std::iter::repeat(0));
        Ok(known.skip(offset as usize).take(bytes as usize).collect())
    }

    fn set_config(&mut self, _: u32, _: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        Err(Error::InvalidOperation("no part of the configuration can be written"))
    }

    fn set_gpu_socket(&mut self, _: GpuBackend) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_shared_object(&mut self, _: VhostUserSharedMsg) -> Result<File> {
        Err(NOT_OFFERED)
    }

    fn get_inflight_fd(&mut self, _: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        Err(NOT_OFFERED)
    }

    fn set_inflight_fd(&mut self, _: &VhostUserInflight, _: File) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Err(NOT_OFFERED)
    }

    fn add_mem_region(&mut self, _: &VhostUserSingleMemoryRegion, _: File, _: Option<bool>) -> Result<Option<u64>> {
        Err(NOT_OFFERED)
    }

    fn remove_mem_region(&mut self, _: &VhostUserSingleMemoryRegion) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn set_device_state_fd(
        &mut self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Result<Option<File>> {
        Err(NOT_OFFERED)
    }

    fn check_device_state(&mut self) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        Err(NOT_OFFERED)
    }

    fn set_log_base(&mut self, _: &VhostUserLog, _: File) -> Result<()> {
        Err(NOT_OFFERED)
    }
}
