//! Images on a block device: a loop device over a file of the test.
//!
//! Needs root, loop devices, and Debian's util-linux (losetup, mount) and e2fsprogs (mkfs.ext2).
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::path::{Path, PathBuf};
use std::process::Command;

use iocast_serve::image::Image;
use iocast_serve::{ImageSource, Opening};
use tempfile::TempDir;
use traces::Sectors;

/// Runs a program to its end. Returns its output.
fn run(program: &str, package: &str, arguments: &[&str]) -> String {
    let found = Command::new(program).args(arguments).output();
    let output = found.unwrap_or_else(|error| panic!("{program}: {error}; Debian's package {package} has it"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?} (as root?): {text}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A loop device that is detached when it is dropped.
struct Loop {
    device: PathBuf,
    folder: TempDir,
}

impl Loop {
    fn new() -> Loop {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::File::create(&file).unwrap().set_len(8 << 20).unwrap();
        let device = run("losetup", "mount", &["--find", "--show", file.to_str().unwrap()]);
        Loop { device: device.into(), folder }
    }

    fn name(&self) -> &str {
        self.device.to_str().unwrap()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", self.name()]).status();
    }
}

fn open(device: &Path, allow_writes: bool) -> Result<Image, String> {
    let opening = Opening { create: None, allow_writes };
    Image::open(&ImageSource::Path(device.to_owned()), opening).map_err(|error| error.to_string())
}

#[test]
fn block_device_needs_permission_and_is_refused_while_in_use() {
    let device = Loop::new();
    let error = open(&device.device, false).unwrap_err();
    assert!(error.ends_with("a block device is written to only with --allow-writes"), "{error}");

    let image = open(&device.device, true).unwrap();
    assert_eq!(image.length(), Sectors::new(8 << 11));
    image.write(&[3; 12288], 0).unwrap();
    image.zero(4096, 4096).unwrap();
    image.zero(8192, 512).unwrap();
    let mut bytes = [1; 12288];
    image.read(&mut bytes, 0).unwrap();
    assert!(bytes[..4096].iter().chain(&bytes[8704..]).all(|&byte| byte == 3));
    assert!(bytes[4096..8704].iter().all(|&byte| byte == 0));
    let held = "it is mounted or part of another device; choose an unused one";
    assert!(open(&device.device, true).unwrap_err().ends_with(held), "by this test");
    drop(image);

    run("mkfs.ext2", "e2fsprogs", &["-q", "-F", device.name()]);
    let place = device.folder.path().join("mounted");
    std::fs::create_dir(&place).unwrap();
    run("mount", "mount", &[device.name(), place.to_str().unwrap()]);
    let refused = open(&device.device, true);
    run("umount", "mount", &[place.to_str().unwrap()]);
    assert!(refused.unwrap_err().ends_with(held), "mounted");
    assert!(open(&device.device, true).is_ok());
}

#[test]
fn device_whose_storage_is_gone_fails_reads() {
    let device = Loop::new();
    let image = open(&device.device, true).unwrap();
    image.write(&[3; 4096], 0).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(device.folder.path().join("file")).unwrap();
    file.set_len(0).unwrap();
    // Of a place that is not in the page cache.
    let error = image.read(&mut [0; 4096], 4 << 20).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(5), "EIO: {error}");
}
