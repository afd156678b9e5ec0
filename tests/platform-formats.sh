#!/bin/bash
# The images of all platforms, each read back:  platform-formats.sh IMAGE DISK_IMAGE   (inside the build root; `make soak`)
# Catches: a file of another name, format or size than docs/platforms.md promises, or that the tools of its format refuse; a
# disk that is damaged or cut by the way into its format; wrong digests in an OVA; a platform that its kernel is not started
# with, or ARGUMENTS that do not replace the platform's.
set -euo pipefail
image=$1 disk_image=$2
here=$(cd "$(dirname "$0")" && pwd)
# Beside the image: the disks have 8 GiB, and /tmp is in memory.
work=$(mktemp -d -p "$image" formats-XXXXXX)
trap 'rm -rf "$work"' EXIT
ln -s "$image/parts" "$image/initramfs" "$image/rootfs.sqsh" "$work/"
failures=0
wrong() { printf 'platform-formats: %s: %s\n' "$platform" "$*" >&2; failures=$((failures + 1)); }
produce() { "$here/../rootfs/platform-image.sh" "$work" "$disk_image" "$platform" >"$work/said" 2>&1 || wrong "not made: $(cat "$work/said")"; }
info() { qemu-img info --output=json -f "$1" "$2" | jq -r "$3"; }   # info FORMAT FILE FIELD
expect() { [ "$2" = "$3" ] || wrong "$1 is $2 and not $3"; }   # expect NAME FOUND EXPECTED
sparse() { dd of="$1" bs=1M iflag=fullblock conv=sparse status=none; }   # sparse FILE <BYTES
bytes() { od -An -j"$2" -N"$3" -tx1 "$1" | tr -d ' \n'; }   # bytes FILE OFFSET COUNT

# Of the disk: its size, its partitions, the sector that a BIOS starts, and what BOOT says to the kernel.
check_disk() {  # FILE MIB ARGUMENT...
  local file=$1 start size argument
  expect "its size" "$(stat -c %s "$file")" $(($2 << 20))
  expect "the end of its first sector" "$(bytes "$file" 510 2)" 55aa
  sfdisk --json "$file" >"$work/table" 2>/dev/null || { wrong "it has no partition table"; return; }
  expect "its list of partitions" "$(jq -r '[.partitiontable.partitions[].name] | join(" ")' "$work/table")" "EFI BIOS BOOT META STATE EPHEMERAL"
  read -r start size < <(jq -r '.partitiontable.partitions[] | select(.name == "BOOT") | "\(.start) \(.size)"' "$work/table")
  dd if="$file" of="$work/boot" bs=512 skip="$start" count="$size" conv=sparse status=none
  for argument in "${@:3}"; do
    grep -aqF "'$argument'" "$work/boot" || wrong "the kernel is not started with $argument"
  done
}

# Names of elements, each of which ends where it must.
balanced() {  # FILE
  sed 's/<?.*?>//' "$1" | tr '\n' ' ' | grep -o '<[^>]*>' | awk '
    /\/>$/ { next }
    /^<\// { name = substr($0, 3, length($0) - 3); if (depth == 0 || open[depth] != name) { print name; bad = 1; exit }; --depth; next }
    { name = $0; sub(/^</, "", name); sub(/[ >].*/, "", name); open[++depth] = name }
    END { exit bad || depth != 0 }' >"$work/unbalanced" || wrong "its OVF is not well-formed at $(cat "$work/unbalanced")"
}

check_ova() {  # FILE
  local folder=$work/ova path
  mkdir "$folder"
  expect "its content" "$(tar -tf "$1" | xargs)" "disk.ovf disk.mf disk.vmdk"
  tar -C "$folder" -xf "$1"
  (cd "$folder" && sed -n 's/^SHA256(\(.*\))= \(.*\)$/\2  \1/p' disk.mf >sums && [ "$(wc -l <sums)" = 2 ] && sha256sum --quiet -c sums) ||
    wrong "its digests are not those of its files"
  expect "its VMDK" "$(info vmdk "$folder/disk.vmdk" '."format-specific".data."create-type"')" streamOptimized
  balanced "$folder/disk.ovf"
  for path in 'ovf:transport="com.vmware.guestInfo iso"' '<rasd:ResourceType>15</rasd:ResourceType>' 'ovf:key="talos.config"' \
    'ovf:key="metadata"' "ovf:size=\"$(stat -c %s "$folder/disk.vmdk")\"" 'ovf:capacity="8192" ovf:capacityAllocationUnits="byte * 2^20"'; do
    grep -qF "$path" "$folder/disk.ovf" || wrong "its OVF has no $path"
  done
  qemu-img convert -f vmdk -O raw "$folder/disk.vmdk" "$work/raw"
  rm -r "$folder"
}

check_pxe() {  # FOLDER ARGUMENT...
  local argument
  expect "the list of its files" "$(ls "$1" | xargs)" "boot.ipxe initramfs vmlinuz"
  expect "its first line" "$(head -n 1 "$1/boot.ipxe")" '#!ipxe'
  for argument in "${@:2}"; do
    expect "the count of $argument in its script" "$(tr ' ' '\n' <"$1/boot.ipxe" | grep -cxF -- "$argument" || true)" 1
  done
}

while read -r platform file mib; do
  printf 'platform-formats: %s\n' "$platform"
  path=$work/$file
  produce
  [ -e "$path" ] || { wrong "there is no $file"; continue; }
  case $file in
    *.raw.zst) zstd -q -d --sparse "$path" -o "$work/raw" ;;
    *.raw.gz) gzip -dc "$path" | sparse "$work/raw" ;;
    *.raw.tar.gz)
      gzip -dc "$path" | sparse "$work/tar"
      expect "its content" "$(tar -tf "$work/tar")" disk.raw
      expect "the format and the kind of its member" "$(bytes "$work/tar" 257 8) $(bytes "$work/tar" 156 1)" "7573746172202000 53"   # old GNU, sparse
      tar -C "$work" -Sxf "$work/tar"
      mv "$work/disk.raw" "$work/raw"
      rm "$work/tar" ;;
    *.vhd.zst)
      zstd -q -d --sparse "$path" -o "$work/vhd"
      expect "the size of its VHD" "$(info vpc "$work/vhd" '."virtual-size"')" $((mib << 20))
      # The last sector describes it: "conectix", and a fixed size.
      expect "the size of its file" "$(stat -c %s "$work/vhd")" $(((mib << 20) + 512))
      expect "its footer" "$(tail -c 512 "$work/vhd" | head -c 8) $(bytes <(tail -c 512 "$work/vhd") 60 4)" "conectix 00000002"
      truncate -s $((mib << 20)) "$work/vhd"
      mv "$work/vhd" "$work/raw" ;;
    *.qcow2.zst)
      zstd -q -d "$path" -o "$work/qcow2"
      qemu-img check -q -f qcow2 "$work/qcow2" || wrong "its qcow2 is damaged"
      expect "the cluster of its qcow2" "$(info qcow2 "$work/qcow2" '."cluster-size"')" 8192
      qemu-img convert -f qcow2 -O raw "$work/qcow2" "$work/raw"
      rm "$work/qcow2" ;;
    *.ova) check_ova "$path" ;;
    *.pxe) check_pxe "$path" "talos.platform=${platform/pxe/metal}" ima_hash=sha512 ;;
  esac
  case $file in
    *.pxe) ;;
    *) check_disk "$work/raw" "$mib" "talos.platform=$platform" talos.config=none; rm -f "$work/raw" "$work/boot" ;;
  esac
  rm -rf "$path"
done <<END
metal         metal-amd64.raw.zst          1246
nocloud       nocloud-amd64.raw.zst        1246
openstack     openstack-amd64.raw.zst      1246
opennebula    opennebula-amd64.raw.zst     1246
hcloud        hcloud-amd64.raw.zst         1246
scaleway      scaleway-amd64.raw.zst       1246
aws           aws-amd64.raw.zst            8192
vultr         vultr-amd64.raw.zst          8192
upcloud       upcloud-amd64.raw.zst        8192
cloudstack    cloudstack-amd64.raw.zst     8192
azure         azure-amd64.vhd.zst          8192
gcp           gcp-amd64.raw.tar.gz         8192
digital-ocean digital-ocean-amd64.raw.gz   8192
akamai        akamai-amd64.raw.gz          1246
exoscale      exoscale-amd64.qcow2.zst    10240
oracle        oracle-amd64.qcow2.zst       8192
vmware        vmware-amd64.ova             8192
equinixMetal  equinixMetal-amd64.pxe          0
pxe           pxe-amd64.pxe                   0
END

export ARGUMENTS='console=ttyS5 talos.config=http://192.0.2.1/c'
platform=pxe
produce
check_pxe "$work/pxe-amd64.pxe" console=ttyS5 talos.config=http://192.0.2.1/c
expect "the count of consoles with ARGUMENTS" "$(grep -o ' console=' "$work/pxe-amd64.pxe/boot.ipxe" | wc -l)" 1
platform=metal
produce
zstd -q -d --sparse "$work/metal-amd64.raw.zst" -o "$work/raw"
check_disk "$work/raw" 1246 console=ttyS5 talos.config=http://192.0.2.1/c
! grep -aqF talos.config=none "$work/boot" || wrong "with ARGUMENTS it has another source of the config before theirs"

[ $failures = 0 ] || { echo "platform-formats: $failures checks failed" >&2; exit 1; }
echo "platform-formats: all are as docs/platforms.md has them"
