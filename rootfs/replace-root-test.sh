#!/bin/bash
# Catches: a build root that is emptied under the tests that run in it, when another make replaces it; trees of before that
# stay for ever.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'kill "${user:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
fail() { echo "FAILED: $*"; exit 1; }
root=$folder/root
mkdir "$root"; echo old >"$root/file"
mkfifo "$folder/begins" "$folder/ends"

# As enter.sh does; it reads the file when the tree was replaced.
unshare --mount --propagation private bash -c 'mount --bind "$1" "$1"; cd "$1"; echo >"$2/begins"; read -r <"$2/ends"
  cat file >"$2/result" 2>&1' user "$root" "$folder" &
user=$!
read -r <"$folder/begins"
mkdir "$root.new"; echo new >"$root.new/file"
bash "$here/replace-root.sh" "$root" >"$folder/said"
[ "$(cat "$root/file")" = new ] || fail "the new tree is not in place"
grep -q "programs still run in the tree of before" "$folder/said" || fail "it does not say that a tree stays"
echo >"$folder/ends"
wait "$user" || true
user=
[ "$(cat "$folder/result")" = old ] || fail "the tree was emptied under its program: $(cat "$folder/result")"
bash "$here/replace-root.sh" "$root"
[ "$(ls "$folder" | grep -c root)" = 1 ] || fail "the tree of before stays: $(ls "$folder")"
[ "$(cat "$root/file")" = new ] || fail "the new tree is gone"
echo "1 passed, 0 failed"
