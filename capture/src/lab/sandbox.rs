//! Namespaces of the lab: a network with only a loopback device, its own mounts, and processes that end with the lab.
//! Nothing that the lab does leaves the host or outlives the lab.

use std::os::unix::process::CommandExt;
use std::process::Command;

use super::LabError;
use super::process::run;
use crate::programs::ADMIN_FOLDERS;

/// The environment variable that is set inside the namespaces: to [`OF_ROOT`], or to something else without a real root.
const SANDBOX_VARIABLE: &str = "IOCAST_LAB_SANDBOX";
/// Its value in a lab of root.
const OF_ROOT: &str = "root";

/// Whether this process is inside the namespaces.
pub fn is_entered() -> bool {
    std::env::var_os(SANDBOX_VARIABLE).is_some()
}

/// Whether the lab was started by root. Otherwise it is root in its own user namespace only.
pub fn is_of_root() -> bool {
    std::env::var_os(SANDBOX_VARIABLE).is_some_and(|value| value == OF_ROOT)
}

/// The namespaces that the lab enters.
const KINDS: [&str; 6] = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// Checks that this user may create the namespaces: runs a program in them.
///
/// # Errors
/// `unshare` (util-linux) is not installed, or the system allows no namespaces.
pub fn check_namespaces() -> Result<(), LabError> {
    run(Command::new("unshare").args(user_namespace()).args(KINDS).arg("true")).map(drop)
}

/// Without root, the other namespaces belong to a user namespace.
fn user_namespace() -> &'static [&'static str] {
    if is_root() { &[] } else { &["--user", "--map-root-user"] }
}

/// Inside the namespaces: brings the loopback device up. Outside: replaces this process by itself inside them, and
/// returns only on failure. Without root it also enters a user namespace, where the system allows that.
///
/// # Errors
/// `unshare` or `ip` (iproute2) is not installed or fails.
pub fn enter() -> Result<(), LabError> {
    if is_entered() {
        run(Command::new("ip").args(["link", "set", "lo", "up"]))?;
        return Ok(());
    }
    let program = std::env::current_exe()
        .map_err(|error| LabError::Host(format!("cannot find this program's own path: {error}")))?;
    let error = Command::new("unshare")
        .args(user_namespace())
        .args(KINDS)
        .arg("--")
        .arg(program)
        .args(std::env::args_os().skip(1))
        .env(SANDBOX_VARIABLE, if is_root() { OF_ROOT } else { "user" })
        .env("PATH", format!("{}:{}", std::env::var("PATH").unwrap_or_default(), ADMIN_FOLDERS.join(":")))
        .exec();
    Err(LabError::Host(format!("unshare: {error}")))
}

/// Whether this process is root, inside or outside a user namespace.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
