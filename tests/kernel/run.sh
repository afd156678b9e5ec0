#!/bin/bash
# run.sh KERNEL-TEST MODPROBE CONFINE IMAGE-FOLDER [GTEST-FILTER]
# Boots a guest whose first process is the test program, with the kernel and the modules of the image,
# and ends as the tests do. The kernel loads modules by the image's own modprobe, as on a node.
set -euo pipefail
test=$1 modprobe=$2 confine=$3 image=$4 filter=${5:-*}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
mkdir -p "$tree"/{dev,proc,sys,tmp,sbin,usr/lib}
mknod -m 0600 "$tree/dev/console" c 5 1
install -m 0755 "$test" "$tree/init"
install -m 0755 "$modprobe" "$tree/sbin/modprobe"
# A confined program tries what it must not do; it is the test program under another name.
install -D -m 0755 "$confine" "$tree/usr/libexec/talos/confine"
ln -s init "$tree/probe"
llvm-strip-19 "$tree/init" "$tree/sbin/modprobe" 2>/dev/null || true
cp -a "$image/parts/modules/usr/lib/modules" "$tree/usr/lib/"
ln -s usr/lib "$tree/lib"
# iproute2 and wg read back what was set; they are not static.
mkdir -p "$tree/usr/sbin" "$tree/usr/lib64"
ln -s usr/lib64 "$tree/lib64"
for program in ip wg; do
  cp -L "$(command -v "$program")" "$tree/usr/sbin/$program"
  ldd "$tree/usr/sbin/$program" | grep -o '/[^ ]*' | while read -r library; do
    mkdir -p "$tree/${library%/*}"
    cp -L "$library" "$tree$library"
  done
done
(cd "$tree" && find . -print0 | cpio --null --create --format=newc --owner=0:0 --quiet) >"$work/initramfs"
# Without grace periods in a hurry each link that goes takes tens of milliseconds of waiting.
timeout 1700 qemu-system-x86_64 -nodefaults -no-user-config -nographic -no-reboot -M q35,sata=off \
  -accel tcg,thread=multi -cpu max -smp 1 -m 512 -kernel "$image/vmlinux" -initrd "$work/initramfs" \
  -append "console=ttyS0 quiet loglevel=1 panic=-1 net.ifnames=0 rcupdate.rcu_expedited=1 -- $filter" -serial "file:$work/console" </dev/null || true
tr -d '\r' <"$work/console" | sed 's/\x1b\[[0-9;]*m//g' >"$work/log"
cat "$work/log"
grep -qx 'kernel-test: all passed' "$work/log"
