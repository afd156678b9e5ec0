#!/bin/bash
# Nodes in containers, natively:  container.sh CHECKOUT OUT FIGURES [RUNS]
# Appends to FIGURES (JSON lines). What is timed:
#   exec of process 1   when its launcher wrote the boot id, which is the last that it does before; by the file's time
#   first answer        tests/bench/node-bench.cc, through the supervisor's forwarder, as a user's; it was started
#                       before and dials when the end of its input tells it to, which is when process 1 runs
# The floor is an empty container of runc: a static program that exits at once.
set -euo pipefail
checkout=$1 out=$2 json=$3 runs=${4:-40}
root=${ROOT:-$checkout/build/root}
. "$checkout/tests/bench/figure.sh"
scratch=$(mktemp -d)
config=$scratch/clusters/bench/talosconfig
cluster() { HOME=$scratch "$out/talosctl" --talosconfig "$scratch/mine" cluster "$@" --state "$scratch/clusters" --name bench; }
trap 'cluster destroy >/dev/null 2>&1 || true; rm -rf "$scratch"' EXIT
started() { sed -n "s/.*\"node started\" node=$1 pid=//p" "$scratch/clusters/bench/supervisor.log" | tail -n 1; }

quietly cluster create --bootstrap=false --provisioner container --masters 1 --workers 0
for _ in $(seq "$runs"); do
  cluster node kill bench-master-1
  coproc client { "$out/node-bench" first "$config" >"$scratch/answer"; }
  answering=$client_PID
  began=$(date +%s%N)
  cluster node start bench-master-1
  exec {client[1]}>&-
  echo $((($(date +%s%N) - began) / 1000)) >>"$scratch/starts"
  wait "$answering"   # nothing else runs meanwhile
  exec=$(stat -c %.6Y "/proc/$(started bench-master-1)/root/run/.boot-id")
  jq --argjson exec "$exec" '(.date - $exec) * 1000' "$scratch/answer" >>"$scratch/answers"
done
figure "node in a container: exec of process 1 to the first mTLS answer, p50" ms \
  "$(median <"$scratch/answers" | awk '{ printf "%.1f", $1 }')" 40

# All of its processes, once it has come to rest: read until two readings agree to a percent.
pss() {   # pss ours|containerd: of our processes, or of the runtime's
  local cgroup total=0 pid theirs
  cgroup=$(sed -n 's/^0:://p' "/proc/$(started bench-master-1)/cgroup")
  cgroup=${cgroup%/node/*}/node
  [ ! -d /sys/fs/cgroup/unified ] || cgroup=/unified$cgroup
  for pid in $(find "/sys/fs/cgroup$cgroup" -name cgroup.procs -exec cat {} +); do
    case $(cat "/proc/$pid/comm") in containerd*) theirs=containerd ;; *) theirs=ours ;; esac
    [ "$theirs" = "$1" ] || continue
    total=$((total + $(awk '/^Pss:/ { print $2 }' "/proc/$pid/smaps_rollup")))
  done
  echo "$total"
}
before=0 now=$(pss ours)
until [ $((now - before)) -lt $((now / 100)) ] && [ $((before - now)) -lt $((now / 100)) ]; do
  sleep 1
  before=$now now=$(pss ours)
done
mib() { awk -v kib="$1" 'BEGIN { printf "%.1f", kib / 1024 }'; }
figure "node in a container: PSS of all our daemons" MiB "$(mib "$now")" 24
figure "node in a container: PSS of containerd" MiB "$(mib "$(pss containerd)")" ""
quietly cluster destroy

for _ in 1 2 3 4 5; do
  began=$(date +%s.%N)
  quietly cluster create --bootstrap=false --provisioner container --masters 3 --workers 2
  awk -v a="$began" -v b="$(date +%s.%N)" 'BEGIN { printf "%.2f\n", b - a }' >>"$scratch/creates"
  quietly cluster destroy
done
figure "cluster create, 3+2 nodes in containers, until all services are up, p50 of 5" s "$(median <"$scratch/creates")" 1

# --- the floor -----------------------------------------------------------------------------------------------------
"$checkout/rootfs/enter.sh" "$root" "$checkout" bash -euc '
  mkdir -p /tmp/bundle/rootfs/{proc,dev,sys} && cd /tmp/bundle
  runc spec
  sed -i "s/\"terminal\": true/\"terminal\": false/; s/\"sh\"/\"\/nothing\"/" config.json
  printf "int main() { return 0; }" | clang-19 -x c -O1 -static -o rootfs/nothing -
  runc --root /tmp/runc run warm
  for i in $(seq '"$runs"'); do
    began=$(date +%s%N)
    runc --root /tmp/runc run floor-$i
    echo $((($(date +%s%N) - began) / 1000))
  done' >"$scratch/floor"
ms() { median <"$1" | awk '{ printf "%.1f", $1 / 1000 }'; }
figure "node in a container: talosctl cluster node start, until process 1 runs, p50" ms "$(ms "$scratch/starts")" "" \
  "runc run of an empty container to its end" "$(ms "$scratch/floor")"
