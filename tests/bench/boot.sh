#!/bin/bash
# Time from the start of QEMU to the peer's ssh banner:  boot.sh ROOT PEER VMLINUX RUNS [MEMORY]
# The guest is Debian with systemd, systemd-networkd and sshd on our kernel, one virtual CPU, software
# emulation: what tests/bench/run.sh times of our own node. Everything in a network namespace that ends
# with this script. Prints one number of seconds a run; MEMORY gets "NAME KIB" of what the last one reports at rest.
set -euo pipefail
root=$1 peer=$2 vmlinux=$3 runs=$4 memory=${5:-}
if [ "${INSIDE:-}" = "" ]; then
  INSIDE=1 exec unshare --net --kill-child --fork "$0" "$@"
fi
ip() { "$root/lib64/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu" "$root/usr/bin/ip" "$@"; }
qemu() {
  QEMU_MODULE_DIR=$root/usr/lib/x86_64-linux-gnu/qemu exec "$root/lib64/ld-linux-x86-64.so.2" \
    --library-path "$root/usr/lib/x86_64-linux-gnu" "$root/usr/bin/qemu-system-x86_64" \
    -L "$root/usr/share/qemu" -L "$root/usr/share/seabios" "$@"
}
ip link set lo up
ip tuntap add tap0 mode tap
ip address add 10.5.0.1/24 dev tap0
ip link set tap0 up
for run in $(seq "$runs"); do
  cp --sparse=always "$peer/root.ext4" "$peer/run.ext4"
  began=$(date +%s%N)
  qemu -nodefaults -no-user-config -nographic -M q35 -accel tcg,thread=multi -cpu max -smp 1 -m 1024 \
    -serial "file:$peer/console.log" -kernel "$vmlinux" -initrd "$peer/initrd.img" \
    -append "root=/dev/vda rw console=ttyS0 quiet no_timer_check cryptomgr.notests" \
    -drive "if=none,id=d,format=raw,cache=unsafe,file=$peer/run.ext4" -device virtio-blk-pci,drive=d \
    -netdev tap,id=n,ifname=tap0,script=no,downscript=no -device virtio-net-pci,netdev=n,romfile= \
    -device virtio-rng-pci >/dev/null 2>&1 &
  guest=$!
  banner=
  while [ $(($(date +%s%N) - began)) -lt 600000000000 ]; do
    if banner=$(timeout 1 bash -c 'exec 3<>/dev/tcp/10.5.0.2/22 && head -n 1 <&3' 2>/dev/null) && [ -n "$banner" ]; then
      break
    fi
    kill -0 "$guest" 2>/dev/null || break
    sleep 0.02
  done
  ended=$(date +%s%N)
  if [ "$banner" ] && [ "$memory" ] && [ "$run" = "$runs" ]; then
    until grep -aq "at rest: end" "$peer/console.log"; do
      [ $(($(date +%s%N) - ended)) -lt 300000000000 ] || { echo "no memory within 300 s; console: $peer/console.log" >&2; break; }
      sleep 0.2
    done
    sed -n 's/\r$//; s/^.*at rest: \([^ ]* [0-9][0-9]*\)$/\1/p' "$peer/console.log" >"$memory"
  fi
  kill -9 "$guest" 2>/dev/null || true
  wait "$guest" 2>/dev/null || true
  [ -n "$banner" ] || { echo "no ssh banner: QEMU has ended, or 600 s are over; console: $peer/console.log" >&2; exit 1; }
  awk -v a="$began" -v b="$ended" 'BEGIN { printf "%.2f\n", (b - a) / 1e9 }'
done
rm -f "$peer/run.ext4"
