#!/bin/bash
# Catches: a firmware file that is not where the kernel looks for it, microcode that the kernel does not find, because it is
# compressed, cut, in another file or not in the first archive's form; a package without firmware that is taken.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "FAILED: $*"; exit 1; }
export SOURCE_DATE_EPOCH=1700000000 FIRMWARE_CACHE=$folder/cache
mkdir "$FIRMWARE_CACHE"

package() {  # NAME: of what is in $folder/files
  mkdir -p "$folder/files/DEBIAN"
  printf 'Package: %s\nVersion: 1\nArchitecture: all\nMaintainer: nobody\nDescription: test\n' "$1" >"$folder/files/DEBIAN/control"
  dpkg-deb -b "$folder/files" "$FIRMWARE_CACHE/${1}_1_all.deb" >/dev/null
  rm -rf "$folder/files"
}
firmware=$folder/files/usr/lib/firmware
mkdir -p "$firmware/card" && echo card >"$firmware/card/a.fw" && package firmware-card
mkdir -p "$firmware/intel-ucode" && printf one >"$firmware/intel-ucode/06-01" && printf two | xz >"$firmware/intel-ucode/06-02.xz"
package intel-microcode
mkdir -p "$firmware/amd-ucode" && printf amd >"$firmware/amd-ucode/microcode_amd.bin" && echo text >"$firmware/amd-ucode/README"
printf signature >"$firmware/amd-ucode/microcode_amd.bin.asc" && package amd64-microcode
mkdir -p "$folder/files/usr/share" && package firmware-none

"$here/firmware.sh" "$folder/tree" "$folder/microcode" firmware-card >"$folder/said"
[ "$(cat "$folder/tree/usr/lib/firmware/card/a.fw")" = card ] || fail "the file is missing"
[ "$(cut -d' ' -f1 "$folder/said")" = firmware-card ] || fail "it says $(cat "$folder/said")"
[ ! -e "$folder/microcode" ] || fail "there is microcode of a package that has none"

"$here/firmware.sh" "$folder/tree" "$folder/microcode" amd64-microcode intel-microcode >/dev/null
mkdir "$folder/unpacked" && (cd "$folder/unpacked" && cpio -idm --quiet <"$folder/microcode")
content() { cat "$folder/unpacked/kernel/x86/microcode/$1"; }
[ "$(content GenuineIntel.bin)" = onetwo ] || fail "GenuineIntel.bin is $(content GenuineIntel.bin)"
[ "$(content AuthenticAMD.bin)" = amd ] || fail "AuthenticAMD.bin is $(content AuthenticAMD.bin)"
[ "$(head -c 6 "$folder/microcode")" = 070701 ] || fail "the archive is not plain newc"
[ "$(find "$folder/tree" -name '*ucode*' | wc -l)" = 0 ] || fail "microcode is in the root a second time"

refused() {  # NAME WORDS
  local said
  if said=$("$here/firmware.sh" "$folder/other" "$folder/microcode" "$1" 2>&1); then fail "$1 is taken"; fi
  [[ $said == *"$2"* ]] || fail "of $1: $said"
}
refused firmware-none "firmware-none has no firmware"
refused '../etc/x' "is not a valid name of a package"
ARCH=arm64 refused intel-microcode "intel-microcode is for x86 and not for arm64"
echo "1 passed, 0 failed"
