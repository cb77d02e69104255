//! A [`ServedDrive`] as a block device of this host, `/dev/ublkbN`: the kernel's driver `ublk_drv` passes requests to
//! this process through an io_uring, and takes their results back the same way.
//!
//! `abi` is the driver's interface in bytes, `ring` the io_uring and the memory that is shared with the kernel, `device`
//! the life of one block device, `serving` the way of a request, and `copy` moves its data: they stay in the kernel's
//! pages, which the character device `/dev/ublkcN` reads and writes (`UBLK_F_USER_COPY`, since Linux 6.5).
//!
//! The crate libublk is not used: it needs libclang wherever it is built, and runs an executor of its own for each
//! queue, where this server has one loop.
//!
//! [`ServedDrive`]: crate::ServedDrive

mod abi;
mod copy;
mod device;
mod ring;
mod serving;

pub(crate) use copy::Copy;
pub use device::UblkControl;
pub(crate) use device::{Answer, BlockDevice, Shape};
