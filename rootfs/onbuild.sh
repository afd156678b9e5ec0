#!/installer/bin/sh
# The first step of a build of another image FROM an installer image (installer.sh makes it its ONBUILD triggers), in that
# image: the files of the stage `customization`, which are in /installer/tree, are laid over the root, the paths in RM
# are removed from it before that, and all is packed again. With other modules, the early initramfs gets those of
# them that it needs; the kernel they are for is to be /usr/install/vmlinuz, copied by the stage or afterwards.
set -eu
umask 022
export PATH=/installer/bin LC_ALL=C
here=/installer
install=/usr/install
root=$here/root
. "$here/pack.sh"
# busybox's shell would take its own.
cpio() { /installer/bin/cpio "$@"; }
depmod() { /installer/bin/depmod "$@"; }

say() { printf 'installer: %s\n' "$*"; }
die() { printf 'installer: %s\n' "$*" >&2; exit 1; }

unsquashfs -quiet -no-progress -dest "$root" "$install/rootfs.sqsh"
SOURCE_DATE_EPOCH=$(stat -c %Y "$root/usr/lib/os-release")
export SOURCE_DATE_EPOCH
old=$(ls "$root/usr/lib/modules")

# As installer.sh has it.
version=${VERSION:-}
case $version in *[!A-Za-z0-9._+-]*) die "VERSION: \"$version\" is not a valid version" ;; esac
[ "${#version}" -le 64 ] || die "VERSION: \"$version\" has ${#version} characters; use at most 64"

set -f   # what is in RM are paths, not patterns
for path in ${RM:-}; do
  name=$path
  while [ "$name" != "${name#/}" ]; do name=${name#/}; done
  case /$name/ in // | */../* | */./*) die "RM: $path is not a path in the image" ;; esac
  [ -e "$root/$name" ] || [ -L "$root/$name" ] || die "RM: there is no $path in the image"
  say "removing $path"
  rm -rf "$root/$name"
done
set +f
[ ! -e "$here/tree$install/vmlinuz" ] || cp "$here/tree$install/vmlinuz" "$install/vmlinuz"
lay_over "$here/tree" "$root"

# --- another kernel's modules
[ -d "$root/usr/lib/modules" ] || die "there are no modules: the stage customization needs a /lib/modules"
release=$(ls "$root/usr/lib/modules")
case $release in *[[:space:]]*) die "there are modules of two kernels: $(echo $release); say --build-arg RM=/lib/modules" ;; esac
if [ "$release" != "$old" ] || [ -e "$here/tree/lib/modules" ] || [ -e "$here/tree/usr/lib/modules" ]; then
  # Its extensions are in the initramfs, with a module for the overlay of their layers.
  ! grep -q '^//extension=' "$install/config-keys" 2>/dev/null ||
    die "the base has system extensions, which are for its kernel; make the image with KERNEL= and EXTENSIONS="
  modules=$root/usr/lib/modules/$release
  say "modules of $release"
  decompress_modules "$modules"
  [ -e "$modules/modules.builtin" ] || : >"$modules/modules.builtin"
  depmod -b "$root" "$release"
  rm -f "$modules"/*.bin "$modules"/modules.symbols "$modules"/modules.devname "$modules"/modules.order "$modules"/modules.builtin.modinfo
  early_modules=$(early_names "$here/modules.list")   # by itself: a failure within other words is not noticed
  closure=$(module_closure "$modules" $early_modules)
  early=$here/early/lib/modules
  mkdir -p "$early"
  : >"$early/load"
  for file in $closure; do
    cp "$modules/$file" "$early/"
    echo "${file##*/}" >>"$early/load"
  done
  pack "$here/early" >>"$install/initramfs"   # what comes later in an initramfs counts
  # The root has a kernel too, for installations from a running system: the modules may not be its own any more.
  cp "$install/initramfs" "$root$install/initramfs"
  [ -e "$here/tree$install/vmlinuz" ] || rm -f "$root$install/vmlinuz"
fi

rm -f "$root/usr/share/sbom.spdx.json"   # it would not be true any more
say "packing the root"
make_squashfs "$root" "$install/rootfs.sqsh.new" 3
mv "$install/rootfs.sqsh.new" "$install/rootfs.sqsh"
[ -z "$version" ] || echo "$version" >"$install/version"
# Without a line for the kernel: lines of the user's that come after this may put another one there.
(cd "$install" && rm SHA256SUMS && sha256sum $(ls | grep -vx vmlinuz) >/installer/sums && mv /installer/sums SHA256SUMS)
say "$(cat "$install/version"): $(stat -c %s "$install/rootfs.sqsh") bytes"
cd /
exec rm -rf /installer
