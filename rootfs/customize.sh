#!/bin/bash
# An installer image, ours or a customized one:  customize.sh ROOT CHECKOUT INNER   (`make installer-image` calls it)
# TREE, REMOVE, KERNEL, EXTENSIONS and FIRMWARE (rootfs/image.sh), VERSION and NAME (rootfs/installer.sh) are the user's: the
# first four are paths outside of the build root, so what they name is copied to where image.sh, which runs inside, can read it.
set -euo pipefail
root=$1 checkout=$2 inner=$3
run() { "$checkout/rootfs/enter.sh" "$root" "$checkout" env "${given[@]}" "$@"; }
given=(VERSION="${VERSION:-}" RELEASE="${RELEASE:-}" FLAVOUR="${FLAVOUR:-cloud}" FIRMWARE="${FIRMWARE:-}" TALOS_VERSION="${TALOS_VERSION:-}" ARCH="${ARCH:-amd64}")
suffix=
[ "${ARCH:-amd64}" = amd64 ] || suffix=-$ARCH
image=image$suffix
[ "${FLAVOUR:-cloud}" = cloud ] || image=image-$FLAVOUR$suffix
if [ -n "${TREE:-}${REMOVE:-}${KERNEL:-}${FIRMWARE:-}${EXTENSIONS:-}" ]; then
  image=custom$suffix
  folder=$checkout/build/$image/given
  rm -rf "$folder"
  mkdir -p "$folder"
  if [ -n "${TREE:-}" ]; then
    cp -a "$TREE/." "$folder/tree"
    given+=(TREE="/build/$image/given/tree")
  fi
  if [ -n "${REMOVE:-}" ]; then
    cp "$REMOVE" "$folder/remove"
    given+=(REMOVE="/build/$image/given/remove")
  fi
  if [ -n "${KERNEL:-}" ]; then
    cp "$KERNEL" "$folder/"
    given+=(KERNEL="/build/$image/given/$(basename "$KERNEL")")
  fi
  if [ -n "${EXTENSIONS:-}" ]; then
    "$checkout/rootfs/given-extensions.sh" "$folder/extensions" $EXTENSIONS
    given+=(EXTENSIONS="/build/$image/given/extensions")
  fi
fi
run rootfs/image.sh "$root" "$inner" "/build/$image"
run rootfs/installer.sh "/build/$image" "/build/$image/installer.tar" ${NAME:+"$NAME"}
