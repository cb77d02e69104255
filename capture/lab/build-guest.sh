#!/bin/sh
# Builds the image that the lab's VMs boot: FOLDER/vmlinuz and FOLDER/initramfs.cpio. Needs no root. The Debian packages
# are downloaded and unpacked, never installed.
#
#   build-guest.sh FOLDER [KERNEL]
#
# KERNEL is the package that depends on the kernel, linux-image-cloud-amd64 without it.
# Needs Debian or a derivative for apt-get and dpkg-deb; the packages contain all other programs. The initramfs is not
# compressed: an emulated processor reads it faster than it would decompress it.
set -eu
PATH=$PATH:/usr/sbin:/sbin
PACKAGES="busybox-static coreutils fio blktrace e2fsprogs open-iscsi kmod"
# Programs that guests run from the packages. busybox has the rest, but its clock has no fractions of a second.
PROGRAMS="fio blktrace mkfs.ext4 iscsistart date"
# Modules for disks (virtio, SCSI, iSCSI), their schedulers, a network card, a file system.
MODULES="virtio_pci virtio_blk virtio_scsi virtio_net virtio_rng sd_mod iscsi_tcp bfq kyber-iosched ext4 crc32c_generic"
# Modules that not every kernel has.
MODULES="$MODULES ublk_drv"

out=$1
kernel_package=${2:-linux-image-cloud-amd64}
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d "$out/build.XXXXXX")
trap 'rm -rf "$work"' EXIT
fail() { echo "build-guest.sh: $*" >&2; exit 1; }
for pair in apt-get:apt dpkg-deb:dpkg; do
  command -v "${pair%%:*}" >/dev/null || fail "${pair%%:*} is missing (Debian package ${pair##*:})"
done

# The host's package lists, or newly fetched ones if it has none.
apt="-o Debug::NoLocking=1 -o APT::Sandbox::User="
if ! apt-cache show "$kernel_package" fio >/dev/null 2>&1; then
  mkdir -p "$work/lists/partial" "$work/archives/partial"
  apt="$apt -o Dir::State::Lists=$work/lists -o Dir::Cache=$work"
  # shellcheck disable=SC2086 # A list of options.
  apt-get $apt -qq update || fail "no package lists, and none could be fetched"
fi

# shellcheck disable=SC2086
dependencies() {
  apt-cache $apt depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
    --no-enhances "$@" | grep '^[a-z0-9]' | sed 's/:any$//' | sort -u
}
# shellcheck disable=SC2086
kernel=$(apt-cache $apt depends "$kernel_package" | sed -n 's/.*Depends: \(linux-image-[0-9][^ ]*\)$/\1/p' | head -n 1)
[ -n "$kernel" ] || fail "no kernel package for VMs ($kernel_package)"
# The dependencies that are real packages, not virtual names.
# shellcheck disable=SC2046,SC2086
real() { apt-cache $apt show --no-all-versions $(dependencies $PACKAGES) 2>/dev/null | sed -n 's/^Package: //p' | sort -u; }
mkdir -p "$work/packages" "$work/unpacked"
# shellcheck disable=SC2046,SC2086
(cd "$work/packages" && apt-get $apt -qq download "$kernel" $(real)) || fail "a package could not be downloaded"
for package in "$work"/packages/*.deb; do dpkg-deb -x "$package" "$work/unpacked"; done
from=$work/unpacked
# Debian 12 keeps some packages in /lib and others in /usr/lib.
[ -d "$from/usr/lib/modules" ] && modules_base=$from/usr || modules_base=$from
version=$(basename "$(echo "$from"/boot/vmlinuz-*)" | sed 's/^vmlinuz-//')
cp "$from/boot/vmlinuz-$version" "$work/vmlinuz"

root=$work/root
mkdir -p "$root/bin" "$root/sbin" "$root/etc/iscsi" "$root/proc" "$root/sys" "$root/dev" "$root/tmp" "$root/run" \
  "$root/mnt" "$root/job" "$root/lib64" "$root/var/run"
find_in() { for folder in bin sbin usr/bin usr/sbin; do
  [ -e "$from/$folder/$1" ] && { echo "$from/$folder/$1"; return; }; done; fail "no package has $1"; }
cp -L "$(find_in busybox)" "$root/bin/busybox"
libraries=$from/lib/x86_64-linux-gnu:$from/usr/lib/x86_64-linux-gnu
loader=$(find "$from" -name 'ld-linux-x86-64.so.2' | head -n 1)
loader=$(readlink -f "$loader" 2>/dev/null || echo "$loader")
case $loader in "$from"*) ;; *) loader=$(find "$from" -type f -name 'ld-*.so*' | head -n 1);; esac
cp -L "$loader" "$root/lib64/ld-linux-x86-64.so.2"
mkdir -p "$root/lib/x86_64-linux-gnu"
for program in $PROGRAMS; do
  file=$(find_in "$program")
  cp -L "$file" "$root/bin/$program"
  "$loader" --library-path "$libraries" --list "$file" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p' | while read -r library; do
    cp -Ln "$library" "$root/lib/x86_64-linux-gnu/"
  done
done
cp "$from/etc/mke2fs.conf" "$root/etc/" 2>/dev/null || true
echo 'root:x:0:0:root:/:/bin/sh' > "$root/etc/passwd"
echo 'root:x:0:' > "$root/etc/group"
echo '127.0.0.1 localhost' > "$root/etc/hosts"

run_kmod() { name=$1; shift; "$loader" --argv0 "$name" --library-path "$libraries" "$(find_in kmod)" "$@"; }
run_kmod depmod -b "$modules_base" "$version" 2>/dev/null
for module in $MODULES; do
  run_kmod modprobe -d "$modules_base" -S "$version" --show-depends "$module" 2>/dev/null | sed -n 's/^insmod \([^ ]*\).*/\1/p'
done | sort -u | while read -r module; do
  file=${module#"$modules_base"}
  mkdir -p "$root$(dirname "$file")"
  cp "$modules_base$file" "$root$file"
  # busybox loads no compressed modules.
  case $file in *.xz) "$root/bin/busybox" unxz -f "$root$file";; esac
done
cp "$modules_base/lib/modules/$version"/modules.order "$modules_base/lib/modules/$version"/modules.builtin* "$root/lib/modules/$version/"
run_kmod depmod -b "$root" "$version"

cat > "$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/sbin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts
mount -t tmpfs tmp /tmp
mount -t tmpfs shm /dev/shm
mount -t debugfs debug /sys/kernel/debug
for module in virtio_pci virtio_blk virtio_scsi virtio_rng sd_mod ext4; do modprobe $module; done
# The carrier disk brings the job as an archive, and takes the results out in the same way.
for disk in /sys/block/vd*; do
  [ "$(cat "$disk/serial")" = carrier ] && export CARRIER="/dev/${disk##*/}"
done
tar -x -f "$CARRIER" -C /job
sh /job/run.sh
sync
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | LC_ALL=C sort | ./bin/busybox cpio -o -H newc -R 0:0 2>/dev/null) > "$work/initramfs.cpio"
mv "$work/vmlinuz" "$out/vmlinuz"
mv "$work/initramfs.cpio" "$out/initramfs.cpio"
echo "$version"
