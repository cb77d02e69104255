//! Block devices of this host come and go with the server.

use std::io;
use std::path::PathBuf;

use rustix::event::epoll::{self, EventFlags};

use super::{Server, event_data};
use crate::ublk::{BlockDevice, Shape, UblkControl};

impl Server {
    /// Adds a block device of this host, with the number `number` or the first free one, whose data are those of the
    /// export with the index `export`. Returns where it appears when [`Server::run`] has begun.
    ///
    /// # Errors
    /// There is no such export, the number is in use, or the kernel's.
    pub fn add_block_device(
        &mut self,
        control: UblkControl,
        number: Option<u32>,
        export: usize,
    ) -> io::Result<PathBuf> {
        let no_export = || io::Error::new(io::ErrorKind::InvalidInput, format!("there is no export number {export}"));
        let length = self.drive.exports().get(export).ok_or_else(no_export)?.length;
        let shape = Shape {
            sectors: length.count(),
            is_rotational: self.drive.is_rotational(),
            discards: self.drive.discards(),
            depth: self.limits.requests,
        };
        let device = BlockDevice::add(control, number, export, shape)?;
        let path = device.path();
        let token = self.next_client;
        self.next_client += 1;
        epoll::add(&self.epoll, &device, event_data(token), EventFlags::IN)?;
        self.block_devices.insert(token, Box::new(device));
        Ok(path)
    }

    pub(super) fn start_block_devices(&mut self) -> io::Result<()> {
        self.block_devices.values_mut().try_for_each(|device| device.start())
    }

    /// Begins to stop all block devices. Returns whether there are any.
    pub(super) fn stop_block_devices(&mut self) -> io::Result<bool> {
        // The stop has been seen.
        let _ = rustix::io::read(&self.stop, &mut [0; 8]);
        self.is_ending = true;
        self.block_devices.values_mut().try_for_each(|device| device.stop())?;
        Ok(!self.block_devices.is_empty())
    }

    /// Takes the kernel's requests, and passes results to it.
    pub(super) fn advance_block_device(&mut self, token: u64) {
        let Some(mut device) = self.block_devices.remove(&token) else { return };
        match self.serve_block_device(token, &mut device) {
            Ok(true) => drop(self.block_devices.insert(token, device)),
            Ok(false) => {}
            Err(error) => self.failure = Some(error),
        }
    }
}
