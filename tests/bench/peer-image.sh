#!/bin/bash
# The peer of the boot figure: Debian trixie with systemd, systemd-networkd and sshd on the kernel that our
# image has, with Debian's own initramfs, root on ext4.   peer-image.sh ROOT OUT
# Makes OUT/{root.ext4,initrd.img}; the kernel is our vmlinux. Runs on the host; nothing when it is there.
set -euo pipefail
root=$1 out=$2
here=$(cd "$(dirname "$0")/../.." && pwd)
stamp=$(cat "$0" "$here/rootfs/packages/peer.list" "$root/.stamp" | sha256sum | cut -d' ' -f1)
[ "$(cat "$out/.stamp" 2>/dev/null || true)" = "$stamp" ] && exit 0
mkdir -p "$out"
mirror=$(sed -n 's/^deb \([^ ]*\) trixie main.*/\1/p' "$root/etc/apt/sources.list" | head -n 1)
tree=$out/tree
rm -rf "$tree"
packages=$(sed 's/#.*//' "$here/rootfs/packages/peer.list" | tr -s ' \n' '\n' | sed '/^$/d' | paste -sd,)
mmdebstrap --quiet --variant=minbase --mode=root --keyring=/usr/share/keyrings/debian-archive-keyring.gpg \
  --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='APT::Install-Recommends "false"' \
  --dpkgopt=force-unsafe-io --include="$packages" trixie "$tree" "deb $mirror trixie main"
dpkg-deb -x "$root"/opt/kernel/linux-image-*.deb "$out/kernel"
version=$(ls "$out/kernel/usr/lib/modules")
cp -a "$out/kernel/usr/lib/modules" "$tree/usr/lib/"
cp "$out/kernel/boot/config-$version" "$tree/boot/"
cat >"$tree/etc/systemd/network/eth.network" <<NET
[Match]
Name=en* eth*
[Network]
Address=10.5.0.2/24
Gateway=10.5.0.1
NET
echo '/dev/vda / ext4 defaults 0 1' >"$tree/etc/fstab"
echo peer >"$tree/etc/hostname"
cat >"$tree/usr/local/sbin/at-rest" <<'REST'
#!/bin/sh
# Writes the proportional memory of process 1 and of systemd-networkd to the console, in KiB.
sleep 30
for pid in 1 $(systemctl show -P MainPID systemd-networkd); do
  echo "at rest: $(cat /proc/$pid/comm) $(sed -n 's/^Pss: *\([0-9]*\) kB/\1/p' /proc/$pid/smaps_rollup)"
done >/dev/ttyS0
echo "at rest: end" >/dev/ttyS0
REST
chmod 755 "$tree/usr/local/sbin/at-rest"
cat >"$tree/etc/systemd/system/at-rest.service" <<UNIT
[Service]
ExecStart=/usr/local/sbin/at-rest
[Install]
WantedBy=multi-user.target
UNIT
chroot "$tree" systemctl enable -q systemd-networkd ssh at-rest
chroot "$tree" depmod "$version"
echo COMPRESS=zstd >>"$tree/etc/initramfs-tools/initramfs.conf"
sed -i 's/^MODULES=.*/MODULES=most/' "$tree/etc/initramfs-tools/initramfs.conf"
chroot "$tree" mkinitramfs -o /boot/initrd.img "$version" 2>/dev/null
mv "$tree/boot/initrd.img" "$out/initrd.img"
truncate -s 1G "$out/root.ext4"
"$root/lib64/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu" "$root/usr/sbin/mke2fs" \
  -q -F -t ext4 -d "$tree" "$out/root.ext4" 2>/dev/null || mke2fs -q -F -t ext4 -d "$tree" "$out/root.ext4"
rm -rf "$tree" "$out/kernel"
echo "$stamp" >"$out/.stamp"
