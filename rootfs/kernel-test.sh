#!/bin/bash
# Catches: a kernel's package that is not packed as Debian's is and is refused, or gives other modules; one that was
# compiled again and is taken for the one of before; a refusal that does not say what is wrong with the package.
set -euo pipefail
umask 022
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "FAILED: $*"; exit 1; }
unpack() { "$here/kernel.sh" "$1" "$2" >>"$folder/said" 2>&1 || fail "$1: $(cat "$folder/said")"; }
modules() { "$here/modules.sh" "$1" "$2" "$folder/list" >>"$folder/said" 2>&1 || fail "modules of $1: $(cat "$folder/said")"; }
package() {  # NAME FOLDER
  mkdir -p "$2/DEBIAN"
  printf 'Package: linux-image\nVersion: 1\nArchitecture: amd64\nMaintainer: nobody\nDescription: test\n' >"$2/DEBIAN/control"
  dpkg-deb -Znone -b "$2" "$folder/$1" >/dev/null
}
printf '%s\n' 'loop initramfs' 'squashfs initramfs' dm-crypt virtio_net fs/xfs/ >"$folder/list"

debian=(/opt/kernel/linux-image-*.deb)
unpack "${debian[0]}" "$folder/debian"
modules "$folder/debian" "$folder/expected"
[ "$(wc -l <"$folder/expected/early/load")" -ge 2 ] || fail "early modules are $(cat "$folder/expected/early/load")"

# As make bindeb-pkg packs: below /lib, with the compression that the kernel's configuration names.
release=$(ls "$folder/debian/usr/lib/modules")
from=$folder/debian/usr/lib/modules/$release to=$folder/files/lib/modules/$release
mkdir -p "$folder/files/boot" "$to"
cp -p "$folder"/debian/boot/vmlinuz-* "$folder/files/boot/"
cp -p "$from"/modules.{order,builtin,builtin.modinfo} "$to/"
(cd "$folder/expected" && find modules -name '*.ko' && cat early/load) | while read -r path; do
  file=$(cd "$from" && find . -name "$(basename "$path").xz")
  mkdir -p "$to/$(dirname "$file")"
  xz -dc "$from/$file" >"$to/${file%.xz}"
done
for kind in plain gz zst; do
  case $kind in
    gz) find "$to" -name '*.ko' -exec gzip {} + ;;
    zst) find "$to" -name '*.ko.gz' -exec gunzip {} + ; find "$to" -name '*.ko' -exec zstd -q --rm {} + ;;
  esac
  package "linux-image-$kind.deb" "$folder/files"
  unpack "$folder/linux-image-$kind.deb" "$folder/$kind"
  cmp "$folder/debian/vmlinux" "$folder/$kind/vmlinux" || fail "$kind: another kernel"
  modules "$folder/$kind" "$folder/of-$kind"
  diff -r "$folder/expected" "$folder/of-$kind" || fail "$kind: other modules than of Debian's package (above)"
done

# The same name: a package is unpacked again when its content has changed, and only then.
touch "$folder/plain/mark"
unpack "$folder/linux-image-plain.deb" "$folder/plain"
[ -e "$folder/plain/mark" ] || fail "the same package was unpacked again"
echo "compiled again" >"$folder/files/boot/config"
package linux-image-plain.deb "$folder/files"
unpack "$folder/linux-image-plain.deb" "$folder/plain"
[ -e "$folder/plain/boot/config" ] || fail "a package that has changed was not unpacked again"

refused() {  # DEB TEXT
  local said
  if said=$("$here/kernel.sh" "$1" "$folder/refused" 2>&1); then fail "$1 is taken"; fi
  [[ $said == *"image: KERNEL: $2"* ]] || fail "of $1: $said"
}
refused "$folder/absent.deb" "there is no file"
echo text >"$folder/text.deb"
refused "$folder/text.deb" "text.deb is not a Debian package"
mkdir "$to/../other"
package two.deb "$folder/files"
refused "$folder/two.deb" "two.deb has modules of 2 kernels"
rm -r "$folder/files/lib"
package none.deb "$folder/files"
refused "$folder/none.deb" "none.deb has no modules below lib/modules"
rm -r "$folder/files/boot"
package empty.deb "$folder/files"
refused "$folder/empty.deb" "empty.deb has no kernel boot/vmlinuz-"
echo "1 passed, 0 failed"
