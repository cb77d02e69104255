//! An NBD server of our own (fixed newstyle, simple replies) over a [`ServedDrive`].
//!
//! [`handshake`] and [`transmission`] turn bytes into messages and back; they read no socket. A client's connection
//! holds its buffers. [`Server`] is one loop in one thread: it waits for sockets and for the drive's next
//! event, so that no request costs a thread or a wake-up of another one.
//!
//! Everything that a client can make the server hold is bounded: handshakes and their time, connections, outstanding
//! requests of a connection, and the bytes of each. A connection that reaches a bound is not read until it is below.
//! Data move in pieces, with due completions between them, so that no client's long request makes others late.
//!
//! [`ServedDrive`]: crate::ServedDrive

mod client;
pub mod handshake;
mod requests;
mod server;
mod socket;
pub mod transmission;

pub use server::{Limits, Server, Stopper};
pub use socket::Listener;

/// The longest piece in which data move, in bytes. Shorter requests are read and written as a whole.
pub(crate) const PIECE_BYTES: usize = 128 << 10;
/// The most bytes that one read or write may have (the protocol's default).
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;
