#!/bin/bash
# The unit tests of a build for another architecture (`make ARCH=arm64`), each program emulated by qemu-user:
#   emulated-units.sh ROOT CHECKOUT ARCH [CTEST'S ARGUMENTS…]     (make soak calls it; as root)
# Tests start programs of that architecture, too. The kernel hands them to the emulator by a rule of binfmt_misc, which is in
# a user namespace of this call (Linux 6.7 on): nothing is registered for the host. Root of that namespace has all
# identities of the host and a network of its own; it may not make devices.
# What cannot work there is in emulated-units.list, each row with its reason, and printed before the tests. A row that fits
# no test is an error.
set -euo pipefail
die() { printf 'emulated-units: %s\n' "$*" >&2; exit 1; }

# --- inside the build root ------------------------------------------------------------------------------------------
if [ "$1" = inside ]; then
  arch=$2 list=tests/emulated-units.list out=/build/out-$2
  shift 2
  case $arch in
    # the head of an ELF file: 64 bits, little-endian, any system's, a program, the architecture's number
    arm64) emulator=qemu-aarch64 magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00' ;;
    *) die "ARCH is \"$arch\"; arm64 is known" ;;
  esac
  mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
  sysroot=/build/root-$arch
  ip link set lo up
  mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc || die "this kernel has no binfmt_misc of a user namespace; Linux 6.7 has"
  printf ':%s:M::%s:%s:%s:F' "$emulator" "$magic" "$mask" "$sysroot/opt/emulators/usr/bin/$emulator" >/proc/sys/fs/binfmt_misc/register
  # The libraries of tests that are not static, beside the build root's. The emulator's own way, a tree in which it looks for
  # every path first, is no way for tests: / would be that tree.
  mount -t overlay -o lowerdir="/usr/lib:$sysroot/usr/lib" overlay /usr/lib

  # The same tests in a folder of their own: with more time, and without what is in the list.
  tests=$out/emulated
  mkdir -p "$tests"
  ctest --test-dir "$out" -L unit --show-only=json-v1 >"$tests/all.json"
  sed '/^#/d; /^$/d' "$list" | jq -R 'capture("^(?<test>\\S+) +(?<pattern>\\S+) +(?<reason>.+)$") // error("a row without a reason: " + .)' |
    jq -s . >"$tests/rows.json"
  jq -r --slurpfile rows "$tests/rows.json" '[.tests[].name] as $names | $rows[0][] | select(.test as $t | $names | index($t) | not) |
    "\(.test): no such test"' "$tests/all.json" >"$tests/wrong"
  jq -r --slurpfile rows "$tests/rows.json" '.tests[] as $test | $rows[0][] | select(.test == $test.name and .pattern != "*") |
    [.test, .pattern, $test.command[3]] | @tsv' "$tests/all.json" |
    while IFS=$'\t' read -r name pattern program; do
      "$program" --gtest_list_tests --gtest_filter="$pattern" </dev/null | grep -q '^  ' || echo "$name: no test is $pattern"
    done >>"$tests/wrong"
  [ ! -s "$tests/wrong" ] || die "$list: $(cat "$tests/wrong")"
  # ctest's file, without the emulator and its two words in front of the programs: quoted words of JSON are quoted words of CMake.
  jq -r --slurpfile rows "$tests/rows.json" '
    def left_out($name): [$rows[0][] | select(.test == $name) | .pattern];
    def without($patterns):   # after a filter of its own, if it has one
      ([.[] | select(startswith("--gtest_filter="))] | last // "--gtest_filter=*") as $own |
      ($own + (if $own | test("[=:]-") then ":" else ":-" end) + ($patterns | join(":"))) as $filter |
      [.[] | select(startswith("--gtest_filter=") | not)] + [$filter];
    def text: if type == "array" then map(tostring) | join(";") else tostring end;
    .tests[] | left_out(.name) as $patterns | select($patterns | index("*") | not) |
    (.command[3:] | if $patterns == [] then . else without($patterns) end) as $command |
    "add_test(\(.name | @json) \($command | map(@json) | join(" ")))",
    (.name as $name | .properties[] | select(.name | IN("LABELS") | not) |
      "set_tests_properties(\($name | @json) PROPERTIES \(.name) \(if .name == "TIMEOUT" then .value * 10 else .value end | text | @json))")
    ' "$tests/all.json" >"$tests/CTestTestfile.cmake"
  printf 'not under %s:\n' "$emulator"
  jq -r '.[] | "   \(.test) \(.pattern): \(.reason)"' "$tests/rows.json"
  exec ctest --test-dir "$tests" --output-on-failure -j "$(nproc)" "$@"
fi

# --- outside --------------------------------------------------------------------------------------------------------
cd "$(dirname "$0")/.."
root=$1 checkout=$2 arch=$3
shift 3
[ "$(id -u)" = 0 ] || die "must run as root"
begun=$(mktemp -u)
mkfifo -m 0600 "$begun"
# The first process waits until it has its identities; all processes end with it.
unshare --user --mount --net --pid --fork --kill-child bash -c 'read -r _ <"$0" && exec "$@"' "$begun" \
  rootfs/enter.sh "$root" "$checkout" tests/emulated-units.sh inside "$arch" "$@" &
namespace=$!
trap 'kill "$namespace" 2>/dev/null || true; rm -f "$begun"' EXIT
trap 'exit 143' INT TERM
own=$(readlink /proc/self/ns/user)
for ((tries = 0; ; tries++)); do
  other=$(readlink "/proc/$namespace/ns/user") || die "no user namespace could be made"
  [ "$other" = "$own" ] || break
  [ "$tries" -lt 500 ] || die "no user namespace was made within 10 s"
  sleep 0.02
done
# As many as this one has: some tests run as users above 60000.
for map in uid_map gid_map; do printf '0 0 65536\n' >"/proc/$namespace/$map"; done
echo >"$begun"
wait "$namespace"
