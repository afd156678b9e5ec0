#!/bin/bash
# The image for machines with each network card and each disk controller that QEMU has, as the only one:
#   hardware.sh IMAGE TALOSCTL      (inside the build root)
# The machine starts without a config. By its card it must get an address from QEMU's own DHCP server, which only this host's
# loopback reaches, and answer there; its disk must be in its answer. One line each; fails if one does not.
set -euo pipefail
image=$1 talosctl=$2
readonly limit=120   # s, for an answer and the disk
cards=(virtio-net-pci e1000 e1000e igb rtl8139 ne2k_pci vmxnet3 pcnet tulip i82550)
disks=(virtio-blk nvme ahci ide megasas lsi53c895a pvscsi virtio-scsi-pci am53c974 usb-storage sd-card)
work=$(mktemp -d)
machine=
end() { [ -z "$machine" ] || { kill "$machine" && wait "$machine"; } 2>/dev/null || true; machine=; }
trap 'end; rm -rf "$work"' EXIT

disk_arguments() {  # MODEL
  case $1 in
    virtio-blk) echo "-device virtio-blk-pci,drive=disk" ;;
    nvme) echo "-device nvme,drive=disk,serial=hardware" ;;
    ahci) echo "-device ahci,id=sata -device ide-hd,drive=disk,bus=sata.0" ;;
    ide) echo "-device ide-hd,drive=disk,bus=ide.0" ;;
    usb-storage) echo "-device qemu-xhci -device usb-storage,drive=disk" ;;
    sd-card) echo "-device sdhci-pci -device sd-card,drive=disk" ;;
    *) echo "-device $1,id=scsi -device scsi-hd,drive=disk,bus=scsi.0" ;;
  esac
}

# An address for each, so that an answer is that of the machine that was just started.
address() { echo "127.77.$(($1 / 250 + 1)).$(($1 % 250 + 1))"; }

try() {  # NUMBER CARD DISK
  local number=$1 card=$2 disk=$3 at until answer=
  at=$(address "$number")
  rm -f "$work/disk"
  truncate -s 8G "$work/disk"
  qemu-system-x86_64 -M pc -m 1024 -accel tcg -cpu max -display none -nodefaults -serial "file:$work/console" -no-reboot \
    -kernel "$image/vmlinux" -initrd "$image/initramfs" -append "console=ttyS0 talos.platform=metal" \
    -drive "if=none,id=disk,file=$work/disk,format=raw" $(disk_arguments "$disk") \
    -netdev "user,id=net,restrict=on,hostfwd=tcp:$at:50000-:50000" -device "$card,netdev=net" >"$work/qemu" 2>&1 &
  machine=$!
  until=$((SECONDS + limit))
  while [ "$SECONDS" -lt "$until" ] && kill -0 "$machine" 2>/dev/null; do
    answer=$("$talosctl" -n "$at" disks --insecure 2>&1 || true)
    case $answer in *"8.6 GB"*) break ;; esac
    read -r -t 1 <> <(:) || true   # between two tries
  done
  end
  case $answer in
    *"8.6 GB"*) printf '%-16s %-16s answers after %s s of its own clock\n' "$card" "$disk" \
      "$(sed -n 's/^\[ *\([0-9.]*\)\] \[talos\]   10\.0\.2\..*/\1/p' "$work/console" | head -1)" ;;
    *)
      printf '%-16s %-16s FAILED: %s\n' "$card" "$disk" "${answer:-no answer}"
      tail -5 "$work/qemu" "$work/console"
      return 1 ;;
  esac
}

[ -e "$image/initramfs" ] || { echo "hardware.sh: no $image; run make image FLAVOUR=metal" >&2; exit 1; }
failed=0 number=0
for card in "${cards[@]}"; do try $((number++)) "$card" virtio-blk || failed=1; done
for disk in "${disks[@]}"; do try $((number++)) virtio-net-pci "$disk" || failed=1; done
exit $failed
