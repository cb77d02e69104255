#!/usr/bin/env bash
# Records the suite: on each drive every VM alone, then the groups together. It continues what an earlier call began.
#
#     capture/lab/suite/record.sh FOLDER [DRIVE...]
#
# DRIVE is a plan beside this script without its ending; all of them if none is named. Nothing else should run on the
# host: a busy one serves drives late. IOCAST names the program.
set -euo pipefail
suite=$(dirname "$(realpath "$0")")
iocast=${IOCAST:-iocast}
[ $# -gt 0 ] || { echo "usage: record.sh FOLDER [DRIVE...]" >&2; exit 2; }
command -v "$iocast" >/dev/null || { echo "record.sh: $iocast is not installed; IOCAST names the program" >&2; exit 1; }
folder=$1
shift
[ $# -gt 0 ] || set -- disk array slow ssd
for drive in "$@"; do
  [ -f "$suite/$drive.toml" ] || { echo "record.sh: there is no plan $suite/$drive.toml" >&2; exit 2; }
done
for drive in "$@"; do
  # The VMs' disks are the same on every drive, and runs only read them.
  mkdir -p "$folder/$drive/prepare"
  for disk in "$folder"/*/prepare/*.img; do
    same=$folder/$drive/prepare/${disk##*/}
    [ ! -f "$disk" ] || [ -e "$same" ] || ln "$disk" "$same"
  done
  "$iocast" capture lab "$suite/$drive.toml" --output "$folder/$drive" --resume
done
