#!/bin/bash
# A new build root takes the place of the old one:  replace-root.sh ROOT   makes ROOT of ROOT.new.
# Programs that run in the old tree, such as tests, keep it: enter.sh has bound it in a mount namespace, so it is renamed,
# and removed by the first call that finds nobody in it. Without a ROOT.new only such trees are removed.
set -euo pipefail
root=$1

as_owner() { if [ "$(id -u)" = 0 ]; then "$@"; else unshare --user --map-auto --map-root-user "$@"; fi; }   # as in buildroot.sh
# mount namespaces name what is bound by where it is now
in_use() { grep -qsF "/${1##*/} " /proc/[0-9]*/mountinfo; }

if [ -e "$root.new" ]; then
  [ ! -e "$root" ] || mv -T "$root" "$root.retired.$(date +%s).$$"
  mv -T "$root.new" "$root"
fi
for old in "$root".retired.*; do
  [ -e "$old" ] || continue
  if in_use "$old"; then
    printf 'buildroot: programs still run in the tree of before; a later make removes %s\n' "$old"
  else
    as_owner rm -rf --one-file-system "$old"
  fi
done
