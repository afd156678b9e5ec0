@0x9c51a1280051680a;
# Resources of the disks: partitions, encrypted volumes and mounts.
# Field order is the order in which `get` prints keys and columns.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
using A = import "annotations.capnp";

struct VolumeStatusSpec $A.resource((type = "VolumeStatuses.block.talos.dev", namespace = "runtime")) {
  # A volume for files of the node or of pods, mounted or not yet. The id is the label of its partition.
  phase @0 :Text $A.column("Phase");            # waiting (for a config, a disk, space), ready, failed or closed
  location @1 :Text $A.column("Location");      # /dev/vda5
  mountLocation @2 :Text $A.column("Mount Location");  # the device with the file system
  filesystem @3 :Text $A.column("File System");
  encryptionProvider @4 :Text $A.column("Encryption");  # luks2; empty: none
  encryptionSlots @5 :List(UInt32);             # in use
  encryptionSlot @6 :Text $A.column("Slot");    # of the key that opened it
  errorMessage @7 :Text $A.column("Error");     # why it waits or failed; when it is ready, what was repaired
  encryptionKeys @8 :Text $A.column("Keys");    # slots in use with their kinds: 0 nodeID, 5 static
  type @9 :Text $A.column("Type");              # partition or directory
  size @10 :UInt64;                             # bytes; 0: unknown
  prettySize @11 :Text $A.column("Size");
  target @12 :Text;                             # where it is mounted; empty: a volume of the system, or not mounted
}
struct SwapStatusSpec $A.resource((type = "SwapStatuses.block.talos.dev", namespace = "runtime", aliases = ["swap"])) {
  # A device to which the kernel moves memory. The id is the device.
  device @0 :Text $A.column("Device");
  size @1 :UInt64;                              # bytes
  prettySize @2 :Text $A.column("Size");
  used @3 :UInt64;
  prettyUsed @4 :Text $A.column("Used");
  priority @5 :Int32 $A.column("Priority");
  type @6 :Text;                                # partition or file
}
struct DiscoveredVolumeSpec $A.resource((type = "DiscoveredVolumes.block.talos.dev", namespace = "runtime")) {
  # A disk, a partition or an open encrypted volume, and its content. The id is the device's name.
  type @0 :Text $A.column("Type");              # disk, partition or cdrom; an open encrypted volume is a disk
  devicePath @1 :Text;                          # /dev/vda5, /dev/mapper/vda6-encrypted
  parent @2 :Text;                              # the disk of a partition, the partition of an open volume: vda, vda6
  size @3 :UInt64;                              # bytes
  prettySize @4 :Text $A.column("Size");
  name @5 :Text $A.column("Discovered");        # gpt, xfs, ext4, vfat, iso9660, luks; empty: unknown
  label @6 :Text $A.column("Label");
  partitionLabel @7 :Text $A.column("PartitionLabel");
  offset @8 :UInt64;                            # of a partition on its disk, in bytes
  readOnly @9 :Bool;
  problem @10 :Text;                            # why it could not be read
}
struct MountStatusSpec $A.resource((type = "MountStatuses.runtime.talos.dev", namespace = "runtime")) {
  # A file system on a block device that the node has mounted, where it is mounted first. The id is the label of the
  # volume, or else the device's name.
  source @0 :Text $A.column("Source");          # /dev/vda5
  target @1 :Text $A.column("Target");
  filesystemType @2 :Text $A.column("Filesystem Type");
  options @3 :List(Text);
  encrypted @4 :Bool $A.column("Encrypted");
}
