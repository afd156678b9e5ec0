#!/bin/bash
# Makes the image that a machine without a system starts from:  iso.sh IMAGE DISK_IMAGE [CACHE]   (inside the build root; `make iso`)
#   IMAGE/talos.iso
# It holds the kernel and the initramfs of IMAGE and names no config, so the machine waits for one in maintenance mode. The
# kernel's arguments are those of an installed machine, as DISK_IMAGE, the program of machined/disk/image, prints them.
# CACHE is a folder of `talosctl image cache-create`, which becomes /imagecache: a node takes images from there before registries.
# A BIOS and UEFI start it from a CD or, written to it as it is, from a USB stick. The same inputs give the same bytes.
set -euo pipefail
umask 022
export LC_ALL=C
image=$1 disk_image=$2 cache=${3:-}
kernel=$(echo "$image"/parts/kernel/boot/vmlinuz-*)
label=TALOS
grub=/usr/lib/grub
modules=(iso9660 part_gpt part_msdos fat search search_label normal configfile linux echo test reboot halt)

say() { printf 'iso: %s\n' "$*"; }
arguments=$("$disk_image" arguments metal)
if [ -n "$cache" ] && [ ! -d "$cache/manifests" ]; then
  echo "iso: IMAGE_CACHE: there is no cache of images in the folder; make one with talosctl image cache-create" >&2
  exit 1
fi
listed() { [ -z "$cache" ] || (cd "$cache" && find . -type f -printf '%P %s %T@\n' | sort); }
stamp=$(cat "$image/parts/initramfs.stamp" "$kernel" "$0" <(echo "$arguments") <(listed) | sha256sum)
if [ "$(cat "$image/parts/iso.stamp" 2>/dev/null || true)" = "$stamp" ] && [ -e "$image/talos.iso" ]; then exit; fi
SOURCE_DATE_EPOCH=$(stat -c %Y "$kernel")
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

tree=$work/tree
mkdir -p "$tree/boot/grub"
cp "$kernel" "$tree/boot/vmlinuz"
cp "$image/initramfs" "$tree/boot/initramfs"
graft=()
[ -z "$cache" ] || graft=(-graft-points "/imagecache=$cache")
cat >"$tree/boot/grub/grub.cfg" <<END
set timeout=3
menuentry "Talos" {
  linux /boot/vmlinuz $arguments
  initrd /boot/initramfs
}
END

# Each loader is one file with all that it needs to find the volume by its label.
cat >"$work/find.cfg" <<END
search --no-floppy --set=root --label $label
set prefix=(\$root)/boot/grub
END
loader() {  # FORMAT OUT MODULES...
  grub-mkimage -O "$1" -d "$grub/${1%-eltorito}" -p /boot/grub -c "$work/find.cfg" -o "$2" "${@:3}" "${modules[@]}"
}
loader i386-pc-eltorito "$tree/boot/grub/bios.img" biosdisk
mkdir -p "$work/EFI/BOOT"
loader x86_64-efi "$work/EFI/BOOT/BOOTX64.EFI" efi_gop
find "$work" -depth -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
truncate -s $((($(stat -c %s "$work/EFI/BOOT/BOOTX64.EFI") / 1048576 + 2) * 1048576)) "$work/efi.img"
mkfs.vfat --invariant -n EFI "$work/efi.img" >/dev/null
mcopy -s -m -i "$work/efi.img" "$work/EFI" ::

xorriso -as mkisofs -quiet -V $label -R -J -o "$work/talos.iso" \
  --grub2-mbr "$grub/i386-pc/boot_hybrid.img" -partition_offset 16 \
  -append_partition 2 0xef "$work/efi.img" -appended_part_as_gpt \
  -c boot/grub/boot.cat -b boot/grub/bios.img -no-emul-boot -boot-load-size 4 -boot-info-table --grub2-boot-info \
  -eltorito-alt-boot -e --interval:appended_partition_2:all:: -no-emul-boot "${graft[@]}" "$tree" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
mv "$work/talos.iso" "$image/talos.iso"
echo "$stamp" >"$image/parts/iso.stamp"
say "$(printf '%-12s %10d bytes' talos.iso "$(stat -c %s "$image/talos.iso")")"
