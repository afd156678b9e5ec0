#!/bin/bash
# Kubernetes on nodes in containers, beside a bare start:  kubernetes.sh CHECKOUT OUT FIGURES PROGRAMS IMAGES [RUNS]
# Appends to FIGURES (JSON lines). PROGRAMS is the folder of Kubernetes' programs and IMAGES the registry's storage that
# rootfs/kubernetes/make.sh names. STARTS="1+1 3+2": only starts, of clusters of these sizes, ours with the kubelet's own
# period of a minute for its syncs as well. Every node begins with an empty store and pulls from one docker-registry. Everything is in
# a network and mount namespace that ends with this script.
set -euo pipefail
checkout=$1 out=$2 json=$3 programs=$(realpath "$4") images=$(realpath "$5") runs=${6:-3}
if [ "${INSIDE:-}" = "" ]; then
  INSIDE=1 exec unshare --net --mount --propagation private --kill-child --fork "$0" "$checkout" "$out" "$json" "$programs" "$images" "$runs"
fi
root=${ROOT:-$checkout/build/root}
. "$checkout/tests/bench/figure.sh"
. "$checkout/tests/bench/kubernetes-bare.sh"
release=$(basename "$programs" | sed 's/^kubernetes-\(.*\)-[^-]*$/\1/')
scratch=$(mktemp -d)
kubectl() { HOME=$scratch "$programs/kubectl" --request-timeout=5s "$@"; }
talosctl() { HOME=$scratch "$out/talosctl" --talosconfig "$scratch/mine" "$@"; }
cluster() { talosctl cluster "$@" --state "$scratch/clusters" --name bench; }
registry=
finish() {
  cluster destroy >/dev/null 2>&1 || true
  bare_destroy
  [ -z "$registry" ] || kill "$registry" 2>/dev/null || true
  rm -rf "$scratch"
}
trap finish EXIT
say() { printf 'bench: %s\n' "$*" >&2; }

mount -t tmpfs run /run   # names of network namespaces, for this script alone
mkdir /run/netns
ip link set lo up
printf 'version: 0.1\nstorage: {filesystem: {rootdirectory: /images}}\nhttp: {addr: ":5000"}\nlog: {level: error, accesslog: {disabled: true}}\n' \
  >"$scratch/registry.yml"
unshare --mount --propagation private bash -euc '
  mount --bind "$0" "$0"
  mkdir -p "$0/images"
  mount --bind "$1" "$0/images"
  mount -t tmpfs tmp "$0/tmp"
  cp "$2" "$0/tmp/registry.yml"
  exec chroot "$0" /usr/bin/docker-registry serve /tmp/registry.yml' "$root" "$images" "$scratch/registry.yml" \
  >"$scratch/registry.log" 2>&1 &
registry=$!

# --- what is timed, for ours and for the peer in the same way -------------------------------------------------------------
since() { awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f\n", b - a }'; }
until_so() {  # until_so WHAT COMMAND…: asks five times a second, for ten minutes
  local what=$1 until=$((SECONDS + 600))
  shift
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$until" ] || { echo "kubernetes.sh: $what: not within 10 minutes" >&2; return 1; }
    sleep 0.2
  done
}
# In $network, a file of a network namespace; $kubeconfig is the client's.
asked() { HOME=$scratch nsenter --net="$network" "$programs/kubectl" --request-timeout=5s --kubeconfig "$kubeconfig" "$@"; }
api_ready() { asked get --raw /readyz; }
ready_nodes() {   # ready_nodes COUNT
  [ "$(asked get --raw /api/v1/nodes | jq '[.items[].status.conditions[]? | select(.type == "Ready" and .status == "True")] | length')" = "$1" ]
}
# Of the control plane, as Kubernetes shows them: the kubelets have created the mirrors of their static pods.
ready_static_pods() {   # ready_static_pods COUNT
  [ "$(asked get --raw /api/v1/namespaces/kube-system/pods | jq '[.items[] | select(.metadata.annotations["kubernetes.io/config.source"] == "file") |
    .status.conditions[]? | select(.type == "Ready" and .status == "True")] | length')" = "$1" ]
}
# A question for kubernetes.default.svc.cluster.local, by one datagram; the answer ends with the address of that Service.
dns_answers() {   # dns_answers NAMESPACE-FILE
  nsenter --net="$1" bash -c 'exec 3<>/dev/udp/10.96.0.10/53
    base64 -d >&3 <<<"EjQBAAABAAAAAAAACmt1YmVybmV0ZXMHZGVmYXVsdANzdmMHY2x1c3RlcgVsb2NhbAAAAQAB"
    timeout 1 dd bs=512 count=1 <&3 2>/dev/null | od -An -v -tx1 | tr -d " \n" | grep "0a600001$"'
}
times() {   # times FILE MASTERS NODES NAMESPACE-FILE: a line "api nodes dns pods", in seconds since $began
  local api nodes dns
  # Called in a condition, too, in which set -e does nothing.
  until_so "the API server is ready" api_ready || return
  api=$(since)
  [ -z "${apply:-}" ] || until_so "manifests" asked apply -f "$apply" || return
  until_so "$3 nodes are Ready" ready_nodes "$3" || return
  nodes=$(since)
  until_so "CoreDNS answers" dns_answers "$4" || return
  dns=$(since)
  until_so "the control plane's pods are shown as Ready" ready_static_pods $((3 * $2)) || return
  echo "$api $nodes $dns $(since)" >>"$1"
}

# --- the two --------------------------------------------------------------------------------------------------------------------
started() { sed -n "s/.*\"node started\" node=$1 pid=//p" "$scratch/clusters/bench/supervisor.log" | tail -n 1; }
segment() {   # the process that has the cluster's network
  local file
  for file in /proc/[0-9]*/cmdline; do
    if { tr '\0' ' ' <"$file"; } 2>/dev/null | grep -q "cluster-run.*$scratch/"; then
      file=${file#/proc/}
      echo "${file%/cmdline}"
      return
    fi
  done
  return 1
}
# How full the disk of this host is, is no matter here; a kubelet would let no pod begin on a node whose disk is nearly full.
no_eviction='[{"op": "add", "path": "/machine/kubelet/extraArgs", "value": {"eviction-hard": "memory.available<100Mi"}}]'
ours() {  # ours FILE MASTERS WORKERS FLAGS…: a cluster, which stays
  began=$EPOCHREALTIME created=$SECONDS apply=
  quietly cluster create --provisioner container --masters "$2" --workers "$3" --registry-mirror '*=http://10.5.0.1:5000' \
    --kubernetes-version "$release" --skip-kubeconfig --wait-kubernetes=false --config-patch "$no_eviction" "${@:4}" || return
  kubeconfig=$scratch/kubeconfig network=/proc/$(segment)/ns/net
  until_so "a kubeconfig" talosctl -n 10.5.0.2 kubeconfig --force --merge=false "$kubeconfig"
  times "$1" "$2" $(($2 + $3)) "/proc/$(started "bench-worker-1")/ns/net"
}
bare() {  # bare FILE MASTERS WORKERS: the same of the peer, which ends
  bare_prepare "$2" "$3"
  kubeconfig=$bare/kubeconfig network=/proc/self/ns/net apply=$bare/manifests.yaml
  began=$EPOCHREALTIME
  local i
  for i in $(seq "$bare_nodes"); do bare_start "$i"; done
  times "$1" "$2" "$bare_nodes" "$(bare_namespace)" || { tail -n 20 "$bare"/*/console.log "$bare"/*/var/log/*.log >&2; return 1; }
  bare_destroy
}
column() { awk -v column="$2" '{ print $column }' "$1" | median; }
compare() {  # compare NAME OURS-FILE PEER-FILE
  local part what=("" "the API server is ready" "all nodes are Ready" "CoreDNS answers a worker" "the control plane's pods are Ready, too") a b
  for part in 1 2 3 4; do
    a=$(column "$2" $part) b=$(column "$3" $part)
    figure "$1: from nothing until ${what[$part]}, p50" s "$a" "$(awk -v b="$b" 'BEGIN { printf "%.2f", b * 1.5 }')" \
      "a bare start" "$b"
  done
}

# --- what our nodes do under it -------------------------------------------------------------------------------------------------
node_processes() {  # node_processes NODE: of its group, so of all namespaces within
  local group
  group=$(sed -n 's/^0:://p' "/proc/$(started "$1")/cgroup")
  group=${group%/node/*}/node
  [ ! -d /sys/fs/cgroup/unified ] || group=/unified$group
  find "/sys/fs/cgroup$group" -name cgroup.procs -exec cat {} +
}
# Proportional memory of our daemons, KiB; each by itself in $scratch/daemons. What is in a container is not ours, nor
# containerd and etcd.
our_memory() {  # our_memory NODE
  local pid comm total=0 now
  : >"$scratch/daemons"
  for pid in $(node_processes "$1"); do
    comm=$(cat "/proc/$pid/comm" 2>/dev/null) || continue
    grep -qxF "$comm" "$scratch/ours" || continue
    now=$(awk '/^Pss:/ { print $2 }' "/proc/$pid/smaps_rollup")
    echo "$comm $now" >>"$scratch/daemons"
    total=$((total + now))
  done
  echo "$total"
}
at_rest() {  # at_rest NODE: the same 90 s after the cluster's begin or later, once two readings agree to a percent
  local before=0 now
  while [ "$SECONDS" -lt $((created + 90)) ]; do sleep 1; done
  now=$(our_memory "$1")
  until [ $((now - before)) -lt $((now / 100)) ] && [ $((before - now)) -lt $((now / 100)) ]; do
    sleep 5
    before=$now now=$(our_memory "$1")
  done
  echo "$now"
}
api_server_with() {  # api_server_with NODE ARGUMENT: one runs, and answers
  local pid
  for pid in $(node_processes "$1"); do
    [ "$(cat "/proc/$pid/comm")" = kube-apiserver ] || continue
    if tr '\0' '\n' <"/proc/$pid/cmdline" | grep -qxF -e "$2"; then
      api_ready
      return
    fi
  done
  return 1
}
boot_of() { asked get --raw "/api/v1/nodes/$1" | jq -r '.status.nodeInfo.bootID'; }
back_and_ready() {  # back_and_ready NODE BOOT: Ready in another boot than that
  asked get --raw "/api/v1/nodes/$1" | jq -e --arg boot "$2" '.status.nodeInfo.bootID != $boot and
    ([.status.conditions[] | select(.type == "Ready" and .status == "True")] | length == 1)'
}
holds_vip() { nsenter --net="/proc/$(started "$1")/ns/net" cat /proc/net/fib_trie | grep -q '10\.5\.0\.50$'; }
vip_holder() {
  local i
  for i in 1 2 3; do
    if holds_vip "bench-master-$i"; then echo "bench-master-$i"; return; fi
  done
  return 1
}
written() {  # by a connection of its own, which has 2 s
  asked --request-timeout=2s create --validate=false -f - <<<"{apiVersion: v1, kind: ConfigMap, metadata: {name: w$((writes += 1)), namespace: default}}"
}
writes=0
cut -d' ' -f2- "$out/programs.list" | tr ' ' '\n' | awk -F/ 'NF > 1 { print substr($NF, 1, 15) }' >"$scratch/ours"

# The control plane's kubelets sync as others do: a mirror pod that was refused is tried again after a minute or more.
slow_syncs='[{"op": "add", "path": "/machine/kubelet/extraConfig", "value": {"syncFrequency": "1m0s"}}]'
if [ -n "${STARTS:-}" ]; then
  for run in $(seq "$runs"); do
    for size in $STARTS; do
      masters=${size%+*} workers=${size#*+}
      say "starts of $size nodes, run $run of $runs"
      bare "$scratch/bare-$size" "$masters" "$workers"
      ours "$scratch/ours-$size" "$masters" "$workers"
      quietly cluster destroy
      ours "$scratch/slow-$size" "$masters" "$workers" --config-patch "$slow_syncs"
      quietly cluster destroy
    done
  done
  for size in $STARTS; do
    compare "Kubernetes on $size nodes in containers" "$scratch/ours-$size" "$scratch/bare-$size"
    compare "Kubernetes on $size nodes in containers, with syncs of a minute" "$scratch/slow-$size" "$scratch/bare-$size"
  done
  exit
fi

for run in $(seq "$runs"); do
  for size in "1 1" "3 1"; do
    read -r masters workers <<<"$size"
    say "Kubernetes on $masters+$workers nodes, run $run of $runs"
    bare "$scratch/bare-$masters" "$masters" "$workers"
    vip=()
    [ "$masters" = 1 ] || vip=(--use-vip)
    ours "$scratch/ours-$masters" "$masters" "$workers" "${vip[@]}"
    if [ "$masters" = 1 ]; then
      began=$EPOCHREALTIME
      quietly talosctl -n 10.5.0.2 patch mc --immediate \
        -p '[{"op": "add", "path": "/cluster/apiServer/extraArgs", "value": {"v": "1"}}]'
      until_so "another API server" api_server_with bench-master-1 --v=1
      since >>"$scratch/static-pod"
      until_so "two nodes are Ready" ready_nodes 2
      boot=$(boot_of bench-worker-1)
      began=$EPOCHREALTIME
      quietly talosctl -n 10.5.0.3 reboot
      until_so "the worker is back" back_and_ready bench-worker-1 "$boot"
      since >>"$scratch/reboots"
      at_rest bench-master-1 >>"$scratch/memory"
    else
      at_rest bench-master-1 >>"$scratch/memory-3"
      until_so "a write by the shared address" written
      holder=$(vip_holder)
      quietly cluster node kill "$holder"
      began=$EPOCHREALTIME
      until_so "a write after the loss of $holder" written
      since >>"$scratch/failover"
    fi
    quietly cluster destroy
  done
done
compare "Kubernetes, a control plane and a worker in containers" "$scratch/ours-1" "$scratch/bare-1"
compare "Kubernetes, three control planes with a shared address and a worker" "$scratch/ours-3" "$scratch/bare-3"
figure "the API server with another argument, from talosctl patch until it is ready, p50" s "$(median <"$scratch/static-pod")" ""
figure "reboot of a worker, from talosctl reboot until it is Ready, p50" s "$(median <"$scratch/reboots")" ""
figure "holder of the shared address lost: first write by it after, p50" s "$(median <"$scratch/failover")" ""
mib() { awk '{ printf "%.1f", $1 / 1024 }'; }
figure "PSS of our daemons under Kubernetes, one control plane of one" MiB "$(median <"$scratch/memory" | mib)" 24
figure "PSS of our daemons under Kubernetes, one control plane of three" MiB "$(median <"$scratch/memory-3" | mib)" 24
rendering=$("$checkout/rootfs/enter.sh" "$root" "$checkout" /build/out/kubernetes-bench)
figure "everything that a control-plane node renders for Kubernetes, $(jq '.bytes / 1000 | round' <<<"$rendering") KB, p50" ms "$(jq .p50ms <<<"$rendering")" ""
