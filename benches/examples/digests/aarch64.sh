#!/bin/sh
# Runs the iocast that `make digests-aarch64` has built for another processor.
exec qemu-aarch64 -L /usr/aarch64-linux-gnu "$(dirname "$0")/../../../target/aarch64-unknown-linux-gnu/long/iocast" "$@"
