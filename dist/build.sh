#!/usr/bin/env bash
# Builds the Debian package and the static archive into target/dist. `make dist` calls it.
#
# Both hold the tree that `make install` lays, so that nothing is listed a second time. One commit and one toolchain
# give the same bytes in any folder: times are the commit's, and no path of the builder is in the program.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
export LC_ALL=C TZ=UTC
# Not for compilers, which would begin anew with each commit.
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
unset SOURCE_DATE_EPOCH
cargo_home=${CARGO_HOME:-$HOME/.cargo}
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
host=$(rustc -vV | sed -n 's/^host: //p')
musl=${host%%-*}-unknown-linux-musl
version=$(cargo pkgid --package iocast | sed 's/.*[#@]//')
maintainer=$(sed -n 's/^authors = \["\(.*\)"\]$/\1/p' Cargo.toml)
archive=iocast-$version-$musl
cargo fetch --locked --quiet
mkdir -p "$target/dist"

# Where the sources lie on this host, and the names that the program shows in their place.
sysroot=$(rustc --print sysroot)
renamed=("$PWD=/iocast" "$target=/target"
  "$sysroot/lib/rustlib/src/rust=/rustc/$(rustc -vV | sed -n 's/^commit-hash: //p')")
for registry in "$cargo_home"/registry/src/*; do renamed+=("$registry=/crates"); done

# Builds the program for a target and lays the tree of `make install` below a folder.
lay() { # TARGET DESTDIR PREFIX [VARIABLE=VALUE...]
  local built=$target/$1/shipped/iocast
  RUSTFLAGS="${renamed[*]/#/--remap-path-prefix=}" CFLAGS="${renamed[*]/#/-ffile-prefix-map=}" \
    cargo build --profile shipped --locked --quiet --package iocast --target "$1"
  rm -rf "$2"
  make --no-print-directory --silent install IOCAST="$built" DESTDIR="$2" PREFIX="$3" "${@:4}"
  for path in "$PWD" "$target" "$cargo_home" "$sysroot" "$HOME/"; do
    ! grep -aF "$path" "$2$3"/bin/* >/dev/null || { echo "a program below $2 mentions $path" >&2; exit 1; }
  done
  licences "$1" >"$2$3/share/doc/iocast/third-party.txt"
  chmod -R u=rwX,go=rX "$2"
}

# The licences of all that is linked into the program, which want to be passed on with it.
licences() { # TARGET
  local folder texts
  echo 'The program contains the standard library of Rust (MIT OR Apache-2.0, https://www.rust-lang.org/policies/licenses)'
  echo 'and these crates:'
  cargo tree --locked --package iocast --edges normal --target "$1" --prefix none --no-dedupe --format '{p} {l}' |
    sed 's/ (proc-macro)//' | sort -u | while read -r name number licence; do
      folder=$(echo "$cargo_home"/registry/src/*/"$name-${number#v}")
      [ -d "$folder" ] || continue # One of ours.
      printf '\n==== %s %s: %s\n' "$name" "${number#v}" "$licence"
      # Where there is a choice, MIT's text is enough.
      texts=$(find "$folder" -maxdepth 2 -iname '*licen[cs]e*mit*' -type f | sort)
      texts=${texts:-$(find "$folder" -maxdepth 2 \( -iname '*licen[cs]e*' -o -iname 'copying*' \) -type f | sort)}
      for text in $texts; do cat "$text"; done
    done
  case $1 in *-musl) printf '\n==== musl\n' && cat /usr/share/doc/musl-dev/copyright ;; esac
}

package() {
  local root=$target/$host/shipped/deb doc
  lay "$host" "$root" /usr ZSH_COMPLETION="$root/usr/share/zsh/vendor-completions/_iocast"
  doc=$root/usr/share/doc/iocast
  # Names and places that Debian wants. The file `copyright` has the licences.
  rm "$doc"/LICENSE-*
  mv "$doc/CHANGELOG.md" "$doc/changelog"
  printf '%s\n' "iocast ($version-1) unstable; urgency=medium" "" "  * changelog.gz has what has changed." "" \
    " -- $maintainer  $(date --rfc-email --date="@$epoch")" >"$doc/changelog.Debian"
  gzip -9n "$root"/usr/share/man/man1/* "$doc/changelog" "$doc/changelog.Debian"
  SOURCE_DATE_EPOCH=$epoch cargo deb --quiet --no-build --no-strip --locked --profile shipped --target "$host" \
    --package iocast --output "$target/dist/"
}

static_archive() {
  local stage=$target/$musl/shipped/archive
  lay "$musl" "$stage" "/$archive"
  cp dist/README.md "$stage/$archive/"
  chmod 644 "$stage/$archive/README.md"
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$epoch" --format=gnu \
    --directory "$stage" --create "$archive" | gzip -9n >"$target/dist/$archive.tar.gz"
}

package
static_archive
cd "$target/dist" && sha256sum "$archive.tar.gz" iocast_"$version"-1_*.deb
