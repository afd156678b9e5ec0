#!/bin/bash
# All tests, in order:  run.sh check|test|sanitize|soak|day|e2e|conformance   (called by make, which sets CHECKOUT,
# ROOT, OUT, SAN, HOURS, and INNER: OUT as seen in the build root)
#   check   after an edit: format, unit tests, lint of the rooms that differ from the last commit
#   test    build, unit tests with the corpora of the fuzz targets, image, machines and beside them lint (clang-tidy of
#           the rooms that the last commits changed); Kubernetes, whose programs are compiled beside all that
#   sanitize   the unit tests with AddressSanitizer and UBSan, those of threads with ThreadSanitizer, all of lint
#   e2e     Kubernetes on nodes in containers, of the first release in RELEASES; from it to the second
#   conformance   upstream's conformance tests of tests/kubernetes/conformance.list on such nodes
#   day     random faults and operations on nodes in containers for HOURS or MINUTES, by SEED or DAY
#   soak    what takes long: a release twice, `sanitize`, images of all platforms, fuzz targets for up to a million runs each,
#           the machines again and again, the unit tests of the build for arm64 in emulation
# With SAN only the unit tests run, and those that cannot run under sanitizers are listed.
# Each step prints how long it took. `test` runs all of its steps that can run, and lists those that failed; its last line
# is a summary as ctest's, in which each step counts as a test, beside those of ctest.
set -euo pipefail
cd "$CHECKOUT"
user=$(id -u)
provides=   # what tests that may be skipped find here for certain (common/testing/provided.h)
[ "$user" != 0 ] || [ "$(tr -s ' ' </proc/self/uid_map)" != ' 0 0 4294967295' ] || provides=root
began=$SECONDS
steps=0 failed=()
continues=   # set: a failed step does not end the run
step() {  # step "what" command...
  local what=$1 from=$SECONDS
  shift
  printf '== %s\n' "$what"
  "$@" || { ended "$what" "FAILED after $((SECONDS - from)) s" 1; return; }
  ended "$what" "$((SECONDS - from)) s" 0
}
ended() {  # ended "what" "how" STATUS
  printf '== %s: %s\n' "$1" "$2"
  steps=$((steps + 1))
  [ "$3" = 0 ] || failed+=("$1")
  [ "$3" = 0 ] || [ "$continues" ] || exit 1
}
passed() { [[ "|$(IFS='|'; echo "${failed[*]}")|" != *"|$1|"* ]]; }   # passed "what": that step did not fail
in_root() { rootfs/enter.sh "$ROOT" "$CHECKOUT" "$@"; }
ctest() {
  in_root env PROVIDES="$provides" CLIENTS="${CLIENTS:-}" KUBECTL="${KUBECTL:-}" KUBERNETES_IMAGES="${KUBERNETES_IMAGES:-}" \
    /usr/bin/ctest --output-on-failure "$@"
}
# beside LOG COMMAND…: in the background, after everything else at each processor; $beside is its process group. The end of
# this script ends it with all that it has started, unless `joined` has waited for it.
declare -A groups=()
beside() {
  local log=$1
  shift
  set -m
  (renice -n 19 -p "$BASHPID" >/dev/null; "$@") >"$log" 2>&1 &
  beside=$!
  set +m
  groups[$beside]=1
  trap 'for group in "${!groups[@]}"; do kill -- -"$group" 2>/dev/null || true; done' EXIT
}
joined() {  # joined GROUP: its exit status
  local status=0
  wait "$1" || status=$?
  unset "groups[$1]"
  return $status
}
counted() { "$@" | tee -a "$OUT/ctest.log"; }   # counted command…: its tests are in the summary
conclude() {
  local name
  for name in "${failed[@]}"; do printf '== FAILED: %s\n' "$name"; done
  cat "$OUT/ctest.log" 2>/dev/null | awk -v all=$steps -v failed=${#failed[@]} '
    / tests? passed, [0-9]+ tests? failed out of [0-9]+$/ { failed += $4; all += $NF }
    END { printf "%d%% tests passed, %d tests failed out of %d\n", (all - failed) * 100 / all, failed, all }' || true
  [ "${#failed[@]}" = 0 ]
}
make() { command make --no-print-directory "$@"; }
# With coverage and sanitizers: nearly everything is compiled once more.
fuzz_build() {
  [ -e build/fuzz/build.ninja ] ||
    in_root cmake -S . -B /build/fuzz -G Ninja -DFUZZ=ON -DSANITIZE=fuzzer-no-link,address,undefined >/dev/null
  in_root ninja -C /build/fuzz fuzz
}
# Virtual machines side by side: a test has one to three, of 4 GiB together at most, and disks in memory.
# Tests of containers alone mostly wait: two of them take the place of one (PROCESSORS in their CMakeLists.txt).
machines() {  # machines LABELS [FLAG…]
  local labels=$1 memory jobs
  shift
  memory=$(awk '/^MemAvailable:/ { print int($2 / 1048576) }' /proc/meminfo)
  jobs=$((memory / 6))
  [ "$jobs" -le "$(nproc)" ] || jobs=$(nproc)
  [ "$jobs" -ge 1 ] || jobs=1
  ctest --test-dir "$INNER" -L "^($labels)$" -j $((2 * jobs)) "$@"
}
# Programs in Go that tests of machines call nodes with.
clients() { CLIENTS=$(tests/clients/make.sh "$CHECKOUT"); }
# An ordinary user is root of a user namespace only (rootfs/enter.sh).
units() {
  if [ "$user" = 0 ]; then
    ctest --test-dir "$INNER" -L unit -j "$(nproc)"
  else
    ctest --test-dir "$INNER" -L unit -LE root -j "$(nproc)"
    printf '== left out, because they need root of the host:\n'
    in_root /usr/bin/ctest --test-dir "$INNER" -N -L root | sed -n 's/^ *Test *#[0-9]*: /   /p'
  fi
}
# In the folder that `make SAN=…` uses: all is compiled once more.
sanitized_build() {  # sanitized_build SANITIZERS TARGET…
  local name=san-${1//,/-}
  [ -e "build/$name/build.ninja" ] ||
    in_root cmake -S . -B "/build/$name" -G Ninja -DSANITIZE="$1" >/dev/null
  in_root ninja -C "/build/$name" "${@:2}"
}
sanitized_units() { ctest --test-dir /build/san-address-undefined -L unit -j "$(nproc)"; }
# The thread pools, and process 1 with its helpers.
thread_tests() {
  in_root env PROVIDES="$provides" TSAN_OPTIONS=suppressions=/src/tests/thread-sanitizer.list /usr/bin/ctest --output-on-failure \
    --test-dir /build/san-thread -R '^unit-(init|machined-process1)$' -j "$(nproc)"
}

check() {
  step "build" make all
  step "lint of what changed" in_root tests/lint.sh "$INNER" changed
  units
}

sanitize() {
  step "build with AddressSanitizer and UBSan" sanitized_build address,undefined units
  step "unit tests with AddressSanitizer and UBSan" sanitized_units
  step "build with ThreadSanitizer" sanitized_build thread init-test machined-process1-test
  step "tests of threads with ThreadSanitizer" thread_tests
  step "lint" make lint
}

# All but what only `make bench` and `make e2e` run.
make_tests() { tests/makefile-test.sh && tests/run-test.sh; }
build_for_test() { in_root ninja -C "$INNER" all units kubernetes-in-test; }
# Kubernetes is compiled from the beginning with what the C++ compiler and the tests leave of the processors: a little at
# first, half of them beside machines. What takes it from build/cache is there at once, and its tests run among the machines.
await_kubernetes() {
  joined "$kubernetes" || { cat "$OUT/kubernetes.log"; return 1; }
  grep ' s$' "$OUT/kubernetes.log" || true
  use_kubernetes
}
everything() {
  local labels=machine compiled="Kubernetes: programs and images" lint kubernetes status=0
  continues=1
  step "targets and variables of make" make_tests
  step "build root" make configure
  passed "build root" || { echo "== without the build root nothing else can run"; conclude; return; }
  rm -f "$OUT/ctest.log" "$OUT/kubernetes.found"
  beside "$OUT/kubernetes.log" make_kubernetes
  kubernetes=$beside
  step "build" build_for_test
  passed "build" || { echo "== without the build nothing else can run"; conclude; return; }
  step "unit tests" counted units
  step "image" make iso
  ! passed "image" ||
    step "image: no shell, only static programs, reproducible" in_root rootfs/check.sh "$ROOT" "$INNER" /build/image
  step "clients in Go" clients
  if [ -e "$OUT/kubernetes.found" ]; then
    step "$compiled" await_kubernetes
    ! passed "$compiled" || labels='machine|kubernetes'
  fi
  # Lint only computes, and machines wait half of their time.
  beside "$OUT/lint.log" rootfs/enter.sh "$ROOT" "$CHECKOUT" tests/lint.sh "$INNER" recent
  lint=$beside
  if passed "image"; then
    step "machines (after $((SECONDS - began)) s), and beside them lint" counted machines "$labels"
  else
    echo "== without the image no machine can run"
  fi
  if [ "$labels" = machine ] && passed "$compiled"; then
    step "$compiled" await_kubernetes
    ! passed "$compiled" || ! passed "image" || step "Kubernetes on nodes" counted machines kubernetes
  fi
  joined "$lint" || status=1
  cat "$OUT/lint.log"
  ended "lint" "until $((SECONDS - began)) s" $status
  conclude
}

# One disk of each format. The programs of a release have another name of the installer image in them: what comes after it
# links them again.
release_twice() {
  local made=(REGISTRY=registry.example.com/site FLAVOURS=cloud PLATFORMS='metal azure gcp akamai exoscale vmware pxe')
  make release "${made[@]}" && cp build/release/SHA256SUMS "$OUT/release.first" && rm -rf build/image-release &&
    make release "${made[@]}" && diff "$OUT/release.first" build/release/SHA256SUMS
}

soak() {
  local name until=$((SECONDS + HOURS * 3600))
  step "release, twice" release_twice
  step "build" make all
  sanitize
  step "image" make iso
  step "images of platforms, read back" in_root tests/platform-formats.sh /build/image "$INNER/disk-image"
  step "image for machines" make iso FLAVOUR=metal PLATFORM=pxe
  step "image for arm64" make image ARCH=arm64 PLATFORM=metal
  step "build of the unit tests for arm64" in_root ninja -C /build/out-arm64 units talosctl
  step "unit tests for arm64, emulated" tests/emulated-units.sh "$ROOT" "$CHECKOUT" arm64
  step "build of the fuzz targets" fuzz_build
  for name in $(sed -n 's/^X(\(.*\))$/\1/p' build/fuzz/gen/fuzz-targets.inc); do
    step "up to a million runs of $name" in_root /build/fuzz/tests/fuzz/fuzz "$name" -runs=1000000 \
      -max_total_time=$((HOURS * 3600 / 40)) -timeout=10 -rss_limit_mb=1024 -verbosity=0 -print_final_stats=1 \
      "/build/fuzz/tests/fuzz/found/$name" $(find tests/fuzz/*/corpus -mindepth 1 -maxdepth 1 -name "$name")
  done
  step "clients in Go" clients
  # A minute each, one after the other: side by side they would measure each other.
  step "hostile pack" in_root env HOSTILE_SECONDS=60 /usr/bin/ctest --output-on-failure --verbose \
    --test-dir "$INNER" -L hostile-pack -j 1
  # Each says what was left of its power cuts.
  step "what takes long" ctest --test-dir "$INNER" -L long --verbose
  printf '== machines until %s s have passed\n' $((HOURS * 3600))
  while :; do
    machines machine
    [ "$SECONDS" -lt "$until" ] || break
  done
}

# The plan, the history and a shrunk plan are in $OUT/days.
day() {
  local plan=
  [ -z "${DAY:-}" ] || { cp "$DAY" "$OUT/replayed.day"; plan=$INNER/replayed.day; }
  step "image" make image
  step "build" in_root ninja -C "$INNER" talosctl day-test
  mkdir -p "$OUT/days"
  step "a random day" in_root env SEED="${SEED:-}" DAY="$plan" DAY_MINUTES="${MINUTES:-$((HOURS * 60))}" DAY_FOLDER="$INNER/days" \
    /usr/bin/ctest --test-dir "$INNER" -R '^day$' --verbose
}

# Tests that were skipped, with their reasons, by ctest's last log.
skipped() {
  awk '/: Skipped$/ { getline reason } /^\[  SKIPPED \] .*ms\)$/ { print "   " $4 ": " reason }' "$OUT/Testing/Temporary/LastTest.log"
}
# $OUT/kubernetes.found says where they are, once they are.
make_kubernetes() {
  rootfs/kubernetes/make.sh "$CHECKOUT" ${RELEASES:-} >"$OUT/kubernetes.new"
  mv "$OUT/kubernetes.new" "$OUT/kubernetes.found"
}
use_kubernetes() {
  local name value
  while read -r name value; do
    case $name in   # build/ of the checkout is /build in the build root, its cache /cache
      kubectl) export KUBECTL=/cache${value#build/cache} ;;
      images) export KUBERNETES_IMAGES=/cache${value#build/cache} ;;
      conformance) export CONFORMANCE_TESTS=/cache${value#build/cache} ;;
      metrics-server) export METRICS_SERVER_MANIFESTS=/cache${value#build/cache} ;;
    esac
  done <"$OUT/kubernetes.found"
}
kubernetes() {
  local status=0
  step "build" make image all
  step "Kubernetes: programs and images" make_kubernetes
  use_kubernetes
  # Each release was compiled, so a test that finds no images of it fails (common/testing/provided.h).
  in_root env PROVIDES="$(printf 'kubernetes-%s ' ${RELEASES:-})${METRICS_SERVER:+metrics-server}" \
    KUBECTL="$KUBECTL" KUBERNETES_IMAGES="$KUBERNETES_IMAGES" CONFORMANCE_TESTS="${CONFORMANCE_TESTS:-}" \
    METRICS_SERVER_MANIFESTS="${METRICS_SERVER_MANIFESTS:-}" \
    ${USERS_LINES_ON:+USERS_LINES_ON="$USERS_LINES_ON"} KUBE_FAULTS="${KUBE_FAULTS:-}" ROLLING_UPGRADES="${ROLLING_UPGRADES:-}" ${ROLLING_FIGURES:+ROLLING_FIGURES="$ROLLING_FIGURES"} \
    ${MACHINE_UPGRADES:+MACHINE_UPGRADES="$MACHINE_UPGRADES"} DIAGNOSE="${DIAGNOSE:-}" ${RENEWALS:+RENEWALS="$RENEWALS"} \
    /usr/bin/ctest --output-on-failure --test-dir "$INNER" "$@" || status=$?
  printf '== skipped:\n'
  skipped
  return $status
}

if [ -n "${SAN:-}" ]; then
  step "build with $SAN" make all
  ctest --test-dir "$INNER" -L unit
  printf '== skipped with sanitizers:\n'
  skipped
  exit
fi
case ${1:-} in
  test|soak|day|e2e|conformance) [ "$user" = 0 ] || { echo "make $1 must run as root: nodes need the host's network and cgroups; make check and make one do not" >&2; exit 1; } ;;
esac
case ${1:-} in
  check) check ;;
  test) everything ;;
  sanitize) sanitize ;;
  soak) soak ;;
  day) day ;;
  e2e) RELEASES=${RELEASES:-1.34.4 1.35.4 1.20.6 1.20.1 1.20.4} STORAGE=1 METRICS_SERVER=1 kubernetes -L e2e ;;
  conformance) CONFORMANCE=1 kubernetes -L conformance --verbose ;;
  *) echo "run.sh: say check, test, sanitize, soak, day, e2e or conformance" >&2; exit 1 ;;
esac
