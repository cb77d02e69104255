#!/usr/bin/env bash
# Tries out what build.sh has made, in a bare Debian root below target/dist. `make test-dist` calls it, as root.
#
# The package is installed with what a minimal Debian has and nothing else, removed, and installed again with the
# packages that it recommends and suggests. The archive is unpacked beside it. cli/tests/installed.rs then runs every
# subcommand of both.
set -euo pipefail
cd "$(dirname "$0")/.."
dist=$(realpath "${CARGO_TARGET_DIR:-target}")/dist
deb=$(ls -t "$dist"/iocast_*.deb | head -1)
archive=$(ls -t "$dist"/iocast-*-musl.tar.gz | head -1)
root=$dist/root

cleanup() {
  mount | grep -q " on $root/" && { echo "$root has mounts left, so it stays" >&2; return; }
  rm -rf "$root" "$dist"/files-*
}
trap cleanup EXIT

inside() { chroot "$root" env --ignore-environment HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 "$@"; }

# What there is in the root, but for the package manager's records.
files() {
  (cd "$root" && find . \( -path ./var/lib/dpkg -o -path ./var/log -o -path ./var/cache -o -path ./tmp \) -prune -o -print |
    sort)
}

echo "== lintian"
# The first version of a package in Debian closes the report that asks for it. This one is not in Debian.
lintian --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs --allow-root "$deb"

echo "== a bare root"
rm -rf "$root"
mmdebstrap --quiet --variant=minbase "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$root" \
  $(find /etc/apt -name '*.sources' -o -name sources.list -size +0 -o -path '*.d/*.list')
cp /etc/resolv.conf "$root/etc/resolv.conf"
install -m 644 "$deb" "$root/tmp/iocast.deb"

echo "== the package alone"
files >"$dist/files-before"
inside dpkg --install /tmp/iocast.deb
inside iocast --version
inside bash -ec '. /usr/share/bash-completion/completions/iocast
  COMP_WORDS=(iocast comp) COMP_CWORD=1; _iocast iocast comp iocast
  echo "completes to: ${COMPREPLY[*]}"; [[ " ${COMPREPLY[*]} " == *" compare "* ]]'
for page in "$root"/usr/share/man/man1/iocast*.1.gz; do
  warnings=$(MANROFFSEQ= MANWIDTH=80 man --warnings --local-file "$page" 2>&1 >/dev/null)
  [ -z "$warnings" ] || { echo "$page: $warnings" >&2; exit 1; }
done
[[ $(man --local-file "$root/usr/share/man/man1/iocast.1.gz") == *SUBCOMMANDS* ]]
inside dpkg --purge iocast
files >"$dist/files-after"
diff "$dist/files-before" "$dist/files-after"

echo "== every subcommand of the package, and of the archive"
inside dpkg --install /tmp/iocast.deb
inside apt-get update -qq
# With libc6-dev, which gcc recommends. Without the rest of what they recommend, which is desktops.
inside dpkg-query --show --showformat '${Recommends}, ${Suggests}, libc6-dev' iocast | tr -d , |
  inside DEBIAN_FRONTEND=noninteractive xargs apt-get install -y -qq --no-install-recommends >/dev/null
mkdir "$root/opt/iocast"
tar -xzf "$archive" -C "$root/opt/iocast" --strip-components 1
for prefix in /usr /opt/iocast; do
  IOCAST_ROOT=$root IOCAST_PREFIX=$prefix \
    cargo test --profile long --workspace --test installed -- every_subcommand_works_without_the_checkout
done
