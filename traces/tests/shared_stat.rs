//! The statistics of the lab's captures are those of blkparse and btt, field by field. Run with
//! `--features shared-data` and the folder of the data in `IOCAST_SHARED_DATA`.

#![cfg(feature = "shared-data")]
#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod peers;

use std::path::Path;

use peers::{Capture, Field, assert_same};

#[test]
fn lab_captures_measure_as_blkparse_and_btt_say() {
    let root = std::env::var_os("IOCAST_SHARED_DATA").expect("set IOCAST_SHARED_DATA to the folder of the shared data");
    for name in ["virtio-mail", "virtio-web", "virtio-file", "iscsi-mail-alone", "iscsi-web-alone"] {
        let path = Path::new(&root).join("lab").join(format!("{name}.blktrace.0.gz"));
        let capture = Capture::measure(&path);
        let (blkparse, btt) = (capture.against_blkparse(), capture.against_btt());
        // Shown with `--nocapture`: the tables of docs/validation/captures.md.
        print_table(&capture, "blkparse", &blkparse);
        print_table(&capture, "btt", &btt);
        assert_same(&capture, &blkparse);
        assert_same(&capture, &btt);
    }
}

fn print_table(capture: &Capture, program: &str, fields: &[Field]) {
    println!("\n| {} | iocast | adjusted | {program} | why |\n|---|---|---|---|---|", capture.name());
    for Field { name, ours, adjusted, theirs, reason } in fields {
        let (adjusted, reason) = if ours == adjusted { ("", "") } else { (adjusted.as_str(), *reason) };
        println!("| {name} | {ours} | {adjusted} | {theirs} | {reason} |");
    }
}
