#!/bin/bash
# Makes the tree that an image for another architecture is compiled against and made of:  sysroot.sh ARCH SYSROOT
#   (inside the build root; `make ARCH=arm64 …` calls it)
# SYSROOT has the packages of packages/sysroot.list and all that they depend on, unpacked and not installed: no program of
# that architecture runs for it. Besides, in SYSROOT/opt:
#   kernel/     the kernel's package, as it is, and that of the boot loader's modules, unpacked
#   emulators/  QEMU for this architecture's machines and for its programs, with UEFI, of the build root's own architecture: they use
#               the libraries that the build root has for its own QEMU
#   packages    a line for each file: path, package, version, source package, its version, separated by tabs
# It is made again when a list or this script have changed; what is downloaded stays in the build cache. The mirror and the
# packages taken from forky are the build root's.
set -euo pipefail
umask 022
export LC_ALL=C
arch=$1 sysroot=$2
here=$(cd "$(dirname "$0")" && pwd)
list=$here/packages/sysroot.list
say() { printf 'sysroot: %s\n' "$*"; }
die() { printf 'sysroot: %s\n' "$*" >&2; exit 1; }
names() { sed 's/#.*//' "$1" | tr -s ' \t\n' '\n' | sed '/^$/d' | sort -u; }

case $arch in
  arm64)
    kernel=linux-image-cloud-arm64 loader=grub-efi-arm64-bin
    emulators=('qemu-system-arm ./usr/bin/qemu-system-aarch64' 'qemu-user ./usr/bin/qemu-aarch64'
      'qemu-efi-aarch64 ./usr/share/AAVMF/AAVMF_CODE.no-secboot.fd ./usr/share/AAVMF/AAVMF_VARS.fd') ;;
  *) die "ARCH is \"$arch\"; amd64 and arm64 are known, and amd64 needs no tree of its own" ;;
esac
stamp=$(cat "$0" "$list" "$here/packages/forky.list" | sha256sum | cut -d' ' -f1)
[ "$(cat "$sysroot/.stamp" 2>/dev/null || true)" != "$stamp" ] || exit 0

started=$SECONDS
say "creating $sysroot (about 250 MiB to download)"
cache=/cache/$arch
state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
chmod 0755 "$state"
mkdir -p "$cache/partial" "$state"/{native,foreign}/partial "$state"/{kernel,loader,emulators}
: >"$state/status"   # nothing is installed: apt names all that a package depends on
apt=(-qq -o APT::Sandbox::User=root -o Dir::Cache="$state" -o Dir::Cache::archives="$cache" -o APT::Install-Recommends=false)
native=("${apt[@]}" -o Dir::State::lists="$state/native")
foreign=("${apt[@]}" -o Dir::State::lists="$state/foreign" -o Dir::State::status="$state/status"
  -o APT::Architecture="$arch" -o APT::Architectures="$arch")
apt-get "${native[@]}" update >&2
apt-get "${foreign[@]}" update >&2
mapfile -t wanted < <(names "$list")
apt-get "${foreign[@]}" --download-only --yes install "${wanted[@]}" >&2
apt-get "${foreign[@]}" --simulate install "${wanted[@]}" |
  sed -n 's/^Inst \([^ ]*\) (\([^ ]*\) .*\[\(.*\)\]).*/\1 \2 \3/p' >"$state/chosen"
kernel=$(apt-cache "${foreign[@]}" depends "$kernel" | sed -n 's/.*Depends: \(linux-image-.*\)/\1/p')
(cd "$state/kernel" && apt-get "${foreign[@]}" download "$kernel" >&2)
(cd "$state/loader" && apt-get "${foreign[@]}" download "$loader" >&2)
(cd "$state/emulators" && apt-get "${native[@]}" download "${emulators[@]%% *}" >&2)

rm -rf "$sysroot"
mkdir -p "$sysroot"/usr/{bin,sbin,lib} "$sysroot"/opt/{kernel,emulators}
# The last one for ninja: the compiler names its headers lib/gcc/…/../../../../include, which without the link of lib is this.
for link in bin sbin lib include; do ln -s "usr/$link" "$sysroot/$link"; done
unpack() {  # PACKAGE FOLDER PATTERNS…: the files that fit; its links to folders stay
  dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" --keep-directory-symlink --exclude='./usr/share/doc/*/[!c]*' \
    --exclude='./usr/share/man' --exclude='./usr/share/locale' "${@:3}"
}
index() {  # PACKAGE: a line for each of its files
  local fields
  fields=$(dpkg-deb -W --showformat='${Package}\t${Version}\t${source:Package}\t${source:Version}' "$1")
  dpkg-deb --fsys-tarfile "$1" | tar -t | sed -n "s|^\.\(/.*[^/]\)\$|\1\t$fields|p"
}
while read -r name version built; do
  deb=$cache/${name}_${version//:/%3a}_$built.deb
  unpack "$deb" "$sysroot"
  index "$deb" >>"$sysroot/opt/packages"
done <"$state/chosen"
unpack "$(echo "$state"/loader/*.deb)" "$sysroot" --wildcards './usr/lib/grub/*'
index "$(echo "$state"/loader/*.deb)" >>"$sysroot/opt/packages"
mv "$state"/kernel/*.deb "$sysroot/opt/kernel/"
for row in "${emulators[@]}"; do
  read -ra files <<<"$row"
  unpack "$(echo "$state/emulators/${files[0]}"_*.deb)" "$sysroot/opt/emulators" "${files[@]:1}"
done
# Packages that were chosen before are of no use any more.
find "$cache" -name '*.deb' -printf '%f\n' | sort >"$state/have"
while read -r name version built; do echo "${name}_${version//:/%3a}_$built.deb"; done <"$state/chosen" | sort |
  comm -23 "$state/have" - | while read -r old; do rm "$cache/$old"; done
echo "$stamp" >"$sysroot/.stamp"
say "done in $((SECONDS - started)) s: $(wc -l <"$state/chosen") packages"
