#!/bin/bash
# All that others need to use this system:  release.sh RELEASE   (inside the build root, after `make programs` of each
# architecture; `make release` calls it)
#   RELEASE/talosctl-linux-<arch>, its list of contents and talosctl-manual.tar
#   RELEASE/<flavour>/            disks of all platforms, CD, network boot, installer archives, kernel, initramfs, root, lists of
#                                 contents
#   RELEASE/installer/            the installer images of all flavours and architectures, an OCI layout (release-installer.sh)
#   RELEASE/symbols/              names of functions, for crash reports
#   RELEASE/                      release notes, release.pub, index.json, SHA256SUMS and its signature (release-index.sh)
# ARCHES, FLAVOURS and PLATFORMS (default: all; "none") say which of them, KEY is the private key that signs. What was there before is replaced when
# all is made, and stays when a part fails. The same sources give the same bytes, with an Ed25519 key those of signatures, too.
# Each part prints its seconds; what its tools print is in the log beside the release.
set -euo pipefail
umask 022
export LC_ALL=C
release=$1 made=$1.new log=$1.log
here=$(cd "$(dirname "$0")" && pwd)
began=$SECONDS

die() { printf 'release: %s\n' "$*" >&2; exit 1; }
part() {  # NAME COMMAND...
  local from=$SECONDS status
  printf '== %s\n' "$1" >>"$log"
  set +e   # left of || the shell would run a function on after a command that failed
  (set -e; "${@:2}") >>"$log" 2>&1
  status=$?
  set -e
  [ $status = 0 ] || { tail -n 20 "$log" >&2; die "$1: failed after $((SECONDS - from)) s"; }
  printf 'release: %-40s %4d s\n' "$1" $((SECONDS - from))
}
folder_of() { if [ "$1" = amd64 ]; then echo /build/out; else echo "/build/out-$1"; fi; }   # of an architecture's programs
version_data() { sed -n "s/^constexpr const char\* $1 = \"\(.*\)\";\$/\1/p" /build/out/gen/common/base/version-data.h; }

version=$(version_data kVersionTag) commit=$(version_data kVersionSha) repository=$(version_data kVersionInstaller)
SOURCE_DATE_EPOCH=$(date -d "$(version_data kVersionBuilt)" +%s)
export SOURCE_DATE_EPOCH
[ -n "$version" ] || die "/build/out has no version; run make release"
known='metal pxe nocloud aws azure gcp openstack opennebula hcloud digital-ocean vultr scaleway oracle upcloud exoscale cloudstack akamai vmware equinixMetal'
known_arm64='metal nocloud'   # rootfs/platform-image.sh
PLATFORMS=${PLATFORMS:-$known}
[ "$PLATFORMS" != none ] || PLATFORMS=
for platform in $PLATFORMS; do
  [[ " $known " == *" $platform "* ]] || die "PLATFORMS has \"$platform\"; known are $known"
done
for flavour in $FLAVOURS; do
  case $flavour in cloud|metal) ;; *) die "FLAVOURS has \"$flavour\"; known are cloud and metal" ;; esac
done
[ -n "$FLAVOURS" ] || die "FLAVOURS is empty; use cloud, metal or both"
for arch in $ARCHES; do
  case $arch in amd64|arm64) ;; *) die "ARCHES has \"$arch\"; known are amd64 and arm64" ;; esac
done
[[ " $ARCHES " == *" amd64 "* ]] || die "ARCHES is \"$ARCHES\"; amd64 must be among them: the build root's own programs make the manual and the disks"

client() {  # ARCH
  local program=talosctl-linux-$1
  ninja -C "$(folder_of "$1")" talosctl
  llvm-strip-19 --strip-all -o "$made/$program" "$(folder_of "$1")/talosctl"
  chmod 0755 "$made/$program"
  ARCH=$1 "$here/release-client.sh" "$made/$program" "$(folder_of "$1")" "$version" >"$made/$program.spdx.json"
}
manual() {
  local pages=$made/pages
  "$(folder_of amd64)/talosctl" docs "$pages/man1"
  tar --create --file="$made/talosctl-manual.tar" --directory="$pages" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 \
    --numeric-owner --format=ustar .
  rm -r "$pages"
}
# The newest section of the changelog: from the heading of this version to that of the one before.
notes() {
  awk -v version="$version" '
    /^# v/ { inside = $2 == version; found = found || inside }
    inside { print }
    END { if (!found) { print "release: CHANGELOG.md has no heading \"# " version "\"" >"/dev/stderr"; exit 1 } }' \
    "$here/../CHANGELOG.md" >"$made/RELEASE-NOTES.md"
}

# The images of one flavour and architecture. They are made in a folder of their own, which `make image` does not use.
image() { BRIEF=1 "$here/image.sh" / "$out" "$image"; }
parts_of_image() {
  cp "$image/vmlinux" "$made/$flavour/vmlinux-$ARCH"
  cp "$image/initramfs" "$made/$flavour/initramfs-$ARCH"
  cp "$image/rootfs.sqsh" "$made/$flavour/rootfs-$ARCH.sqsh"
  cp "$image/sbom.spdx.json" "$made/$flavour/sbom-$ARCH.spdx.json"
}
disk() {  # PLATFORM
  rm -rf "$image/$1-$ARCH".*
  "$here/platform-image.sh" "$image" "$out/disk-image" "$1"
  mv "$image/$1-$ARCH".* "$made/$flavour/"
}
cd_image() {
  rm -f "$image/talos.iso"
  "$here/iso.sh" "$image" "$out/disk-image"
  mv "$image/talos.iso" "$made/$flavour/talos-$ARCH.iso"
}
installer() {
  env VERSION="$version" "$here/installer.sh" "$image" "$made/$flavour/installer-$ARCH.tar" "${repository:-talos/installer}:$version-$flavour"
}
flavour() {  # FLAVOUR ARCH
  local flavour=$1 platform out image=/build/image-release/$1-$2
  export ARCH=$2 FLAVOUR=$1 RELEASE=1
  out=$(folder_of "$ARCH")
  mkdir -p "$made/$flavour" "$image"
  part "image, $flavour, $ARCH" image
  part "its kernel, initramfs, root" parts_of_image
  for platform in $PLATFORMS; do
    [ "$ARCH" = amd64 ] || [[ " $known_arm64 " == *" $platform "* ]] || continue
    part "$platform, $flavour, $ARCH" disk "$platform"
  done
  [ "$ARCH" != amd64 ] || part "CD, $flavour, $ARCH" cd_image
  part "installer, $flavour, $ARCH" installer
}
symbols() { local arch; for arch in $ARCHES; do "$here/symbols.sh" "$(folder_of "$arch")" "$made/symbols"; done; }

case $(stat -Lc %a "$KEY") in ?00) ;; *) die "others can read the private key that KEY names; chmod 600 it" ;; esac
rm -rf "$made"
mkdir -p "$made"
: >"$log"
. "$here/release-sign.sh"   # refuses a wrong key before anything is made
for arch in $ARCHES; do part "talosctl, $arch" client "$arch"; done
part "manual" manual
part "release notes" notes
part "symbols" symbols
for flavour in $FLAVOURS; do
  for arch in $ARCHES; do flavour "$flavour" "$arch"; done
done
part "installer images" "$here/release-installer.sh" "$made" "${repository:-talos/installer}" "$version" "$FLAVOURS" "$ARCHES"
part "index, checksums, signature" "$here/release-index.sh" "$made" "$version" "$commit" "$repository"
rm -rf "$release"
mv "$made" "$release"
case $commit in *-dirty) echo "release: warning: files differ from the commit; others cannot make the same release" >&2 ;; esac
[ -n "$repository" ] || echo "release: warning: without REGISTRY=, gen config and talosctl images name no registry that exists" >&2
printf 'release: %s, %s files, %s MiB, in %s s\n' "$version" "$(find "$release" -type f | wc -l)" "$(du -sm "$release" | cut -f1)" $((SECONDS - began))
