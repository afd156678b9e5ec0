#!/bin/bash
# Catches: a comparison that judges machines instead of programs, mistakes a higher rate for a worse time, mixes up two
# figures with one name or passes when nothing was compared; a median that hides a failed measurement; figures of a section that one run left out beside those that are missing; a page without its machine, a section, a row or a failed
# section; a section of the list without a function, or a function that the list does not have.
set -euo pipefail
cd "$(dirname "$0")"
root=/   # of the build root, in which this test runs
. ./figure.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { trap - ERR; echo "FAILED: $*"; exit 1; }
expect() {  # expect WHAT EXPECTED IS
  [ "$2" = "$3" ] || fail "$1 is: $3; expected: $2"
}
run() {  # run FILE: a run with the figures "SECTION|NAME|UNIT|OURS|AIM|PEER|THEIRS" of stdin
  local section name unit ours aim peer theirs
  json=$folder/lines
  : >"$json"
  while IFS='|' read -r section name unit ours aim peer theirs; do
    figure "$name" "$unit" "$ours" "$aim" "$peer" "$theirs"
  done
  jq -n --slurpfile figures "$json" '{date: "2026-01-02", commit: "abc1234", cpu: "Sample CPU", cpus: 2, kernel: "6.12", runs: 5,
    loadBefore: 0.1, loadAfter: 0.9, skipped: ["Kubernetes", "sizes"], figures: $figures,
    sections: [{name: "calls", title: "round trips", failed: false}, {name: "disks", title: "disks | power", failed: true}]}' >"$1"
}
verdicts() {  # verdicts BEFORE NOW: "NAME CHANGE VERDICT" of each
  jq -r -L . --slurpfile before "$1" 'include "figures"; compared($before[0]; 0.1)[] |
    "\(.name): \(.change | percent) \(.verdict)"' "$2"
}

run "$folder/before" <<'FIGURES'
calls|slower machine|us|10||peer|20
calls|slower by 12|us|100||peer|100
calls|slower by 9|us|100||peer|100
calls|faster|us|100||peer|100
calls|peer was slow|us|100||peer|100
calls|rate|1/s|100||peer|100
calls|lower rate|1/s|100||peer|100
calls|alone|us|10||
calls|twice|us|10||peer|10
calls|twice|us|20||peer|10
calls|two peers|us|10||peer a|20
calls|two peers|us|10||peer b|10
calls|zero|ms|0|0|peer|350
calls|peer is zero|ms|5||peer|0
calls|before|us|1||peer|1
FIGURES
run "$folder/now" <<'FIGURES'
calls|slower machine|us|30||peer|60
calls|slower by 12|us|112||peer|100
calls|slower by 9|us|109||peer|100
calls|faster|us|80||peer|100
calls|peer was slow|us|100||peer|80
calls|rate|1/s|200||peer|100
calls|lower rate|1/s|80||peer|100
calls|alone|us|30||
calls|twice|us|10||peer|10
calls|twice|us|40||peer|10
calls|two peers|us|10||peer b|10
calls|zero|ms|7|0|peer|350
calls|peer is zero|ms|50||peer|0
disks|now|MiB|1||
FIGURES
expect "the comparison" "slower machine: 0 % same
slower by 12: +12 % worse
slower by 9: +9 % same
faster: -20 % better
peer was slow: +25 % worse
rate: -50 % better
lower rate: +25 % worse
alone: - null
twice: 0 % same
twice: +100 % worse
two peers: 0 % same
zero: - worse
peer is zero: - null" "$(verdicts "$folder/before" "$folder/now")"

said=$(./compare.sh "$root" "$folder/before" "$folder/now" 2>&1) && fail "worse figures pass"
[[ $said == *$'5 of 11 judged figures are worse by more than 10 %:\nslower by 12\n'* ]] || fail "of worse figures it says: $said"
[[ $said == *$'only in the earlier run: two peers\nonly in the earlier run: before\nonly in the later run: section "disks | power"\nload '* ]] ||
  fail "of one run's figures it says: $said"
said=$(./compare.sh "$root" "$folder/before" "$folder/before" 2>&1) || fail "the same run is worse: $said"
[[ $said == *"none of 13 judged figures is worse by more than 10 %"* ]] || fail "of the same run it says: $said"
run "$folder/other" <<<'calls|alone|us|10||'
said=$(./compare.sh "$root" "$folder/before" "$folder/other" 2>&1) && fail "nothing was compared, and it passes"

run "$folder/page" <<'FIGURES'
calls|call|us|71.3|30|gRPC|93.2
disks|write|MiB|82||
FIGURES
expect "the rows of the page" "| Date | 2026-01-02 |
| Commit | abc1234 |
| Machine | 2 CPUs (Sample CPU), Linux 6.12 |
| Load | 0.1 before, 0.9 after |
| Repetitions | 5 |
| Failed | disks \\| power |
| Not measured | Kubernetes; sizes |
## Round trips
| Figure | Unit | Ours | Aim | Met | Peer | Peer/ours | The peer is |
| call | us | 71.3 | 30 | no | 93.2 | 1.31 | gRPC |
## Disks | power
| Figure | Unit | Ours | Aim | Met | Peer | Peer/ours | The peer is |
| write | MiB | 82 | - | - | - | - | - |" \
  "$(jq -r -L . 'include "figures"; page' "$folder/page" | grep -E '^(##|\| [A-Za-z])')"

json=$folder/lines section=calls
said=$(figure "a figure that failed" us "" "" 2>&1) && fail "a figure without a number passes"
[[ $said == *'a figure that failed: ours is "", which is not a number'* ]] || fail "of such a figure it says: $said"
said=$(figure "a peer that failed" us 1 "" peer null 2>&1) && fail "a peer without a number passes"
expect "the median" 20 "$(printf '100\n3.5\n20\n' | median)"
said=$(printf '7\nnull\n9\n' | median) && fail "the median of a measurement that failed is $said"

expect "the functions of the sections" "$(awk '$1 !~ /^#/ && NF { print $1 }' sections.list | sort)" \
  "$(sed -n 's/^section_\([a-z]*\)() {.*/\1/p' sections.sh | sort)"
echo "1 passed, 0 failed"
