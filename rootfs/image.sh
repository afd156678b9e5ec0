#!/bin/bash
# Builds what a node boots:  image.sh ROOT OUT IMAGE   (inside the build root; `make image` calls it)
#   IMAGE/vmlinux  IMAGE/initramfs  IMAGE/rootfs.sqsh  IMAGE/sbom.spdx.json
# ROOT is the build root as seen from outside (inside, its kernel package is /opt/kernel), OUT the folder of the
# compiled programs as seen from inside. A step runs again only when its inputs have changed: each keeps a stamp
# of them. The same packages and programs give the same bytes: every timestamp is the kernel package's, every list
# is sorted, every file is owned by root. RELEASE=1 packs smaller and takes longer, as FLAVOUR=metal always does: that
# image is written to sticks, CDs and slots, and read no slower; it is not the one that is built after each edit. BRIEF=1 leaves
# out the sizes of each program at the end, which are packed once more for them.
# FLAVOUR=metal: with Debian's kernel for machines and the modules of packages/metal.list, too; without, its kernel for
# virtual machines, which is smaller. ARCH=arm64: for that architecture (arch.sh); `make` has compiled for it then.
# Customized (rootfs/installer.sh): TREE=folder is laid over the root, after the paths in the file REMOVE were removed from
# it; KERNEL=package is the kernel, a Debian package with its modules (kernel.sh); FIRMWARE='packages' are Debian's packages
# of firmware files and microcode (firmware.sh); EXTENSIONS=folder has system extensions (given-extensions.sh, extensions.sh).
set -euo pipefail
umask 022   # all daemons must be able to read the image's folders
export LC_ALL=C

root=$1 out=$2 image=$3
here=$(cd "$(dirname "$0")" && pwd)
work=$image/parts
. "$here/arch.sh"
kernel_work=/build/kernel${sysroot:+-$arch}
[ -z "${KERNEL:-}" ] || kernel_work=/build/kernel-$(basename "$KERNEL" .deb)
level=3
lists=("$here/packages/modules.list")
case ${FLAVOUR:-cloud} in
  cloud) ;;
  metal)
    KERNEL=${KERNEL:-$("$here/metal-kernel.sh")}
    kernel_work=/build/kernel-$(basename "$KERNEL" .deb)
    lists+=("$here/packages/metal.list")
    level=15 ;;
  *) printf 'image: FLAVOUR is "%s"; cloud and metal are known\n' "$FLAVOUR" >&2; exit 1 ;;
esac
[ -z "${RELEASE:-}" ] || level=15

. "$here/pack.sh"

die() { printf 'image: %s\n' "$*" >&2; exit 1; }
fresh() { [ "$(cat "$1" 2>/dev/null || true)" = "$2" ]; }   # fresh STAMP_FILE VALUE
digest() { sha256sum | cut -d' ' -f1; }
tree_digest() { (cd "$1" && { find . -printf '%p %y %m %l\n' | sort; find . -type f -print0 | sort -z | xargs -0r sha256sum; } | digest); }

# --- kernel: unpacked once for each package ------------------------------------------------------------
deb=${KERNEL:-}
if [ -z "$deb" ]; then
  debs=("$sysroot"/opt/kernel/linux-image-*.deb)
  deb=${debs[0]}
  [ -e "$deb" ] || die "no kernel package in ${sysroot:-$root}/opt/kernel; remove ${sysroot:-$root} and run make to create it again"
fi
mkdir -p "$work"
"$here/kernel.sh" "$deb" "$kernel_work"
ln -sfn "$kernel_work" "$work/kernel"   # for iso.sh
SOURCE_DATE_EPOCH=$(stat -c %Y "$kernel_work"/usr/lib/modules/*/modules.builtin)
export SOURCE_DATE_EPOCH

# --- modules --------------------------------------------------------------------------------------------
stamp=$(cat "$kernel_work/.stamp" "${lists[@]}" "$here/modules.sh" "$here/pack.sh" "$here/arch.sh" | digest)
if ! fresh "$work/modules.stamp" "$stamp"; then
  "$here/modules.sh" "$kernel_work" "$work" "${lists[@]}"
  echo "$stamp" >"$work/modules.stamp"
fi

# --- root tree ------------------------------------------------------------------------------------------
tree=$work/tree
rm -rf "$tree"
mkdir -p "$tree"/{boot,dev,proc,sys,run,system,tmp,var,opt,root} "$tree"/usr/{bin,sbin,lib,libexec/kubernetes,etc/udev,share} \
  "$tree"/etc/{kubernetes,cni,cri,dbus-1,ssl/certs}
for link in bin sbin lib; do ln -s "usr/$link" "$tree/$link"; done
cp -a "$work/modules/usr/lib/modules" "$tree/usr/lib/"
while read -r name path links; do
  [ -e "$out/$name" ] || die "$out/$name is missing; run make"
  mkdir -p "$tree$(dirname "$path")" "$work/stripped"
  # Stripping is the only slow step here, so its results are kept.
  sum=$(digest <"$out/$name")
  if ! fresh "$work/stripped/$name.sum" "$sum"; then
    llvm-strip-19 --strip-all -o "$work/stripped/$name" "$out/$name"
    echo "$sum" >"$work/stripped/$name.sum"
  fi
  install -m 0755 "$work/stripped/$name" "$tree$path"
  for link in $links; do
    mkdir -p "$tree$(dirname "$link")"
    ln "$tree$path" "$tree$link"
  done
done < <(rows "$out/programs.list")
# The container runtime: Debian's programs. The loader and the libraries that they and those of ours that are not
# static name.
[ -z "$top_link" ] || ln -s "usr/$top_link" "$tree/$top_link"
users=()   # of libraries
while read -r name _; do users+=("$out/$name"); done < <(rows "$out/programs.list")
while read -r _ path links; do
  from=$sysroot$path
  [ -e "$from" ] || die "$path is missing in ${sysroot:-$root}; remove that and run make to create it again"
  case $path in */)
    for plugin in "$from"*.so; do
      if [ -L "$plugin" ]; then
        links+=" $plugin"
      else
        install -D -m 0644 "$plugin" "$tree${plugin#"$sysroot"}"
        users+=("$plugin")
      fi
    done
    for plugin in $links; do cp -P "$plugin" "$tree${plugin#"$sysroot"}"; done
    continue ;;
  esac
  install -D -m 0755 "$from" "$tree$path"
  for link in $links; do ln "$tree$path" "$tree$link"; done
  users+=("$from")
done < <(runtime_rows "$here/packages/runtime.list")
needed_libraries "${users[@]}" >"$work/libraries"
while read -r path; do install -D -m 0755 "$sysroot$path" "$tree$path"; done <"$work/libraries"
# Files that the installer (machined/disk/installer) puts on a disk: the kernel, the initramfs but for the root image, and the boot
# loader for BIOS and for UEFI. Each is one file with all of GRUB's modules that it needs; it finds its configuration
# on the third partition (BOOT) of the disk that it was started from.
make_early() {  # OUT
  local ramfs=$work/ramfs
  rm -rf "$ramfs"
  mkdir -p "$ramfs"/{dev,lib/modules,proc,root,run,sys,system,tmp}
  mknod -m 0600 "$ramfs/dev/console" c 5 1   # the kernel opens it before it starts /init
  install -m 0755 "$work/stripped/init" "$ramfs/init"
  install -m 0644 "$work"/early/* "$ramfs/lib/modules/"
  pack "$ramfs" >"$1"
  rm -rf "$ramfs"
}
boot_modules=(part_gpt xfs fat normal configfile linux loadenv test echo reboot halt)
boot_loader() {  # FORMAT OUT MODULES...
  grub-mkimage -O "$1" -d "$sysroot/usr/lib/grub/$1" -p '(,gpt3)/grub' -o "$2" "${@:3}" "${boot_modules[@]}"
}
mkdir -p "$tree/usr/install"
rm -f "$work/microcode"
if [ -n "${FIRMWARE:-}" ]; then
  "$here/firmware.sh" "$tree" "$work/microcode" $FIRMWARE >"$work/firmware"
else
  : >"$work/firmware"
fi
make_early "$work/early.cpio"
# The kernel looks for microcode in the first archive only.
cat $([ ! -e "$work/microcode" ] || echo "$work/microcode") "$work/early.cpio" >"$tree/usr/install/initramfs"
install -m 0644 "$(echo "$kernel_work"/boot/vmlinuz-*)" "$tree/usr/install/vmlinuz"
if [ -n "$bios" ]; then
  install -m 0644 /usr/lib/grub/i386-pc/boot.img "$tree/usr/install/boot.img"
  boot_loader i386-pc "$tree/usr/install/core.img" biosdisk
fi
boot_loader "$efi_format" "$tree/usr/install/$efi_program" efi_gop
"${emulator[@]}" "$out/config-keys" >"$tree/usr/install/config-keys"
# A node that upgrades without a reboot compares this with its own before anything is written (upgrade/live/live-plan.h).
echo "//process-1=$(digest <"$tree/sbin/init")" >>"$tree/usr/install/config-keys"

install -m 0644 "$here/os-release" "$tree/usr/lib/os-release"
ln -s ../usr/lib/os-release "$tree/etc/os-release"
for name in hosts resolv.conf hostname; do ln -s "/system/etc/$name" "$tree/etc/$name"; done
ln -s /proc/self/mounts "$tree/etc/mtab"
install -m 0644 "$here/containerd.toml" "$tree/etc/cri/containerd.toml"
# Talos has these two paths as well: the user's part of the configuration, and what it is merged into.
mkdir "$tree/etc/cri/conf.d"
for name in 20-customization.part cri.toml; do ln -s "/system/etc/cri/conf.d/$name" "$tree/etc/cri/conf.d/$name"; done
install -m 0644 "$here/dbus.conf" "$tree/etc/dbus-1/system.conf"
# Files of Talos' image that configs overwrite (machine.files): nothing else can be made of a read-only folder.
for name in nfsmount.conf nfs.conf; do install -m 0644 "$here/$name" "$tree/etc/$name"; done
install -D -m 0644 "$here/lvm.conf" "$tree/etc/lvm/lvm.conf"
# dbus-daemon lets nobody in whose name it does not find.
printf '%s\n' 'root:x:0:0::/:/' 'login1:x:56:56::/:/' >"$tree/etc/passwd"
chmod 0644 "$tree/etc/passwd"
# The public CAs, under the name that programs look for and the one in the users' documents.
install -m 0644 /etc/ssl/certs/ca-certificates.crt "$tree/etc/ssl/certs/ca-certificates.crt"
ln -s ca-certificates.crt "$tree/etc/ssl/certs/ca-certificates"

if [ -n "${REMOVE:-}" ]; then
  while read -r path; do
    target=$(realpath -m -s "$tree/$path")
    case $target in "$tree"/?*) ;; *) die "$REMOVE: $path is not a path in the image" ;; esac
    [ -e "$target" ] || [ -L "$target" ] || die "$REMOVE: there is no $path in the image"
    rm -rf "$target"
  done < <(rows "$REMOVE")
fi
[ -z "${TREE:-}" ] || lay_over "$TREE" "$tree"

# System extensions are layers above the root, in the archive with which the machine starts. An installation and an upgrade
# write it as it is, so they need to know nothing of extensions; a node in a container, which starts without it, refuses them
# by the lines in config-keys (machined/disk/installer/slot-store.cc).
if [ -n "${EXTENSIONS:-}" ]; then
  "$here/extensions.sh" "$tree" "$out" "$work" "$EXTENSIONS"
  cat "$work/extensions.cpio" >>"$tree/usr/install/initramfs"
  while read -r name version; do echo "//extension=$name $version"; done <"$work/extensions.names" >>"$tree/usr/install/config-keys"
fi

"$here/sbom.sh" "$tree" "$out" "$deb" "$here" "$work/sbom.stamp" "$work/sbom.json" "$work/firmware"
install -m 0644 "$work/sbom.json" "$tree/usr/share/sbom.spdx.json"
find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +   # installer images and disks take their dates from it

# --- pack -----------------------------------------------------------------------------------------------
stamp="$level $SOURCE_DATE_EPOCH $(tree_digest "$tree")"
if ! fresh "$work/squashfs.stamp" "$stamp" || [ ! -e "$image/rootfs.sqsh" ]; then
  rm -f "$work/squashfs.stamp"
  make_squashfs "$tree" "$image/rootfs.sqsh.new" "$level"
  mv "$image/rootfs.sqsh.new" "$image/rootfs.sqsh"
  echo "$stamp" >"$work/squashfs.stamp"
fi

stamp=$(cat "$work/squashfs.stamp" "$work/modules.stamp" "$tree/usr/install/initramfs" "$0" "$here/pack.sh" | digest)
if ! fresh "$work/initramfs.stamp" "$stamp" || [ ! -e "$image/initramfs" ]; then
  # Two archives: the kernel unpacks one after the other.
  ramfs=$work/ramfs
  rm -rf "$ramfs"
  mkdir "$ramfs"
  ln "$image/rootfs.sqsh" "$ramfs/rootfs.sqsh" 2>/dev/null || cp "$image/rootfs.sqsh" "$ramfs/rootfs.sqsh"
  { cat "$tree/usr/install/initramfs"; pack "$ramfs"; } >"$image/initramfs.new"
  rm -rf "$ramfs"
  mv "$image/initramfs.new" "$image/initramfs"
  echo "$stamp" >"$work/initramfs.stamp"
fi
cmp -s "$kernel_work/vmlinux" "$image/vmlinux" || cp "$kernel_work/vmlinux" "$image/vmlinux"
cmp -s "$work/sbom.json" "$image/sbom.spdx.json" || cp "$work/sbom.json" "$image/sbom.spdx.json"

# --- sizes ----------------------------------------------------------------------------------------------
for file in vmlinux initramfs rootfs.sqsh; do printf 'image: %-12s %10d bytes\n' "$file" "$(stat -c %s "$image/$file")"; done
[ -z "${TREE:-}${REMOVE:-}${BRIEF:-}" ] || exit 0   # the rest is about our own programs, all of them
own=0 packed=0
while read -r name path _; do
  size=$(stat -c %s "$tree$path")
  small=$(zstd -q -c "-$level" "$tree$path" | wc -c)
  printf 'image:   %-10s %10d bytes stripped, %9d compressed\n' "$name" "$size" "$small"
  own=$((own + size)) packed=$((packed + small))
done < <(rows "$out/programs.list")
printf 'image:   %-10s %10d bytes stripped, %9d compressed: all our programs\n' total "$own" "$packed"
foreign=$(runtime_rows "$here/packages/runtime.list" | awk -v tree="$tree" '$2 !~ /\/$/ { print tree $2 }'; image_libraries "$tree")
printf 'image:   %-10s %10d bytes uncompressed, %9d compressed: containerd and what it needs\n' runtime "$(cat $foreign | wc -c)" \
  "$(cat $foreign | zstd -q -c "-$level" | wc -c)"
printf 'image:   %-10s %10d bytes uncompressed\n' modules "$(du -sb "$work/modules" | cut -f1)"
