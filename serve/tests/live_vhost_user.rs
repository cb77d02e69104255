//! vhost-user-blk devices with QEMU's client, booted by its firmware's driver; and QEMU killed in the middle.
//!
//! Needs Debian's qemu-system-x86. The guests of the lab (`lab.rs`) have Linux's driver.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

#[allow(dead_code, reason = "each test target uses its part")]
mod support;

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use support::{TestServer, described, program, read_log};
use traces::Operation;

/// What the guest ends with: QEMU makes 2n + 1 of it.
const COPIED: u8 = 0x10;
const FAILED: u8 = 0x11;

/// A boot sector that reads sector 1 by the firmware, writes it to sector 2, and ends; or reads without end.
fn boot_sector(is_endless: bool) -> [u8; 512] {
    let mut sector = [0; 512];
    let code: &[&[u8]] = &[
        &[0x31, 0xc0],       // xor ax, ax
        &[0x8e, 0xd8],       // mov ds, ax
        &[0xbe, 0x30, 0x7c], // mov si, 0x7c30
        &[0xb4, 0x42],       // mov ah, 0x42 (extended read)
        &[0xcd, 0x13],       // int 0x13
        &[0x72, 0x10],       // jc failed
        &[0xbe, 0x40, 0x7c], // mov si, 0x7c40
        &[0xb8, 0x00, 0x43], // mov ax, 0x4300 (extended write)
        &[0xcd, 0x13],       // int 0x13
        &[0x72, 0x06],       // jc failed
        &[0xb0, COPIED],     // mov al, COPIED
        &[0xe6, 0xf4],       // out 0xf4, al
        &[0xeb, 0xfe],       // jmp here
        &[0xb0, FAILED],     // failed: mov al, FAILED
        &[0xe6, 0xf4],       // out 0xf4, al
        &[0xeb, 0xfe],       // jmp here
    ];
    let code = code.concat();
    sector[..code.len()].copy_from_slice(&code);
    if is_endless {
        sector[0x0b..0x0d].copy_from_slice(&[0xeb, 0xf3]); // jmp 0x7c00
    }
    // One sector at 0:0x8000, from this sector of the disk on.
    for (at, from) in [(0x30, 1), (0x40, 2)] {
        sector[at..at + 9].copy_from_slice(&[16, 0, 1, 0, 0, 0x80, 0, 0, from]);
    }
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    sector
}

/// A VM that boots from the server's only disk.
fn boot(server: &TestServer) -> Child {
    let mut qemu: Command = program("qemu-system-x86_64", "qemu-system-x86");
    qemu.args(["-accel", "tcg", "-machine", "q35,memory-backend=memory", "-m", "64"]);
    qemu.args(["-object", "memory-backend-memfd,id=memory,size=64M,share=on"]);
    qemu.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
    qemu.arg("-chardev").arg(format!("socket,id=disk,path={}", server.disk(0).display()));
    qemu.args(["-device", "vhost-user-blk-pci,chardev=disk,num-queues=2,bootindex=0"]);
    qemu.args(["-device", "isa-debug-exit,iobase=0xf4,iosize=1"]);
    qemu.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn qemu_boots_from_the_disk_and_copies_a_sector() {
    let server = TestServer::start(described("cheetah-15k4", "memory:64m"));
    let data: Vec<u8> = (0..512u32).map(|at| (at * 7 + at / 256) as u8).collect();
    let mut client = server.client("");
    client.write(0, &boot_sector(false), 0);
    client.write(512, &data, 0);
    let status = boot(&server).wait().unwrap();
    assert_eq!(status.code(), Some(2 * i32::from(COPIED) + 1));
    assert!(client.read(1024, 512) == data);
    let log = server.log();
    let (report, _folder) = server.end();
    assert_eq!(report.failed, 0);
    let (records, _) = read_log(&log);
    let of_guest = |operation, sector: u64| {
        let is_it = |record: &&traces::Record| {
            let request = &record.request;
            request.operation == operation && request.lba.sector() == sector && request.stream.0 == 1
        };
        records.iter().filter(is_it).count()
    };
    assert!(of_guest(Operation::Read, 0) >= 1 && of_guest(Operation::Read, 1) == 1, "{records:?}");
    assert_eq!(of_guest(Operation::Write, 2), 1);
}

#[test]
fn killed_qemu_costs_nobody_else_anything() {
    let server = TestServer::start(described("fixed:service=1ms", "memory:64m"));
    let mut client = server.client("");
    client.write(0, &boot_sector(true), 0);
    for _ in 0..2 {
        let before = read_by_guests(&server);
        let mut qemu = boot(&server);
        let begun = Instant::now();
        while read_by_guests(&server) < before + (1 << 15) {
            assert!(begun.elapsed() < Duration::from_secs(60), "the guest reads nothing");
            assert_eq!(client.read(0, 512).len(), 512);
            std::thread::sleep(Duration::from_millis(20));
        }
        qemu.kill().unwrap();
        qemu.wait().unwrap();
        assert_eq!(client.read(510, 2), [0x55, 0xaa]);
    }
    let log = server.log();
    let (report, _folder) = server.end();
    assert_eq!(report.failed, 0);
    let (records, _) = read_log(&log);
    for stream in [1, 2] {
        let reads = records.iter().filter(|record| record.request.stream.0 == stream).count();
        assert!(reads > 200, "guest {stream} has read {reads} times");
    }
}

/// Bytes in the log's tail, which grows with each request.
fn read_by_guests(server: &TestServer) -> u64 {
    let entries = std::fs::read_dir(server.folder.path()).unwrap().map(Result::unwrap);
    let tails = entries.filter(|entry| entry.file_name().to_string_lossy().contains(".tail-"));
    tails.map(|entry| entry.metadata().map_or(0, |metadata| metadata.len())).sum()
}
