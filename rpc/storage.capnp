@0xb94f0e6c2a7d51e3;
# The disks of a node, the values of META and recovery keys of encrypted volumes.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
$Cxx.allowCancellation;
using import "annotations.capnp".allow;
using import "annotations.capnp".maintenance;
using import "annotations.capnp".audit;
using import "annotations.capnp".base64;
using import "stream.capnp".ByteSink;

interface Storage {
  disks @0 () -> (disks :List(Disk)) $allow("os:reader") $maintenance;
  # Lists whole disks, sorted by name, without CD-ROM drives, loop devices and the like.

  readMeta @1 (key :UInt32) -> (values :List(MetaValue)) $allow("os:admin") $audit;
  # Returns values of the partition META: the value of this key (NotFound without one), or with key 0 all values, sorted
  # by key. Keys of encryption are among them. FailedPrecondition without the partition.
  writeMeta @2 (key :UInt32, value :Data) -> () $allow("os:admin") $audit;
  # Answers when the value is on the disk. The audit log has only its length. InvalidArgument when META has no room for
  # it.
  deleteMeta @3 (key :UInt32) -> () $allow("os:admin") $audit;
  # NotFound if the key has no value.

  newRecoveryKey @4 (volume :Text, slot :UInt32) -> (passphrase :Text) $allow("os:admin") $audit;
  # Creates a passphrase that opens STATE or EPHEMERAL, in a slot that the config names as that of a recovery key. The
  # earlier passphrase of the slot no longer opens the volume. The node does not store the passphrase: only this answer
  # has it. FailedPrecondition when the volume is not encrypted, or the config has no such slot.

  wipe @5 (devices :List(Text), zeroes :Bool, progress :ByteSink) -> () $allow("os:admin") $audit;
  # Erases disks and partitions that nothing uses, named as in DiscoveredVolumes (vdb, vdb1), one after the other.
  # Answers when the zeros are on the disks. All of them are checked before the first is erased. Without `zeroes` only
  # the partition tables and the beginning and the end of the device, and of each of its partitions, are overwritten, so
  # that the device is empty for the node; the data remains. `progress` gets lines about the progress; unset: none.
  # Errors: NotFound for a device that does not exist. FailedPrecondition, with what uses it, when a device or one of its
  # partitions is mounted, is swap, has a volume of the config, or is part of another device; for a disk of the config,
  # the disk of the system and its partitions, a CD-ROM drive and a disk that is read-only. InvalidArgument without a
  # device, and for a device that is named twice, or with its disk. DeadlineExceeded when a disk does not answer.
  # Cancel: ends the work; what was overwritten is lost.
  # Repeat: safe.
}
struct MetaValue {
  key @0 :UInt32;               # 1 to 2^32-1
  value @1 :Data $base64;
}
struct Disk {
  device @0 :Text;              # /dev/vda
  size @1 :UInt64;              # bytes
  model @2 :Text; serial @3 :Text; modalias @4 :Text; uuid @5 :Text; wwid @6 :Text;
  type @7 :Type;
  enum Type { unknown @0; ssd @1; hdd @2; nvme @3; sd @4; }
  name @8 :Text;                # the name that a memory card reports
  busPath @9 :Text;             # /pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/
}
