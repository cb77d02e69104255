//! A small capture of iSCSI on the wire, as a file.

use std::path::Path;

/// One read of eight sectors over Ethernet, with its data and status.
pub fn capture(path: &Path) {
    let mut file = Vec::new();
    for field in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 262_144, 1] {
        file.extend_from_slice(&field.to_le_bytes());
    }
    let mut packet = |at_us: u32, from: u16, to: u16, sequence: u32, flags: u8, payload: &[u8]| {
        let mut bytes = vec![0; 12];
        bytes.extend_from_slice(&[8, 0, 0x45, 0]);
        bytes.extend_from_slice(&(40 + payload.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&[0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, from as u8, 10, 0, 0, to as u8]);
        bytes.extend_from_slice(&from.to_be_bytes());
        bytes.extend_from_slice(&to.to_be_bytes());
        bytes.extend_from_slice(&sequence.to_be_bytes());
        bytes.extend_from_slice(&[0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(payload);
        for field in [1_700_000_000, at_us * 1000, bytes.len() as u32, bytes.len() as u32] {
            file.extend_from_slice(&field.to_le_bytes());
        }
        file.extend_from_slice(&bytes);
    };
    packet(0, 40_000, 3260, 0, 2, &[]);
    packet(1, 3260, 40_000, 0, 2, &[]);
    let mut command = [0; 48];
    (command[0], command[1], command[9], command[32], command[40]) = (1, 0xc1, 2, 0x28, 8);
    command[20..24].copy_from_slice(&4096u32.to_be_bytes());
    command[34..38].copy_from_slice(&777u32.to_be_bytes());
    packet(10, 40_000, 3260, 1, 0x18, &command);
    let mut answer = vec![0x55; 48 + 4096];
    answer[..48].fill(0);
    (answer[0], answer[1], answer[6], answer[31], answer[35]) = (0x25, 0x81, 16, 1, 32);
    packet(250, 3260, 40_000, 1, 0x18, &answer);
    std::fs::write(path, file).unwrap();
}
