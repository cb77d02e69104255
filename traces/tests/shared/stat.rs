//! The statistics of the lab's captures are those of blkparse and btt, field by field.

use crate::peers::{Capture, Field, assert_same};

#[test]
fn lab_captures_measure_as_blkparse_and_btt_say() {
    let root = crate::root();
    for name in ["virtio-mail", "virtio-web", "virtio-file", "iscsi-mail-alone", "iscsi-web-alone"] {
        let path = root.join("lab").join(format!("{name}.blktrace.0.gz"));
        let capture = Capture::measure(&path);
        let (blkparse, btt) = (capture.against_blkparse(), capture.against_btt());
        // Shown with `--nocapture`: the tables of docs/VALIDATION.md.
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
