#!/bin/bash
# Builds and runs the tests of one folder:  one.sh BUILD-FOLDER FOLDER [FILTER]   (in the build root)
# FOLDER as in the checkout ("networkd/plan"), FILTER as GoogleTest has it ("Bond*"). Tests that need an image or virtual
# machines find those of the last `make image`.
set -euo pipefail
out=$1 folder=${2%/} filter=${3:-*}
[ -n "$folder" ] || { echo "one: which folder? ROOM=networkd/plan" >&2; exit 1; }
# "NAME PROGRAM", also of programs that have not been built yet, which ctest does not list.
tests=$(find "$out" -name CTestTestfile.cmake -exec sed -nE \
  's#^add_test\(\[=\[([^]]*)\]=\] "('"$out/(parts/)?$folder"'/[^/"]*)".*#\1 \2#p' {} +)
[ -n "$tests" ] || { echo "one: no test is made of $folder; folders with tests are named in a CMakeLists.txt, or are those of a daemon" >&2; exit 1; }
awk '{ print substr($2, length(out) + 2) }' out="$out" <<<"$tests" | xargs ninja -C "$out" --quiet
names=$(awk '{ printf "%s%s", (NR > 1 ? "|" : ""), $1 }' <<<"$tests")
GTEST_FILTER=$filter exec ctest --test-dir "$out" -R "^($names)\$" --verbose
