#!/bin/bash
# Copies the modules of an image, decompressed:  modules.sh KERNEL OUT LIST...   (inside the build root; image.sh calls it)
#   OUT/modules/usr/lib/modules/RELEASE   of the LISTs, with all that they depend on and a modules.dep of its own
#   OUT/early                             those of the first LIST for the initramfs, and `load`, their names in order
# KERNEL is a folder of kernel.sh.
set -euo pipefail
umask 022
export LC_ALL=C
kernel=$1 out=$2
lists=("${@:3}")
here=$(cd "$(dirname "$0")" && pwd)
. "$here/arch.sh"
. "$here/pack.sh"
die() { printf 'image: %s\n' "$*" >&2; exit 1; }

named_modules() {  # MODULES <NAMES: those of folders one by one
  local name folder found
  while read -r name; do
    case $name in
      */)
        found=$(cd "$1/kernel" && find "$name" -name '*.ko*' 2>/dev/null | sort) || true
        [ -n "$found" ] || die "no modules below $name in this kernel" ;;
      *) found=$name ;;
    esac
    printf '%s\n' "$found"
  done
}

release=$(ls "$kernel/usr/lib/modules")
modules=$kernel/usr/lib/modules/$release
rm -rf "$out/modules" "$out/early"
tree=$out/modules/usr/lib/modules/$release
mkdir -p "$tree" "$out/early"
# Each by itself: what fails within the words of another command is not noticed.
early=$(early_names "${lists[0]}")
! grep -nE '^[^#]+[[:space:]](amd64|arm64)[[:space:]]*$' "${lists[@]}" >&2 || die "these modules need a reason for being of one architecture"
late=$(for list in "${lists[@]}"; do late_names "$list" "$arch" || exit 1; done | named_modules "$modules")
early_files=$(module_closure "$modules" $early)
late_files=$(module_closure "$modules" $late)
: >"$out/early/load"   # of a kernel that has all of them built in
for file in $early_files; do
  cp "$modules/$file" "$out/early/"
  name=${file##*/}
  echo "${name%.ko*}.ko" >>"$out/early/load"
done
for file in $late_files; do
  mkdir -p "$tree/$(dirname "$file")"
  cp "$modules/$file" "$tree/$file"
done
decompress_modules "$out/early"
decompress_modules "$tree"
cp "$modules/modules.order" "$modules/modules.builtin" "$modules/modules.builtin.modinfo" "$tree/"
ln -s usr/lib "$out/modules/lib"
depmod -b "$out/modules" "$release"
rm "$out/modules/lib" "$tree"/*.bin "$tree"/modules.{order,symbols,devname,builtin.modinfo}
