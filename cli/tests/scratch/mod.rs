//! A scratch file that stands for a device, and traces for it.
#![allow(dead_code, reason = "every test uses a part of it")]

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

/// Sectors of the device.
pub const SECTORS: u64 = 16_384;

/// A folder with a device of 8 MiB that holds sevens, on the file system of the build, which knows O_DIRECT.
pub struct Scratch {
    pub folder: TempDir,
}

impl Scratch {
    pub fn new() -> Scratch {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::write(folder.path().join("disk"), vec![7; SECTORS as usize * 512]).unwrap();
        Scratch { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn str(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// A trace of lines `arrival in us, operation, first sector, sectors, response time in us`.
    pub fn trace(&self, name: &str, lines: impl IntoIterator<Item = (u64, &'static str, u64, u64, u64)>) -> String {
        let header = "arrival_ns,operation,lba_sectors,sectors,flags,priority,vm,stream,cpu,inserted_ns,issued_ns,\
                      completed_ns,error\n";
        let mut text = header.to_owned();
        for (arrival, operation, lba, sectors, response) in lines {
            let (arrival, completed) = (arrival * 1000, (arrival + response) * 1000);
            text.push_str(&format!("{arrival},{operation},{lba},{sectors},,0,0,1,0,,{arrival},{completed},0\n"));
        }
        fs::write(self.path(name), text).unwrap();
        self.str(name)
    }

    pub fn disk(&self) -> Vec<u8> {
        fs::read(self.path("disk")).unwrap()
    }
}
