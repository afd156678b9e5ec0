#!/bin/bash
# Catches: a system extension that becomes a part of an image although it is not suited; one whose archive, layout or folder
# is not read; an image whose list of layers is not that of its layers.  extensions-test.sh OUT   (as root, inside the build root)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "FAILED: $*"; exit 1; }
export SOURCE_DATE_EPOCH=1700000000
release=6.12.0-test
modules=$folder/tree/usr/lib/modules/$release
mkdir -p "$modules/kernel" "$folder/tree/usr/local" "$folder/tree/etc" "$folder/work"
echo module >"$modules/kernel/overlay.ko"
echo 'kernel/overlay.ko:' >"$modules/modules.dep"
: >"$modules/modules.builtin"

extension() {  # NAME VERSIONS
  mkdir -p "$folder/$1/rootfs/usr/local/share"
  echo "of $1" >"$folder/$1/rootfs/usr/local/share/$1"
  printf 'version: v1alpha1\nmetadata:\n  name: %s\n  version: v1\n  compatibility: {talos: {version: "%s"}}\n' "$1" "$2" >"$folder/$1/manifest.yaml"
}
layout() {  # NAME: as an image in an OCI layout
  umoci init --layout "$folder/$1-layout" >/dev/null
  umoci new --image "$folder/$1-layout:x" >/dev/null
  umoci insert --image "$folder/$1-layout:x" "$folder/$1/manifest.yaml" /manifest.yaml >/dev/null
  umoci insert --image "$folder/$1-layout:x" "$folder/$1/rootfs" /rootfs >/dev/null
}
make() {  # EXTENSION…
  "$here/given-extensions.sh" "$folder/given" "$@" && "$here/extensions.sh" "$folder/tree" "$out" "$folder/work" "$folder/given"
}
refused() {  # TEXT EXTENSION…
  local text=$1 said
  shift
  if said=$(make "$@" 2>&1); then fail "accepted: $text"; fi
  [[ $said == *"$text"* ]] || fail "it said \"$said\" and not \"$text\""
  [ ! -e "$folder/work/extensions.cpio" ] || fail "layers were made: $text"
}

extension one '>= v0.1.0'
extension two ''
layout two
(cd "$folder/two-layout" && tar -cf "$folder/two.tar" .)
for second in "$folder/two" "$folder/two-layout" "$folder/two.tar"; do
  make "$folder/one" "$second" >"$folder/said"
  rm -rf "$folder/got"
  mkdir "$folder/got"
  (cd "$folder/got" && cpio --extract --quiet --make-directories) <"$folder/work/extensions.cpio"
  (cd "$folder/got/extensions" && sha256sum --quiet -c layers) || fail "a layer differs from its digest"
  [ "$(cut -c67- "$folder/got/extensions/layers" | tr '\n' ' ')" = '1.sqsh 2.sqsh 3.sqsh ' ] || fail "the list has $(cat "$folder/got/extensions/layers")"
  [ "$(cat "$folder/got/extensions/modules")" = overlay.ko ] || fail "the overlay is missing"
  [ "$(cat "$folder/work/extensions.names")" = $'one v1\ntwo v1' ] || fail "the names are $(cat "$folder/work/extensions.names")"
  [ "$(unsquashfs -cat "$folder/got/extensions/2.sqsh" usr/local/share/two)" = 'of two' ] || fail "$second: a file is missing"
  unsquashfs -cat "$folder/got/extensions/3.sqsh" etc/extensions.yaml | grep -q "image: $second" || fail "$second is not in the list"
  sha256sum <"$folder/work/extensions.cpio" >"$folder/sum"
  make "$folder/one" "$second" >"$folder/said"
  [ "$(cat "$folder/sum")" = "$(sha256sum <"$folder/work/extensions.cpio")" ] || fail "it differs when it is made again"
done

extension late '>= v99.0.0'
refused "version constraint >= v99.0.0 can't be satisfied with Talos version" "$folder/late"
TALOS_VERSION=v99.1.0 make "$folder/late" >"$folder/said" || fail "TALOS_VERSION has no effect"
rm "$folder/work/extensions.cpio"
extension over ''
mkdir -p "$folder/over/rootfs/etc"
: >"$folder/over/rootfs/etc/passwd"
refused '/etc/passwd: an extension may have files only below' "$folder/over"
refused 'no such file or folder' "$folder/absent.tar"
echo x >"$folder/broken.tar"
refused "$folder/broken.tar: " "$folder/broken.tar"
refused 'given twice' "$folder/one" "$folder/one"
echo "1 passed, 0 failed"
