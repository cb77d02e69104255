//! The driver's interface in bytes: `include/uapi/linux/ublk_cmd.h` of Linux 6.12.

/// The bytes of a command in a submission entry of 128 bytes.
pub(super) const COMMAND_BYTES: usize = 80;
/// The bytes of `struct ublksrv_ctrl_dev_info`.
pub(super) const INFO_BYTES: usize = 64;
/// The bytes of a request's description, `struct ublksrv_io_desc`.
pub(super) const DESCRIPTION_BYTES: usize = 24;
/// The number of a device that the kernel shall choose.
pub(super) const ANY_DEVICE: u32 = u32::MAX;
/// The state of a device that nobody serves (`UBLK_S_DEV_DEAD`).
pub(super) const DEAD: u16 = 0;
/// The longest request, in bytes: that of a disk of the kernel's (`BLK_DEF_MAX_SECTORS_CAP`).
pub(super) const REQUEST_BYTES_MAX: u32 = 1280 << 10;

/// Sectors have 512 bytes.
pub(super) const SECTOR_SHIFT: u8 = 9;

/// `UBLK_F_CMD_IOCTL_ENCODE`: commands are encoded as those of ioctl.
const ENCODED: u64 = 1 << 6;
/// `UBLK_F_USER_COPY`: data are read from and written to the character device.
const USER_COPY: u64 = 1 << 7;
/// Where the data of requests begin in the character device (`UBLKSRV_IO_BUF_OFFSET`).
const DATA_BEGIN: u64 = 0x8000_0000;
/// How far those of a tag are shifted (`UBLK_TAG_OFF`).
const TAG_SHIFT: u32 = 25;
/// The most descriptions of a queue (`UBLK_MAX_QUEUE_DEPTH`).
pub(super) const DEPTH_MAX: u16 = 4096;

/// Commands to the control device. They read and write a buffer, or only read it.
pub(super) mod control {
    use super::{READ, READ_WRITE, encoded};

    const BYTES: u32 = 32;
    pub(in super::super) const INFO: u32 = encoded(READ, 0x02, BYTES);
    pub(in super::super) const ADD: u32 = encoded(READ_WRITE, 0x04, BYTES);
    pub(in super::super) const DELETE: u32 = encoded(READ_WRITE, 0x05, BYTES);
    /// Deletes as soon as nobody has the block device open, without waiting for that. Since Linux 6.9.
    pub(in super::super) const DELETE_SOON: u32 = encoded(READ, 0x14, BYTES);
    pub(in super::super) const START: u32 = encoded(READ_WRITE, 0x06, BYTES);
    pub(in super::super) const STOP: u32 = encoded(READ_WRITE, 0x07, BYTES);
    pub(in super::super) const SET_PARAMETERS: u32 = encoded(READ_WRITE, 0x08, BYTES);
}

/// Fetches the first request of a tag.
pub(super) const FETCH: u32 = encoded(READ_WRITE, 0x20, 16);
/// Gives the result of a tag's request, and fetches the next one.
pub(super) const COMMIT_AND_FETCH: u32 = encoded(READ_WRITE, 0x21, 16);

const READ: u32 = 2;
const READ_WRITE: u32 = 3;

/// The number of a command, as ioctl has it (`_IOC`).
const fn encoded(direction: u32, number: u32, bytes: u32) -> u32 {
    direction << 30 | bytes << 16 | (b'u' as u32) << 8 | number
}

/// `struct ublksrv_ctrl_cmd`: a command for a device, with a buffer at `address` and a number.
pub(super) fn control_command(device: u32, (address, bytes): (u64, u16), number: u64) -> [u8; COMMAND_BYTES] {
    const NO_QUEUE: u16 = u16::MAX;
    let mut command = [0; COMMAND_BYTES];
    command[..4].copy_from_slice(&device.to_ne_bytes());
    command[4..6].copy_from_slice(&NO_QUEUE.to_ne_bytes());
    command[6..8].copy_from_slice(&bytes.to_ne_bytes());
    command[8..16].copy_from_slice(&address.to_ne_bytes());
    command[16..24].copy_from_slice(&number.to_ne_bytes());
    command
}

/// `struct ublksrv_io_cmd` of the first queue: a tag, and the result of its request.
pub(super) fn io_command(tag: u16, result: i32) -> [u8; COMMAND_BYTES] {
    let mut command = [0; COMMAND_BYTES];
    command[2..4].copy_from_slice(&tag.to_ne_bytes());
    command[4..8].copy_from_slice(&result.to_ne_bytes());
    command
}

/// `struct ublksrv_ctrl_dev_info` of a device with one queue.
pub(super) fn info(number: u32, depth: u16) -> Vec<u8> {
    let mut info = vec![0; INFO_BYTES];
    info[..2].copy_from_slice(&1u16.to_ne_bytes());
    info[2..4].copy_from_slice(&depth.to_ne_bytes());
    info[8..12].copy_from_slice(&REQUEST_BYTES_MAX.to_ne_bytes());
    info[12..16].copy_from_slice(&number.to_ne_bytes());
    info[24..32].copy_from_slice(&(ENCODED | USER_COPY).to_ne_bytes());
    info
}

/// Of a device's information: its state, its number, and whether the kernel copies no data by itself.
pub(super) fn informed(info: &[u8]) -> (u16, u32, bool) {
    let state = u16::from_ne_bytes([info[4], info[5]]);
    let number = u32::from_ne_bytes([info[12], info[13], info[14], info[15]]);
    let mut flags = [0; 8];
    flags.copy_from_slice(&info[24..32]);
    (state, number, u64::from_ne_bytes(flags) & USER_COPY != 0)
}

/// `struct ublk_params`: a disk of this many sectors.
pub(super) fn parameters(sectors: u64, is_rotational: bool, discards: bool) -> Vec<u8> {
    const ROTATIONAL: u32 = 1 << 1;
    const VOLATILE_CACHE: u32 = 1 << 2;
    const FUA: u32 = 1 << 3;
    const BASIC: u32 = 1 << 0;
    const DISCARD: u32 = 1 << 1;
    /// The most sectors of a discard or of zeros: 1 GiB less one sector of 4 KiB.
    const ZEROED_MAX: u32 = (1 << 21) - 8;
    let attributes = VOLATILE_CACHE | FUA | if is_rotational { ROTATIONAL } else { 0 };
    let discarded = if discards { ZEROED_MAX } else { 0 };
    let mut parameters = Vec::new();
    parameters.extend(0u32.to_ne_bytes());
    parameters.extend((BASIC | DISCARD).to_ne_bytes());
    parameters.extend(attributes.to_ne_bytes());
    // Sizes of logical and physical blocks, the best and the least size of a request.
    parameters.extend([SECTOR_SHIFT; 4]);
    parameters.extend((REQUEST_BYTES_MAX >> SECTOR_SHIFT).to_ne_bytes());
    parameters.extend(0u32.to_ne_bytes());
    parameters.extend(sectors.to_ne_bytes());
    parameters.extend(0u64.to_ne_bytes());
    // Alignment and granularity of discards, in bytes.
    parameters.extend(0u32.to_ne_bytes());
    parameters.extend((1u32 << SECTOR_SHIFT).to_ne_bytes());
    parameters.extend(discarded.to_ne_bytes());
    parameters.extend(ZEROED_MAX.to_ne_bytes());
    parameters.extend(1u16.to_ne_bytes());
    parameters.extend(0u16.to_ne_bytes());
    // The driver reads 8 bytes at a time.
    parameters.resize(parameters.len().next_multiple_of(8), 0);
    let length = parameters.len() as u32;
    parameters[..4].copy_from_slice(&length.to_ne_bytes());
    parameters
}

/// Where the data of a tag's request begin in the character device, for the first queue.
pub(super) fn data_at(tag: u16) -> u64 {
    DATA_BEGIN + (u64::from(tag) << TAG_SHIFT)
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Description {
    /// The operation, in the driver's numbers.
    pub(super) operation: u8,
    /// With forced unit access.
    pub(super) fua: bool,
    /// Zeros must stay allocated.
    pub(super) keeps: bool,
    /// The first sector.
    pub(super) sector: u64,
    /// The number of sectors.
    pub(super) sectors: u32,
}

/// The operations of [`Description::operation`].
pub(super) mod operation {
    pub(in super::super) const READ: u8 = 0;
    pub(in super::super) const WRITE: u8 = 1;
    pub(in super::super) const FLUSH: u8 = 2;
    pub(in super::super) const DISCARD: u8 = 3;
    pub(in super::super) const WRITE_ZEROES: u8 = 5;
}

impl Description {
    /// Parses `struct ublksrv_io_desc`.
    pub(super) fn parse(bytes: &[u8; DESCRIPTION_BYTES]) -> Description {
        const FUA: u32 = 1 << 13;
        const NO_UNMAP: u32 = 1 << 15;
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let flags = word(0);
        let mut sector = [0; 8];
        sector.copy_from_slice(&bytes[8..16]);
        Description {
            operation: flags as u8,
            fua: flags & FUA != 0,
            keeps: flags & NO_UNMAP != 0,
            sector: u64::from_ne_bytes(sector),
            sectors: word(4),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_numbers_of_the_header() {
        // From a C program with ublk_cmd.h of Linux 6.12.
        assert_eq!(control::INFO, 0x8020_7502);
        assert_eq!(control::ADD, 0xc020_7504);
        assert_eq!((FETCH, COMMIT_AND_FETCH), (0xc010_7520, 0xc010_7521));
    }

    #[test]
    fn parameters_say_their_length_and_the_size() {
        let parameters = parameters(2048, true, false);
        assert_eq!(parameters.len(), 64);
        assert_eq!(parameters[..4], 64u32.to_ne_bytes());
        assert_eq!(parameters[24..32], 2048u64.to_ne_bytes());
        assert_eq!(parameters[8] & 2, 2, "rotational");
        assert_eq!(parameters[48..52], [0; 4], "no discards");
    }

    #[test]
    fn a_description_is_parsed() {
        let mut bytes = [0; DESCRIPTION_BYTES];
        bytes[..4].copy_from_slice(&(1u32 | 1 << 13).to_ne_bytes());
        bytes[4..8].copy_from_slice(&8u32.to_ne_bytes());
        bytes[8..16].copy_from_slice(&99u64.to_ne_bytes());
        let parsed = Description::parse(&bytes);
        let expected = Description { operation: operation::WRITE, fua: true, keeps: false, sector: 99, sectors: 8 };
        assert_eq!(parsed, expected);
    }
}
