#!/bin/sh
# Runs in a guest of the lab: prepares a disk, or runs a workload on one and records it. The host communicates over the
# second serial line, one text line at a time. /job/settings holds the settings; results are left in /results.
. /job/settings
mkdir -p /results
# A file system of its own: that of the root may take half of the memory, which the programs fill in a small VM.
mount -t tmpfs results /results
cd /results || exit 1
stty -F /dev/ttyS1 raw -echo 2>/dev/null
exec 3<>/dev/ttyS1
say() { echo "$*" >&3; }
# A failed step ends the run with a message; the results so far are still handed out.
fail() { say "failed: $*"; leave; poweroff -f; }
# A program's error message: the first line that contains "error", else its last line.
why() { grep -m 1 -i 'error' "$1" || tail -n 1 "$1"; }
# Hands the results out: a line with length and name before each file, and a last line.
leave() {
  dmesg > dmesg.txt
  {
    for file in *; do
      [ -f "$file" ] && [ ! -L "$file" ] || continue
      bytes=$(stat -c %s "$file")
      echo "file $bytes $file"
      head -c "$bytes" "$file"
    done
    echo end
  } > "$CARRIER"
  sync
}
# The guest's clocks: time since 1970 and since boot. `date` is named by its path, because the shell would run its own.
clocks() { echo "$(/bin/date +%s.%N) $(cut -d ' ' -f 1 /proc/uptime)"; }

# Finds the disk under test: the virtio disk that does not carry the job, or the only SCSI disk.
attach() {
  case $TRANSPORT in
    virtio) for found in /sys/block/vd*; do [ "$(cat "$found/serial")" = carrier ] || disk=${found##*/}; done ;;
    virtio-scsi) disk=sda ;;
    iscsi)
      modprobe virtio_net
      modprobe iscsi_tcp
      ip addr add 10.0.2.15/24 dev eth0 && ip link set eth0 up || fail "no network card"
      ip link set lo up
      # Discovery would be redirected to an address that only the host has.
      iscsistart -i "$INITIATOR" -t "$TARGET" -g 1 -a 10.0.2.2 -p 3260 > iscsistart.txt 2>&1 || fail "the target cannot be reached"
      disk=sda
      ;;
  esac
  for second in 1 2 3 4 5 6 7 8 9 10; do [ -b "/dev/$disk" ] && return; sleep 1; done
  fail "no disk $disk"
}

# Sets the disk's queue as the plan has it.
tune() {
  queue=/sys/block/$disk/queue
  [ -z "$SCHEDULER" ] || { modprobe "$SCHEDULER-iosched" 2>/dev/null || modprobe "$SCHEDULER" 2>/dev/null
    echo "$SCHEDULER" > "$queue/scheduler" || fail "no scheduler $SCHEDULER"; }
  [ "$TRANSPORT" = virtio ] || echo "$QUEUE_DEPTH" > "/sys/block/$disk/device/queue_depth" || fail "no queue depth $QUEUE_DEPTH"
  for setting in scheduler nr_requests rotational max_sectors_kb read_ahead_kb wbt_lat_usec; do
    echo "$setting $(cat "$queue/$setting" 2>/dev/null)"
  done > queue.txt
  [ ! -e "/sys/block/$disk/device/queue_depth" ] || echo "queue_depth $(cat "/sys/block/$disk/device/queue_depth")" >> queue.txt
  echo "sectors $(cat "/sys/block/$disk/size")" >> queue.txt
}

# Writes the workload's initial files.
prepare() {
  # Blocks of 4 KiB for every disk size: QEMU widens smaller accesses, and reads before it writes.
  mkfs.ext4 -q -F -b 4096 -E lazy_itable_init=0,lazy_journal_init=0,root_owner=0:0,hash_seed="$UUID" -U "$UUID" "/dev/$disk" > mkfs.txt 2>&1 || fail "no file system: $(why mkfs.txt)"
  mount -o noatime "/dev/$disk" /mnt || fail "cannot mount $disk"
  # FileBench creates its files in each run.
  [ "$PROGRAM" != fio ] || (cd /mnt && fio --create_only=1 /job/job > /results/prepare.txt 2>&1) || fail "fio: $(why prepare.txt)"
  df -k /mnt | tail -n 1 > space.txt
  umount /mnt || fail "cannot unmount $disk"
}

# Also records by tracepoints.
record_too() {
  mount -t tracefs tracing /sys/kernel/tracing 2>/dev/null
  /job/host/iocast capture block "/dev/$disk" --backend tracefs -o "$VM.tracefs.parquet" > tracefs.txt 2>&1 &
  second=$!
  sleep 2
  kill -0 $second 2>/dev/null || fail "iocast: $(why tracefs.txt)"
}

# Prints the recorders' processor time in ticks of 10 ms: in user space and in the kernel.
costs() {
  for pair in blktrace:$tracer iocast:$second; do
    echo "${pair%:*} $(cut -d ' ' -f 14,15 "/proc/${pair#*:}/stat")"
  done
}

# Starts FileBench, which creates its files on the modelled drive before recording begins, and then waits for a line of
# /job/go.
lay_out() {
  for library in /job/host/*.so*; do
    [ ! -e "$library" ] || [ -e "/lib/x86_64-linux-gnu/${library##*/}" ] || cp "$library" /lib/x86_64-linux-gnu/
  done
  # FileBench's processes share memory at fixed addresses.
  echo 0 > /proc/sys/kernel/randomize_va_space
  mkfifo /job/laid /job/go
  echo 'echo laid > /job/laid; read -r go < /job/go' > /job/laid.sh
  exec 4<>/job/laid
  /job/host/filebench -f /job/job > "$VM.filebench.txt" 2>&1 &
  load=$!
  until read -r -t 1 laid <&4; do
    kill -0 $load 2>/dev/null || fail "filebench: $(why "$VM.filebench.txt")"
  done
}

# Runs the workload to its end.
work() {
  case $PROGRAM in
    fio)
      said=$PWD/fio.txt
      (cd /mnt && fio --output-format=json --output="/results/$VM.fio.json" /job/job > "$said" 2>&1) \
        || fail "fio: $(why "$said")"
      ;;
    filebench)
      echo go > /job/go
      wait $load
      grep -q 'IO Summary:' "$VM.filebench.txt" || fail "filebench: $(why "$VM.filebench.txt")"
      ;;
  esac
}

# Runs the workload under blktrace, when the host sends `go`.
run() {
  mount -o noatime "/dev/$disk" /mnt || fail "cannot mount $disk"
  [ "$PROGRAM" != filebench ] || lay_out
  # fio accesses only open files. All are opened, or a few would fill the page cache and no longer be read.
  ulimit -n 65536
  # Dirty data are written after 5 s, not 30 s, so that a run of a minute writes early as well as late.
  echo 500 > /proc/sys/vm/dirty_expire_centisecs
  sync
  echo 3 > /proc/sys/vm/drop_caches
  blktrace -d "/dev/$disk" -o "$VM" -b 1024 -n 8 > blktrace.txt 2>&1 &
  tracer=$!
  sleep 1
  kill -0 $tracer 2>/dev/null || fail "blktrace: $(why blktrace.txt)"
  [ -z "$TRACEFS" ] || record_too
  say "ready $(clocks)"
  read -r go <&3
  [ "$go" = go ] || fail "unexpected line from the host: $go"
  echo "begin $(clocks)" > clocks.txt
  work
  echo "end $(clocks)" >> clocks.txt
  # The two recorders end at different times, so no request may be in flight then.
  [ -z "$TRACEFS" ] || { sync; sleep 1; costs > costs.txt; kill -INT $second; wait $second; }
  kill -INT $tracer
  wait $tracer
  # blktrace says so if it lost events, of which one reason is a full file system.
  ! grep -q 'dropped events' blktrace.txt || [ "$(df -k /results | tail -n 1 | awk '{print $4}')" -gt 1024 ] \
    || fail "the trace does not fit into half of the VM's memory; give it more (guest.memory) or record for a shorter time"
  cat /proc/meminfo > meminfo.txt
  umount /mnt
}

echo "lab guest $VM: $STAGE on $TRANSPORT, up $(cut -d ' ' -f 1 /proc/uptime) s"
attach
tune
$STAGE
leave
say "done $(clocks)"
