//! Requests and replies byte by byte, as the protocol's document has them.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

const BYTES: u64 = 1 << 30;

fn header(flags: u16, command: u16, offset: u64, length: u32) -> Header {
    Header { flags, command, cookie: 7, offset, length }
}

#[test]
fn header_is_parsed_field_by_field() {
    let mut bytes = [0; REQUEST_BYTES];
    bytes.copy_from_slice(&[&[0x25, 0x60, 0x95, 0x13, 0, 3, 0, 6][..], &[1; 8], &[2; 8], &[3; 4]].concat());
    let found = Header::parse(&bytes).unwrap();
    let expected = Header {
        flags: 3,
        command: 6,
        cookie: 0x0101_0101_0101_0101,
        offset: 0x0202_0202_0202_0202,
        length: 0x0303_0303,
    };
    assert_eq!(found, expected);
    bytes[3] = 0x14;
    assert_eq!(Header::parse(&bytes), None);
}

#[test]
fn commands_carry_their_flags() {
    let of = |flags, command| header(flags, command, 0, 512).command(BYTES, flags::TRIM);
    assert_eq!(of(1, 1), Ok(Command::Write { fua: true }));
    assert_eq!(of(0, 4), Ok(Command::Discard { fua: false }));
    assert_eq!(of(2, 6), Ok(Command::WriteZeroes { fua: false, may_discard: false }));
    assert_eq!(of(1, 6), Ok(Command::WriteZeroes { fua: true, may_discard: true }));
    assert_eq!(of(2, 1), Err(NbdError::Invalid), "only zeroes leave holes");
    assert_eq!(header(0, 4, 0, 512).command(BYTES, 0), Err(NbdError::Invalid), "it was not offered");
}

#[test]
fn reply_has_magic_error_and_cookie() {
    let expected = [&[0x67, 0x44, 0x66, 0x98, 0, 0, 0, 28][..], &[0, 0, 0, 0, 0, 0, 1, 2]].concat();
    assert_eq!(reply(0x0102, Some(NbdError::NoSpace)).to_vec(), expected);
    assert_eq!(reply(0, None)[4..8], [0; 4]);
    assert_eq!(
        [NbdError::of_errno(28), NbdError::of_errno(5), NbdError::of_errno(9)].map(|error| error as u32),
        [28, 5, 5]
    );
}

/// The same cases at every run.
fn seeded(cases: u32) -> ProptestConfig {
    ProptestConfig { rng_seed: RngSeed::Fixed(1), cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(seeded(50_000))]

    /// A request that is admitted lies within the export, and its payload is bounded.
    #[test]
    fn admitted_requests_lie_within_the_export(
        bytes in prop::array::uniform28(any::<u8>()), small in any::<bool>(), command in 0u16..8, can in any::<u16>(),
    ) {
        let mut bytes = bytes;
        bytes[..4].copy_from_slice(&REQUEST_MAGIC);
        bytes[4] = 0;
        bytes[6..8].copy_from_slice(&command.to_be_bytes());
        if small {
            bytes[16..20].fill(0);
            bytes[24] = 0;
        }
        let header = Header::parse(&bytes).unwrap();
        if let Ok(command) = header.command(BYTES, can) {
            prop_assert!(command == Command::Flush || header.offset + u64::from(header.length) <= BYTES);
            prop_assert!(header.payload() <= PAYLOAD_BYTES_MAX);
            prop_assert!(!header.is_disconnect());
        }
    }
}
