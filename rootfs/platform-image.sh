#!/bin/bash
# Makes an image of a platform:  platform-image.sh IMAGE DISK_IMAGE PLATFORM   (inside the build root; `make image PLATFORM=…`)
#   IMAGE/<platform>-<architecture>.<format>
# IMAGE is what image.sh made, DISK_IMAGE the program of machined/disk/image. Formats and sizes are those that the providers
# take (docs/platforms.md). A disk that does not say its size here is small: the provider's machines have larger ones, and the
# first boot takes the rest. ARGUMENTS='a b': further arguments of the kernel. Nothing is left when a step fails. The same image
# gives the same bytes: dates are the kernel's, and identities are made of the disk's.
set -euo pipefail
umask 022
export LC_ALL=C
image=$1 disk_image=$2 platform=$3
. "$(dirname "$0")/arch.sh"
name=$image/$platform-$arch
readonly small=1246 usual=8192 exoscale=10240   # MiB

die() { printf 'image: %s\n' "$*" >&2; exit 1; }
SOURCE_DATE_EPOCH=$(stat -c %Y "$image/parts/tree/usr/install/vmlinuz")
export SOURCE_DATE_EPOCH
work=$(mktemp -d -p "$image" platform-XXXXXX)
trap 'rm -rf "$work"' EXIT

made=
finished() {  # FILE: the image, under its name
  made=$name.${1#"$work"/disk.}
  mv "$1" "$made"
}
disk() { "${emulator[@]}" "$disk_image" "$platform" "$1" "$image/parts/tree/usr/install" "$image/rootfs.sqsh" "$work/disk.raw" ${ARGUMENTS:-}; }
convert() { qemu-img convert -f raw -O "$1" -o "$2" "$work/disk.raw" "$work/disk.$3"; rm "$work/disk.raw"; }
archive() { tar --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner "$@"; }
poke() { printf "$(sed 's/../\\x&/g' <<<"$3")" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }   # poke FILE OFFSET HEX
# The time and a random number in a VHD's footer ("Virtual Hard Disk Image Format Specification"): the number becomes that
# of the disk's partition table.
settle_vhd() {  # FILE
  local footer=$(($(stat -c %s "$1") - 512))
  poke "$1" $((footer + 24)) "$(printf %08x $((SOURCE_DATE_EPOCH - 946684800)))"   # seconds since 2000
  poke "$1" $((footer + 68)) "$(od -An -j568 -N16 -tx1 "$1" | tr -d ' \n')"
  poke "$1" $((footer + 64)) 00000000
  poke "$1" $((footer + 64)) "$(tail -c 512 "$1" | od -An -v -w1 -tu1 | awk '{ sum += $1 } END { printf "%08x", 4294967295 - sum }')"
}
# The content id of a VMDK, which is random: this one is of a disk without changes.
settle_vmdk() {  # FILE
  local found
  found=$(grep -abo -m1 '^CID=[0-9a-f]\{8\}' "$1") || die "the VMDK has no content id"
  poke "$1" $((${found%%:*} + 4)) "$(printf fffffffe | od -An -tx1 | tr -d ' ')"
}
zstandard() { zstd -q -T0 --rm "$work/disk.$1"; finished "$work/disk.$1.zst"; }

# One disk, described for hypervisors of VMware: OVF 1.1 of the DMTF. The digests come before the disk, as importers read it.
# The drive is for the transport "iso": the hypervisor puts a disc with the properties into it.
vmware() {
  disk "$usual"
  convert vmdk subformat=streamOptimized,adapter_type=lsilogic vmdk
  settle_vmdk "$work/disk.vmdk"
  local size
  size=$(stat -c %s "$work/disk.vmdk")
  cat >"$work/disk.ovf" <<END
<?xml version="1.0" encoding="UTF-8"?>
<Envelope xmlns="http://schemas.dmtf.org/ovf/envelope/1" xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1"
    xmlns:rasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData"
    xmlns:vssd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_VirtualSystemSettingData">
  <References><File ovf:id="disk" ovf:href="disk.vmdk" ovf:size="$size"/></References>
  <DiskSection>
    <Info>The disk with the system</Info>
    <Disk ovf:diskId="system" ovf:fileRef="disk" ovf:capacity="$usual" ovf:capacityAllocationUnits="byte * 2^20"
      ovf:format="http://www.vmware.com/interfaces/specifications/vmdk.html#streamOptimized"/>
  </DiskSection>
  <NetworkSection><Info>The network of its one card</Info><Network ovf:name="VM Network"/></NetworkSection>
  <VirtualSystem ovf:id="talos">
    <Info>A node of Kubernetes</Info>
    <Name>talos</Name>
    <OperatingSystemSection ovf:id="100"><Info>Linux, 64 bits</Info></OperatingSystemSection>
    <VirtualHardwareSection ovf:transport="com.vmware.guestInfo iso">
      <Info>2 processors, 2 GiB, one disk, one CD drive, one network card</Info>
      <System>
        <vssd:ElementName>Virtual Hardware Family</vssd:ElementName><vssd:InstanceID>0</vssd:InstanceID>
        <vssd:VirtualSystemIdentifier>talos</vssd:VirtualSystemIdentifier><vssd:VirtualSystemType>vmx-15</vssd:VirtualSystemType>
      </System>
      <Item><rasd:ElementName>2 processors</rasd:ElementName><rasd:InstanceID>1</rasd:InstanceID>
        <rasd:ResourceType>3</rasd:ResourceType><rasd:VirtualQuantity>2</rasd:VirtualQuantity></Item>
      <Item><rasd:AllocationUnits>byte * 2^20</rasd:AllocationUnits><rasd:ElementName>2048 MiB of memory</rasd:ElementName>
        <rasd:InstanceID>2</rasd:InstanceID><rasd:ResourceType>4</rasd:ResourceType>
        <rasd:VirtualQuantity>2048</rasd:VirtualQuantity></Item>
      <Item><rasd:Address>0</rasd:Address><rasd:ElementName>SCSI controller</rasd:ElementName><rasd:InstanceID>3</rasd:InstanceID>
        <rasd:ResourceSubType>VirtualSCSI</rasd:ResourceSubType><rasd:ResourceType>6</rasd:ResourceType></Item>
      <Item><rasd:AddressOnParent>0</rasd:AddressOnParent><rasd:ElementName>Disk</rasd:ElementName>
        <rasd:HostResource>ovf:/disk/system</rasd:HostResource><rasd:InstanceID>4</rasd:InstanceID><rasd:Parent>3</rasd:Parent>
        <rasd:ResourceType>17</rasd:ResourceType></Item>
      <Item><rasd:AddressOnParent>1</rasd:AddressOnParent><rasd:AutomaticAllocation>true</rasd:AutomaticAllocation>
        <rasd:Connection>VM Network</rasd:Connection><rasd:ElementName>Network card</rasd:ElementName>
        <rasd:InstanceID>5</rasd:InstanceID><rasd:ResourceSubType>VmxNet3</rasd:ResourceSubType>
        <rasd:ResourceType>10</rasd:ResourceType></Item>
      <Item><rasd:Address>0</rasd:Address><rasd:ElementName>IDE controller</rasd:ElementName><rasd:InstanceID>6</rasd:InstanceID>
        <rasd:ResourceType>5</rasd:ResourceType></Item>
      <Item ovf:required="false"><rasd:AddressOnParent>0</rasd:AddressOnParent>
        <rasd:AutomaticAllocation>false</rasd:AutomaticAllocation><rasd:ElementName>CD drive</rasd:ElementName>
        <rasd:InstanceID>7</rasd:InstanceID><rasd:Parent>6</rasd:Parent>
        <rasd:ResourceSubType>vmware.cdrom.remotepassthrough</rasd:ResourceSubType><rasd:ResourceType>15</rasd:ResourceType></Item>
    </VirtualHardwareSection>
    <ProductSection>
      <Info>Configuration of the node</Info>
      <Property ovf:key="talos.config" ovf:type="string" ovf:userConfigurable="true" ovf:password="true">
        <Label>Machine config</Label><Description>In base64</Description>
      </Property>
      <Property ovf:key="metadata" ovf:type="string" ovf:userConfigurable="true">
        <Label>Metadata</Label><Description>Names and network (YAML of cloud-init), in base64; may be empty</Description>
      </Property>
    </ProductSection>
  </VirtualSystem>
</Envelope>
END
  (cd "$work" && for file in disk.ovf disk.vmdk; do
    printf 'SHA256(%s)= %s\n' "$file" "$(sha256sum <"$file" | cut -d' ' -f1)"
  done >disk.mf && archive --format=ustar -cf disk.ova disk.ovf disk.mf disk.vmdk)
  finished "$work/disk.ova"
}

# For machines that a server on their network starts: a folder that a web server gives, with a script for iPXE.
pxe() {  # PLATFORM
  local arguments
  arguments=$("$disk_image" arguments "$1" ${ARGUMENTS:-})
  mkdir -m 0755 "$work/disk.pxe"
  cp "$image/parts/tree/usr/install/vmlinuz" "$image/initramfs" "$work/disk.pxe/"
  cat >"$work/disk.pxe/boot.ipxe" <<END
#!ipxe
kernel vmlinuz initrd=initramfs $arguments
initrd initramfs
boot
END
  rm -rf "$name.pxe"
  finished "$work/disk.pxe"
}

case $arch-$platform in
  amd64-*|arm64-metal|arm64-nocloud) ;;
  *) die "PLATFORM is \"$platform\"; for $arch only metal and nocloud are made: no machine of another provider was tried" ;;
esac
case $platform in
  metal|nocloud|openstack|opennebula|hcloud|scaleway) disk "$small"; zstandard raw ;;
  aws|vultr|upcloud|cloudstack) disk "$usual"; zstandard raw ;;
  azure) disk "$usual"; convert vpc subformat=fixed,force_size=on vhd; settle_vhd "$work/disk.vhd"; zstandard vhd ;;
  # One sparse member of this name, in the format of old GNU tars.
  gcp)
    disk "$usual"
    archive --format=oldgnu --sparse -C "$work" -cf - --transform 's/.*/disk.raw/' disk.raw | gzip >"$work/disk.raw.tar.gz"
    finished "$work/disk.raw.tar.gz" ;;
  digital-ocean|akamai)
    disk "$([ "$platform" = akamai ] && echo "$small" || echo "$usual")"
    gzip -n "$work/disk.raw"
    finished "$work/disk.raw.gz" ;;
  exoscale) disk "$exoscale"; convert qcow2 cluster_size=8k qcow2; zstandard qcow2 ;;
  oracle) disk "$usual"; convert qcow2 cluster_size=8k qcow2; zstandard qcow2 ;;
  vmware) vmware ;;
  equinixMetal|packet) pxe "$platform" ;;
  pxe) pxe metal ;;
  *) die "PLATFORM is \"$platform\"; known are metal, pxe, nocloud, aws, azure, gcp, openstack, opennebula, hcloud, digital-ocean," \
    "vultr, scaleway, oracle, upcloud, exoscale, cloudstack, akamai, vmware and equinixMetal" ;;
esac
if [ -d "$made" ]; then size=$(du -sb "$made" | cut -f1); else size=$(stat -c %s "$made"); fi
printf 'image: %s %d bytes\n' "$(basename "$made")" "$size"
