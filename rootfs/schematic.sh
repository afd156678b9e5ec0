#!/bin/bash
# Makes the images that a schematic describes:  schematic.sh ROOT CHECKOUT INNER FILE PLATFORM   (`make schematic` calls it)
# The extensions that it names are made (make-extension.sh), the installer image has them (customize.sh), and the disk of the
# platform (platform-image.sh) has them and the arguments of the kernel, which an installer image cannot carry.
set -euo pipefail
root=$1 checkout=$2 inner=$3 file=$4 platform=$5
die() { printf 'schematic: %s\n' "$*" >&2; exit 1; }
[ -n "$file" ] || die "FILE= is missing; name a schematic, such as FILE=schematic.yaml"
[ -f "$file" ] || die "$file: no such file"
inside() { "$checkout/rootfs/enter.sh" "$root" "$checkout" "$@"; }
mkdir -p "$checkout/build/extension"
plan=$(inside "$inner/schematic" "$file" $(ls "$checkout/rootfs/extensions") <"$file")
arguments=() extensions=()
while read -r kind value; do
  case $kind in
    argument) arguments+=("$value") ;;
    extension)
      inside rootfs/make-extension.sh "$value" "/build/extension/$value.tar"
      extensions+=("$checkout/build/extension/$value.tar") ;;
  esac
done <<<"$plan"
EXTENSIONS="${extensions[*]}" "$checkout/rootfs/customize.sh" "$root" "$checkout" "$inner"
image=custom
[ ${#extensions[@]} -gt 0 ] || [ -n "${FIRMWARE:-}" ] || image=image$([ "${FLAVOUR:-cloud}" = cloud ] || echo "-$FLAVOUR")
inside env ARGUMENTS="${arguments[*]}" rootfs/platform-image.sh "/build/$image" "$inner/disk-image" "$platform"
