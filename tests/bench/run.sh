#!/bin/bash
# Figures, ours and the peers' in the same run:  run.sh CHECKOUT OUT     (make bench)
# Prints a table and writes build/bench/figures.json and, beside it, the page of the run. A figure that misses its aim is
# shown and fails nothing; a section that cannot be measured fails, the others are still measured, and the exit status is 1.
#   ONLY="roundtrip config"   these sections of sections.list alone
#   SHORT=1                   those that a minute or two can measure, with fewer repetitions
#   RUNS=5                    how often each is measured (SHORT: 3)
#   KUBERNETES=1              the sections of Kubernetes, too
#   COMPARE=figures.json      afterwards the comparison with that run (compare.sh); worse by more than 10 % is a failure
#   FIGURES=FILE              also writes the page there; the run has to be whole and begin on an idle machine
#   AGAIN=1                   the sections that failed in the run before, which they complete; the page names them
set -euo pipefail
checkout=$1 out=$2
cd "$checkout"
root=${ROOT:-$checkout/build/root} bench=$checkout/build/bench
json=$bench/figures.jsonl
. tests/bench/figure.sh
say() { printf 'bench: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
load() { cut -d' ' -f1 /proc/loadavg; }
only=${ONLY:-} short=${SHORT:-} compare=${COMPARE:-} page=${FIGURES:-} again=${AGAIN:-}
load_before=$(load)
commit=$(git -c safe.directory='*' describe --always --dirty 2>/dev/null || echo unknown)
# The run that is completed: its figures without those of failed sections, and without its end.
if [ "$again" ]; then
  [ -z "$only$short${RUNS:-}" ] || die "AGAIN takes the sections and RUNS of the run before: leave out ONLY, SHORT and RUNS"
  before=$(jq -c --arg commit "$commit" 'select(.commit == $commit)' "$bench/figures.json" 2>/dev/null) && [ "$before" ] ||
    die "AGAIN: there is no run of commit $commit in $bench/figures.json"
  only=$(jq -r '[.sections[] | select(.failed).name] | join(" ")' <<<"$before")
  [ "$only" ] || die "AGAIN: no section of the run before failed"
  RUNS=$(jq .runs <<<"$before")
fi
export ROOT=$root SHORT=$short RUNS=${RUNS:-$([ "$short" ] && echo 3 || echo 5)}

# --- sections that are measured ----------------------------------------------------------------------------------
wanted() {  # wanted NAME WHEN
  if [ "$only" ]; then
    [[ " $only " == *" $1 "* ]]
  elif [ "$short" ]; then
    [ "$2" = short ]
  else
    [ "$2" != kubernetes ] || [ "${KUBERNETES:-}" ]
  fi
}
declare -A titles=()
names=() chosen=() skipped=()
while read -r name when title; do
  case $name in "" | "#"*) continue ;; esac
  names+=("$name")
  titles[$name]=$title
  if wanted "$name" "$when"; then chosen+=("$name"); else skipped+=("$title"); fi
done <tests/bench/sections.list
for name in $only; do
  [ "${titles[$name]:-}" ] || die "ONLY: no section \"$name\"; use ${names[*]}"
done
[[ $RUNS =~ ^[1-9][0-9]*$ ]] || die "RUNS: \"$RUNS\" is not a number from 1"
mkdir -p "$bench"
# A copy, because this run replaces figures.json, which may be the one that is compared with.
if [ "$compare" ]; then
  jq -e 'select((.figures | type) == "array" and (.sections | type) == "array")' "$compare" >"$bench/before.new" ||
    die "COMPARE: $compare is not the figures.json of a run"
  mv "$bench/before.new" "$bench/before.json"
fi
if [ "$page" ]; then
  [ -d "$(dirname "$page")" ] || die "FIGURES: no folder $(dirname "$page")"
  [ "$again" ] || [ -z "$only$short" ] || die "FIGURES is the page of a whole run: leave out ONLY and SHORT"
  awk -v load="$load_before" -v cpus="$(nproc)" 'BEGIN { exit !(load <= cpus / 4) }' ||
    die "FIGURES is the page of an idle machine, and its load is $load_before with $(nproc) CPUs; retry when it is idle"
fi

# --- measuring ---------------------------------------------------------------------------------------------------
: >"$json"
: >"$bench/sections.jsonl"
failed=()
for name in "${chosen[@]}"; do
  say "${titles[$name]}"
  from=$SECONDS status=0
  tests/bench/sections.sh "$checkout" "$out" "$json" "$name" || status=$?
  [ "$status" = 0 ] || failed+=("$name")
  say "${titles[$name]}: $([ "$status" = 0 ] || echo "FAILED after ")$((SECONDS - from)) s"
  jq -cn --arg name "$name" --arg title "${titles[$name]}" --argjson status "$status" --argjson seconds $((SECONDS - from)) \
    '{name: $name, title: $title, failed: ($status != 0), seconds: $seconds}' >>"$bench/sections.jsonl"
done

# --- the table, the page, the comparison ---------------------------------------------------------------------------
cpu=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | sed 's/  */ /g; 1q')
jq -n --slurpfile figures "$json" --slurpfile sections "$bench/sections.jsonl" --arg date "$(date +%F)" --arg commit "$commit" \
  --arg cpu "${cpu:-$(uname -m)}" --argjson cpus "$(nproc)" --arg kernel "$(uname -r)" --argjson runs "$RUNS" \
  --argjson before "$load_before" --argjson after "$(load)" --arg skipped "$(IFS=';'; echo "${skipped[*]}")" \
  '{date: $date, commit: $commit, cpu: $cpu, cpus: $cpus, kernel: $kernel, runs: $runs, loadBefore: $before,
    loadAfter: $after, skipped: ($skipped | split(";")), sections: $sections, figures: $figures}' >"$bench/figures.new"
if [ "$again" ]; then
  jq -L tests/bench --argjson before "$before" --arg order "${names[*]}" \
    'include "figures"; completed($before; $order | split(" "))' "$bench/figures.new" >"$bench/completed"
  mv "$bench/completed" "$bench/figures.new"
fi
mv "$bench/figures.new" "$bench/figures.json"
jq -r -L tests/bench 'include "figures"; page' "$bench/figures.json" >"$bench/figures.md"
echo
jq -r -L tests/bench 'include "figures"; table' "$bench/figures.json" | columns
echo
echo "build/bench/figures.json and figures.md have the same; load of the $(nproc) CPUs before and after: $load_before, $(load)"
status=0
if [ "$compare" ]; then
  printf '\ncompared with %s:\n' "$compare"
  tests/bench/compare.sh "$root" "$bench/before.json" "$bench/figures.json" || status=1
fi
for name in "${failed[@]}"; do say "FAILED: $name (${titles[$name]})"; done
[ "${#failed[@]}" = 0 ] || exit 1
if [ "$page" ]; then
  cp "$bench/figures.md" "$page"
fi
exit "$status"
