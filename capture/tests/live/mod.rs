//! An iSCSI conversation over real TCP on port 3260, in a network namespace of its own.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use traces::Operation;

const NAMESPACE_VARIABLE: &str = "IOCAST_NAMESPACE_VARIABLE_NAMESPACE";
const BLOCK_BYTES: u32 = 512;

/// Whether this process is in the namespace, whose network has only a loopback device. Otherwise runs the test of that
/// name there.
pub fn in_namespace(test: &str) -> bool {
    if std::env::var_os(NAMESPACE_VARIABLE).is_some() {
        return true;
    }
    let program = std::env::current_exe().unwrap();
    let script = format!("ip link set lo up && exec {} --exact {test} --nocapture", program.display());
    let output = Command::new("unshare").args(["-n", "-m", "sh", "-c", &script]).env(NAMESPACE_VARIABLE, "1").output();
    let output = output.expect("unshare is in the Debian package util-linux");
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "needs root, ip (Debian package iproute2): {said}{errors}");
    false
}

/// The access that the command of this number requests: operation, address, length in blocks.
pub fn access(number: u32) -> (Operation, u64, u64) {
    let operation = if number % 3 == 2 { Operation::Write } else { Operation::Read };
    (operation, u64::from(number * 8), u64::from(number % 8 + 1))
}

/// Sends `commands` commands, one after another, each with its response.
pub fn converse(commands: u32) {
    let listener = TcpListener::bind(("127.0.0.1", 3260)).unwrap();
    let served = std::thread::spawn(move || target(&listener, commands));
    initiator(commands);
    served.join().unwrap();
}

fn header(opcode: u8, flags: u8, data: u32, number: u32) -> [u8; 48] {
    let mut header = [0; 48];
    (header[0], header[1]) = (opcode, flags);
    header[4..8].copy_from_slice(&data.to_be_bytes());
    header[16..20].copy_from_slice(&(number % 32).to_be_bytes());
    header[24..28].copy_from_slice(&number.to_be_bytes());
    header
}

/// The command of this number, its response, and the bytes of data that come with each.
fn pdus(number: u32) -> ([u8; 48], usize, [u8; 48], usize) {
    let (operation, block, blocks) = access(number);
    let bytes = blocks as u32 * BLOCK_BYTES;
    let is_read = operation == Operation::Read;
    let (sent, answered) = if is_read { (0, bytes) } else { (bytes, 0) };
    let mut command = header(1, if is_read { 0xc1 } else { 0xa1 }, sent, number);
    command[20..24].copy_from_slice(&bytes.to_be_bytes());
    command[28..32].copy_from_slice(&number.to_be_bytes());
    command[32] = if is_read { 0x28 } else { 0x2a };
    command[34..38].copy_from_slice(&(block as u32).to_be_bytes());
    command[40] = blocks as u8;
    // Data with the status, or the status alone.
    let mut answer = if is_read { header(0x25, 0x81, answered, number) } else { header(0x21, 0x80, answered, number) };
    answer[28..32].copy_from_slice(&(number + 1).to_be_bytes());
    answer[32..36].copy_from_slice(&(number + 64).to_be_bytes());
    (command, sent as usize, answer, answered as usize)
}

fn target(listener: &TcpListener, commands: u32) {
    let (mut stream, _) = listener.accept().unwrap();
    for number in 0..commands {
        let (command, sent, answer, answered) = pdus(number);
        let mut received = vec![0; command.len() + sent];
        stream.read_exact(&mut received).unwrap();
        assert_eq!(received[..command.len()], command);
        stream.write_all(&[&answer[..], &vec![0x5a; answered]].concat()).unwrap();
    }
}

fn initiator(commands: u32) {
    let mut stream = TcpStream::connect(("127.0.0.1", 3260)).unwrap();
    stream.set_nodelay(true).unwrap();
    for number in 0..commands {
        let (command, sent, answer, answered) = pdus(number);
        stream.write_all(&[&command[..], &vec![0xa5; sent]].concat()).unwrap();
        stream.read_exact(&mut vec![0; answer.len() + answered]).unwrap();
    }
}
