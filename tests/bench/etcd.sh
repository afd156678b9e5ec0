#!/bin/bash
# etcd of three control-plane nodes in containers:  etcd.sh CHECKOUT OUT FIGURES [RUNS]
# Appends to FIGURES (JSON lines). Timed is `talosctl bootstrap` of booted nodes until three members vote, by what
# the first node's etcd says, asked 20 times a second. Beside it etcd alone (etcd-bench.cc), on the same disk.
set -euo pipefail
checkout=$1 out=$2 json=$3 runs=${4:-5}
root=${ROOT:-$checkout/build/root}
. "$checkout/tests/bench/figure.sh"
scratch=$(mktemp -d)
talosctl() { HOME=$scratch "$out/talosctl" --talosconfig "$scratch/mine" "$@"; }
cluster() { talosctl cluster "$@" --state "$scratch/clusters" --name etcd; }
trap 'cluster destroy >/dev/null 2>&1 || true; rm -rf "$scratch"' EXIT
voters() { talosctl -n 10.5.0.2 etcd members 2>/dev/null | grep -c ' false  *\(true\|false\)  *OK' || true; }
most() {   # most Pss vipd: in KiB, of those of the three nodes
  local pid most=0 now
  for pid in $(grep -lsx "$2" /proc/[0-9]*/comm | tr -cd '0-9\n'); do
    grep -q 'talos/etcd-' "/proc/$pid/cgroup" || continue   # this cluster's
    now=$(awk '/^'"$1"':/ { print $2 }' "/proc/$pid/smaps_rollup")
    [ "$now" -le "$most" ] || most=$now
  done
  echo "$most"
}

for _ in $(seq "$runs"); do
  quietly cluster create --provisioner container --masters 3 --workers 0 --use-vip --bootstrap=false
  began=$(date +%s.%N)
  quietly talosctl -n 10.5.0.2 bootstrap
  tries=0
  until [ "$(voters)" = 3 ]; do
    [ $((tries += 1)) -lt 2000 ] || { talosctl -n 10.5.0.2 etcd members >&2; exit 1; }
    sleep 0.05
  done
  awk -v a="$began" -v b="$(date +%s.%N)" 'BEGIN { printf "%.2f\n", b - a }' >>"$scratch/ours"
  "$checkout/rootfs/enter.sh" "$root" "$checkout" /build/out/etcd-bench 1 | jq 'select(.what == "three members").seconds' >>"$scratch/theirs"
  for daemon in vipd etcd-supervisor; do
    for kind in Rss Pss Pss_Anon; do most $kind "$daemon" >>"$scratch/$daemon-$kind"; done
  done
  quietly cluster destroy
done
figure "three control-plane nodes in containers: talosctl bootstrap until three members vote, p50" s \
  "$(median <"$scratch/ours")" "" "etcd alone" "$(median <"$scratch/theirs")"
for kind in Rss Pss Pss_Anon; do
  case $kind in Rss) what="resident (all pages of programs that it has touched, shared ones too)" aim=6144 ;;
    Pss) what="its share of that (PSS)" aim= ;; *) what="its own memory" aim= ;; esac
  figure "vipd of a node in a container: $what" KiB "$(median <"$scratch/vipd-$kind")" "$aim"
  figure "etcd-supervisor of a node in a container: $what" KiB "$(median <"$scratch/etcd-supervisor-$kind")" "$aim"
done
