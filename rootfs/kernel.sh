#!/bin/bash
# Unpacks a kernel's package:  kernel.sh DEB FOLDER   (inside the build root; image.sh calls it)
#   FOLDER/boot/vmlinuz-*  FOLDER/vmlinux  FOLDER/usr/lib/modules/RELEASE with modules.dep
# DEB is Debian's, or one of the kernel's own `make bindeb-pkg`, whose modules are below /lib. Nothing happens when FOLDER is
# of this package already: of its name and its content, because a kernel that is compiled again keeps the file's name.
set -euo pipefail
umask 022
export LC_ALL=C
deb=$1 folder=$2
. "$(dirname "$0")/arch.sh"
name=$(basename "$deb")
die() { printf 'image: KERNEL: %s\n' "$*" >&2; exit 1; }

extract_vmlinux() {  # BZIMAGE OUT: the ELF file inside, whatever it was compressed with
  local pattern command offset
  for pattern in '\x28\xb5\x2f\xfd zstd' '\xfd7zXZ\x00 xz' '\x1f\x8b\x08 gzip' '\x02\x21\x4c\x18 lz4'; do
    command=${pattern#* }
    command -v "$command" >/dev/null || continue
    for offset in $(grep -obUaP -e "${pattern% *}" "$1" | cut -d: -f1); do
      # The decompressor complains about the bytes after the compressed stream.
      tail -c +$((offset + 1)) "$1" | "$command" -dc >"$2" 2>/dev/null || true
      [ "$(head -c 4 "$2")" != $'\x7fELF' ] || return 0
    done
  done
  die "$name: cannot unpack boot/$(basename "$1"); use a kernel that is compressed with zstd, xz or gzip"
}

[ -f "$deb" ] || die "there is no file $deb"
stamp="$name $(sha256sum <"$deb" | cut -d' ' -f1)"
[ "$(cat "$folder/.stamp" 2>/dev/null || true)" != "$stamp" ] || exit 0
printf 'image: unpacking %s\n' "$name"
rm -rf "$folder"
mkdir -p "$folder"
dpkg-deb -x "$deb" "$folder" || die "$name is not a Debian package; use linux-image-….deb of Debian or of make bindeb-pkg"
if [ -d "$folder/lib" ] && [ ! -L "$folder/lib" ]; then
  mkdir -p "$folder/usr/lib"
  cp -a "$folder/lib/." "$folder/usr/lib/"
  rm -r "$folder/lib"
fi
ln -sfn usr/lib "$folder/lib"

kernels=("$folder"/boot/vmlinuz-*)
[ -e "${kernels[0]}" ] || die "$name has no kernel boot/vmlinuz-…; use the package linux-image-…"
[ "${#kernels[@]}" = 1 ] || die "$name has ${#kernels[@]} kernels in boot; use a package with one"
releases=("$folder"/usr/lib/modules/*)
[ -d "${releases[0]}" ] || die "$name has no modules below lib/modules; use a package that has the kernel and its modules"
[ "${#releases[@]}" = 1 ] || die "$name has modules of ${#releases[@]} kernels below lib/modules; use a package with one"
# That of arm64 is not compressed, and QEMU starts it as it is.
case $arch in
  amd64) extract_vmlinux "${kernels[0]}" "$folder/vmlinux" ;;
  arm64) cp "${kernels[0]}" "$folder/vmlinux" ;;
esac
# Read by depmod; a package without them is as good. The time of the image is that of the second.
for file in modules.order modules.builtin modules.builtin.modinfo; do
  [ -e "${releases[0]}/$file" ] || { : >"${releases[0]}/$file"; touch -r "${kernels[0]}" "${releases[0]}/$file"; }
done
find "${releases[0]}" -name '*.ko.gz' -exec gunzip {} +   # Debian's depmod reads xz and zstd alone
depmod -b "$folder" "$(basename "${releases[0]}")"
echo "$stamp" >"$folder/.stamp"
