//! Requests in every cut, and random rings.

use proptest::prelude::*;
use virtio_bindings::virtio_ring::{VRING_DESC_F_INDIRECT, VRING_DESC_F_NEXT, VRING_DESC_F_WRITE};
use virtio_queue::{Queue, QueueOwnedT, QueueT};

use super::*;

const MEMORY_BYTES: u64 = 1 << 16;
const ABILITIES: Abilities = Abilities { bytes: 1 << 20, discards: true };
const TABLE: u64 = 0x1000;
const AVAILABLE: u64 = 0x2000;
const USED: u64 = 0x3000;
const ENTRIES: u16 = 16;

fn memory() -> GuestMemoryMmap {
    GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY_BYTES as usize)]).unwrap()
}

fn describe(memory: &GuestMemoryMmap, at: u64, (address, bytes): (u64, u32), flags: u32, next: u16) {
    memory.write_obj(address, GuestAddress(at)).unwrap();
    memory.write_obj(bytes, GuestAddress(at + 8)).unwrap();
    memory.write_obj(flags as u16, GuestAddress(at + 12)).unwrap();
    memory.write_obj(next, GuestAddress(at + 14)).unwrap();
}

fn queue(memory: &GuestMemoryMmap) -> Queue {
    let mut queue = Queue::new(ENTRIES).unwrap();
    queue.try_set_desc_table_address(GuestAddress(TABLE)).unwrap();
    queue.try_set_avail_ring_address(GuestAddress(AVAILABLE)).unwrap();
    queue.try_set_used_ring_address(GuestAddress(USED)).unwrap();
    queue.set_ready(true);
    assert!(queue.is_valid(memory));
    queue
}

/// A random descriptor: often one that makes sense.
fn descriptor() -> impl Strategy<Value = ((u64, u32), u32, u16)> {
    let address = prop_oneof![4 => 0x4000..MEMORY_BYTES, 1 => Just(TABLE), 1 => any::<u64>()];
    let bytes = prop_oneof![3 => Just(16u32), 3 => Just(512), 2 => Just(1), 1 => 0u32..2000, 1 => any::<u32>()];
    let [next, write, indirect] = [VRING_DESC_F_NEXT, VRING_DESC_F_WRITE, VRING_DESC_F_INDIRECT];
    let flags = prop_oneof![
        Just(next),
        Just(next | write),
        Just(write),
        Just(0),
        Just(indirect),
        0u32..8,
        any::<u16>().prop_map(u32::from)
    ];
    ((address, bytes), flags, prop_oneof![6 => 0..ENTRIES, 1 => any::<u16>()])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// Whatever a guest leaves in its ring, a request that is accepted lies within its memory and the export.
    #[test]
    fn random_rings_give_requests_within_bounds(
        descriptors in prop::collection::vec(descriptor(), usize::from(ENTRIES)),
        available in prop_oneof![4 => 0..=ENTRIES, 1 => any::<u16>()],
        heads in prop::collection::vec(prop_oneof![6 => 0..ENTRIES, 1 => any::<u16>()], usize::from(ENTRIES)),
        header in (prop_oneof![Just(0u32), Just(1), Just(4), Just(8), Just(11), Just(13), any::<u32>()], 0u64..3000),
    ) {
        let memory = memory();
        for at in (0x4000..MEMORY_BYTES).step_by(16) {
            memory.write_obj(u64::from(header.0), GuestAddress(at)).unwrap();
            memory.write_obj(header.1, GuestAddress(at + 8)).unwrap();
        }
        for (index, &(place, flags, next)) in (0u64..).zip(&descriptors) {
            describe(&memory, TABLE + 16 * index, place, flags, next);
        }
        for (index, &head) in (0u64..).zip(&heads) {
            memory.write_obj(head, GuestAddress(AVAILABLE + 4 + 2 * index)).unwrap();
        }
        memory.write_obj(available, GuestAddress(AVAILABLE + 2)).unwrap();
        let mut queue = queue(&memory);
        let Ok(chains) = queue.iter(&memory) else { return Ok(()) };
        let mut taken = 0;
        for chain in chains {
            taken += 1;
            let Some(request) = parse(chain, &memory, ABILITIES) else { continue };
            prop_assert!(request.status.0 < MEMORY_BYTES);
            if let Kind::Command { command, offset, bytes, data } = request.kind {
                prop_assert!(offset + bytes <= ABILITIES.bytes && bytes % 512 == 0);
                prop_assert!(data.len() < DESCRIPTORS_MAX);
                let moves = matches!(command, Command::Read | Command::Write { .. });
                prop_assert_eq!(length(&data), if moves { bytes } else { 0 });
                for segment in data {
                    prop_assert!(segment.address.0 + u64::from(segment.bytes) <= MEMORY_BYTES);
                }
            }
        }
        prop_assert!(taken <= ENTRIES);
    }

    /// virtio 1 leaves it to the driver how it cuts a request into descriptors.
    #[test]
    fn a_write_is_the_same_in_every_cut(cuts in prop::collection::btree_set(1u32..1040, 0..12), sector in 0u64..2000) {
        let memory = memory();
        memory.write_obj(u64::from(VIRTIO_BLK_T_OUT), GuestAddress(0x4000)).unwrap();
        memory.write_obj(sector, GuestAddress(0x4008)).unwrap();
        let ends: Vec<u32> = cuts.into_iter().chain([1040]).collect();
        let mut begin = 0;
        for (index, &end) in (0u16..).zip(&ends) {
            let part = (0x4000 + u64::from(begin), end - begin);
            describe(&memory, TABLE + 16 * u64::from(index), part, VRING_DESC_F_NEXT, index + 1);
            begin = end;
        }
        describe(&memory, TABLE + 16 * ends.len() as u64, (0x5000, 1), VRING_DESC_F_WRITE, 0);
        memory.write_obj(1u16, GuestAddress(AVAILABLE + 2)).unwrap();
        let chain = queue(&memory).iter(&memory).unwrap().next().unwrap();
        let request = parse(chain, &memory, ABILITIES).unwrap();
        prop_assert_eq!(request.status, GuestAddress(0x5000));
        let Kind::Command { command, offset, bytes, data } = request.kind else { panic!("it is refused") };
        prop_assert_eq!((command, offset, bytes), (Command::Write { fua: false }, sector * 512, 1024));
        let mut next = 0x4010;
        for segment in data {
            prop_assert_eq!(segment.address.0, next);
            next += u64::from(segment.bytes);
        }
        prop_assert_eq!(next, 0x4010 + 1024);
    }
}

#[test]
fn longest_request_has_the_segments_that_the_device_announces() {
    let memory = memory();
    for (segments, is_accepted) in [(SEGMENTS_MAX, true), (SEGMENTS_MAX + 1, false)] {
        let at = |index: u32| 0x8000 + 16 * u64::from(index);
        describe(&memory, at(0), (0x4000, 16), VRING_DESC_F_NEXT, 1);
        for index in 1..=segments {
            let flags = VRING_DESC_F_NEXT | VRING_DESC_F_WRITE;
            describe(&memory, at(index), (0x4200, 512), flags, index as u16 + 1);
        }
        describe(&memory, at(segments + 1), (0x4100, 1), VRING_DESC_F_WRITE, 0);
        describe(&memory, TABLE, (0x8000, (segments + 2) * 16), VRING_DESC_F_INDIRECT, 0);
        memory.write_obj(1u16, GuestAddress(AVAILABLE + 2)).unwrap();
        let chain = queue(&memory).iter(&memory).unwrap().next().unwrap();
        let request = parse(chain, &memory, ABILITIES);
        assert_eq!(request.is_some(), is_accepted, "{segments}");
        if let Some(request) = request {
            let Kind::Command { bytes, data, .. } = request.kind else { panic!("it is refused") };
            assert_eq!((bytes, data.len()), (u64::from(segments) * 512, segments as usize));
        }
    }
}
