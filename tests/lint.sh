#!/bin/bash
# clang-format, clang-tidy, one-definition.awk, sizes.awk, arrows.awk, words.sh, names.sh and english.sh over what is
# tracked:
#   lint.sh BUILD-FOLDER [changed|recent]   (in the build root)
#
# clang-tidy reads the sources of a room as one file: what it costs is the headers, which it matches anew
# for every file that it is given (9 to 17 s each; a whole room takes about as long as one file). So names
# in anonymous namespaces are unique within a room. A room that passed is not read again until the
# preprocessed text of it changes. `changed` looks only at files that differ from the last commit, and at
# the rooms that they are in. `recent` looks at all files, and with clang-tidy, which takes most of the time, at the
# rooms that the last 30 commits changed.
set -uo pipefail
out=$1 only=${2:-} failed=0
# The checkout may be somebody else's than root's, who runs this.
git() { command git -c safe.directory='*' "$@"; }
git rev-parse --git-dir >/dev/null || { echo "lint: git cannot read this checkout" >&2; exit 1; }
# Tracked or new, but not what is deleted or ignored.
sources() { git ls-files --cached --others --exclude-standard "$@" | xargs ls 2>/dev/null; }
mapfile -t files < <(sources '*.cc' '*.h')
[ "${#files[@]}" -gt 0 ] || { echo "lint: git lists no files here" >&2; exit 1; }
if [ "$only" = changed ]; then
  mapfile -t files < <({ git diff --name-only --diff-filter=d HEAD; git ls-files --others --exclude-standard; } |
    grep '\.\(cc\|h\)$' | sort -u)
  [ "${#files[@]}" -gt 0 ] || { echo "lint: no source file differs from the last commit"; exit 0; }
fi
printf '%s\0' "${files[@]}" | xargs -0 -P "$(nproc)" -n 100 clang-format-19 --dry-run -Werror ||
  { echo "lint: run 'make format'" >&2; failed=1; }
sources '*.cc' '*.h' | xargs awk -f tests/one-definition.awk || failed=1
mapfile -t all < <(sources '*.cc' '*.h')
awk -f tests/sizes.awk tests/sizes.list "${all[@]}" || failed=1
xargs -a "$out/room-files.txt" awk -f cmake/arrows.awk "$out/rooms.txt" || failed=1
tests/words.sh || failed=1
tests/names.sh || failed=1
tests/english.sh || failed=1

work=$out/tidy
mkdir -p "$work/joined"
flags="-include cmake/pch.h -std=c++23 -DKJ_USE_FUTEX=1 -I. -I$out/gen"
# The sources of each room, and all main.cc, as files that include them.
rm -f "$work"/joined/*
for file in $(sources '*.cc' | grep -v -- '-test\.cc$\|-fuzz\.cc$\|^tests/\|test-child\|harness'); do
  room=$(dirname "$file")
  case $file in
    */main.cc) printf '#define main main_%s\n#include "%s"\n#undef main\n' "${room//[^a-z0-9]/_}" "$file" >>"$work/joined/mains.cc" ;;
    cmake/*) ;;
    *) printf '#include "%s"\n' "$file" >>"$work/joined/${room//\//-}.cc" ;;
  esac
done
rooms=("$work"/joined/*.cc)
if [ "$only" = recent ]; then
  mapfile -t files < <({ git log -30 --name-only --format=; git diff --name-only HEAD; } | grep '\.\(cc\|h\)$' | sort -u)
fi
if [ -n "$only" ]; then
  rooms=()
  for joined in "$work"/joined/*.cc; do
    for file in "${files[@]}"; do
      if grep -q "\"$(dirname "$file")/[^/]*\"" "$joined"; then rooms+=("$joined"); break; fi
    done
  done
fi

tidy() {
  local joined=$1 work=$2 flags=$3 key log
  key=$({ cat .clang-tidy; clang++-19 $flags -E "$joined"; } | sha256sum | cut -d' ' -f1)
  [ -e "$work/$key" ] && return 0
  log=$(clang-tidy-19 --quiet --config-file=.clang-tidy --checks=-bugprone-suspicious-include "$joined" -- $flags 2>/dev/null) ||
    { printf '%s\n' "$log"; return 1; }
  touch "$work/$key"
}
export -f tidy
[ "${#rooms[@]}" = 0 ] || printf '%s\n' "${rooms[@]}" |
  xargs -P "$(nproc)" -I{} bash -c 'tidy "$@"' _ {} "$work" "$flags" || failed=1
exit $failed
