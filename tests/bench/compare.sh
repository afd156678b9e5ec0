#!/bin/bash
# Two runs of make bench beside each other:  compare.sh ROOT BEFORE NOW      (figures.json of each)
# Prints a table. Judged is the ratio of ours to the peer's in the same run, because machines differ: a figure without a
# peer is shown and not judged. Exit status 1 if a ratio is worse by more than WORSE percent (default 10).
set -euo pipefail
root=$1 before=$2 now=$3
folder=$(dirname "$0")
. "$folder/figure.sh"
limit=${WORSE:-10}
rows=$(jq -L "$folder" --slurpfile before "$before" --argjson limit "$limit" \
  'include "figures"; compared($before[0]; $limit / 100)' "$now")
jq -r -L "$folder" 'include "figures"; comparison' <<<"$rows" | columns
echo
only() {  # only WHICH RUN OTHER: prints what only this run has
  jq -r -L "$folder" --arg which "$1" --slurpfile other "$3" 'include "figures"; only($other[0])[] | "only in \($which): \(.)"' "$2"
}
only "the earlier run" "$before" "$now"
only "the later run" "$now" "$before"
jq -r '"load before the runs: \(.loadBefore), \($now[0].loadBefore); repetitions: \(.runs), \($now[0].runs)"' \
  --slurpfile now "$now" "$before"
echo "judged is ours/peer of the same run, because machines differ; figures without a peer are not judged"
worse=$(jq -r '.[] | select(.verdict == "worse") | .name' <<<"$rows")
judged=$(jq '[.[] | select(.verdict)] | length' <<<"$rows")
if [ "$judged" = 0 ]; then
  echo "compare: no figure has a peer in both runs" >&2
  exit 1
elif [ -n "$worse" ]; then
  printf '%s of %s judged figures are worse by more than %s %%:\n%s\n' "$(wc -l <<<"$worse")" "$judged" "$limit" "$worse" >&2
  exit 1
fi
echo "none of $judged judged figures is worse by more than $limit %"
