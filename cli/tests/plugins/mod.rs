//! Libraries with schedulers, compiled as users do.
#![allow(dead_code, reason = "every test uses a part of it")]

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Compiles a library as users do, without a warning.
pub fn compiled(folder: &TempDir, name: &str, source: &str, defined: &[(&str, &str)]) -> String {
    let into = folder.path().join(name);
    let mut compiler = Command::new("cc");
    compiler.args(["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-O2", "-I"]);
    compiler.arg(Path::new(ROOT).join("schedulers/include")).arg("-o").arg(&into);
    compiler.args(defined.iter().map(|(name, value)| format!("-D{name}={value}")));
    let built = compiler.arg(Path::new(ROOT).join(source)).status();
    assert!(built.expect("there is no C compiler; Debian's package gcc has it").success());
    format!("plugin:{}", into.display())
}

/// Compiles a library in Rust as its header says.
pub fn compiled_rust(folder: &TempDir, name: &str, source: &str) -> String {
    let into = folder.path().join(name);
    let mut compiler = Command::new("rustc");
    compiler.args(["--edition", "2024", "--crate-type", "cdylib", "-O", "-C", "panic=abort", "-D", "warnings", "-o"]);
    let built = compiler.arg(&into).arg(Path::new(ROOT).join(source)).status();
    assert!(built.expect("rustc is there, as cargo is").success());
    format!("plugin:{}", into.display())
}

/// The faulty scheduler with these parts of its description replaced.
pub fn faulty(folder: &TempDir, name: &str, other: &[(&str, &str)]) -> String {
    let usual = [
        ("TUNABLE", "\"fault\""),
        ("NORMAL", "0"),
        ("ABI", "IOCAST_SCHEDULER_ABI"),
        ("SUMMARY", "\"first in, first out\""),
        ("DESTROY", "free"),
        ("SYMBOL", "iocast_scheduler"),
    ];
    let chosen = usual.map(|(key, value)| (key, other.iter().find(|pair| pair.0 == key).map_or(value, |pair| pair.1)));
    compiled(folder, name, "cli/tests/plugins/faulty.c", &chosen)
}

/// What is said when a scheduler with this fault ends the program.
pub fn crashed(plugin: &str, fault: u32) -> String {
    let mail = super::program::sample("mail.parquet");
    let scheduler = format!("{plugin}:fault={fault}");
    let (code, said) =
        super::program::failure(&["compare", &mail, "--end", "3s", "--schedulers", &format!("fifo,{scheduler}")]);
    assert_eq!(code, 1, "{said}");
    said
}
