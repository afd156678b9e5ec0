#!/bin/bash
# Catches: a failed section that ends the run, is not listed at the end or lets the run pass; a section of ONLY, SHORT or
# KUBERNETES that is left out, or another one that is measured; a run that overwrites the one that it is compared with; a
# failed section that is measured again and loses the figures of the others, or passes for one of the same run.
# The sections are those of a sample, in a checkout of copies.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "FAILED: $*"; exit 1; }
jq() { /usr/bin/jq "$@"; }
mkdir -p "$folder/tests/bench"
cp "$here"/{run.sh,compare.sh,figure.sh,figures.jq} "$folder/tests/bench/"
cat >"$folder/tests/bench/sections.list" <<'LIST'
# a comment
first   short       the first
broken  short       the broken one
last    always      the last
heavy   kubernetes  Kubernetes
LIST
cat >"$folder/tests/bench/sections.sh" <<'SECTIONS'
#!/bin/bash
set -euo pipefail
root=/ json=$3 section=$4
. "$1/tests/bench/figure.sh"
[ "$section" != broken ] || [ "${MENDED:-}" ] || { echo "a message of the broken one" >&2; exit 3; }
figure "of $section" us "${OURS:-10}" "" peer "$RUNS"
SECTIONS
chmod +x "$folder/tests/bench/sections.sh"
bench() { (cd / && env -u ONLY -u SHORT -u KUBERNETES -u COMPARE -u FIGURES -u RUNS ROOT=/ "$@" "$folder/tests/bench/run.sh" "$folder" "$folder/build/out" 2>&1); }
measured() { jq -r '[.sections[].name] | join(" ")' "$folder/build/bench/figures.json"; }
expect() {  # expect WHAT EXPECTED IS
  [ "$2" = "$3" ] || fail "$1: $3; expected: $2"
}

said=$(bench) && fail "a run with a failed section passes"
expect "the sections of a run" "first broken last" "$(measured)"
expect "its figures" "of first, of last" "$(jq -r '[.figures[].name] | join(", ")' "$folder/build/bench/figures.json")"
[[ $said == *"a message of the broken one"*$'\nbench: FAILED: broken (the broken one)' ]] || fail "of a failed section it says: $said"
grep -q '^| Failed | the broken one |$' "$folder/build/bench/figures.md" || fail "the page does not name the failed section"
said=$(bench AGAIN=1 RUNS=3) && fail "AGAIN with RUNS passes"
bench AGAIN=1 MENDED=1 OURS=30 >"$folder/said" || fail "sections that are measured again: $(cat "$folder/said")"
expect "the sections of the completed run" "first broken last" "$(measured)"
expect "its figures" "of first 10, of last 10, of broken 30" \
  "$(jq -r '[.figures[] | "\(.name) \(.ours)"] | join(", ")' "$folder/build/bench/figures.json")"
grep -q '^| Measured again | the broken one, on .* had failed |$' "$folder/build/bench/figures.md" || fail "the page does not say what was measured again"
! grep -q '^| Failed |' "$folder/build/bench/figures.md" || fail "the page of a completed run names a failed section"
said=$(bench AGAIN=1) && fail "AGAIN without a failed section passes"
said=$(bench SHORT=1) && fail "a short run with a failed section passes"
expect "the sections of a short run" "first broken" "$(measured)"
bench KUBERNETES=1 ONLY="heavy last" >"$folder/said" || fail "a run fails: $(cat "$folder/said")"
expect "the sections of ONLY" "last heavy" "$(measured)"
said=$(bench KUBERNETES=1) && fail "a run with a failed section passes"
expect "the sections with KUBERNETES" "first broken last heavy" "$(measured)"
said=$(bench ONLY="first lost") && fail "ONLY with an unknown section passes"
[[ $said == *'no section "lost"; use first broken last heavy' ]] || fail "of an unknown section it says: $said"

bench ONLY=first >"$folder/said" || fail "a run fails: $(cat "$folder/said")"
bench ONLY=first COMPARE=build/bench/figures.json >"$folder/said" || fail "the same figures are worse: $(cat "$folder/said")"
said=$(bench ONLY=first COMPARE=build/bench/figures.json OURS=20) && fail "figures that doubled pass"
[[ $said == *"of first"*"+100 %"*"worse"* ]] || fail "of doubled figures it says: $said"
echo "1 passed, 0 failed"
