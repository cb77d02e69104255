//! What the device offers, and its configuration space (virtio 1.2, section 5.2).

use std::mem::offset_of;

use traces::Sectors;
use vhost::vhost_user::message::{VhostUserProtocolFeatures, VhostUserVirtioFeatures};
use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_F_BLK_SIZE, VIRTIO_BLK_F_DISCARD, VIRTIO_BLK_F_FLUSH, VIRTIO_BLK_F_MQ, VIRTIO_BLK_F_SEG_MAX,
    VIRTIO_BLK_F_WRITE_ZEROES, virtio_blk_config,
};
use virtio_bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};

/// The most queues of a device.
pub(crate) const QUEUES_MAX: u16 = 16;
/// The most entries of a queue.
pub(super) const QUEUE_ENTRIES_MAX: u16 = 1024;
/// The most data segments of a request.
pub(super) const SEGMENTS_MAX: u32 = 126;
/// The most sectors that one request may discard or zero. Their bytes fit 32 bits.
const ZEROED_SECTORS_MAX: u32 = u32::MAX >> 9;

/// The features of a device.
pub(super) fn features(discards: bool) -> u64 {
    let always = [
        VIRTIO_F_VERSION_1,
        VIRTIO_RING_F_EVENT_IDX,
        VIRTIO_RING_F_INDIRECT_DESC,
        VIRTIO_BLK_F_SEG_MAX,
        VIRTIO_BLK_F_BLK_SIZE,
        VIRTIO_BLK_F_FLUSH,
        VIRTIO_BLK_F_MQ,
        VIRTIO_BLK_F_WRITE_ZEROES,
    ];
    let bits = always.into_iter().chain(discards.then_some(VIRTIO_BLK_F_DISCARD));
    bits.fold(VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits(), |features, bit| features | 1 << bit)
}

/// The features of the protocol. `REPLY_ACK` is the library's own.
pub(super) fn protocol_features() -> VhostUserProtocolFeatures {
    VhostUserProtocolFeatures::CONFIG | VhostUserProtocolFeatures::MQ | VhostUserProtocolFeatures::REPLY_ACK
}

/// The configuration space of a device of this length. Fields of features that are not offered are zero.
pub(super) fn space(length: Sectors, discards: bool) -> [u8; size_of::<virtio_blk_config>()] {
    let mut space = [0; size_of::<virtio_blk_config>()];
    let mut put = |at: usize, field: &[u8]| space[at..at + field.len()].copy_from_slice(field);
    put(offset_of!(virtio_blk_config, capacity), &length.count().to_le_bytes());
    put(offset_of!(virtio_blk_config, num_queues), &QUEUES_MAX.to_le_bytes());
    let mut put = |at: usize, value: u32| put(at, &value.to_le_bytes());
    put(offset_of!(virtio_blk_config, seg_max), SEGMENTS_MAX);
    put(offset_of!(virtio_blk_config, blk_size), traces::SECTOR_BYTES as u32);
    put(offset_of!(virtio_blk_config, max_write_zeroes_sectors), ZEROED_SECTORS_MAX);
    put(offset_of!(virtio_blk_config, max_write_zeroes_seg), 1);
    put(offset_of!(virtio_blk_config, write_zeroes_may_unmap), 1);
    if discards {
        put(offset_of!(virtio_blk_config, max_discard_sectors), ZEROED_SECTORS_MAX);
        put(offset_of!(virtio_blk_config, max_discard_seg), 1);
        put(offset_of!(virtio_blk_config, discard_sector_alignment), 1);
    }
    space
}
