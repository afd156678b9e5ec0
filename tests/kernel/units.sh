#!/bin/bash
# units.sh IMAGE-FOLDER PROGRAM GTEST-FILTER [PROGRAM GTEST-FILTER]…
# Runs unit tests, as root, in a guest with the kernel and the modules of the image: those of what the kernel of a host
# may lack. $PROVIDES says that it is there, so that none of them is skipped (common/testing/provided.h).
set -euo pipefail
image=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
mkdir -p "$tree"/{dev,proc,sys,tmp,etc,opt,usr/bin,usr/sbin,usr/lib,usr/lib64}
for name in lib lib64 bin sbin; do ln -s "usr/$name" "$tree/$name"; done
mknod -m 0600 "$tree/dev/console" c 5 1
cp -a "$image/parts/modules/usr/lib/modules" "$tree/usr/lib/"
cp "$image"/parts/early/*.ko "$tree"/usr/lib/modules/*/
depmod --basedir "$tree" "$(ls "$tree/usr/lib/modules")" 2>/dev/null
cp "$(command -v busybox)" "$tree/usr/bin/busybox"
printf 'root:x:0:0:root:/:/bin/sh\n' >"$tree/etc/passwd"
for program in mkfs.xfs mkfs.fat env; do   # with their libraries
  file=$(command -v "$program")
  mkdir -p "$tree/$(dirname "$file")"
  cp -L "$file" "$tree/$file"
  ldd "$file" | grep -o '/[^ ]*' | while read -r library; do
    mkdir -p "$tree/${library%/*}"
    cp -L "$library" "$tree$library"
  done
done
cat >"$tree/init" <<'INIT'
#!/bin/busybox sh
b=/bin/busybox
export PATH=/usr/sbin:/usr/bin PROVIDES='loop-devices xfs landlock-6'
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
$b ip link set lo up
for module in virtio_blk loop xfs vfat nls_cp437 nls_ascii; do $b modprobe $module; done
mkfs.xfs -q /dev/vda   # a disk that is wiped is a file there, larger than the memory
$b mount /dev/vda /tmp
$b chmod 1777 /tmp
failed=
INIT
while [ $# -gt 0 ]; do
  name=${1##*/}
  install -m 0755 "$1" "$tree/opt/$name"
  llvm-strip-19 "$tree/opt/$name"
  printf '/opt/%q --gtest_filter=%q || failed=1\n' "$name" "$2" >>"$tree/init"
  shift 2
done
cat >>"$tree/init" <<'INIT'
[ "$failed" ] || echo 'guest: all passed'
$b poweroff -f
INIT
chmod 0755 "$tree/init"
(cd "$tree" && find . -print0 | cpio --null --create --format=newc --owner=0:0 --quiet) >"$work/initramfs"
truncate -s 8G "$work/disk"
timeout 580 qemu-system-x86_64 -nodefaults -no-user-config -nographic -no-reboot -M q35,sata=off \
  -accel tcg,thread=multi -cpu max -smp 1 -m 1024 -kernel "$image/vmlinux" -initrd "$work/initramfs" \
  -drive "file=$work/disk,if=none,id=disk,format=raw,discard=unmap" -device virtio-blk-pci,drive=disk,romfile= \
  -append "console=ttyS0 quiet loglevel=1 panic=-1 net.ifnames=0" -serial "file:$work/console" </dev/null || true
tr -d '\r' <"$work/console" | sed 's/\x1b\[[0-9;]*m//g' >"$work/log"
cat "$work/log"
grep -qx 'guest: all passed' "$work/log"
