#!/bin/bash
# All tests, in order: build, lint, unit tests, fuzzing, virtual machines.
# Called by `make test` with CHECKOUT, ROOT, OUT, INNER and SAN set. With SAN only the unit tests
# run, and those that cannot run under sanitizers are listed.
# Each step prints how long it took; the last line is ctest's.
set -euo pipefail
cd "$CHECKOUT"
root=$ROOT   # OUT is INNER in there (rootfs/enter.sh)
began=$SECONDS
step() {  # step "what" command...
  local what=$1 from=$SECONDS
  shift
  printf '== %s\n' "$what"
  "$@" || { printf '== %s: FAILED after %s s\n' "$what" $((SECONDS - from)); exit 1; }
  printf '== %s: %s s\n' "$what" $((SECONDS - from))
}
in_root() { rootfs/enter.sh "$root" "$CHECKOUT" "$@"; }
ctest() { in_root /usr/bin/ctest --output-on-failure "$@"; }
fuzz_configure() {
  [ -e build/fuzz/build.ninja ] ||
    in_root cmake -S . -B /build/fuzz -G Ninja -DFUZZ=ON -DSANITIZE=fuzzer-no-link,address,undefined >/dev/null
}

if [ -n "${SAN:-}" ]; then
  step "build with $SAN" make --no-print-directory all SAN="$SAN"
  ctest --test-dir "$INNER" -L unit
  printf '== skipped with sanitizers:\n'
  awk '/: Skipped$/ { getline reason } /^\[  SKIPPED \] .*ms\)$/ { print "   " $4 ": " reason }' \
    "$OUT/Testing/Temporary/LastTest.log"
  exit
fi
step "build" make --no-print-directory image
step "lint" make --no-print-directory lint
step "image: no shell, only static programs, reproducible" in_root rootfs/check.sh "$root" "$INNER" /build/image
step "unit tests" ctest --test-dir "$INNER" -L unit
fuzz_configure
step "build of the fuzz targets" in_root ninja -C /build/fuzz
step "fuzzing" ctest --test-dir /build/fuzz -L fuzz
printf '== machines (after %s s)\n' $((SECONDS - began))
ctest --test-dir "$INNER" -L machine
