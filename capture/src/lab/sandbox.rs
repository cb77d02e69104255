//! Namespaces of the lab: a network with only a loopback device, its own mounts, and processes that end with the lab.
//! Nothing that the lab does leaves the host or outlives the lab.

use std::os::unix::process::CommandExt;
use std::process::Command;

use super::LabError;
use super::process::{ADMIN_FOLDERS, run};

/// The environment variable that is set inside the namespaces.
const SANDBOX_VARIABLE: &str = "IOCAST_LAB_SANDBOX";

/// Whether this process is inside the namespaces.
pub fn is_entered() -> bool {
    std::env::var_os(SANDBOX_VARIABLE).is_some()
}

/// Inside the namespaces: brings the loopback device up. Outside: replaces this process by itself inside them, and
/// returns only on failure. Without root it also enters a user namespace, where the system allows that.
///
/// # Errors
/// `unshare` (util-linux) or `ip` (iproute2) is missing, or the system allows no namespaces.
pub fn enter() -> Result<(), LabError> {
    if is_entered() {
        run(Command::new("ip").args(["link", "set", "lo", "up"]), "iproute2")?;
        return Ok(());
    }
    let kinds: &[&str] = &["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let user: &[&str] = if is_root() { &[] } else { &["--user", "--map-root-user"] };
    let refused = |error: LabError| match error {
        LabError::Command { output, .. } => LabError::Host(format!(
            "the lab needs namespaces of its own, but {output}; run it as root, or allow user namespaces \
             (sysctl kernel.unprivileged_userns_clone=1)"
        )),
        other => other,
    };
    run(Command::new("unshare").args(user).args(kinds).arg("true"), "util-linux").map_err(refused)?;
    let program = std::env::current_exe()
        .map_err(|error| LabError::Host(format!("cannot find this program's own path: {error}")))?;
    let error = Command::new("unshare")
        .args(user)
        .args(kinds)
        .arg("--")
        .arg(program)
        .args(std::env::args_os().skip(1))
        .env(SANDBOX_VARIABLE, "1")
        .env("PATH", format!("{}:{}", std::env::var("PATH").unwrap_or_default(), ADMIN_FOLDERS.join(":")))
        .exec();
    Err(LabError::Host(format!("unshare: {error}")))
}

/// Whether this process is root, inside or outside a user namespace.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
