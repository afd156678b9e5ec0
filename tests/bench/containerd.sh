#!/bin/bash
# The requests of machined to containerd, and the same by others:  containerd.sh CHECKOUT FIGURES [RUNS]
# Appends to FIGURES (JSON lines). The peers, which run.sh made before, ask the same containerd in turn with ours.
set -euo pipefail
checkout=$1 json=$2 runs=${3:-5}
inner=/build/out root=${ROOT:-$checkout/build/root} bench=$checkout/build/bench
. "$checkout/tests/bench/figure.sh"
in_root() { "$checkout/rootfs/enter.sh" "$root" "$checkout" "$@"; }
in_peers() { "$checkout/rootfs/enter.sh" "$bench/root" "$checkout" "$@"; }

# Its socket is where both build roots see it; its store goes with the command.
rm -rf "$bench/containerd"
mkdir -p "$bench/containerd"
in_root bash -c 'echo $$ >/build/bench/containerd/pid; exec containerd --address /build/bench/containerd/socket --root /tmp/root --state /tmp/state' \
  >"$bench/containerd/log" 2>&1 &
server=$!
# A signal to what enters the root would not reach it.
end() { kill "$(cat "$bench/containerd/pid")" 2>/dev/null || true; }
trap end EXIT
for _ in $(seq 300); do
  [ ! -S "$bench/containerd/socket" ] || break
  kill -0 "$server" || { cat "$bench/containerd/log" >&2; exit 1; }
  sleep 0.1
done
rm -f "$bench/ours" "$bench/theirs"
for _ in $(seq "$runs"); do
  in_root "$inner/containerd-bench" /build/bench/containerd/socket 10000 >>"$bench/ours"
  in_peers /build/bench/grpc/containerd-bench /build/bench/containerd/socket 10000 >>"$bench/theirs"
done
end
wait "$server" || true
for part in 50 99; do
  figure "call to containerd, p$part" us "$(jq ".p${part}us" "$bench/ours" | median)" "" "gRPC C++" \
    "$(jq ".p${part}us" "$bench/theirs" | median)"
done

containers=$(in_root "$inner/container-bench" /src/rootfs/containerd.toml \
  "$inner/parts/tests/containerd/containerd-sample" $((runs * 2 + 1)))
of() { jq "$1" <<<"$containers"; }
figure "an image of $(of .imageMiB) MiB pulled from a registry on this machine, p50" ms "$(of .pull.oursMs)" "" \
  "ctr images pull" "$(of .pull.ctrMs)"
figure "a container of it started, p50" ms "$(of .start.oursMs)" "" "ctr run" "$(of .start.ctrMs)"
