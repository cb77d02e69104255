//! The way of a request: from the kernel to the drive, and its result back.

use std::io;

use super::abi::{self, Description, operation};
use super::copy::Copy;
use super::device::{Answer, BlockDevice, Event};
use crate::requests::{self, Command, Work};
use crate::server::{Reply, Server};

/// The most of the kernel's events that one turn handles. The ring wakes the loop again if there are more.
const EVENTS_PER_TURN: usize = 256;
/// The error number of a request that is none (`EIO`, `EOPNOTSUPP`).
const EIO: i32 = 5;
const EOPNOTSUPP: i32 = 95;

impl Server {
    /// Takes the requests that have come, and passes results to the kernel. Returns whether the block device is there
    /// still.
    ///
    /// # Errors
    /// The block device cannot be started, or the kernel's ring fails.
    pub(crate) fn serve_block_device(&mut self, token: u64, device: &mut BlockDevice) -> io::Result<bool> {
        let mut is_there = true;
        for _ in 0..EVENTS_PER_TURN {
            let Some(event) = device.next_event() else { break };
            match event {
                Event::Request(tag) => self.submit_for_kernel(token, device, tag),
                Event::Started(outcome) => outcome?,
                Event::Stopped => is_there = false,
                Event::Failed(error) => return Err(error),
            }
        }
        if device.has_answers {
            self.drive.save_log();
            device.pass_answers()?;
        }
        Ok(is_there)
    }

    /// Submits a tag's request to the drive, and moves the first of its data.
    fn submit_for_kernel(&mut self, token: u64, device: &mut BlockDevice, tag: u16) {
        let Some((description, file)) = device.description(tag) else { return };
        let Description { sector, sectors, .. } = description;
        let Some(command) = command(&description) else {
            return device.answer(Answer { tag, bytes: 0 }, EOPNOTSUPP);
        };
        let (offset, length) = match command {
            Command::Flush => (0, 0),
            _ => (sector << abi::SECTOR_SHIFT, u64::from(sectors) << abi::SECTOR_SHIFT),
        };
        let export = self.drive.exports()[device.export].length.bytes();
        if offset.checked_add(length).is_none_or(|end| end > export) {
            return device.answer(Answer { tag, bytes: 0 }, EIO);
        }
        let moves_data = matches!(command, Command::Read | Command::Write { .. });
        let answer = Answer { tag, bytes: if moves_data { length as i32 } else { 0 } };
        let connection = *device.connection.get_or_insert_with(|| self.drive.connect(device.export));
        let Some(arrived) = requests::arrive(&mut self.drive, connection, command, (offset, length)) else {
            return device.answer(answer, 0);
        };
        let reply = Reply::block_device(token, answer);
        if !moves_data {
            return self.requests.keep(arrived, 0, reply);
        }
        let copy = Copy {
            device: file,
            is_read: command == Command::Read,
            data_at: abi::data_at(tag),
            image_at: self.drive.in_image(connection, offset),
            left: length,
        };
        self.requests.keep_moving(self.drive.image(), arrived, Work::Copy(copy), reply);
    }
}

/// The command of a request, if there is one.
fn command(description: &Description) -> Option<Command> {
    let &Description { operation, fua, keeps, .. } = description;
    match operation {
        operation::READ => Some(Command::Read),
        operation::WRITE => Some(Command::Write { fua }),
        operation::FLUSH => Some(Command::Flush),
        operation::DISCARD => Some(Command::Discard { fua }),
        operation::WRITE_ZEROES => Some(Command::WriteZeroes { fua, may_discard: !keeps }),
        _ => None,
    }
}
