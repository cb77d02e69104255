//! A guest of our own over vhost-user: memory, rings that a test fills as it likes, and a driver for whole requests.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use vhost::vhost_user::message::{VhostUserHeaderFlag, VhostUserProtocolFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{
    Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion, GuestRegionMmap,
    MmapRegion,
};
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

/// Codes of requests.
pub const IN: u32 = 0;
pub const OUT: u32 = 1;
pub const FLUSH: u32 = 4;
pub const GET_ID: u32 = 8;
pub const DISCARD: u32 = 11;
pub const WRITE_ZEROES: u32 = 13;
/// Statuses.
pub const OK: u8 = 0;
pub const IOERR: u8 = 1;
pub const UNSUPP: u8 = 2;
/// Flags of descriptors.
pub const NEXT: u16 = 1;
pub const WRITABLE: u16 = 2;
pub const INDIRECT: u16 = 4;

/// The guest's first address, its data areas' length, and where a queue's parts lie from the queue's first byte on.
pub const MEMORY_BEGIN: u64 = 1 << 20;
pub const DATA_BYTES: u64 = 1 << 20;
const AVAILABLE: u64 = 16 << 10;
const USED: u64 = 20 << 10;
const HEADERS: u64 = 40 << 10;
const QUEUE_BYTES: u64 = 64 << 10;
/// How long a test waits for an answer, in milliseconds.
const PATIENCE_MS: i32 = 20_000;

pub struct Guest {
    pub frontend: Frontend,
    pub memory: GuestMemoryMmap,
    features: u64,
    slots: u64,
    queues: Vec<Queue>,
}

struct Queue {
    at: u64,
    entries: u16,
    kick: EventFd,
    call: Event,
    error: Event,
    available: u16,
    kicked: u16,
    seen: u16,
}

/// How a guest sets its device up.
#[derive(Clone, Copy)]
pub struct Setup {
    pub queues: u16,
    pub entries: u16,
    /// The most requests of a queue at once, each with a data area.
    pub slots: u64,
    /// Features that are not accepted.
    pub without: u64,
}

pub const ONE_QUEUE: Setup = Setup { queues: 1, entries: 128, slots: 32, without: 0 };
pub const EVENT_INDEX: u64 = 1 << 29;
pub const PROTOCOL_FEATURES: u64 = 1 << 30;

/// A memory file of this length that cannot be shortened.
pub fn sealed_memory(bytes: u64) -> File {
    let file = File::from(memfd_create("guest", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap());
    file.set_len(bytes).unwrap();
    fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
    file
}

/// A client that has agreed on features, and no more. An error is the server's refusal.
pub fn negotiate(socket: &Path, setup: Setup) -> vhost::Result<(Frontend, u64)> {
    let mut frontend = Frontend::connect(socket, setup.queues.into())?;
    frontend.set_owner()?;
    let features = frontend.get_features()? & !setup.without;
    let protocol = frontend.get_protocol_features()?;
    frontend.set_protocol_features(
        protocol
            & (VhostUserProtocolFeatures::CONFIG
                | VhostUserProtocolFeatures::MQ
                | VhostUserProtocolFeatures::REPLY_ACK),
    )?;
    frontend.set_features(features)?;
    frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
    Ok((frontend, features))
}

impl Guest {
    /// Connects and starts all queues.
    pub fn start(socket: &Path, setup: Setup) -> Guest {
        let (frontend, features) = negotiate(socket, setup).unwrap();
        let bytes = u64::from(setup.queues) * (QUEUE_BYTES + setup.slots * DATA_BYTES);
        let mapping = MmapRegion::from_file(FileOffset::new(sealed_memory(bytes), 0), bytes as usize).unwrap();
        let region = GuestRegionMmap::new(mapping, GuestAddress(MEMORY_BEGIN)).unwrap();
        let memory = GuestMemoryMmap::from_regions(vec![region]).unwrap();
        let mut guest = Guest { frontend, memory, features, slots: setup.slots, queues: Vec::new() };
        guest.hand_over_memory();
        for index in 0..u64::from(setup.queues) {
            guest.queues.push(Queue {
                at: MEMORY_BEGIN + index * QUEUE_BYTES,
                entries: setup.entries,
                kick: EventFd::new(EFD_NONBLOCK).unwrap(),
                call: Event::new(),
                error: Event::new(),
                available: 0,
                kicked: 0,
                seen: 0,
            });
            guest.start_queue(index as usize, 0);
        }
        guest
    }

    fn hand_over_memory(&self) {
        let region = VhostUserMemoryRegionInfo::from_guest_region(self.region()).unwrap();
        self.frontend.set_mem_table(&[region]).unwrap();
    }

    /// Connects to another server, as QEMU does: queues go on with the first request that has no answer.
    pub fn reconnect(&mut self, socket: &Path, setup: Setup) {
        (self.frontend, _) = negotiate(socket, setup).unwrap();
        self.hand_over_memory();
        for index in 0..self.queues.len() {
            self.start_queue(index, self.queues[index].seen);
        }
    }

    fn region(&self) -> &GuestRegionMmap {
        self.memory.iter().next().unwrap()
    }

    /// The client's address of one of the guest's.
    pub fn client_address(&self, guest: u64) -> u64 {
        let region = self.region();
        region.as_ptr() as u64 + (guest - region.start_addr().0)
    }

    /// Starts a queue, whose next request is number `base`.
    pub fn start_queue(&mut self, index: usize, base: u16) {
        let queue = &self.queues[index];
        let frontend = &self.frontend;
        frontend.set_vring_num(index, queue.entries).unwrap();
        frontend.set_vring_base(index, base).unwrap();
        let config = VringConfigData {
            queue_max_size: queue.entries,
            queue_size: queue.entries,
            flags: 0,
            desc_table_addr: self.client_address(queue.at),
            used_ring_addr: self.client_address(queue.at + USED),
            avail_ring_addr: self.client_address(queue.at + AVAILABLE),
            log_addr: None,
        };
        frontend.set_vring_addr(index, &config).unwrap();
        frontend.set_vring_kick(index, &queue.kick).unwrap();
        frontend.set_vring_call(index, &queue.call.counter).unwrap();
        frontend.set_vring_err(index, &queue.error.counter).unwrap();
        // Without the protocol's own features there is no such message.
        if self.features & PROTOCOL_FEATURES != 0 {
            self.frontend.set_vring_enable(index, true).unwrap();
        }
    }

    pub fn write<T: vm_memory::ByteValued>(&self, value: T, address: u64) {
        self.memory.write_obj(value, GuestAddress(address)).unwrap();
    }

    /// Writes a descriptor of a queue's table.
    pub fn describe(&self, queue: usize, index: u16, (address, bytes): (u64, u32), flags: u16, next: u16) {
        let at = self.queues[queue].at + u64::from(index) * 16;
        self.descriptor(at, (address, bytes), flags, next);
    }

    /// Writes a descriptor to this address.
    pub fn descriptor(&self, at: u64, (address, bytes): (u64, u32), flags: u16, next: u16) {
        self.write(address, at);
        self.write(bytes, at + 8);
        self.write(flags, at + 12);
        self.write(next, at + 14);
    }

    /// Makes the chain from `head` on available.
    pub fn offer(&mut self, queue: usize, head: u16) {
        let queue = &mut self.queues[queue];
        let ring = GuestAddress(queue.at + AVAILABLE);
        let slot = u64::from(queue.available % queue.entries);
        self.memory.write_obj(head, GuestAddress(ring.0 + 4 + 2 * slot)).unwrap();
        queue.available = queue.available.wrapping_add(1);
        self.memory.store(queue.available, GuestAddress(ring.0 + 2), Ordering::Release).unwrap();
    }

    /// Sets the number of requests that the queue claims to have offered.
    pub fn claim(&self, queue: usize, available: u16) {
        self.write(available, self.queues[queue].at + AVAILABLE + 2);
    }

    /// Announces the offered requests, unless the device does not want it.
    pub fn kick(&mut self, index: usize) {
        let queue = &mut self.queues[index];
        let (old, new) = (queue.kicked, queue.available);
        queue.kicked = new;
        fence(Ordering::SeqCst);
        let event_at = GuestAddress(queue.at + USED + 4 + 8 * u64::from(queue.entries));
        let event: u16 = self.memory.load(event_at, Ordering::Relaxed).unwrap();
        if self.features & EVENT_INDEX == 0 || new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old) {
            queue.kick.write(1).unwrap();
        }
    }

    /// Announces requests, wanted or not.
    pub fn force_kick(&self, queue: usize) {
        self.queues[queue].kick.write(1).unwrap();
    }

    fn slot(&self, queue: usize, slot: u64) -> (u64, u64) {
        assert!(slot < self.slots);
        let header = self.queues[queue].at + HEADERS + slot * 32;
        let data =
            MEMORY_BEGIN + self.queues.len() as u64 * QUEUE_BYTES + (queue as u64 * self.slots + slot) * DATA_BYTES;
        (header, data)
    }

    /// The header of a slot.
    pub fn header_at(&self, queue: usize, slot: u64) -> u64 {
        self.slot(queue, slot).0
    }

    /// The data area of a slot.
    pub fn data_at(&self, queue: usize, slot: u64) -> u64 {
        self.slot(queue, slot).1
    }

    /// Offers a request of three descriptors in a slot: its data are `out`, or `in_bytes` bytes for the device to write.
    pub fn request(&mut self, queue: usize, slot: u64, (code, sector): (u32, u64), out: &[u8], in_bytes: u32) {
        let (header, data) = self.slot(queue, slot);
        self.write(u64::from(code), header);
        self.write(sector, header + 8);
        self.write(0xffu8, header + 16);
        let first = slot as u16 * 3;
        self.describe(queue, first, (header, 16), NEXT, first + 1);
        if !out.is_empty() {
            self.memory.write_slice(out, GuestAddress(data)).unwrap();
            self.describe(queue, first + 1, (data, out.len() as u32), NEXT, first + 2);
        } else {
            self.describe(queue, first + 1, (data, in_bytes), NEXT | WRITABLE, first + 2);
        }
        self.describe(queue, first + 2, (header + 16, 1), WRITABLE, 0);
        self.offer(queue, first);
    }

    /// The next answer, if it is there: the head of the chain, and the bytes that the device says it wrote.
    pub fn poll(&mut self, index: usize) -> Option<(u16, u32)> {
        let queue = &mut self.queues[index];
        let ring = queue.at + USED;
        let used: u16 = self.memory.load(GuestAddress(ring + 2), Ordering::Acquire).unwrap();
        if used == queue.seen {
            return None;
        }
        let at = ring + 4 + 8 * u64::from(queue.seen % queue.entries);
        queue.seen = queue.seen.wrapping_add(1);
        let head: u32 = self.memory.read_obj(GuestAddress(at)).unwrap();
        let bytes: u32 = self.memory.read_obj(GuestAddress(at + 4)).unwrap();
        Some((head as u16, bytes))
    }

    /// Waits for the next answer.
    pub fn wait(&mut self, index: usize) -> (u16, u32) {
        loop {
            if let Some(answer) = self.poll(index) {
                return answer;
            }
            // Ask to be told of the next answer, and look again before waiting.
            let queue = &self.queues[index];
            let wanted = GuestAddress(queue.at + AVAILABLE + 4 + 2 * u64::from(queue.entries));
            self.memory.store(queue.seen, wanted, Ordering::Relaxed).unwrap();
            fence(Ordering::SeqCst);
            if let Some(answer) = self.poll(index) {
                return answer;
            }
            assert!(self.queues[index].call.wait(), "no answer");
            self.queues[index].call.counter.read().unwrap();
        }
    }

    /// Whether the device tells that it has given the queue up.
    pub fn is_given_up(&self, queue: usize) -> bool {
        self.queues[queue].error.wait()
    }

    pub fn status(&self, queue: usize, slot: u64) -> u8 {
        self.memory.read_obj(GuestAddress(self.slot(queue, slot).0 + 16)).unwrap()
    }

    pub fn data(&self, queue: usize, slot: u64, bytes: u32) -> Vec<u8> {
        let mut data = vec![0; bytes as usize];
        self.memory.read_slice(&mut data, GuestAddress(self.slot(queue, slot).1)).unwrap();
        data
    }

    /// Sends a request and waits for its answer: the status, and the bytes that the device wrote.
    pub fn ask(&mut self, queue: usize, (code, sector): (u32, u64), out: &[u8], in_bytes: u32) -> (u8, Vec<u8>) {
        self.request(queue, 0, (code, sector), out, in_bytes);
        self.kick(queue);
        let (head, written) = self.wait(queue);
        assert_eq!(head, 0);
        (self.status(queue, 0), self.data(queue, 0, written - 1))
    }

    pub fn read_sectors(&mut self, queue: usize, sector: u64, bytes: u32) -> Vec<u8> {
        let (status, data) = self.ask(queue, (IN, sector), &[], bytes);
        assert_eq!((status, data.len()), (OK, bytes as usize));
        data
    }

    pub fn write_sectors(&mut self, queue: usize, sector: u64, data: &[u8]) {
        assert_eq!(self.ask(queue, (OUT, sector), data, 0), (OK, Vec::new()));
    }
}

/// An event counter that can be waited for.
struct Event {
    counter: EventFd,
    epoll: Epoll,
}

impl Event {
    fn new() -> Event {
        let counter = EventFd::new(EFD_NONBLOCK).unwrap();
        let epoll = Epoll::new().unwrap();
        epoll.ctl(ControlOperation::Add, counter.as_raw_fd(), EpollEvent::new(EventSet::IN, 0)).unwrap();
        Event { counter, epoll }
    }

    /// Waits until it is signalled. Returns whether it was in time.
    fn wait(&self) -> bool {
        self.epoll.wait(PATIENCE_MS, &mut [EpollEvent::default()]).unwrap() > 0
    }
}
