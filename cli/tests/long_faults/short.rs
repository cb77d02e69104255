//! Short reads and writes, at every call. strace cannot make a call move a part of its data, so a small library does,
//! which the loader puts before the C library.
//!
//! Calls that do not pass the C library are not cut. The standard library's reads and writes all do.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// The library, built with the C compiler that the workspace's build needs.
pub struct Short {
    folder: TempDir,
}

impl Short {
    pub fn build() -> Short {
        let short = Short { folder: tempfile::tempdir().unwrap() };
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/long_faults/short.c");
        let mut compiler = Command::new("cc");
        let built = compiler.args(["-shared", "-fPIC", "-o"]).arg(short.library()).arg(source).status();
        assert!(built.expect("cc is not installed; Debian's package gcc has it").success());
        short
    }

    fn library(&self) -> PathBuf {
        self.folder.path().join("short.so")
    }

    /// Lets every read and write of `command` and what it starts be short.
    pub fn cut(&self, command: &mut Command) {
        command.env("LD_PRELOAD", self.library());
    }
}
