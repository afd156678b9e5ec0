#!/bin/bash
# Boots a node several times, then looks at one that is at rest:  node.sh CHECKOUT OUT FIGURES [RUNS]
# Appends to FIGURES (JSON lines): boot times as medians of the runs, memory before and after 10 000 calls. Afterwards the
# peer's boots, and its memory at rest (boot.sh, with the image that peer-image.sh has made).
# Software emulation, one virtual CPU, as the peer's in boot.sh. What is timed, and by which clock:
#   start of QEMU   /proc/<pid>/stat of this machine          exec of machined   the same file of the guest
#   first answer    tests/bench/node-bench.cc, by both clocks; the steps of 10 ms are the kernel's
set -euo pipefail
checkout=$1 out=$2 json=$3 runs=${4:-5}
root=${ROOT:-$checkout/build/root} bench=$checkout/build/bench
. "$checkout/tests/bench/figure.sh"
. "$checkout/tests/bench/machine.sh"

boot() {
  destroy
  create
}
# Everything is read to its end: a writer that meets a closed pipe fails.
pid_of() { talosctl processes | awk -v program="$1" '$NF == program && !found { print $2; found = 1 }'; }
# Seconds from the kernel's first line to the one with these words.
kernel_time() {
  talosctl dmesg | awk -v words="$1" '
    function seconds(line,   t) { match(line, /T[0-9:.]+Z/); split(substr(line, RSTART + 1, RLENGTH - 2), t, ":"); return t[1] * 3600 + t[2] * 60 + t[3] }
    /Linux version/ && !first { first = seconds($0) }
    index($0, words) && !found { found = 1; took = seconds($0) - first; printf "%.3f\n", took < 0 ? took + 86400 : took }'
}

for run in $(seq "$runs"); do
  boot
  answer=$("$out/node-bench" first "$config" </dev/null)
  qemu=$(start_time <"/proc/$(qemu_pid)/stat")
  brain=$(talosctl read "/proc/$(pid_of /usr/bin/machined)/stat" | start_time)
  kernel=$(kernel_time "Run /init as init process")
  jq -cn --argjson answer "$answer" --argjson qemu "$qemu" --argjson brain "$brain" --argjson kernel "$kernel" \
    '{wall: ($answer.answered - $qemu), brain: ($answer.uptime - $brain), kernel: $kernel, beyond: ($answer.uptime - $kernel)}' >>"$scratch/boots"
  tail -n 1 "$scratch/boots" >&2
done
of() { jq "(.$1 * 1000 | round) / 1000" "$scratch/boots" | median; }
figure "exec of machined to the first mTLS answer, guest time" s "$(of brain)" 0.15 \
  "the kernel's own share (to its exec of /init)" "$(of kernel)"
figure "kernel start to the first mTLS answer, less the kernel's own share" s "$(of beyond)" 2
figure "the kernel's own share (to its exec of /init)" s "$(of kernel)" ""

# --- memory -----------------------------------------------------------------------------------------------
# Of the same node at rest, after 1 000 calls (what is needed once is there) and after 10 000 more.
memory() {  # memory KEY PROGRAM: KiB
  talosctl read "/proc/$(pid_of "$2")/smaps_rollup" | awk -v key="$1:" '$1 == key { print $2 }'
}
daemons="/usr/bin/machined /usr/bin/apid /usr/bin/networkd /usr/bin/trustd /sbin/init"
sleep 15   # daemons give back what they needed only to start, after 10 s
for daemon in $daemons; do memory Pss "$daemon" >"$scratch/rest.${daemon##*/}"; done
"$out/node-bench" calls "$config" 1000 >/dev/null
for daemon in $daemons; do memory Pss_Anon "$daemon" >"$scratch/warm.${daemon##*/}"; done
called=$("$out/node-bench" calls "$config" 10000)
for daemon in $daemons; do
  name=${daemon##*/}
  aim=
  case $name in machined | apid) aim=8192 ;; esac
  figure "PSS of $name at rest after boot" KiB "$(cat "$scratch/rest.$name")" "$aim"
  figure "PSS of $name after 10 000 calls through apid" KiB "$(memory Pss "$daemon")" "$aim"
  figure "growth of $name's own memory by 10 000 calls" KiB \
    "$(($(memory Pss_Anon "$daemon") - $(cat "$scratch/warm.$name")))" "$([ -z "$aim" ] || echo 0)"
done
figure "version call through apid into the emulated guest, p50" us "$(jq .p50us <<<"$called")" ""
applied=$("$out/node-bench" applies "$config" 200)
figure "apply of a config without a reboot through apid, emulated guest, p50" ms "$(jq '(.p50us / 10 | round) / 100' <<<"$applied")" 30
figure "apply of a config without a reboot through apid, emulated guest, p99" ms "$(jq '(.p99us / 10 | round) / 100' <<<"$applied")" ""

# --- the peer ---------------------------------------------------------------------------------------------
destroy
"$checkout/tests/bench/boot.sh" "$root" "$bench/peer" "$checkout/build/image/vmlinux" 3 "$scratch/peer-rest" >"$scratch/peer-boots"
rest() { awk -v name="$1" '$1 == name { print $2 }' "$scratch/peer-rest"; }
figure "start of QEMU to the first answer (mTLS; the peer: ssh banner)" s "$(of wall)" "" "Debian, systemd, networkd, sshd" \
  "$(median <"$scratch/peer-boots")"
figure "PSS of machined and process 1 at rest after boot" KiB \
  "$(($(cat "$scratch/rest.machined") + $(cat "$scratch/rest.init")))" "" "systemd as process 1" "$(rest systemd)"
figure "PSS of networkd at rest after boot" KiB "$(cat "$scratch/rest.networkd")" "" "systemd-networkd" "$(rest systemd-network)"
