#!/bin/bash
# Makes the layers of system extensions:  extensions.sh TREE OUT WORK GIVEN   (inside the build root; image.sh calls it)
# TREE is the tree of the root image, OUT the folder of the compiled programs, GIVEN a folder of given-extensions.sh: a
# file, folder or reference of each extension. It writes
#   WORK/extensions.cpio   an archive of the initramfs: /extensions/<n>.sqsh, the list /extensions/layers with their
#                          digests, and the modules for the overlay. Process 1 mounts the layers above the root image
#                          (machined/process1/init/root-layers.h); the last one has /etc/extensions.yaml and, if an
#                          extension has modules, the kernel's index of all modules
#   WORK/extensions.names  a line for each extension: its name and version
# The same extensions give the same bytes. TALOS_VERSION=v1.10.0 is the version of Talos with which the constraints of their
# manifests are compared (default: this release).
set -euo pipefail
umask 022
export LC_ALL=C
tree=$1 out=$2 work=$3 given=$4
here=$(cd "$(dirname "$0")" && pwd)
. "$here/arch.sh"
. "$here/pack.sh"
die() { printf 'extensions: %s\n' "$*" >&2; exit 1; }

place=$work/extensions
rm -rf "$place" "$work/extensions.cpio" "$work/extensions.names"
mkdir -p "$place/archive/extensions" "$place/archive/lib/modules"

# An image of one platform, of those that a reference or an archive has.
fetch() {  # SOURCE FOLDER NAME
  skopeo --insecure-policy --override-os linux --override-arch "$arch" copy --quiet "$1" "oci:$place/layout:x" 2>"$place/log" ||
    die "$3: $(sed 's/.*level=fatal msg=//' "$place/log")"
  umoci raw unpack --image "$place/layout:x" "$2" >"$place/log" 2>&1 || die "$3: $(tail -n 1 "$place/log")"
  rm -rf "$place/layout"
}
unpacked() {  # GIVEN NAME FOLDER: the files of an extension
  if [ -e "$1/reference" ]; then
    fetch "docker://$2" "$3" "$2"
  elif [ -d "$1/folder" ] && [ -e "$1/folder/index.json" ]; then
    fetch "oci:$1/folder" "$3" "$2"
  elif [ -d "$1/folder" ]; then
    cp -a "$1/folder" "$3"
  elif tar -tf "$1/file" manifest.json >/dev/null 2>&1 && ! tar -tf "$1/file" index.json >/dev/null 2>&1; then
    fetch "docker-archive:$1/file" "$3" "$2"
  else
    fetch "oci-archive:$1/file" "$3" "$2"
  fi
}

names=() folders=() arguments=()
for each in $(ls "$given" | sort -n); do
  name=$(cat "$given/$each/name")
  folder=$place/$each
  unpacked "$given/$each" "$name" "$folder"
  folders+=("$folder")
  names+=("$name")
  arguments+=("$folder" "$name")
done
[ ${#folders[@]} -gt 0 ] || die "no extension is given"
[ ${#folders[@]} -le 64 ] || die "${#folders[@]} extensions are given; use at most 64"

top=$place/top
mkdir -p "$top/etc" "$top/usr/share"
made=$("${emulator[@]}" "$out/extension-layers" "$tree" "${TALOS_VERSION:-}" "$top" "${arguments[@]}")
grep -vx modules <<<"$made" >"$work/extensions.names"
if grep -qx modules <<<"$made"; then
  # The index of all modules, as modules.sh makes that of the root.
  release=$(ls "$tree/usr/lib/modules")
  all=$place/all
  mkdir -p "$all/usr/lib" "$top/usr/lib/modules/$release"
  cp -a "$tree/usr/lib/modules" "$all/usr/lib/"
  ln -s usr/lib "$all/lib"
  for folder in "${folders[@]}"; do
    [ ! -d "$folder/rootfs/usr/lib/modules" ] || cp -a "$folder/rootfs/usr/lib/modules" "$all/usr/lib/"
  done
  decompress_modules "$all/usr/lib/modules"
  depmod -b "$all" "$release"
  cp "$all/usr/lib/modules/$release"/modules.{dep,alias,softdep} "$top/usr/lib/modules/$release/"
  for folder in "${folders[@]}"; do
    [ ! -d "$folder/rootfs/usr/lib/modules" ] || decompress_modules "$folder/rootfs/usr/lib/modules"
  done
fi

layer() {  # FOLDER FILE
  # A folder of the root keeps its rights: those of the uppermost layer are the ones that count.
  (cd "$1" && find . -type d) | while read -r folder; do
    [ ! -d "$tree/$folder" ] || chmod --reference="$tree/$folder" "$1/$folder"
  done
  make_squashfs "$1" "$place/archive/extensions/$2" 15
  (cd "$place/archive/extensions" && sha256sum "$2" >>layers)
}
for i in "${!folders[@]}"; do layer "${folders[i]}/rootfs" "$((i + 1)).sqsh"; done
layer "$top" "$((${#folders[@]} + 1)).sqsh"

# The overlay of the layers is mounted before there is a root with its module.
modules=$tree/usr/lib/modules/$(ls "$tree/usr/lib/modules")
closure=$(module_closure "$modules" overlay)
for file in $closure; do
  cp "$modules/$file" "$place/archive/lib/modules/"
  echo "${file##*/}" >>"$place/archive/extensions/modules"
done
pack "$place/archive" >"$work/extensions.cpio"
while read -r name version; do printf 'image: extension %s %s\n' "$name" "$version"; done <"$work/extensions.names"
printf 'image: %-12s %10d bytes\n' extensions "$(stat -c %s "$work/extensions.cpio")"
rm -rf "$place"
