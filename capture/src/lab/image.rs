//! The image that VMs boot: Debian's kernel for VMs and a small initramfs. A script builds it once; it needs no root.

use std::fs::{File, Permissions, set_permissions};
use std::hash::Hasher;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::LabError;
use super::plan::Accelerator;
use super::process::run;
use super::qemu::Qemu;

/// The script that builds kernel and initramfs of Debian packages.
const BUILD_SCRIPT: &str = include_str!("../../lab/build-guest.sh");
const KERNEL: &str = "vmlinuz";
const INITRAMFS: &str = "initramfs.cpio";
/// The time within which a kernel without a file system panics under KVM, with a wide margin.
const KVM_PROBE_TIMEOUT: Duration = Duration::from_secs(8);

/// The image that VMs boot.
#[derive(Clone, Debug)]
pub struct GuestImage {
    /// The kernel.
    pub kernel: PathBuf,
    /// The initramfs, the VM's root file system.
    pub initramfs: PathBuf,
    /// The kernel's version.
    pub version: String,
}

impl GuestImage {
    /// Returns the image in the folder `cache`. Builds it if it is missing or the build script has changed.
    ///
    /// # Errors
    /// No Debian, no network or no space: the script's message.
    pub fn build(cache: &Path) -> Result<GuestImage, LabError> {
        let folder = folder(cache);
        let version = folder.join("version");
        if !version.is_file() {
            std::fs::create_dir_all(&folder).map_err(LabError::io(&folder))?;
            let script = folder.join("build-guest.sh");
            std::fs::write(&script, BUILD_SCRIPT).map_err(LabError::io(&script))?;
            let printed = run(Command::new("sh").arg(&script).arg(&folder))?;
            std::fs::write(&version, printed.lines().last().unwrap_or_default()).map_err(LabError::io(&version))?;
        }
        for file in [KERNEL, INITRAMFS].map(|name| folder.join(name)) {
            // QEMU may be another user. Debian's files are no secret.
            set_permissions(&file, Permissions::from_mode(0o644)).map_err(LabError::io(&file))?;
        }
        Ok(GuestImage {
            kernel: folder.join(KERNEL),
            initramfs: folder.join(INITRAMFS),
            version: std::fs::read_to_string(&version).map_err(LabError::io(&version))?,
        })
    }

    /// Whether the image is already built.
    pub fn is_built(cache: &Path) -> bool {
        folder(cache).join("version").is_file()
    }

    /// Chooses the accelerator where the plan leaves it open: KVM if the kernel boots under it. A host that is itself a
    /// VM may have a /dev/kvm that does not work.
    ///
    /// # Errors
    /// QEMU is missing.
    pub fn accelerator(&self, asked: Accelerator, scratch: &Path) -> Result<Accelerator, LabError> {
        let may = std::fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok();
        match asked {
            Accelerator::Auto if !may => Ok(Accelerator::Tcg),
            Accelerator::Auto => Ok(if self.boots_under_kvm(scratch)? { Accelerator::Kvm } else { Accelerator::Tcg }),
            named => Ok(named),
        }
    }

    /// Boots the kernel without an initramfs. It panics and, with `panic=-1`, QEMU ends.
    fn boots_under_kvm(&self, scratch: &Path) -> Result<bool, LabError> {
        let console = scratch.join("kvm-probe.txt");
        let mut qemu = Qemu::new(Accelerator::Kvm, self)?;
        qemu.args(&["-m", "256", "-append", "console=ttyS0 panic=-1"]);
        qemu.console(File::create(&console).map_err(LabError::io(&console))?)?;
        let mut probe = qemu.start(&scratch.join("kvm-probe.log"))?;
        let mut status = None;
        let waited = probe.wait_until(KVM_PROBE_TIMEOUT, || false);
        if let Ok(Some(ended)) = probe.ended() {
            status = Some(ended);
        }
        probe.kill();
        let printed = std::fs::read_to_string(&console).unwrap_or_default();
        Ok(waited.is_err() && status.is_some_and(|status| status.success()) && printed.contains("Kernel panic"))
    }
}

/// The folder in `cache` for the image of this version of the script.
fn folder(cache: &Path) -> PathBuf {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(BUILD_SCRIPT.as_bytes());
    cache.join(format!("guest-{:016x}", hasher.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_image_of_this_script_is_not_rebuilt() {
        let cache = tempfile::tempdir().unwrap();
        assert!(!GuestImage::is_built(cache.path()));
        let folder = folder(cache.path());
        assert_eq!(folder.parent(), Some(cache.path()));
        std::fs::create_dir_all(&folder).unwrap();
        // An image of another script does not count.
        std::fs::write(cache.path().join("version"), "5.10").unwrap();
        assert!(!GuestImage::is_built(cache.path()));
        std::fs::write(folder.join("version"), "6.1").unwrap();
        for name in [KERNEL, INITRAMFS] {
            std::fs::write(folder.join(name), "").unwrap();
            set_permissions(folder.join(name), Permissions::from_mode(0o600)).unwrap();
        }
        assert!(GuestImage::is_built(cache.path()));
        let image = GuestImage::build(cache.path()).unwrap();
        assert_eq!((image.kernel, image.initramfs), (folder.join("vmlinuz"), folder.join("initramfs.cpio")));
        assert_eq!(image.version, "6.1");
        for name in [KERNEL, INITRAMFS] {
            assert_eq!(std::fs::metadata(folder.join(name)).unwrap().permissions().mode() & 0o777, 0o644, "{name}");
        }
    }

    #[test]
    fn named_accelerator_is_used_without_probing() {
        let image = GuestImage { kernel: PathBuf::new(), initramfs: PathBuf::new(), version: String::new() };
        for named in [Accelerator::Kvm, Accelerator::Tcg] {
            assert_eq!(image.accelerator(named, Path::new("/nowhere")).unwrap(), named);
        }
    }
}
