#!/bin/bash
# The idioms of english.awk, counted per room:  english.sh [record]
# Without an argument: exit status 1, and the lines, if a room has more of them than tests/english.counts says.
# record: writes tests/english.counts, in which a count only falls; a new room has none.
set -uo pipefail
cd "$(dirname "$0")/.."
git() { command git -c safe.directory='*' "$@"; }
mapfile -t files < <(git ls-files --cached --others --exclude-standard '*.cc' '*.h' '*.capnp' 'docs/*.md' ./*.md |
  grep -v '^docs/evidence/\|^tests/schemas/released/' | xargs ls 2>/dev/null)
found=$(awk -f tests/english.awk "${files[@]}")
if [ "${1:-}" = record ]; then
  printf '%s\n' "$found" >tests/english.counts
  exit
fi
failed=0
while read -r room count; do
  most=$(awk -v room="$room" '$1 == room { print $2 }' tests/english.counts)
  [ "$count" -gt "${most:-0}" ] || continue
  failed=1
  awk -v show="$room" -f tests/english.awk "${files[@]}"
  echo "english: $room has $count idioms that are read twice, and had ${most:-0} (tests/english.awk, docs/style.md)" >&2
done <<<"$found"
exit $failed
