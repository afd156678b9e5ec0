#!/bin/bash
# One section of make bench:  sections.sh CHECKOUT OUT FIGURES NAME
# Appends to FIGURES (JSON lines). sections.list has the names; the environment has ROOT, RUNS and SHORT (run.sh). A section
# makes the peers that it needs, once; docs/evidence/measuring.md says how each figure is measured.
set -euo pipefail
checkout=$1 out=$2 json=$3 section=$4
export section   # for the scripts that a section calls
inner=/build/out   # the same inside of the build root
cd "$checkout"
root=${ROOT:-$checkout/build/root} bench=$checkout/build/bench image=$checkout/build/image
. tests/bench/figure.sh
in_root() { rootfs/enter.sh "$root" "$checkout" "$@"; }
in_peers() { rootfs/enter.sh "$bench/root" "$checkout" "$@"; }
runs=${RUNS:-5} short=${SHORT:-}
often() { if [ "$short" ]; then echo "$2"; else echo "$1"; fi; }   # often USUALLY SHORT: one of the two
# logged NAME COMMAND...: its stderr is build/bench/NAME.log, whose end is shown if it fails.
logged() {
  local log=$bench/$1.log status=0
  shift
  "$@" 2>"$log" || status=$?
  [ "$status" = 0 ] || { printf '%s failed; the end of %s:\n' "$*" "$log" >&2; tail -n 20 "$log" >&2; }
  return "$status"
}

# --- peers -----------------------------------------------------------------------------------------------------
peers() {   # the second build root
  cat rootfs/packages/build.list rootfs/packages/bench.list >"$bench/packages.list"
  rootfs/buildroot.sh "$bench/root" "$checkout/build/cache" "$bench/packages.list" >&2
}
grpc_peers() {   # in it, the programs of peer/
  peers
  in_peers bash -euc '
    mkdir -p /build/bench/grpc
    cd tests/bench/peer
    out=/build/bench/grpc
    build() { clang++-19 -O2 -std=c++17 -I$out "$1.cc" "${@:2}" -o "$out/$1" $(pkgconf --libs grpc++ protobuf); }
    [ "$out/containerd-bench" -nt containerd-bench.cc ] || build containerd-bench
    [ "$out/grpc-bench" -nt grpc-bench.cc ] && [ "$out/grpc-bench" -nt echo.proto ] && exit 0
    protoc --cpp_out=$out --grpc_out=$out --plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin echo.proto
    build grpc-bench $out/echo.pb.cc $out/echo.grpc.pb.cc'
}

# --- calls -----------------------------------------------------------------------------------------------------
# A program that takes a wrong argument for a right one measures something else.
section_arguments() { in_root /usr/bin/ctest --output-on-failure --test-dir "$inner" -L bench >&2; }

# Ours and the peer's in turn: what else the machine does changes, and whether two processes share a CPU.
section_roundtrip() {
  local calls
  calls=$(often 20000 5000)
  grpc_peers
  rm -f "$bench/ours" "$bench/theirs"
  for _ in $(seq "$runs"); do
    in_root "$inner/rpc-bench" "$calls" >>"$bench/ours"
    in_peers /build/bench/grpc/grpc-bench "$calls" >>"$bench/theirs"
  done
  ours() { jq "$1" "$bench/ours" | median; }
  theirs() { jq "$1" "$bench/theirs" | median; }
  figure "32-byte call over a Unix socket, p50" us "$(ours .unix.p50us)" 30 "gRPC C++" "$(theirs .p50us)"
  figure "32-byte call over a Unix socket, p99" us "$(ours .unix.p99us)" "" "gRPC C++" "$(theirs .p99us)"
  figure "32-byte call over mutual TLS, p50" us "$(ours .tls.p50us)" ""
  figure "32-byte call through apid, p50" us "$(ours .apid.p50us)" ""
  figure "what apid adds to a call over a Unix socket, p50" us \
    "$(ours '(.apid.p50us - .unix.p50us) * 10 | round / 10')" 60
}

section_door() {
  rm -f "$bench/door"
  for _ in $(seq "$(often 3 1)"); do in_root "$inner/apid-bench" "$(often 100000 20000)" >>"$bench/door"; done
  door() { jq "$1" "$bench/door" | median; }
  figure "apid: a connection that is idle after a call" KiB "$(door .idleConnectionKiB)" ""
  figure "apid: PSS with 1000 idle connections" KiB "$(door .pssIdleKiB)" ""
  figure "apid: PSS with 1000 idle and 100 busy connections" KiB "$(door .pssBusyKiB)" ""
  figure "apid: 100 busy connections beside 1000 idle ones, calls" 1/s "$(door .callsPerSecond)" ""
  figure "apid: 100 busy connections beside 1000 idle ones, one call, p50" us "$(door .busy.p50us)" ""
  figure "apid: 100 busy connections beside 1000 idle ones, one call, p99" us "$(door .busy.p99us)" ""
  figure "apid: new mTLS connection to its first answer, mean" us "$(door .firstAnswerMeanUs)" "" \
    "openssl s_time, the handshake alone" "$(door .opensslHandshakeMeanUs)"
  figure "apid: new mTLS connection to its first answer, as a multiple of the bare handshake" x \
    "$(door '(.firstAnswerMeanUs / .opensslHandshakeMeanUs * 100 | round / 100)')" 1.5
}

section_clients() {
  local program
  program=$(tests/clients/make.sh "$checkout")
  rm -f "$bench/clients"
  for _ in $(seq "$(often 3 1)"); do in_root "$inner/clients-bench" "$program" 5000 >>"$bench/clients"; done
  clients() { jq "$1" "$bench/clients" | median; }
  faces() { figure "$1" "$2" "$(clients ".ours.$3")" "" "grpc-go on the second face" "$(clients ".theirs.$3")"; }
  faces "version through apid on a kept connection, p50" us keptUs
  faces "version through apid on a new connection, p50" us newUs
  faces "a list of 1000 routes through apid (COSI), p50" ms listMs
  faces "a log of 100 MiB through apid" MiB/s logsMiBs
  figure "apid: PSS, idle" KiB "$(clients .dashboards.restKiB)" ""
  figure "apid: PSS with 100 dashboards (18 watches, the kernel's log, 10 short calls each)" KiB \
    "$(clients .dashboards.oursKiB)" "" "grpc-go on the second face" "$(clients .dashboards.theirsKiB)"
}

section_events() {
  rm -f "$bench/fan"
  for _ in $(seq "$(often 3 1)"); do in_root "$inner/fanout-bench" >>"$bench/fan"; done
  fan() { jq "$1" "$bench/fan" | median; }
  local name="100 000 events to 100 watchers, one stopped"
  figure "$name: growth of the server" KiB "$(fan .grownKiB)" ""
  figure "$name: growth of the server after a tenth of the events" KiB "$(fan '.rssAfterKiB - .rssAfterTenthKiB')" ""
  figure "$name: events that it received or missed with notice" events \
    "$(fan '.stoppedReceived + .stoppedMissed')" ""
  figure "$name: deliveries" 1/s "$(fan .deliveriesPerSecond)" ""
}

section_metrics() {
  rm -f "$bench/metrics"
  for _ in $(seq "$(often 3 1)"); do in_root "$inner/metrics-bench" >>"$bench/metrics"; done
  metrics() { jq "$1" "$bench/metrics" | median; }
  figure "write $(metrics .series) series of metrics, processor time of apid, p50" us "$(metrics .p50us)" 10000
  figure "size of $(metrics .series) series of metrics" bytes "$(metrics .bytes)" 1048576
}

section_config() {
  rm -f "$bench/config"
  for _ in $(seq "$(often 3 1)"); do in_root "$inner/config-bench" >>"$bench/config"; done
  config() { jq "$1" "$bench/config" | median; }
  local name
  name="parse and validate a config of $(config '.bytes / 1000 | round') KB, p50"   # keys in it vary in length
  figure "$name" us "$(config .ours.p50us)" 800 "yaml-cpp, load only" "$(config .yamlCpp.p50us)"
  figure "$name" us "$(config .ours.p50us)" "" "libyaml, load only" "$(config .libyaml.p50us)"
  figure "hostile documents: the longest time of one" ms "$(config '[.hostile[].ms] | max')" ""
  figure "hostile documents: the most memory of one" KiB "$(config '[.hostile[].KiB] | max')" ""
}

# --- supervision, certificates ---------------------------------------------------------------------------------
section_restarts() {
  local ours theirs part
  peers
  ours=$(in_root "$inner/restart-bench" 200)
  theirs=$(in_peers tests/bench/s6-restart.sh "$inner" "$(often 30 8)")
  for part in 50 99; do
    figure "killed service: from kill to the next process's main(), p$part" ms "$(jq ".p${part}ms" <<<"$ours")" \
      "$([ $part = 99 ] || echo 1)" "s6-supervise" "$(jq ".p${part}ms" <<<"$theirs")"
  done
  # It waits a second after each death by design; what it takes beyond that is its machinery.
  figure "killed service: from kill to the next process's main(), p50" ms "$(jq .p50ms <<<"$ours")" "" \
    "s6-supervise without its pause of 1 s" "$(jq '(.p50ms - 1000) * 1000 | round / 1000' <<<"$theirs")"
}

cfssl() {   # cfssl SECONDS: the figures of cfssl with the same clients and kind of key
  mkdir -p "$bench/cfssl"
  in_root "$inner/trust-bench" --authority /build/bench/cfssl || return   # set -e ends no $(...)
  in_peers bash -euc '
    cd /build/bench/cfssl
    cfssl serve -address=127.0.0.1 -port=18888 -ca=ca.pem -ca-key=ca-key.pem -tls-cert=server.pem -tls-key=server-key.pem \
      >serve.log 2>&1 &
    server=$!
    trap "kill $server" EXIT
    ready=
    for _ in $(seq 100); do
      if (exec 3<>/dev/tcp/127.0.0.1/18888) 2>/dev/null; then ready=1; break; fi
      kill -0 $server || break
      sleep 0.1
    done
    [ -n "$ready" ] || { cat serve.log >&2; exit 1; }
    "$0" --peer 18888 $server "$1" .' "$inner/trust-bench" "$1"
}
# Rates are what the machine gave while it also ran the clients.
section_certificates() {
  local seconds nodes trust peer way clients name aim
  seconds=$(often 5 1) nodes=$(often 5000 1000)
  peers
  trust=$(in_root "$inner/trust-bench" "$seconds" "$nodes")
  peer=$(cfssl "$seconds")
  ours() { jq "$1" <<<"$trust"; }
  theirs() { jq "$1" <<<"$peer"; }
  for way in kept new; do
    for clients in 1 32; do
      name="certificates over $way connections, $clients at once"
      aim=
      [ $way$clients != kept32 ] || aim=5000
      figure "$name: P-256" 1/s "$(ours .p256.$way$clients.perSecond)" "" "cfssl serve" "$(theirs .$way$clients.perSecond)"
      figure "$name: Ed25519" 1/s "$(ours .ed25519.$way$clients.perSecond)" ""
      figure "$name: P-256, p50" us "$(ours .p256.$way$clients.p50us)" "" "cfssl serve" "$(theirs .$way$clients.p50us)"
      figure "$name: P-256, p99" us "$(ours .p256.$way$clients.p99us)" "$aim" "cfssl serve" "$(theirs .$way$clients.p99us)"
      figure "$name: P-256, the server's processor time for a certificate" us "$(ours .p256.$way$clients.busyUs)" "" \
        "cfssl serve" "$(theirs .$way$clients.busyUs)"
      figure "$name: Ed25519, p99" us "$(ours .ed25519.$way$clients.p99us)" "$aim"
      [ "$clients" = 1 ] || figure "$name: P-256, connections that the server dropped" connections \
        "$(ours .p256.$way$clients.dropped)" "" "cfssl serve" "$(theirs .$way$clients.dropped)"
    done
  done
  figure "$nodes nodes that join at once: all served within" s "$(ours .join.seconds)" 10
  figure "$nodes nodes that join at once: peak memory of trustd" KiB "$(ours .join.peakKiB)" 16384
}

# --- network ---------------------------------------------------------------------------------------------------
section_dhcp() {
  local dhcp peer
  peers
  dhcp=$(logged dhcp in_root env NETWORKD="$inner/networkd" CONFINE="$inner/confine" "$inner/dhcp-bench" 20)
  peer=$(in_peers tests/bench/systemd-networkd.sh dhcp 20)
  figure "link up to address by DHCP (dnsmasq), p50" ms "$(jq .p50ms <<<"$dhcp")" "" \
    "systemd-networkd, which does not probe" "$(jq .p50ms <<<"$peer")"
  figure "link up to address by DHCP (dnsmasq), without the 300 ms of ARP probes, p50" ms \
    "$(jq .withoutProbesP50ms <<<"$dhcp")" "" "systemd-networkd" "$(jq .p50ms <<<"$peer")"
}

section_networks() {
  local scale peer
  peers
  scale=$(logged networks in_root env NETWORKD="$inner/networkd" CONFINE="$inner/confine" "$inner/network-bench" 1 | grep '^{')
  of() { jq "select(.kind == \"$1\") | $2" <<<"$scale"; }
  share() { of "$1" '.oursMs / .ipMs * 100 | round / 100'; }
  figure "1000 bridges with an address each, of the processor time of ip -batch" ratio "$(share bridges)" 1
  figure "1000 bridges with an address each" ms "$(of bridges .oursMs)" "" "ip -batch" "$(of bridges .ipMs)"
  peer=$(in_peers tests/bench/systemd-networkd.sh links 1000)
  figure "1000 bridges with an address each" ms "$(of bridges .oursMs)" "" "systemd-networkd" "$(jq .processorMs <<<"$peer")"
  figure "10 000 routes, of the processor time of ip -batch" ratio "$(share routes)" 1
  figure "10 000 routes" ms "$(of routes .oursMs)" "" "ip -batch" "$(of routes .ipMs)"
  figure "1000 bridges again: nothing is sent" ms "$(of bridges .againMs)" 30
  figure "10 000 routes again: nothing is sent" ms "$(of routes .againMs)" 30
  figure "changes sent for bridges and routes again" changes "$(jq -s 'map(.sentAgain // 0) | add' <<<"$scale")" 0
  figure "4000 links read again after an overrun" ms "$(of resync .oursMs)" 50
  figure "PSS of networkd with 1000 links" KiB "$(of memory .pssKiB)" 12288
}

# keepalived in the same namespaces, after ours: it and vipd want the same address.
section_vip() {
  local row what name aim peer
  peers
  logged vip in_peers env VIPD="$inner/vipd" CONFINE="$inner/confine" "$inner/vip-bench" "$runs" >"$bench/vip"
  vip() { jq "select(.who == \"$1\" and .what == \"$2\") | $3" "$bench/vip"; }
  for row in "killed:holder killed (SIGKILL):2500" "lost:node lost that etcd's leader was on:5500" \
    "link down:link down, which etcd is reached over as well:" "handed over:planned hand-over:100"; do
    IFS=: read -r what name aim <<<"$row"
    for peer in 1 0.1; do
      figure "$name: another host has the address after, p50" ms "$(vip vipd "$what" .movedMs.p50)" "$aim" \
        "keepalived, advert_int $peer" "$(vip "keepalived $peer" "$what" .movedMs.p50)"
    done
    figure "$name: another host has the address after, the longest" ms "$(vip vipd "$what" .movedMs.longest)" "" \
      "keepalived, advert_int 1" "$(vip "keepalived 1" "$what" .movedMs.longest)"
    figure "$name: a client that connects 100 times a second has no connection for, p50" ms \
      "$(vip vipd "$what" .darkMs.p50)" "" "keepalived, advert_int 1" "$(vip "keepalived 1" "$what" .darkMs.p50)"
    figure "$name: connections that fail, p50" connections "$(vip vipd "$what" .failed.p50)" \
      "$([ "$what" != "handed over" ] || echo 1)" "keepalived, advert_int 1" "$(vip "keepalived 1" "$what" .failed.p50)"
  done
  figure "in all of these events: two hosts have the address for" ms "$(vip vipd "two holders" .ms)" 0 \
    "keepalived, advert_int 1, until the measurement takes it from the dead one" "$(vip "keepalived 1" "two holders" .ms)"
  figure "requests to etcd by three vipds at rest" 1/min "$(vip vipd "at rest" .requestsPerMinute)" ""
  for row in "resident:resident" "own:its own memory"; do
    figure "vipd at rest: ${row#*:}" KiB "$(vip vipd memory ".${row%%:*}KiB")" "" "keepalived, two processes" \
      "$(vip "keepalived 1" memory ".${row%%:*}KiB")"
  done
}

# The holder is cut off or frozen until another node has the address.
section_outages() {
  local row fault name leads place
  in_root env VIP_OUTAGES="$runs" /usr/bin/ctest --test-dir "$inner" -R '^vip-outages$' --verbose >"$bench/outages.log" ||
    { cat "$bench/outages.log" >&2; return 1; }
  sed -n 's/^[0-9]*: {"fault"/{"fault"/p' "$bench/outages.log" >"$bench/outages"
  outage() { jq "select(.fault == \"$1\" and .leads == $2) | $3" "$bench/outages"; }
  for row in "cut off:holder cut off in both directions" "cut off, hears:holder cut off, its packets are lost" \
    "cut off, is heard:holder cut off, packets to it are lost" "node frozen:holder frozen"; do
    IFS=: read -r fault name <<<"$row"
    for leads in false true; do
      place="etcd's leader elsewhere"
      [ $leads = false ] || place="with etcd's leader"
      # etcd-supervisor moves the leadership away from the holder, often before the fault: then there is no time.
      if [ "$(outage "$fault" $leads .runs)" = 0 ]; then
        echo "bench: $name, $place: not measured, because etcd's leader left the holder each time" >&2
        continue
      fi
      figure "$name, $place: another node has the address after, p50" ms "$(outage "$fault" $leads .moved.p50)" ""
      figure "$name, $place: another node has the address after, the longest" ms \
        "$(outage "$fault" $leads .moved.longest)" 6000
      figure "$name, $place: longest time without an answer" ms "$(outage "$fault" $leads .silent.longest)" 6000
    done
  done
}

section_uplink() {
  local up
  up=$(logged uplink in_root "$inner/uplink-bench" 3)
  way() {  # way NAME OURS PEER'S
    local to name
    for to in out in; do
      name="node to host"
      [ $to = out ] || name="host to node"
      figure "$1: $name" Gbit/s "$(jq ".$2.$to" <<<"$up")" "" "the veth pair alone" "$(jq ".$3.$to" <<<"$up")"
    done
  }
  way "a port of the host at the gateway's address, MTU 1500" gateway veth1500
  way "an address outside through slirp4netns, MTU 65520" world veth
  way "an address outside through slirp4netns, MTU 1500" world1500 veth1500
}

# --- nodes -----------------------------------------------------------------------------------------------------
section_etcd() { tests/bench/etcd.sh "$checkout" "$out" "$json" "$runs"; }
section_boots() {
  tests/bench/peer-image.sh "$root" "$bench/peer" >&2
  tests/bench/node.sh "$checkout" "$out" "$json" "$runs"
}
section_containers() { tests/bench/container.sh "$checkout" "$out" "$json" 40; }
section_containerd() {
  grpc_peers
  tests/bench/containerd.sh "$checkout" "$json" "$runs"
}

# --- disks -----------------------------------------------------------------------------------------------------
section_meta() {
  local meta
  meta=$(in_root "$inner/meta-bench" /build/bench 50)
  figure "META: a value changed, p50" ms "$(jq .ours <<<"$meta")" "" "the same bytes written and flushed twice" "$(jq .theirs <<<"$meta")"
}
section_disks() {
  in_root env VERSION=v99.0.0 rootfs/installer.sh /build/image /build/bench/installer.tar >&2
  tests/bench/disks.sh "$root" "$checkout" "$out" "$json" "$bench/installer.tar" "$((runs < 3 ? runs : 3))"
  rm "$bench/installer.tar"
}
section_luks() {
  local luks row
  luks=$(in_root "$inner/luks-bench" "$runs")
  for row in "format:format with one key" "open:open" "change:change the key"; do
    figure "LUKS2, argon2id of 256 MiB and 4 passes: ${row#*:}" ms "$(jq ".${row%%:*}.ours" <<<"$luks")" \
      "$(jq ".${row%%:*}.theirs" <<<"$luks")" "cryptsetup" "$(jq ".${row%%:*}.theirs" <<<"$luks")"
  done
}

# --- Kubernetes: its programs and images are compiled once, which takes longer than all of the rest ------------------
kubernetes_programs() {
  local made
  made=$(rootfs/kubernetes/make.sh "$checkout" 1.34.4)
  kubectl=$(awk '$1 == "kubectl" { print $2 }' <<<"$made")
  images=$(awk '$1 == "images" { print $2 }' <<<"$made")
}
section_kubernetes() {
  local kubectl images
  kubernetes_programs
  tests/bench/kubernetes.sh "$checkout" "$out" "$json" "$(dirname "$kubectl")" "$images" "$((runs < 3 ? runs : 3))"
}
section_rolling() {
  local kubectl images
  kubernetes_programs
  tests/bench/rolling.sh "$checkout" "$out" "$json" "$kubectl" "$images"
}

# --- sizes -----------------------------------------------------------------------------------------------------
section_sizes() {
  local own
  mebibytes() { awk '{ printf "%.2f\n", $1 / 1048576 }'; }
  tests/bench/peer-image.sh "$root" "$bench/peer" >&2
  figure "rootfs.sqsh" MiB "$(stat -c %s "$image/rootfs.sqsh" | mebibytes)" ""
  figure "initramfs (the squashfs is in it)" MiB "$(stat -c %s "$image/initramfs" | mebibytes)" "" \
    "Debian's initrd.img, which has no container runtime" "$(stat -c %s "$bench/peer/initrd.img" | mebibytes)"
  # Our programs as they are in the image, hard links once, packed as the image is.
  own=$(in_root bash -euc '
    cd /build/image/parts/tree
    files=$(cat /build/out/programs.list | while read -r name path _; do [ -z "$name" ] || echo ".$path"; done)
    rm -f /tmp/own.sqsh
    mksquashfs $files /tmp/own.sqsh -noappend -quiet -no-progress -comp zstd -Xcompression-level 3 -all-root -no-xattrs >&2
    stat -c %s /tmp/own.sqsh')
  figure "our own files in the squashfs, compressed" MiB "$(mebibytes <<<"$own")" 8
}

declare -F "section_$section" >/dev/null || { echo "sections.sh: no section \"$section\"; sections.list has the names" >&2; exit 1; }
mkdir -p "$bench"
"section_$section"
