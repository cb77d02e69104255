//! The programs that `iocast serve` runs: nbdkit, the plugin, and `chrt` or `nice` for the server's priority.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::arguments::Urgency;

/// The plugin's file name.
const PLUGIN: &str = "libserve.so";
/// The environment variable that names the plugin's folder.
const PLUGIN_DIR_VARIABLE: &str = "IOCAST_PLUGIN_DIR_VARIABLE";
/// Folders of administration programs, which some users' PATH lacks.
const ADMIN_FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];
/// Above all ordinary processes, and below the kernel's own real-time threads.
const FIFO: [&str; 3] = ["chrt", "--fifo", "10"];
const NICE: [&str; 3] = ["nice", "-n", "-10"];

/// The path of nbdkit.
pub fn nbdkit() -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(ADMIN_FOLDERS.map(PathBuf::from));
    let found = folders.map(|folder| folder.join("nbdkit")).find(|program| program.is_file());
    found.context("nbdkit is not installed; Debian's package nbdkit has it (apt-get install nbdkit)")
}

/// The path of the plugin: in the folder that the environment names, beside the program, in `../lib/iocast`, or in
/// cargo's `deps`.
pub fn plugin() -> Result<PathBuf> {
    let folders = match env::var_os(PLUGIN_DIR_VARIABLE) {
        Some(folder) => vec![PathBuf::from(folder)],
        None => {
            let program = env::current_exe().context("cannot find this program's own path")?;
            let beside = program.parent().map(PathBuf::from).unwrap_or_default();
            vec![beside.clone(), beside.join("../lib/iocast"), beside.join("deps")]
        }
    };
    let found = folders.iter().map(|folder| folder.join(PLUGIN)).find(|plugin| plugin.is_file());
    found.with_context(|| {
        let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        format!(
            "the plugin {PLUGIN} is not in {}; `cargo build --package serve` builds it; {PLUGIN_DIR_VARIABLE} names another folder",
            folders.join(", ")
        )
    })
}

/// The command that precedes nbdkit on its command line, and a note if the priority is lower than wanted.
pub fn urgency(asked: Option<Urgency>) -> Result<(Vec<String>, Option<String>)> {
    let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<String>>();
    let no_fifo = "SCHED_FIFO is not permitted (it takes root or CAP_SYS_NICE, and chrt of Debian's util-linux)";
    let no_nice = "a nice value of -10 is not permitted (it takes root or CAP_SYS_NICE)";
    let late = "on a busy host replies will be later";
    let plain = || owned(&["env"]);
    Ok(match asked {
        Some(Urgency::Realtime) if !may_fifo() => bail!("--urgency realtime: {no_fifo}"),
        Some(Urgency::Nice) if !may_nice() => bail!("--urgency nice: {no_nice}"),
        Some(Urgency::Realtime) => (owned(&FIFO), None),
        Some(Urgency::Nice) => (owned(&NICE), None),
        Some(Urgency::Normal) => (plain(), None),
        None if may_fifo() => (owned(&FIFO), None),
        None if may_nice() => (owned(&NICE), Some(format!("{no_fifo}; the server runs at nice -10; {late}"))),
        None => (plain(), Some(format!("{no_fifo}, nor is a nice value of -10; {late}"))),
    })
}

fn may_fifo() -> bool {
    quietly(&FIFO).arg("true").status().is_ok_and(|status| status.success())
}

/// `nice` runs a program even without the permission. Without a program it prints the nice value that it got.
fn may_nice() -> bool {
    let output = quietly(&NICE).arg("nice").stdout(Stdio::piped()).output();
    output.is_ok_and(|output| output.stdout.starts_with(b"-10"))
}

fn quietly(words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}
