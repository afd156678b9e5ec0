#!/bin/bash
# The cost of installing, encrypting and upgrading the disk of a node:  disks.sh ROOT CHECKOUT OUT FIGURES IMAGE [RUNS]
# Appends to FIGURES (JSON lines). IMAGE is an installer image (rootfs/installer.sh). One virtual machine after the other,
# emulated, with one CPU and 1 GiB. Its disks are those of tests/disks; written bytes are those of a recording of them.
set -euo pipefail
root=$1 checkout=$2 out=$3 json=$4 image=$5 runs=${6:-3}
. "$checkout/tests/bench/figure.sh"
. "$checkout/tests/bench/machine.sh"
name=bench-master-1
console=$scratch/clusters/bench/$name.log

within() {  # within SECONDS WHAT COMMAND...: tries it until it succeeds
  local until=$((SECONDS + $1)) what=$2
  shift 2
  until "$@"; do
    [ "$SECONDS" -lt "$until" ] ||
      { echo "disks.sh: $what: not in time; the node and its console:" >&2; tail -n 20 "$scratch/last" "$console" >&2; exit 1; }
    sleep 0.1
  done
}
console_has() { grep -aq -e "$1" "$console" 2>/dev/null; }
# grep reads to the end: output that it leaves unread would be the client's failure.
booted() { talosctl logs machined 2>"$scratch/last" | grep "sequence boot: done" >/dev/null; }
installed() { talosctl read /proc/cmdline 2>"$scratch/last" | grep "talos.slot=" >/dev/null && booted; }
seconds_since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f\n", b - a }'; }
cpu() { sed 's/.*) //' "/proc/$1/stat" | awk '{ printf "%.2f\n", ($12 + $13) / 100 }'; }   # seconds that a process has used
mebibytes() { awk '{ printf "%.1f\n", $1 / 1048576 }'; }
boots() {  # boots NAME: seconds from the start of QEMU to the first answer and to the end of the boot, QEMU's own until then
  local answer qemu pid
  for _ in $(seq "$runs"); do
    node kill >/dev/null
    node start
    answer=$("$out/node-bench" first "$config" </dev/null)
    pid=$(qemu_pid)
    qemu=$(start_time <"/proc/$pid/stat")
    within 600 "a boot" booted
    jq -n --argjson answer "$answer" --argjson qemu "$qemu" --argjson up "$(cut -d' ' -f1 /proc/uptime)" \
      --argjson cpu "$(cpu "$pid")" '{answer: ($answer.answered - $qemu), booted: ($up - $qemu), cpu: $cpu}' >>"$scratch/$1"
  done
}
of() { jq "(.$2 * 100 | round) / 100" "$scratch/$1" | median; }

coproc disks { exec "$out/disk-server" "$scratch/disks.sock"; }
answered() { local line; read -r line <&"${disks[0]}" && [ "$line" = "$1" ] || { echo "disks.sh: disk-server: $line" >&2; exit 1; }; }
answered ready
record() { echo "record $name $scratch/log" >&"${disks[1]}"; answered ok; }

# --- installation: from the image that runs to a disk that is booted from ------------------------------------
install() {  # install NAME FLAGS...
  local began pid before
  destroy
  create --disk 2048 --with-bootloader --no-uplink --disk-server "$scratch/disks.sock" "${@:2}"
  record
  within 300 "the begin of the installation" console_has "installing on /dev/vda"
  began=$EPOCHREALTIME
  pid=$(qemu_pid)
  before=$(cpu "$pid")
  within 900 "the end of the installation" console_has "installed on /dev/vda; rebooting"
  echo "$before $(cpu "$pid")" | awk '{ printf "%.2f\n", $2 - $1 }' >>"$scratch/$1.cpu"
  seconds_since "$began" >>"$scratch/$1.install"
  within 900 "the first boot" installed
  stat -c %s "$scratch/log" | mebibytes >>"$scratch/$1.written"
  rm "$scratch/log"
}
install encrypted --encrypt-state --encrypt-ephemeral
boots encrypted.boots
install plain
boots plain.boots
figure "installation on an empty disk: from its begin to the reboot" s "$(median <"$scratch/plain.install")" ""
figure "installation on an empty disk: processor time of QEMU" s "$(median <"$scratch/plain.cpu")" ""
figure "installation on an empty disk: written to the disk" MiB "$(median <"$scratch/plain.written")" ""
booted="boot of an installed node, STATE and EPHEMERAL encrypted"
figure "$booted: QEMU's start to the first mTLS answer" s \
  "$(of encrypted.boots answer)" "" "the same not encrypted" "$(of plain.boots answer)"
figure "$booted: QEMU's start to the end of the boot" s "$(of encrypted.boots booted)" "" "the same not encrypted" "$(of plain.boots booted)"
figure "$booted: processor time of QEMU" s "$(of encrypted.boots cpu)" "" "the same not encrypted" "$(of plain.boots cpu)"

# --- upgrade: an image that is sent with the request -----------------------------------------------------------
record
before=$(stat -c %s "$scratch/log")
began=$EPOCHREALTIME
"$out/node-bench" away "$config" >"$scratch/away" &
away=$!
quietly talosctl --timeout 30m upgrade --image "$image" --preserve
took=$(seconds_since "$began")
wait "$away"
figure "upgrade: the API is away for" s "$(jq .away "$scratch/away")" "" "a boot of the same node, from QEMU's start" \
  "$(of plain.boots answer)"
figure "upgrade: from the command to the confirmed system" s "$took" ""
figure "upgrade: written to the disk until the reboot" MiB \
  "$(echo $(($(stat -c %s "$scratch/log") - before)) | mebibytes)" ""
