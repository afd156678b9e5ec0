#!/bin/bash
# guest.sh IMAGE-FOLDER TEST TALOSCTL [GTEST-FILTER]
# Runs the test in a guest that is a host as distributions make them today: systemd is process 1, cgroup v2 alone is
# mounted, at /sys/fs/cgroup, and every program is in a cgroup of systemd's. Kernel and modules are the image's. The
# guest's root is a disk that is only read, with an overlay in memory.
set -euo pipefail
image=$1 test=$2 talosctl=$3 filter=${4:-*}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

modules=$image/parts/modules/usr/lib/modules
early=$work/early tree=$work/tree
mkdir -p "$early"/{dev,proc,sys,root,lib/modules} "$tree"/{dev,proc,sys,run,tmp,var/lib,etc/systemd/system,opt/checkout/build/out,opt/checkout/build/image}
mkdir -p "$tree"/usr/{bin,sbin,lib/systemd,lib64,lib/modules}
for name in lib lib64 bin sbin; do ln -s "usr/$name" "$tree/$name"; done
cp -a "$modules/." "$tree/usr/lib/modules/"
cp "$image"/parts/early/*.ko "$tree"/usr/lib/modules/*/
depmod --basedir "$tree" "$(ls "$tree/usr/lib/modules")" 2>/dev/null
add() {  # a program of the build root with its libraries
  mkdir -p "$tree/$(dirname "$1")"
  cp -L "$1" "$tree/$1"
  ldd "$1" 2>/dev/null | grep -o '/[^ ]*' | while read -r library; do
    mkdir -p "$tree/${library%/*}"
    cp -L "$library" "$tree$library"
  done
}
for program in bash mount umount sleep systemctl systemd-run unshare; do add "/usr/bin/$program"; done
add /usr/sbin/modprobe
for program in systemd systemd-executor systemd-shutdown; do add "/usr/lib/systemd/$program"; done
ln -s bash "$tree/usr/bin/sh"
printf 'root:x:0:0:root:/root:/bin/bash\n' >"$tree/etc/passwd"
printf 'root:x:0:\n' >"$tree/etc/group"
: >"$tree/etc/machine-id"
install -m 0755 "$test" "$tree/opt/test"
install -m 0755 "$talosctl" "$tree/opt/checkout/build/out/talosctl"
llvm-strip-19 "$tree/opt/test" "$tree/opt/checkout/build/out/talosctl"
for library in $(for program in "$test" "$talosctl"; do ldd "$program"; done 2>/dev/null | grep -o '/[^ ]*' | sort -u); do
  mkdir -p "$tree/${library%/*}"
  cp -L "$library" "$tree$library"
done
# talosctl in a cgroup namespace of its own, as in a container on such a host.
cat >"$tree/opt/nested" <<'NESTED'
#!/bin/bash
exec unshare --cgroup --mount /bin/bash -c 'umount --lazy /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup &&
  exec "$TALOSCTL" "$@"' nested "$@"
NESTED
chmod 0755 "$tree/opt/nested"
cp "$image/rootfs.sqsh" "$tree/opt/checkout/build/image/"
cat >"$tree/etc/systemd/system/tests.target" <<'UNIT'
[Unit]
Description=Tests
Requires=tests.service
After=tests.service
UNIT
cat >"$tree/etc/systemd/system/tests.service" <<UNIT
[Unit]
Description=Tests
DefaultDependencies=no
SuccessAction=poweroff-immediate
FailureAction=poweroff-immediate
[Service]
Type=oneshot
Environment=PATH=/usr/sbin:/usr/bin HOME=/root TALOSCTL=/opt/checkout/build/out/talosctl
ExecStart=/bin/bash -c '/opt/test --gtest_filter="$filter" && echo "guest: all passed"'
StandardOutput=tty
StandardError=inherit
TTYPath=/dev/console
UNIT
mksquashfs "$tree" "$work/root" -noappend -quiet -no-progress -comp zstd -Xcompression-level 1 -noD -all-root -no-xattrs

# The early root, which makes the disk the root.
cp "$(command -v busybox)" "$early/busybox"
cp -a "$tree/usr/lib/modules/." "$early/lib/modules/"
mknod -m 0600 "$early/dev/console" c 5 1
cat >"$early/init" <<'INIT'
#!/busybox sh
b=/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
for module in virtio_blk squashfs overlay; do $b modprobe $module; done
$b mkdir -p /lower /upper
$b mount -t squashfs -o ro /dev/vda /lower
$b mount -t tmpfs tmpfs /upper
$b mkdir -p /upper/changes /upper/work
$b mount -t overlay -o lowerdir=/lower,upperdir=/upper/changes,workdir=/upper/work overlay /root
$b mount -t tmpfs -o mode=1777 tmpfs /root/tmp
for folder in proc sys dev; do $b mount --move /$folder /root/$folder; done
exec $b switch_root /root /usr/lib/systemd/systemd
INIT
chmod 0755 "$early/init"
(cd "$early" && find . -print0 | cpio --null --create --format=newc --owner=0:0 --quiet) >"$work/initramfs"
timeout 880 qemu-system-x86_64 -nodefaults -no-user-config -nographic -no-reboot -M q35,sata=off \
  -accel tcg,thread=multi -cpu max -smp 1 -m 3072 -kernel "$image/vmlinux" -initrd "$work/initramfs" \
  -drive "file=$work/root,if=none,id=root,format=raw,readonly=on" -device virtio-blk-pci,drive=root,romfile= \
  -append "console=ttyS0 quiet loglevel=3 panic=-1 net.ifnames=0 systemd.unit=tests.target systemd.show_status=no systemd.log_level=warning" \
  -serial "file:$work/console" </dev/null || true
tr -d '\r' <"$work/console" | sed 's/\x1b\[[0-9;]*m//g' >"$work/log"
cat "$work/log"
grep -qx 'guest: all passed' "$work/log"
