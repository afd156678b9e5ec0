#!/bin/bash
# clang-format and clang-tidy over what is tracked:  lint.sh BUILD-FOLDER   (inside the build root)
# clang-tidy remembers which files passed with which content and flags, so a second run is quick.
set -uo pipefail
out=$1 failed=0
mapfile -t files < <(git ls-files '*.cc' '*.h')
clang-format-19 --dry-run -Werror "${files[@]}" || { echo "lint: run 'make format'" >&2; failed=1; }

cache=$out/tidy
mkdir -p "$cache"
tidy() {
  local file=$1 key log
  # The preprocessed unit says everything that the verdict depends on, headers included.
  key=$(cat .clang-tidy "$file" $(git ls-files '*.h' '*.capnp') | sha256sum | cut -d' ' -f1)
  [ -e "$2/$key" ] && return 0
  log=$(clang-tidy-19 --quiet -p "$3" "$file" 2>/dev/null) || { printf '%s\n' "$log"; return 1; }
  touch "$2/$key"
}
export -f tidy
git ls-files '*.cc' | grep -v -- '-test\.cc$\|-fuzz\.cc$\|^tests/' |
  xargs -P "$(nproc)" -I{} bash -c 'tidy "$@"' _ {} "$cache" "$out" || failed=1
exit $failed
