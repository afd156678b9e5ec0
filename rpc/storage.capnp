@0xb94f0e6c2a7d51e3;
# What a node can keep data on. Spec machine-api.md §6.6.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
$Cxx.allowCancellation;
using import "annotations.capnp".allow;
using import "annotations.capnp".maintenance;

interface Storage {
  disks @0 () -> (disks :List(Disk)) $allow("os:reader") $maintenance;
  # Whole disks, sorted by name, without CD-ROM drives, loop devices and the like.
}
struct Disk {
  device @0 :Text;              # /dev/vda
  size @1 :UInt64;              # bytes
  model @2 :Text; serial @3 :Text; modalias @4 :Text; uuid @5 :Text; wwid @6 :Text;
  type @7 :Type;
  enum Type { unknown @0; ssd @1; hdd @2; nvme @3; sd @4; }
}
