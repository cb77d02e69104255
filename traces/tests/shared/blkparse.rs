//! The lab's captures, as binary and as the text that blkparse prints of them: the same records.

use std::path::{Path, PathBuf};
use std::process::Command;

use iocast_traces::formats;
use iocast_traces::trace::{ArrivalPoint, ReadOptions};
use iocast_traces::{Losses, Record, TraceMeta};

const CAPTURES: [&str; 5] = ["virtio-mail", "virtio-web", "virtio-file", "iscsi-mail-alone", "iscsi-web-alone"];

fn folder() -> PathBuf {
    let lab = crate::root().join("lab");
    assert!(lab.is_dir(), "IOCAST_SHARED_DATA: there is no folder {}", lab.display());
    lab
}

fn read(path: &Path, format: &str, arrivals: ArrivalPoint) -> (Vec<Record>, Losses, TraceMeta) {
    let options = ReadOptions { arrivals, ..ReadOptions::default() };
    assert_eq!(formats::recognise(path, &options).unwrap().name, format, "{}", path.display());
    let mut reader = formats::open(path, &options).unwrap();
    let mut records = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        records.push(record);
    }
    (records, reader.losses().clone(), reader.meta().clone())
}

#[test]
fn the_text_of_every_capture_reads_as_the_capture_does() {
    for name in CAPTURES {
        let scratch = tempfile::tempdir().unwrap();
        let binary = folder().join(format!("{name}.blktrace.0.gz"));
        let plain = scratch.path().join("capture.blktrace.0");
        let mut input = iocast_traces::input::Input::open(&binary).unwrap();
        std::io::copy(&mut input, &mut std::fs::File::create(&plain).unwrap()).unwrap();
        // With and without the summary, and with the times that -t adds.
        for (number, arguments) in [&["-q"][..], &[], &["-t", "-s"]].into_iter().enumerate() {
            let output = Command::new("blkparse")
                .args(arguments)
                .arg("-i")
                .arg(scratch.path().join("capture"))
                .output()
                .expect("blkparse (Debian package blktrace) must be installed");
            assert!(output.status.success(), "blkparse: {}", String::from_utf8_lossy(&output.stderr));
            let text = scratch.path().join(format!("text-{number}"));
            std::fs::write(&text, &output.stdout).unwrap();
            for arrivals in [ArrivalPoint::Queued, ArrivalPoint::Issued] {
                let (expected, expected_losses, expected_meta) = read(&binary, "blktrace", arrivals);
                let (records, losses, meta) = read(&text, "blkparse", arrivals);
                assert_eq!(losses, expected_losses, "{name} {arguments:?}");
                assert_eq!(records.len(), expected.len(), "{name} {arguments:?}");
                for (ours, expected) in records.iter().zip(&expected) {
                    assert_eq!(ours, expected, "{name} {arguments:?}");
                }
                for (pid, process) in &meta.streams {
                    assert_eq!(expected_meta.streams.get(pid), Some(process), "{name}");
                }
                for key in ["device", "cpus", "merges", "splits"] {
                    let [ours, theirs] = [(&meta, "blkparse"), (&expected_meta, "blktrace")]
                        .map(|(meta, format)| meta.provenance.get(&format!("{format}.{key}")));
                    assert_eq!(ours, theirs, "{name} {key}");
                }
            }
        }
    }
}
