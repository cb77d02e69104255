//! What the lab refuses before it boots a VM: needs root. `lab.rs` has real VMs.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

mod lab_folder;

use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use lab_folder::{JOB, PLAN, lab, lab_of};

#[test]
fn all_missing_programs_are_named_with_their_packages_before_any_run() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("bin");
    std::fs::create_dir(&empty).unwrap();
    let output = lab(folder.path(), Some(&empty), &["-o", "out"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.starts_with("iocast: capture lab cannot begin, because this host lacks:\n"), "{said}");
    for (program, package) in [("qemu-system-x86_64", "qemu-system-x86"), ("nbdfuse", "libnbd-bin"), ("tar", "tar")] {
        assert!(said.contains(&format!("\n  {program}: not installed: apt-get install {package}\n")), "{said}");
        let together = said.lines().last().unwrap();
        assert!(together.starts_with("  together: apt-get install ") && together.contains(package), "{said}");
    }
    assert!(output.status.code() == Some(1) && !folder.path().join("out").exists());
}

#[test]
fn lun_that_does_not_fit_its_drive_is_refused_before_anything_is_built() {
    for (planned, said) in [
        ("size = \"68g\"", None),
        (
            "size = \"69g\"",
            Some("lun.size is 74088185856 bytes, but cheetah-15k4 has only 73407868928; choose a smaller size"),
        ),
        ("size = \"4g\"\nscheduler = \"dedline\"", Some("unknown scheduler `dedline`; did you mean deadline")),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("bin");
        std::fs::create_dir(&empty).unwrap();
        let plan = PLAN.replace("size = \"4g\"", planned);
        let output = lab_of(&plan, folder.path(), Some(&empty), &["-o", "out"]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        // What fits fails later: there are no programs.
        let (code, said) = said.map_or((1, "this host lacks:"), |said| (2, said));
        assert!(output.status.code() == Some(code) && stderr.contains(said), "{planned}: {stderr}");
        assert!(!folder.path().join("out").exists());
    }
}

#[test]
fn iscsi_without_root_reports_the_missing_capabilities() {
    let folder = tempfile::tempdir().unwrap();
    // Readable by the user `nobody`, which runs the program.
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    std::fs::write(folder.path().join("plan.toml"), PLAN).unwrap();
    std::fs::write(folder.path().join("small.fio"), JOB).unwrap();
    std::fs::copy(cargo_bin("iocast"), folder.path().join("iocast")).unwrap();
    // The image is not built for this: the user is checked first.
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "./iocast", "capture", "lab", "plan.toml"]);
    let output = command.current_dir(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("\n  CAP_SYS_ADMIN: an iSCSI target"), "{said}");
    assert!(said.contains("\n  CAP_NET_RAW: packets cannot be captured: run as root"), "{said}");
}
