#!/bin/bash
# The work of `make run SERVICE=…` once the image is there:  run-service.sh SERVICE CHECKOUT OUT
# One of the daemons as a node runs it, alone: a node in a container of this host, with process 1, machined, this daemon and
# those that it cannot do without. The program is the one of the build folder, which has its symbols; for gdb the one in its
# folder debug, which has variables, too (cmake/talos.cmake). Ctrl-C ends all of it.
#   CONFIG=file.yaml          its machine config; default: a new control plane's
#   DEBUG=gdb|strace|perf     the daemon begins under this program of the host
#   WATCH=1                   builds again when a source changes, and replaces the daemon
set -euo pipefail
service=$1 checkout=$2 out=$3
name=run-$service
talosctl=$out/talosctl program=$out/$service
config=${CONFIG:-} debug=${DEBUG:-} watch=${WATCH:-} target=$service
if [ "$debug" = gdb ]; then
  program=$out/debug/$service target=$service-debug
fi
say() { printf 'run: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

work= began= logs= watcher=
finish() {
  # shellcheck disable=SC2086
  kill $logs $watcher 2>/dev/null || true
  if [ -n "$began" ] && "$talosctl" cluster show --name "$name" >/dev/null 2>&1; then
    "$talosctl" cluster destroy --name "$name" >/dev/null 2>&1 || say "the cluster $name is left"
  fi
  [ -z "$work" ] || rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

case $service in
  networkd|apid|trustd|etcd-supervisor|vipd|kubed|logd) ;;
  '') die 'name the service: make run SERVICE=networkd' ;;
  *) die "\"$service\" cannot run alone; use one of networkd, apid, trustd, etcd-supervisor, vipd, kubed, logd" ;;
esac
case $debug in
  ''|gdb|strace|perf) ;;
  valgrind) die 'DEBUG=valgrind: our programs are static and confined, valgrind cannot start them; the unit tests run with AddressSanitizer (make test)' ;;
  *) die "DEBUG=$debug is not known; use gdb, strace or perf" ;;
esac
[ -z "$debug" ] || command -v "$debug" >/dev/null || die "this host has no $debug; install it first"
[ -z "$config" ] || [ -r "$config" ] || die "CONFIG=$config cannot be read"
[ "$(id -u)" = 0 ] || die 'must run as root'
if "$talosctl" cluster show --name "$name" >/dev/null 2>&1; then
  die "the cluster $name is there already; another run, or one that was killed: talosctl cluster destroy --name $name"
fi

# --- the node -------------------------------------------------------------------------------------------------------
work=$(mktemp -d)
options=(--masters 1 --workers 0)
case $service in
  vipd) options+=(--use-vip) ;;
  # Without a destination there is nothing to send, and no logd.
  logd) options+=(--config-patch '[{"op": "add", "path": "/machine/logging", "value": {"destinations": [{"endpoint": "udp://127.0.0.1:5140", "format": "json_lines"}]}}]') ;;
esac
[ -z "$config" ] || options+=(--skip-injecting-config)
began=1
"$talosctl" cluster create --name "$name" --provisioner container --image "$checkout/build/image/rootfs.sqsh" --wait=false \
  --no-uplink --cidr "${CIDR:-10.91.0.0/24}" --extra-boot-kernel-args "talos.debug.services=$service" "${options[@]}" \
  >"$work/created" 2>&1 || { cat "$work/created" >&2; exit 1; }
node=$("$talosctl" cluster show --name "$name" -o json | sed -n 's/^ *"pid": \([1-9][0-9]*\).*/\1/p')
[ -n "$node" ] || die "the node ended at once: $(tail -n 5 "$HOME/.talos/clusters/$name"/*.log)"
socket=/proc/$node/root/run/talos/machined.sock
endpoint=unix:$socket
here() { "$talosctl" -e "$endpoint" "$@"; }

# A condition within 30 s.
within() {
  local what=$1 until=$((SECONDS + 30))
  shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $until ] || die "$what within 30 s; see: $talosctl -e $endpoint services"
    sleep 0.1
  done
}
listed() { here services -o json | grep -q "\"id\": \"$service\""; }
within 'machined did not answer' here version
[ -z "$config" ] || here apply-config --file "$config" >/dev/null || die "the node did not take $config"
if [ "$service" = vipd ]; then
  bootstrapped() { here debug call "${socket%/*}/etcd-supervisor.sock" etcd bootstrap; }
  within 'etcd was not bootstrapped' bootstrapped
fi
within "the node did not want $service" listed
replaced() { "$talosctl" debug replace --context "$name" "$service" "$program" >"$work/replaced" 2>&1; }
pid_in_node() { here service "$service" -o json 2>/dev/null | sed -n 's/^ *"pid": \([1-9][0-9]*\).*/\1/p'; }
# The number that this host has for it.
pid_on_host() {
  local inside file
  inside=$(pid_in_node)
  for file in /proc/[0-9]*/status; do
    if [ "$(sed -n 's/^NSpid:.*\t\([0-9]*\)$/\1/p' "$file" 2>/dev/null)" = "$inside" ] &&
       [ "$(readlink "${file%status}ns/pid")" = "$(readlink "/proc/$node/ns/pid")" ]; then
      basename "${file%/status}"
      return
    fi
  done
  return 1
}

# --- the daemon -----------------------------------------------------------------------------------------------------
replaced || die "$(cat "$work/replaced")"
cat >&2 <<TEXT
run: $service runs alone, on a node in a container: process $(pid_on_host || echo '?') of this host
  $talosctl -e $endpoint services      also: logs, get links, dashboard …
  $talosctl debug call $(case $service in networkd|etcd-supervisor|kubed) echo "${socket%/*}/$service.sock" ;; *) echo "$socket" ;; esac)      lists the methods; then with JSON
  nsenter -t $node -n ip address      its network
TEXT

# A build is cheap when nothing has changed.
follow_sources() {
  local before after
  before=$(cksum <"$program")
  while sleep 1; do
    "$checkout/rootfs/enter.sh" "$checkout/build/root" "$checkout" ninja -C /build/out "$target" >"$work/built" 2>&1 ||
      { grep -E 'error:|FAILED' "$work/built" >&2 || true; continue; }
    after=$(cksum <"$program")
    [ "$before" != "$after" ] || continue
    before=$after
    if replaced; then say "$(sed 's/.*: //' "$work/replaced")"; else cat "$work/replaced" >&2; fi
  done
}
if [ -n "$watch" ]; then
  follow_sources &
  watcher=$!
fi

case $debug in
  '')
    here logs -f "$service" &
    logs=$!
    wait "$logs"
    ;;
  *)
    # It stops before its first instruction, where the tool takes it over.
    folder=/proc/$node/root/run/talos-replaced
    : >"$folder/$service.stop"
    old=$(pid_in_node)
    started() { local now; now=$(pid_in_node); [ -n "$now" ] && [ "$now" != "$old" ]; }
    here service "$service" restart >/dev/null
    within "$service did not start again" started
    rm "$folder/$service.stop"
    pid=$(pid_on_host)
    case $debug in
      gdb) gdb -q -p "$pid" -ex 'handle SIGSTOP SIGCONT nostop noprint pass' -ex 'catch exec' -ex 'signal SIGCONT' ;;
      strace)
        traced() { ! grep -q '^TracerPid:.0$' "/proc/$pid/status"; }
        { within 'strace did not attach' traced; kill -CONT "$pid"; } &
        strace -f -p "$pid"
        ;;
      perf) kill -CONT "$pid"; perf top -p "$pid" ;;
    esac
    ;;
esac
