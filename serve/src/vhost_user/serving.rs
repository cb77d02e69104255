//! The way of a request: from a ring to the drive, and its answer back.

use std::io;
use std::sync::Arc;

use virtio_bindings::virtio_blk::{VIRTIO_BLK_ID_BYTES, VIRTIO_BLK_S_IOERR, VIRTIO_BLK_S_OK};
use vm_memory::Bytes;

use super::chain::{Abilities, Kind};
use super::frontend::{Frontend, lock};
use super::memory::Memory;
use super::ring::Answer;
use super::transfer::{Direction, Segment, Transfer};
use crate::requests::{self, Command, Work};
use crate::server::{Reply, Server};

/// The most requests that one client's turn takes.
const REQUESTS_PER_TURN: usize = 256;
/// The name by which guests know the device of an unnamed export.
const DEFAULT_ID: &[u8] = b"iocast";

impl Server {
    /// Handles messages if `has_messages`, passes answers on, and takes requests. Returns whether it left something for
    /// the client's next turn.
    ///
    /// # Errors
    /// The connection must end.
    pub(crate) fn serve_frontend(
        &mut self,
        token: u64,
        frontend: &mut Frontend,
        has_messages: bool,
    ) -> io::Result<bool> {
        self.answer(frontend);
        let mut is_left = (has_messages || frontend.has_message) && frontend.handle_messages()?;
        is_left |= self.take_requests(token, frontend);
        self.answer(frontend);
        Ok(is_left)
    }

    /// Passes answers to the guest, after the log has their records.
    fn answer(&mut self, frontend: &Frontend) {
        let mut device = frontend.device();
        let Some(memory) = device.memory.clone() else { return };
        if device.rings.iter().any(super::ring::Ring::has_answers) {
            self.drive.save_log();
            device.rings.iter_mut().for_each(|ring| ring.answer(&memory));
        }
    }

    /// Takes requests from the rings, as many as the client may have. Returns whether there may be more.
    fn take_requests(&mut self, token: u64, frontend: &mut Frontend) -> bool {
        let device = frontend.shared_device();
        let mut device = lock(&device);
        let Some(memory) = device.memory.clone() else { return false };
        let export = &self.drive.exports()[frontend.export];
        let abilities = Abilities { bytes: export.length.bytes(), discards: self.drive.discards() };
        let (rings, first) = (device.rings.len(), frontend.first_ring);
        let mut left = REQUESTS_PER_TURN;
        for index in (0..rings).map(|at| (first + at) % rings) {
            let ring = &mut device.rings[index];
            while frontend.at_drive < self.limits.requests {
                if left == 0 {
                    return true;
                }
                let Some((request, answer)) = ring.next(index, &memory, abilities) else { break };
                left -= 1;
                match request.kind {
                    Kind::Refused(status) => ring.reply(answer, status),
                    Kind::Identify(into) => {
                        let bytes = identify(&export_id(&self.drive, frontend.export), &into, &memory);
                        ring.reply(Answer { bytes, ..answer }, VIRTIO_BLK_S_OK as u8);
                    }
                    Kind::Command { command, offset, bytes, data } => {
                        let whole = if command == Command::Read { bytes as u32 } else { 0 };
                        let answer = Answer { bytes: whole, ..answer };
                        if self.submit_for_guest(token, frontend, &memory, (command, offset, bytes), data, answer) {
                            ring.at_drive += 1;
                            frontend.at_drive += 1;
                        } else {
                            ring.reply(answer, VIRTIO_BLK_S_OK as u8);
                        }
                    }
                }
            }
        }
        frontend.first_ring = (first + 1) % rings;
        false
    }

    /// Submits a request to the drive, and moves the first of its data. Returns whether its answer waits for the drive.
    fn submit_for_guest(
        &mut self,
        token: u64,
        frontend: &mut Frontend,
        memory: &Arc<Memory>,
        (command, offset, bytes): (Command, u64, u64),
        data: Vec<Segment>,
        answer: Answer,
    ) -> bool {
        let connection = *frontend.connection.get_or_insert_with(|| self.drive.connect(frontend.export));
        let Some(arrived) = requests::arrive(&mut self.drive, connection, command, (offset, bytes)) else {
            return false;
        };
        let reply = Reply::vhost_user(token, answer);
        let direction = match command {
            Command::Read => Direction::ToGuest,
            Command::Write { .. } => Direction::FromGuest,
            _ => {
                self.requests.keep(arrived, 0, reply);
                return true;
            }
        };
        let at = self.drive.in_image(connection, offset);
        let transfer = Transfer::new(Arc::clone(memory), direction, data, at);
        self.requests.keep_moving(self.drive.image(), arrived, Work::Transfer(transfer), reply);
        true
    }
}

impl Frontend {
    /// Notes that the drive has completed a request and its data have been moved.
    pub(crate) fn request_ended(&mut self, answer: Answer, errno: i32) {
        self.at_drive -= 1;
        let mut device = self.device();
        let Some(ring) = device.rings.get_mut(answer.ring) else { return };
        ring.at_drive -= 1;
        match errno {
            0 => ring.reply(answer, VIRTIO_BLK_S_OK as u8),
            _ => ring.reply(Answer { bytes: 0, ..answer }, VIRTIO_BLK_S_IOERR as u8),
        }
    }
}

/// The name by which guests know the device: the export's, as far as it fits.
fn export_id(drive: &crate::ServedDrive, export: usize) -> [u8; VIRTIO_BLK_ID_BYTES as usize] {
    let name = drive.exports()[export].name.as_bytes();
    let name = if name.is_empty() { DEFAULT_ID } else { name };
    let mut id = [0; VIRTIO_BLK_ID_BYTES as usize];
    let count = name.len().min(id.len());
    id[..count].copy_from_slice(&name[..count]);
    id
}

/// Writes the device's name to the front of the segments, which are long enough. Returns the bytes written.
fn identify(id: &[u8], into: &[Segment], memory: &Memory) -> u32 {
    let mut at = 0;
    for segment in into {
        let count = (id.len() - at).min(segment.bytes as usize);
        if memory.mapped.write_slice(&id[at..at + count], segment.address).is_err() {
            break;
        }
        at += count;
    }
    at as u32
}
