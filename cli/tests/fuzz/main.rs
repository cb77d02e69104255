//! Damaged inputs of all that is no trace: settings, profiles, stacks, workloads, plans, nets, captures of packets, NBD
//! clients, and the files that subcommands read. Seeds are what ships, and `corpus/TARGET/`, which holds every input that
//! ever failed. Traces are fuzzed in their own package.
#![allow(clippy::unwrap_used)] // A panic is how a test fails.

// As the conversations' own package calls it.
extern crate capture as iocast_capture;

#[path = "../../../serve/tests/support/client.rs"]
#[allow(dead_code, reason = "only the form of requests is used")]
mod client;
#[path = "../../../capture/tests/iscsi/conversation.rs"]
#[allow(dead_code, reason = "only conversations are generated")]
mod conversation;
#[path = "../../../capture/tests/iscsi/decoys.rs"]
#[allow(dead_code, reason = "only conversations are generated")]
mod decoys;
#[path = "../../../traces/tests/fuzz/harness/mod.rs"]
mod harness;
mod parsed;
#[path = "../program/mod.rs"]
mod program;
mod programs;
mod replayed;
mod wire;

use std::path::{Path, PathBuf};

use harness::{Target, files, fuzz_all};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The contents of the files in a folder whose names end like this.
fn contents(folder: &str, ending: &str) -> Vec<Vec<u8>> {
    let named = |path: &PathBuf| path.to_string_lossy().ends_with(ending);
    files(&root().join(folder)).iter().filter(|path| named(path)).map(|path| std::fs::read(path).unwrap()).collect()
}

fn bytes<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<Vec<u8>> {
    texts.into_iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// The text of an input; what is no UTF-8 in it is replaced.
fn text(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned()
}

#[test]
fn no_input_panics_hangs_or_fills_the_memory() {
    let texts = [replayed::targets(), parsed::targets(), programs::targets()].into_iter().flatten();
    let mut targets: Vec<Target> = texts.map(Target::of_text).chain(wire::targets()).collect();
    for target in &mut targets {
        let corpus = root().join("cli/tests/fuzz/corpus").join(&target.name);
        target.seeds.extend(files(&corpus).iter().map(|path| std::fs::read(path).unwrap()));
    }
    fuzz_all(targets);
}
