//! A virtio block device over a [`ServedDrive`], served by the vhost-user protocol: the client (QEMU) hands over the
//! guest's memory and rings, and the server takes requests from the rings itself.
//!
//! The crate `vhost` keeps the protocol on the socket, `virtio-queue` the rings, `vm-memory` the mappings of the
//! guest's memory. `frontend` holds one client, `device` what it has set up, `ring` one queue, `chain` parses a
//! request, and `transfer` moves its data. Guests and clients are not trusted: all that they pass is checked where it
//! is used, and an invalid ring is no longer served.
//!
//! [`ServedDrive`]: crate::ServedDrive

mod chain;
mod config;
mod device;
mod eventfd;
mod frontend;
mod memory;
mod ring;
mod serving;
mod transfer;

pub(crate) use config::QUEUES_MAX;
pub(crate) use frontend::{FILES_MAX, Frontend};
pub(crate) use ring::Answer;
pub(crate) use transfer::Transfer;
