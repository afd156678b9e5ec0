#!/bin/bash
# Figures, ours and the peer's in the same run:  run.sh CHECKOUT OUT     (make bench)
# Prints a table and writes build/bench/figures.json. Nothing here passes or fails.
set -euo pipefail
checkout=$1 out=$2
cd "$checkout"
root=$checkout/build/root bench=$checkout/build/bench
mkdir -p "$bench"
in_root() { rootfs/enter.sh "$root" "$checkout" "$@"; }
in_peers() { rootfs/enter.sh "$bench/root" "$checkout" "$@"; }
json=$bench/figures.jsonl
: >"$json"
figure() {  # figure NAME UNIT OURS PEER-NAME PEERS
  jq -cn --arg name "$1" --arg unit "$2" --arg ours "$3" --arg peer "$4" --arg theirs "$5" \
    '{name:$name,unit:$unit,ours:($ours|tonumber? // null),peer:$peer,theirs:($theirs|tonumber? // null)}
     | .ratio = (if .ours and .theirs and .ours > 0 then (.theirs/.ours*100|round/100) else null end)' >>"$json"
}
# jq, like everything else, is the build root's.
jq() { "$root/lib64/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu" "$root/usr/bin/jq" "$@"; }

# --- peers ------------------------------------------------------------------------------------------------
cat rootfs/packages/build.list rootfs/packages/bench.list >"$bench/packages.list"
rootfs/buildroot.sh "$bench/root" build/cache "$bench/packages.list"
tests/bench/peer-image.sh "$root" "$bench/peer"
in_peers bash -euc '
  mkdir -p build/bench/grpc
  cd tests/bench/peer
  protoc --cpp_out=../../../build/bench/grpc --grpc_out=../../../build/bench/grpc \
    --plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin echo.proto
  cd ../../../build/bench/grpc
  [ grpc-bench -nt ../../../tests/bench/peer/grpc-bench.cc ] ||
    clang++-19 -O2 -std=c++17 -I. ../../../tests/bench/peer/grpc-bench.cc echo.pb.cc echo.grpc.pb.cc \
      -o grpc-bench $(pkgconf --libs grpc++ protobuf)'

# --- round trip ---------------------------------------------------------------------------------------------
ours=$(in_root "$out/rpc-bench")
theirs=$(in_peers build/bench/grpc/grpc-bench 20000)
figure "32-byte call over a Unix socket, p50" us "$(jq -r .unix.p50us <<<"$ours")" "gRPC C++" "$(jq -r .p50us <<<"$theirs")"
figure "32-byte call over a Unix socket, p99" us "$(jq -r .unix.p99us <<<"$ours")" "gRPC C++" "$(jq -r .p99us <<<"$theirs")"
figure "32-byte call through apid (mutual TLS), p50" us "$(jq -r .apid.p50us <<<"$ours")" "" ""

# --- events -------------------------------------------------------------------------------------------------
fan=$(in_root "$out/fanout-bench")
figure "event fan-out, 100 watchers, 100 000 events, one stopped: memory growth" KiB "$(jq -r .grownKiB <<<"$fan")" "" ""
figure "event fan-out: deliveries a second" 1/s "$(jq -r .deliveriesPerSecond <<<"$fan")" "" ""

# --- supervision --------------------------------------------------------------------------------------------
figure "restart of a killed service, p50" ms "$(in_root "$out/restart-bench" | jq -r .p50ms)" \
  "s6-supervise" "$(in_peers tests/bench/s6-restart.sh "$out/restart-child" | jq -r .p50ms)"

# --- boot, memory, sizes --------------------------------------------------------------------------------------
tests/bench/node.sh "$checkout" "$out" "$json"
figure "start of QEMU to the ssh banner / the first mTLS answer" s \
  "$(jq -r 'select(.name=="start of QEMU to the first mTLS answer").ours' "$json")" "Debian, systemd, networkd, sshd" \
  "$(tests/bench/boot.sh "$root" "$bench/peer" build/image/vmlinux 3 | sort -n | sed -n 2p)"

jq -s . "$json" >"$bench/figures.json"
echo
jq -r '["FIGURE","UNIT","OURS","PEER","PEER IS","PEER/OURS"], (.[] | [.name,.unit,.ours,.theirs,.peer,.ratio] | map(. // "" | tostring)) | @tsv' \
  "$bench/figures.json" | column -t -s "$(printf '\t')"
