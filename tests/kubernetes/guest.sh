#!/bin/bash
# guest.sh TEST GTEST-FILTER        (inside the build root, with $KUBECTL, $KUBERNETES_IMAGES and $TALOSCTL)
# Runs a test of nodes in containers in a guest, for what the kernel of this host may lack: that of the guest is Debian's
# for machines, as hosts of local clusters have it. The guest sees this build root as it is, by 9p, and writes to an
# overlay in memory; /work is on a disk of its own. It has two processors and is emulated.
set -euo pipefail

boot() {  # TEST FILTER
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  local package early=$work/early folder needed="virtio_pci 9p 9pnet_virtio overlay virtio_blk"
  package=$(rootfs/metal-kernel.sh)
  mkdir -p "$work/kernel" "$early"/{dev,proc,sys,root,lib}
  dpkg-deb -x "$package" "$work/kernel"
  ln -s usr/lib "$work/kernel/lib"
  folder=$(echo "$work"/kernel/usr/lib/modules/*)
  depmod -b "$work/kernel" "${folder##*/}"
  # These modules make this root the guest's; the early busybox reads modules that are not compressed.
  local modules=$early/lib/modules/${folder##*/}
  mkdir -p "$modules"
  cp "$folder"/modules.{order,builtin,builtin.modinfo} "$modules"
  for module in $needed; do
    modprobe -d "$work/kernel" -S "${folder##*/}" --show-depends "$module" 2>/dev/null | sed -n 's/^insmod \([^ ]*\).*/\1/p'
  done | sort -u | while read -r file; do xz -dc "$file" >"$modules/$(basename "${file%.xz}")"; done
  depmod --basedir "$early" "${folder##*/}" 2>/dev/null
  cp "$(command -v busybox)" "$early/busybox"
  mknod -m 0600 "$early/dev/console" c 5 1
  { export -p; printf 'set -- %q %q\n' "$@"; printf 'kernel=%q\n' "$work/kernel"; } >"$work/environment"
  cat >"$early/init" <<INIT
#!/busybox sh
b=/busybox
\$b mount -t proc proc /proc
\$b mount -t devtmpfs dev /dev
for module in $needed; do \$b modprobe \$module; done
\$b mkdir -p /lower /upper
\$b mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=524288,cache=loose root /lower
\$b mount -t tmpfs tmpfs /upper
\$b mkdir -p /upper/changes /upper/work
\$b mount -t overlay -o lowerdir=/lower,upperdir=/upper/changes,workdir=/upper/work overlay /root
for folder in proc dev; do \$b mount --move /\$folder /root/\$folder; done
exec \$b switch_root /root /bin/bash /src/tests/kubernetes/guest.sh inside $work/environment
INIT
  chmod 0755 "$early/init"
  (cd "$early" && find . -print0 | cpio --null --create --format=newc --owner=0:0 --quiet) >"$work/initramfs"
  truncate -s 4G "$work/disk"
  local console=$work/console
  timeout "${GUEST_SECONDS:-5300}" qemu-system-x86_64 -nodefaults -no-user-config -nographic -no-reboot -M q35,sata=off \
    -accel tcg,thread=multi -cpu max -smp 2 -m 10240 -kernel "$(echo "$work"/kernel/boot/vmlinuz-*)" \
    -initrd "$work/initramfs" -virtfs local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap \
    -drive "file=$work/disk,if=none,id=disk,format=raw" -device virtio-blk-pci,drive=disk,romfile= \
    -device virtio-rng-pci -append "console=ttyS0 quiet loglevel=3 panic=-1 net.ifnames=0" \
    -serial stdio </dev/null | tee "$console" || true
  grep -q '^guest: all passed' "$console"
}

inside() {  # process 1 of the guest, which ends with it
  trap 'echo o >/proc/sysrq-trigger; sleep 60' EXIT
  mount -t sysfs sysfs /sys
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
  mkdir -p /usr/lib/modules
  mount --bind "$kernel/usr/lib/modules" /usr/lib/modules
  mount -t tmpfs -o mode=1777 tmpfs /tmp   # hides what this guest was made of
  mount -t tmpfs tmpfs /run
  mkdir -p /dev/pts /dev/shm /work
  mount -t devpts devpts /dev/pts
  mount -t tmpfs tmpfs /dev/shm
  modprobe -a tun loop   # nobody else makes their devices
  # Loaded for it from the slow file system of the host: talosctl gives it 20 s.
  nft list ruleset
  modprobe -a nft_chain_nat nft_masq nft_ct nft_limit bridge veth squashfs
  mkfs.xfs -q /dev/vda
  mount /dev/vda /work
  cd /work
  ! "$1" --gtest_filter="$2" || echo "guest: all passed"
}

if [ "$1" = inside ]; then
  . "$2"   # the environment, the arguments, the kernel
  inside "$@"
else
  boot "$@"
fi
