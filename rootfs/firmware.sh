#!/bin/bash
# Firmware files and microcode of Debian's packages for an image (inside the build root; image.sh calls it):
#   firmware.sh TREE MICROCODE PACKAGE...
# Fetches each package, once (they stay in the cache), and puts what it has in /usr/lib/firmware into TREE. Microcode of
# processors is written to MICROCODE, too, as the archive that the kernel reads before everything else
# (Documentation/arch/x86/microcode.rst), to be the first one of an initramfs; without any, no file is written. Prints
# "PACKAGE FILE" for each.
set -euo pipefail
umask 022
export LC_ALL=C
tree=$1 microcode=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
cache=${FIRMWARE_CACHE:-/cache/firmware}
. "$here/pack.sh"
die() { printf 'image: FIRMWARE: %s\n' "$*" >&2; exit 1; }

for name in "$@"; do
  [[ $name =~ ^[a-z0-9][a-z0-9+.-]+$ ]] || die "\"$name\" is not a valid name of a package; for example FIRMWARE='firmware-realtek intel-microcode'"
done

for name in "$@"; do
  [ "${ARCH:-amd64}" = amd64 ] || [[ $name != *-microcode ]] || die "$name is for x86 and not for $ARCH"
done

mkdir -p "$cache"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 0755 "$work"
package() { local found=("$cache/$1"_*.deb); [ -e "${found[0]}" ] && printf '%s\n' "${found[-1]}"; }

missing=()
for name in "$@"; do package "$name" >/dev/null || missing+=("$name"); done
if [ "${#missing[@]}" -gt 0 ]; then
  printf 'image: fetching %s\n' "${missing[*]}" >&2
  mkdir -p "$work/lists/partial" "$work/archives/partial"
  # Firmware is in a component of its own, which the build root has no use for.
  sed -n 's/\(trixie[^ ]*\) main$/\1 main non-free-firmware/p' /etc/apt/sources.list >"$work/sources"
  options=(-qq -o Dir::State::lists="$work/lists" -o Dir::Cache="$work" -o APT::Sandbox::User=root
    -o Dir::Etc::sourcelist="$work/sources" -o Dir::Etc::sourceparts=/dev/null)
  apt-get "${options[@]}" update >&2
  for name in "${missing[@]}"; do
    [ -n "$(apt-cache "${options[@]}" show --no-all-versions "$name" 2>/dev/null)" ] ||
      die "Debian has no package $name; its packages of firmware: $(apt-cache "${options[@]}" pkgnames | grep -E '^firmware-|-microcode$' | sort | tr '\n' ' ')"
    (cd "$cache" && apt-get "${options[@]}" download "$name" >&2)
  done
fi

for name in "$@"; do
  deb=$(package "$name")
  rm -rf "$work/files"
  dpkg-deb -x "$deb" "$work/files"
  for folder in "$work/files/usr/lib/firmware" "$work/files/lib/firmware"; do
    [ ! -d "$folder" ] || break
  done
  [ -d "$folder" ] || die "$name has no firmware"
  mkdir -p "$tree/usr/lib/firmware"
  cp -a "$folder/." "$tree/usr/lib/firmware/"
  printf '%s %s\n' "$name" "$deb"
done

# One file of each maker, with the updates for all its processors one after the other.
early=$work/early/kernel/x86/microcode
join() {  # FOLDER NAME
  local files=("$tree/usr/lib/firmware/$1"/*)
  [ -e "${files[0]}" ] || return 0
  mkdir -p "$early"
  for file in "${files[@]}"; do
    case $file in
      *.asc|*.initramfs|*/README*) ;;
      *.xz) xz -dc "$file" ;;
      *.zst) zstd -qdc "$file" ;;
      *) cat "$file" ;;
    esac
  done >"$early/$2"
  rm -r "$tree/usr/lib/firmware/$1"   # a running system does not load it
}
join intel-ucode GenuineIntel.bin
join amd-ucode AuthenticAMD.bin
[ ! -d "$early" ] || pack "$work/early" >"$microcode"
