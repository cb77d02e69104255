//! An NBD server of our own (fixed newstyle, simple replies) over a [`ServedDrive`].
//!
//! [`handshake`] and [`transmission`] turn bytes into messages and back; they read no socket. A client's connection
//! holds its buffers. The [`Server`](crate::Server)'s loop lets each make its steps. A connection that reaches a bound is
//! not read until it is below.
//!
//! [`ServedDrive`]: crate::ServedDrive

mod client;
pub mod handshake;
mod requests;
pub(crate) mod socket;
pub mod transmission;

pub(crate) use client::{Client, Phase, ReplyData};

/// The most bytes that one read or write may have (the protocol's default).
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;
