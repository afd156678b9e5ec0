#!/bin/bash
# guest.sh IMAGE-FOLDER TEST NETWORKD CONFINE
# Runs the tests named *InGuest* in a guest with the kernel and the modules of the image, where there are
# drivers that the host may lack. The guest is a shell, a DHCP server and these programs.
set -euo pipefail
image=$1 test=$2 networkd=$3 confine=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
mkdir -p "$tree"/{dev,proc,sys,tmp,run,var/lib/dhcp,usr/lib,usr/lib64,usr/bin,usr/sbin,opt}
for name in lib lib64 bin sbin; do ln -s "usr/$name" "$tree/$name"; done
mknod -m 0600 "$tree/dev/console" c 5 1
install -m 0755 "$test" "$tree/opt/test"
install -m 0755 "$networkd" "$tree/opt/networkd"
install -m 0755 "$confine" "$tree/opt/confine"
llvm-strip-19 "$tree"/opt/*
mkdir -p "$tree/usr/lib/modules"
cp -a "$image/parts/modules/usr/lib/modules/." "$tree/usr/lib/modules/"
depmod --basedir "$tree" "$(ls "$tree/usr/lib/modules")" 2>/dev/null
add() {  # a program of the build root with its libraries
  cp -L "$(command -v "$1")" "$tree/usr/${2:-bin}/"
  ldd "$(command -v "$1")" | grep -o '/[^ ]*' | while read -r library; do
    mkdir -p "$tree/${library%/*}"
    cp -L "$library" "$tree$library"
  done
}
for program in bash mount chmod; do add "$program"; done
for program in dhcpd modprobe; do add "$program" sbin; done
cat >"$tree/init" <<'INIT'
#!/bin/bash
export PATH=/usr/sbin:/usr/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
chmod 1777 /tmp
for module in veth 8021q bonding; do modprobe "$module" || true; done
NETWORKD=/opt/networkd CONFINE=/opt/confine /opt/test --gtest_filter='*InGuest*' && echo 'guest: all passed'
echo o >/proc/sysrq-trigger
read -r
INIT
chmod 0755 "$tree/init"
(cd "$tree" && find . -print0 | cpio --null --create --format=newc --owner=0:0 --quiet) >"$work/initramfs"
timeout 580 qemu-system-x86_64 -nodefaults -no-user-config -nographic -no-reboot -M q35,sata=off \
  -accel tcg,thread=multi -cpu max -smp 1 -m 768 -kernel "$image/vmlinux" -initrd "$work/initramfs" \
  -append "console=ttyS0 quiet loglevel=1 panic=-1 net.ifnames=0" -serial "file:$work/console" </dev/null || true
tr -d '\r' <"$work/console" | sed 's/\x1b\[[0-9;]*m//g' >"$work/log"
cat "$work/log"
grep -qx 'guest: all passed' "$work/log"
