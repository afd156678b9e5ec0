#!/bin/bash
# Files, tests and targets of make that comments and documents mention exist:  names.sh
# Prints file:line of each name that nothing has; exit status 1 if there are any. names.awk has the rules, names.list
# the exceptions. Before that it reads a sample with wrong names, of which it has to find each.
set -euo pipefail
cd "$(dirname "$0")/.."
git() { command git -c safe.directory='*' "$@"; }
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
tracked() { git ls-files --cached --others --exclude-standard "$@" | xargs -d '\n' ls -d 2>/dev/null; }
tracked >"$work/paths"
grep '\.cc$' "$work/paths" | xargs -d '\n' \
  sed -nE 's/^TEST(_[FP])?\(([A-Za-z0-9_]+), *([A-Za-z0-9_]+)\).*/\2.\3/p' >"$work/tests"
grep -E '(CMakeLists\.txt|\.cmake)$' "$work/paths" | xargs -d '\n' \
  sed -nE 's/^ *add_executable\(([a-z0-9-]+-test) .*/\1/p; s/^ *talos_library\(([a-z0-9-]+) .*/\1-test/p' >"$work/programs"
sed -n 's/^\.PHONY: //p' Makefile | tr ' ' '\n' >"$work/targets"
lists=(KIND=path "$work/paths" KIND=test "$work/tests" KIND=program "$work/programs" KIND=target "$work/targets")

mkdir -p "$work/docs"
cat >"$work/sample.cc" <<'SAMPLE'
// The head (no-such-file.h), of machined/no-such-folder, `NoSuchSuite.NoSuchTest`, no-such-room-test.
int a;  // `make no-such-target`, docs/no-such-page.md, and tests/names.sh, kernel/right.h, `make test`
const char* b = "no-such-string.h // no-such-string.cc";  // See no-such-end.cc, plan §3.
SAMPLE
cat >"$work/docs/sample.md" <<'SAMPLE'
A [link](no-such-link.md), a [right one](sample.md), `NoSuchBeginning…`, `NoSuchGlob.Star*`, X-test.cc

    HOURS=1 make no-such-example     # a comment with words
SAMPLE
printf 'kernel/\tof others\nno-longer.h\tof nothing\n' >"$work/exceptions"
echo docs/sample.md >>"$work/paths"
expected="no-such-file.h machined/no-such-folder NoSuchSuite.NoSuchTest no-such-room-test no-such-target \
docs/no-such-page.md no-such-end.cc no-such-link.md NoSuchBeginning NoSuchGlob.Star no-such-example no-longer.h §"
found=$(cd "$work" && awk -f "$OLDPWD/tests/names.awk" KIND=exception exceptions "${lists[@]}" KIND=text sample.cc \
  docs/sample.md | sed 's/.*"\(.*\)".*/\1/') && { echo "names: the sample passes"; exit 1; }
[ "$(tr ' ' '\n' <<<"$expected" | sort)" = "$(sort <<<"$found")" ] || {
  echo "names: of the sample these differ:"
  diff <(tr ' ' '\n' <<<"$expected" | sort) <(sort <<<"$found")
  exit 1
}
sed -i '$d' "$work/paths"
grep -E '\.(cc|h|inc|proto|capnp|sh|awk|list|cmake|md)$|(^|/)(CMakeLists\.txt|Makefile)$|^tests/client/[^/]*\.txt$' \
  "$work/paths" | grep -v '/released/\|^tests/names\.' >"$work/files"
mapfile -t files <"$work/files"
awk -f tests/names.awk KIND=exception tests/names.list "${lists[@]}" KIND=text "${files[@]}"
