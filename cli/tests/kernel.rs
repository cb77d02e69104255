//! Schedulers of Linux, compiled from their source by the program: in a comparison their figures are those of ours.
//!
//! Needs the trees that `make test-kernel` unpacks.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod program;

use std::path::Path;

use program::{failure, json, sample, stdout};

fn source(file: &str) -> String {
    let trees = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/kernel");
    let source = trees.join("linux-source-6.12/block").join(file);
    assert!(source.is_file(), "{} is not there; `make kernel-trees` unpacks it", source.display());
    source.display().to_string()
}

#[test]
fn figures_with_the_kernels_code_are_those_of_ours() {
    let folder = tempfile::tempdir().unwrap();
    for (ours, file, pacing) in [
        ("mq-deadline", "mq-deadline.c", "asap=32"),
        ("kyber", "kyber-iosched.c", "asap=32"),
        ("bfq", "bfq-iosched.c", "closed"),
    ] {
        let library = folder.path().join("library.so").display().to_string();
        let said = stdout(&["kernel-scheduler", "build", &source(file), "-o", &library, "--force"]);
        assert!(said.contains(&format!("block/{file}")) && said.contains(" of Linux 6.12."), "{said}");
        assert!(said.contains(&format!("--schedulers kernel:{library}")), "{said}");
        for trace in ["mail.parquet", "file.parquet"] {
            let schedulers = format!("{ours},kernel:{library}");
            let arguments =
                ["compare", &sample(trace), "--pacing", pacing, "--end", "20s", "--schedulers", &schedulers];
            let runs = json(&[&arguments[..], &["--depth", "4"]].concat());
            let figures = |run: usize| {
                let mut run = runs["runs"][run].clone();
                for key in ["scheduler", "rules"] {
                    run.as_object_mut().unwrap().remove(key);
                }
                run
            };
            assert!(figures(0)["read"]["requests"].as_u64().unwrap() > 1000, "{}", figures(0));
            assert_eq!(figures(1), figures(0), "{ours}, {trace}");
            assert_eq!(runs["runs"][1]["scheduler"]["model"], "kernel:library.so");
        }
    }
}

#[test]
fn library_is_not_overwritten_and_a_file_outside_of_a_tree_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("mq.so").display().to_string();
    let build =
        |file: &str, more: &[&str]| failure(&[&["kernel-scheduler", "build", file, "-o", &library], more].concat());
    stdout(&["kernel-scheduler", "build", &source("mq-deadline.c"), "-o", &library]);
    let (code, said) = build(&source("mq-deadline.c"), &[]);
    assert!(code == 1 && said.contains("exists; overwrite it with --force"), "{said}");
    let copy = folder.path().join("mine.c");
    std::fs::copy(source("mq-deadline.c"), &copy).unwrap();
    let (code, said) = build(&copy.display().to_string(), &["--force"]);
    assert!(
        code == 2 && said.contains("does not lie in the folder block of a kernel tree: name it with --tree"),
        "{said}"
    );
}
