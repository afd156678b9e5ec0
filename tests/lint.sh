#!/bin/bash
# clang-format and clang-tidy over what is tracked:  lint.sh BUILD-FOLDER   (inside the build root)
# clang-tidy remembers which files passed with which content and flags, so a second run is quick.
set -uo pipefail
out=$1 failed=0
# The checkout may be somebody else's than root's, who runs this.
tracked() { git -c safe.directory='*' ls-files "$@"; }
mapfile -t files < <(tracked '*.cc' '*.h')
[ "${#files[@]}" -gt 0 ] || { echo "lint: git lists no files here" >&2; exit 1; }
clang-format-19 --dry-run -Werror "${files[@]}" || { echo "lint: run 'make format'" >&2; failed=1; }

cache=$out/tidy
mkdir -p "$cache"
tidy() {
  local file=$1 key log
  # Everything that the verdict may depend on: any header, any flag.
  key=$({ cat .clang-tidy "$file"; tracked -z '*.h' '*.inc' '*.capnp' '*.cmake' '*CMakeLists.txt' | xargs -0 cat; } |
    sha256sum | cut -d' ' -f1)
  [ -e "$2/$key" ] && return 0
  log=$(clang-tidy-19 --quiet -p "$3" "$file" 2>/dev/null) || { printf '%s\n' "$log"; return 1; }
  touch "$2/$key"
}
export -f tidy tracked
tracked '*.cc' | grep -v -- '-test\.cc$\|-fuzz\.cc$\|^tests/' |
  xargs -P "$(nproc)" -I{} bash -c 'tidy "$@"' _ {} "$cache" "$out" || failed=1
exit $failed
