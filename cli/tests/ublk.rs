//! A served drive as a block device of a kernel with the driver ublk_drv: of a VM, since the host's kernel may not have
//! it. Needs QEMU, and Debian's packages of a kernel from 6.5 on, which are downloaded. `make test-full` runs it.
#![allow(clippy::unwrap_used)] // A failing test may panic anywhere.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use assert_cmd::cargo::cargo_bin;

/// Where the lab's image is built, and the package of a kernel with ublk_drv in Debian 12 and later.
const BUILD_SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../capture/lab/build-guest.sh");
const KERNEL: &str = "linux-image-6.12-cloud-amd64";

/// What the VM does. Lines with `=` are findings.
const SCRIPT: &str = r#"
exec >/dev/ttyS0 2>&1
export LD_LIBRARY_PATH=/job
cd /tmp
begin() {
  /job/iocast serve --urgency normal "$@" >/tmp/output 2>&1 &
  server=$!
  # The kernel makes the device before its entries below /sys.
  for step in $(seq 100); do [ -b /dev/ublkb3 ] && [ -e /sys/block/ublkb3/queue/nr_requests ] && return; sleep 0.1; done
  cat /tmp/output
}
/job/iocast serve --drive fixed --image memory:64m --listen ublk >/tmp/output 2>&1
echo "without_driver=$? $(grep -c 'modprobe ublk_drv' /tmp/output)"
modprobe ublk_drv

begin --drive cheetah-15k4-mechanical --image /tmp/image --create 64m --listen ublk:3 --log /tmp/log.csv
cd /sys/block/ublkb3; echo "shape=$(cat queue/rotational size queue/fua queue/max_sectors_kb queue/nr_requests | xargs)"; cd /tmp
fio --name=verify --filename=/dev/ublkb3 --rw=randwrite --bsrange=4k-1280k --size=24m --direct=1 --ioengine=libaio \
  --iodepth=8 --verify=crc32c --fsync=8 >/tmp/fio; echo "verified=$?"
mkfs.ext4 -q -F /dev/ublkb3 && mount -t ext4 /dev/ublkb3 /mnt && echo kept >/mnt/file && umount /mnt; echo "file_system=$?"
sync
counted=$(awk '{print $1, $3, $7, $16}' /sys/block/ublkb3/stat)
# In the page cache when the server is told to end, since the device stays open. The page is read first.
exec 9</dev/ublkb3
echo written late | dd of=/dev/ublkb3 bs=4k seek=10000 conv=notrunc 2>/dev/null
kill -TERM $server; wait $server; echo "ended=$?"
exec 9<&-
echo "gone=$(ls -d /dev/ublkb* /dev/ublkc* 2>/dev/null | wc -l)"
echo "late=$(dd if=/tmp/image bs=4k skip=10000 count=1 2>/dev/null | head -n 1)"
echo "kernel_counted=$counted"
logged() { awk -F, -v operation="$1" '$2 == operation {requests++; sectors += $4} END {print '$2'+0}' /tmp/log.csv; }
echo "logged=$(logged read requests) $(logged read sectors) $(logged write sectors) $(logged flush requests)"

begin --drive fixed:service=0 --image memory:64m --listen ublk:3
/job/iocast serve --drive fixed --image memory:64m --listen ublk:3 --urgency normal >/tmp/second 2>&1
echo "second=$? $(grep -c 'served or open already' /tmp/second)"
kill -9 $server; wait $server 2>/dev/null
for step in $(seq 50); do [ -b /dev/ublkb3 ] || break; sleep 0.1; done
begin --drive fixed:service=0 --image memory:64m --export a@0:8m --export b@8m:16m --listen ublk=b --listen ublk:3=a
sleep 0.5
echo "replaced=$(cat /sys/block/ublkb3/size /sys/block/ublkb0/size | xargs)"
kill -TERM $server; wait $server; echo "ended_again=$?"
"#;

/// An archive with iocast, its libraries and the script, as a disk of the VM.
fn carrier(folder: &Path) -> std::path::PathBuf {
    let job = folder.join("job");
    fs::create_dir(&job).unwrap();
    let program = job.join("iocast");
    fs::copy(cargo_bin("iocast"), &program).unwrap();
    assert!(Command::new("strip").arg(&program).status().unwrap().success());
    let libraries = Command::new("ldd").arg(&program).output().unwrap().stdout;
    for path in String::from_utf8(libraries).unwrap().split_whitespace().filter(|word| word.starts_with("/lib/")) {
        fs::copy(path, job.join(Path::new(path).file_name().unwrap())).unwrap();
    }
    fs::write(job.join("run.sh"), SCRIPT).unwrap();
    let disk = folder.join("carrier");
    assert!(Command::new("tar").args(["-cf"]).arg(&disk).arg("-C").arg(&job).arg(".").status().unwrap().success());
    let file = File::options().write(true).open(&disk).unwrap();
    file.set_len(file.metadata().unwrap().len().next_multiple_of(1 << 20)).unwrap();
    disk
}

#[test]
fn the_kernel_has_a_block_device_that_loses_nothing() {
    // Kept from run to run.
    let image = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ublk-guest");
    if !image.join("initramfs.cpio").is_file() {
        assert!(Command::new("sh").arg(BUILD_SCRIPT).arg(&image).arg(KERNEL).status().unwrap().success());
    }
    let folder = tempfile::tempdir().unwrap();
    let disk = carrier(folder.path());
    let mut qemu = Command::new("timeout");
    qemu.args(["300", "qemu-system-x86_64", "-accel", "tcg", "-cpu", "qemu64", "-m", "1024", "-nodefaults"]);
    qemu.args(["-no-user-config", "-display", "none", "-no-reboot", "-append", "console=ttyS0 quiet panic=-1"]);
    qemu.arg("-kernel").arg(image.join("vmlinuz")).arg("-initrd").arg(image.join("initramfs.cpio"));
    qemu.args(["-device", "virtio-blk-pci,drive=job,serial=carrier", "-serial", "stdio"]);
    qemu.arg("-drive").arg(format!("file={},format=raw,if=none,id=job,cache=unsafe", disk.display()));
    let output = qemu.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    let findings: BTreeMap<&str, &str> = printed.lines().filter_map(|line| line.split_once('=')).collect();
    let found = |name: &str| findings.get(name).copied().unwrap_or_else(|| panic!("no {name}:\n{printed}"));

    assert_eq!(found("without_driver"), "1 1", "{printed}");
    assert_eq!(found("shape"), "1 131072 1 1280 64", "rotational, sectors, FUA, KiB of a request, requests: {printed}");
    assert_eq!(found("verified"), "0", "{printed}");
    assert_eq!(found("file_system"), "0", "{printed}");
    assert_eq!(found("ended"), "0", "{printed}");
    assert_eq!(found("gone"), "0", "{printed}");
    // The kernel writes its page cache before the block device goes.
    assert_eq!(found("late"), "written late", "{printed}");
    let numbers = |name: &str| -> Vec<u64> { found(name).split(' ').map(|word| word.parse().unwrap()).collect() };
    let (counted, logged) = (numbers("kernel_counted"), numbers("logged"));
    // The kernel's own counts of reads, of sectors read and written, and of flushes; the late write comes after them.
    assert_eq!(logged, [counted[0] + 1, counted[1] + 8, counted[2] + 8, counted[3]], "{printed}");
    assert_eq!(found("second"), "1 1", "{printed}");
    assert_eq!(found("replaced"), "16384 32768", "{printed}");
    assert_eq!(found("ended_again"), "0", "{printed}");
}
