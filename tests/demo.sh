#!/bin/bash
# The work of `make demo` and `make demo-destroy`, which have the build root:  demo.sh up|down CHECKOUT TALOSCTL
# up: a cluster of a control plane and a worker, with Kubernetes and a pod that answers by its Service; a cluster that is
# there is shown, or started again. Images come from upstream's registries through a cache on this host; where they cannot
# be reached, Kubernetes is compiled from its Go modules (rootfs/kubernetes/make.sh), beside the image with what that leaves of
# the processors.
#   PROVISIONER=container|qemu   KUBERNETES=no: the nodes alone
#   REGISTRIES='registry.k8s.io=URL ghcr.io=URL docker.io=URL'   mirrors to use instead of upstream's; empty: none
# The kubeconfig is build/demo/kubeconfig: ~/.kube/config is not touched.
set -euo pipefail
action=$1 checkout=$2 talosctl=$3
folder=$checkout/build/demo
state=${HOME:-/root}/.talos/clusters
export TALOSCONFIG=$state/demo/talosconfig
upstream='registry.k8s.io=https://registry.k8s.io ghcr.io=https://ghcr.io docker.io=https://registry-1.docker.io'
read -ra registries <<<"${REGISTRIES-$upstream}"
gateway=10.5.0.1
say() { printf 'demo: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }
in_root() { "$checkout/rootfs/enter.sh" "$checkout/build/root" "$checkout" "$@"; }
kubectl() { "$folder/kubectl" --kubeconfig "$folder/kubeconfig" "$@"; }

# --- images ---------------------------------------------------------------------------------------------------------
# the release that the default config names
release() { sed -n 's/.*kDefaultKubernetesText = "\(.*\)"_kj.*/\1/p' "$checkout/common/config/kubernetes/kubernetes-images.h"; }

start_registries() {
  printf '%s\n' "$@" >"$folder/sources"   # for a start after a reboot of this host
  "$checkout/rootfs/kubernetes/registries.sh" start "$checkout" "$folder/registries" "$@"
}
stop_registries() { "$checkout/rootfs/kubernetes/registries.sh" stop "$checkout" "$folder/registries"; }
mirror_of() { sed -n "s#^$1=http://##p" "$2"; }

# One small question to each registry: all of them are needed.
reachable() {
  local pair name asked
  [ ${#registries[@]} -gt 0 ] || return 1
  start_registries "${registries[@]}" >"$folder/mirrors.new" 2>"$folder/unreachable" || return 1
  for pair in "${registries[@]}"; do
    name=${pair%%=*}
    case $name in
      registry.k8s.io) asked=kube-apiserver:v$(release) ;;
      ghcr.io) asked=siderolabs/kubelet:v$(release) ;;
      docker.io) asked=library/busybox:1.37 ;;
      *) die "REGISTRIES names \"$name\"; use registry.k8s.io, ghcr.io and docker.io" ;;
    esac
    in_root skopeo --command-timeout 15s inspect --raw --tls-verify=false \
      "docker://$(mirror_of "$name" "$folder/mirrors.new")/$asked" >/dev/null 2>"$folder/unreachable" || return 1
  done
  mv "$folder/mirrors.new" "$folder/mirrors"
}

# kubectl is in an image of its own, in one of its layers.
fetch_kubectl() {
  local work layer
  work=$folder/kubectl-image
  rm -rf "$work"
  in_root skopeo copy -q --insecure-policy --src-tls-verify=false \
    "docker://$(mirror_of registry.k8s.io "$folder/mirrors")/kubectl:v$(release)" "dir:/build/demo/kubectl-image"
  for layer in $(jq_layers "$work/manifest.json"); do
    in_root bash -c 'tar -tf "$0" | grep -m1 "\(^\|/\)bin/kubectl$"' "/build/demo/kubectl-image/$layer" \
      >"$folder/member" 2>/dev/null || continue
    in_root tar -xOf "/build/demo/kubectl-image/$layer" "$(cat "$folder/member")" >"$folder/kubectl.new"
    chmod 0755 "$folder/kubectl.new"
    mv "$folder/kubectl.new" "$folder/kubectl"
  done
  rm -rf "$work" "$folder/member"
  [ -x "$folder/kubectl" ] || die "the image registry.k8s.io/kubectl:v$(release) has no kubectl"
}
jq_layers() { in_root jq -r '.layers[].digest | sub("^sha256:"; "")' "/build${1#"$checkout/build"}"; }

make_image() { "${MAKE:-make}" --no-print-directory -C "$checkout" image; }

# With images that nodes can pull, or, in $compiling, the process that compiles them.
compiling=
find_images() {
  if reachable; then
    say "images: from the registries, through a cache in build/cache/registries"
    fetch_kubectl
    return
  fi
  stop_registries
  say "no registry of images can be reached: compiling Kubernetes $(release) from its Go modules, once (KUBERNETES=no does without)"
  set -m
  (renice -n 19 -p "$BASHPID" >/dev/null; exec "$checkout/rootfs/kubernetes/make.sh" "$checkout" "$(release)" >"$folder/compiled") &
  compiling=$!
  set +m
  trap 'kill -- -"$compiling" 2>/dev/null || true' EXIT
}
await_images() {
  [ "$compiling" ] || return 0
  renice -n 0 -g "$compiling" >/dev/null 2>&1 || true   # nothing else computes now; it may have ended already
  wait "$compiling" || die "Kubernetes could not be compiled, for the reason above"
  trap - EXIT
  install -m 0755 "$checkout/$(sed -n 's/^kubectl //p' "$folder/compiled")" "$folder/kubectl"
  start_registries "*=$(sed -n 's/^images //p' "$folder/compiled")" >"$folder/mirrors"
}

# --- the cluster ----------------------------------------------------------------------------------------------------
with_kubernetes() { [ -e "$folder/mirrors" ]; }

create() {
  local mirrors=() line
  # Of an earlier try.
  [ ! -e "$folder/registries" ] || stop_registries
  rm -rf "$folder"
  mkdir -p "$folder"
  if [ "${KUBERNETES:-}" = no ]; then
    make_image
    "$talosctl" cluster create --name demo --provisioner "$PROVISIONER" --wait-kubernetes=false
    return
  fi
  find_images
  make_image
  await_images
  while read -r line; do
    mirrors+=(--registry-mirror "${line/127.0.0.1/$gateway}")
  done <"$folder/mirrors"
  # A home and a kubeconfig of its own: both are merged there.
  HOME=$folder/home KUBECONFIG=$folder/kubeconfig \
    "$talosctl" cluster create --state "$state" --name demo --provisioner "$PROVISIONER" "${mirrors[@]}"
  rm -rf "$folder/home"
}

start_again() {
  local sources=()
  if with_kubernetes; then
    mapfile -t sources <"$folder/sources"
    start_registries "${sources[@]}" >/dev/null
  fi
  "$talosctl" cluster start --name demo
}

explain() {
  say "the cluster runs, and its pods do not; what talosctl diagnose says:"
  "$talosctl" diagnose >&2 || true
  exit 1
}

# A pod, and its Service, which another pod asks by name.
greet() {
  kubectl apply -f - >/dev/null <<'YAML'
apiVersion: apps/v1
kind: Deployment
metadata: {name: hello}
spec:
  replicas: 2
  selector: {matchLabels: {app: hello}}
  template:
    metadata: {labels: {app: hello}}
    spec:
      containers:
      - name: hello
        image: busybox:1.37
        command: [sh, -c, "mkdir /tmp/www; echo \"hello from $POD on $NODE\" >/tmp/www/index.html; exec httpd -f -p 8080 -h /tmp/www"]
        env:
        - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
        - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: hello}
spec: {selector: {app: hello}, ports: [{port: 80, targetPort: 8080}]}
YAML
  kubectl wait --for=condition=Ready --timeout=120s nodes --all >/dev/null || explain
  kubectl wait --for=condition=Available --timeout=120s deployment/hello >/dev/null || explain
}

answer() {
  local until=$((SECONDS + 60))
  until kubectl exec deployment/hello -- wget -q -T 3 -O - http://hello.default.svc.cluster.local 2>"$folder/error"; do
    [ $SECONDS -lt $until ] || die "the Service does not answer within 60 s: $(tail -n 1 "$folder/error")"
    sleep 0.5
  done
}

next_steps() {  # LINE…
  printf '\nNext:\n  export PATH=%s:$PATH TALOSCONFIG=%s\n' "${talosctl%/*}" "$TALOSCONFIG"
  printf '  %s\n' "$@" 'make demo-destroy'
}

show_kubernetes() {
  greet
  kubectl get nodes
  printf '\n$ wget http://hello    (a Service, asked by a pod)\n'
  answer
  next_steps "export PATH=$folder:\$PATH KUBECONFIG=$folder/kubeconfig" \
    'kubectl get pods -A             talosctl services' \
    'talosctl health                 talosctl get members' \
    'talosctl logs -f kubelet        talosctl -n 10.5.0.3 reboot'
}

show_nodes() {
  "$talosctl" services
  next_steps 'talosctl version                talosctl events --tail -1' \
    'talosctl logs machined          talosctl get services -o yaml' \
    'talosctl service apid           talosctl reboot'
}

up() {
  if [ ! -d "$state/demo" ]; then
    create
  else
    make_image
    case $("$talosctl" cluster show --name demo 2>&1 >/dev/null) in
      '') ;;
      *'is not running'*) start_again ;;
      *) create ;;
    esac
  fi
  echo
  if ! with_kubernetes; then
    show_nodes
  elif [ -e "$folder/kubeconfig" ]; then
    show_kubernetes
  else
    die "Kubernetes of the cluster that is there has not come up; use make demo-destroy, then make demo"
  fi
}

down() {
  "$talosctl" cluster destroy --name demo
  [ ! -e "$folder/registries" ] || stop_registries
  rm -rf "$folder"
}

[ "$(id -u)" = 0 ] || die "make demo must run as root: nodes need the network and the cgroups of this host"
case $action in
  up|down) $action ;;
  *) die "say up or down" ;;
esac
