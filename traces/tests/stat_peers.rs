//! The statistics of real captures are those of blkparse and btt.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod peers;

use std::path::Path;

use peers::{Capture, assert_same};

#[test]
fn shipped_captures_measure_as_blkparse_and_btt_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/blktrace");
    for name in ["virtio-mail", "virtio-file", "iscsi-mail"] {
        let capture = Capture::measure(&folder.join(format!("{name}.blktrace.0.gz")));
        assert_same(&capture, &capture.against_blkparse());
        assert_same(&capture, &capture.against_btt());
    }
}
