#!/bin/bash
# The retired words of docs/style.md:  words.sh [FILE...]   (without files: all that are tracked or new)
# Prints file:line of each, then the counts by top-level folder; exit status 1 if there are any.
set -uo pipefail
cd "$(dirname "$0")/.."
git() { command git -c safe.directory='*' "$@"; }
files=("$@")
[ $# -gt 0 ] ||
  mapfile -t files < <(git ls-files --cached --others --exclude-standard '*.cc' '*.h' '*.inc' '*.capnp' '*.sh' '*.list' \
    '*CMakeLists.txt' Makefile | xargs ls 2>/dev/null)
found=$(printf '%s\0' "${files[@]}" | xargs -0 -n 1000 awk -f tests/words.awk)
[ -n "$found" ] || exit 0
printf '%s\n' "$found"
printf '%s\n' "$found" | awk -F'[/:]' '
  { all[$1]; ++count[$1, /: question at the start of a comment: /] }
  END { for (i in all) printf "%-16s %5d identifiers, %5d comments\n", i, count[i, 0], count[i, 1] | "sort" }'
exit 1
