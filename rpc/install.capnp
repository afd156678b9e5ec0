@0x9c41b2d07fe35a68;
# Messages between the brain of machined and the installer, the program that writes to the system disk
# (machined/disk/volumes/installer-client.h, machined/disk/installer): one request, messages about its progress, one
# answer. No capabilities.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");

struct InstallRequest {
  union {
    none @0 :Void;
    write :group {
      # Everything except the last write, which marks the disk as that of an installed node.
      disk @1 :Text;                 # /dev/vda
      wipe @2 :Bool;                 # even if there is data on it
      arguments @3 :Text;            # of the kernel, in the boot entry
      again @4 :Bool;                # an earlier request may have completed
    }
    finish :group {
      # The last write.
      disk @5 :Text;
      bootLoader @6 :Bool;
    }
    format :group {
      # Makes an XFS on a partition whose first `empty` bytes are zero.
      device @7 :Text;
      label @8 :Text;
      empty @9 :UInt64;
    }
    grow @10 :Text;                  # the last partition of this disk, to the disk's end
    upgrade :group {
      # Writes another system into a slot that does not run.
      device @11 :Text;              # the partition BOOT
      slot @12 :Text;                # B
      image @13 :ImageMount;              # with the folder usr/install
      arguments @14 :Text;
    }
    slots @15 :Text;                 # read the slots of the partition BOOT
    choose :group {
      # Selects the slot to boot.
      device @16 :Text;
      confirmed @17 :Text;
      attempt @18 :Text;             # empty: none
      healthTimeoutS @19 :UInt32;    # of the attempt
    }
    clear :group {
      # Sets the first `bytes` bytes of a partition to zero.
      device @20 :Text;
      bytes @21 :UInt64;
    }
    erase :group {
      # Resets: erases these partitions, and at last the mark of the reset in META.
      disk @22 :Text;
      labels @23 :List(Text);        # empty: all, and the partition table
    }
    divide :group {
      # Makes a disk for the user's data, with an XFS on each partition.
      disk @24 :Text;
      sizes @25 :List(UInt64);       # bytes; 0 for the last one: the rest
    }
    upgradeFrom :group {
      # Like upgrade, from an archive that the program has as its descriptor 4 when it starts.
      device @26 :Text;
      slot @27 :Text;
      parts @28 :List(ImagePart);
      arguments @29 :Text;
    }
    version :group {
      # Reads the version that an image says it has; writes nothing. Fails if the image is too large for the slot.
      image @30 :ImageMount;
      parts @31 :List(ImagePart);    # if not empty, the image is in the archive, as for upgradeFrom
      device @45 :Text;              # as for upgrade; empty: an image of any size is good
      slot @46 :Text;
    }
    addPartition :group {
      # Adds a partition with an unfinished name to a disk that is empty, or that has partitions of such volumes or of
      # the system only; or empties the unfinished partition of this name.
      disk @33 :Text;
      name @34 :Text;                # u-data
      offset @35 :UInt64;            # bytes
      size @36 :UInt64;
      swap @37 :Bool;                # the type of the partition
    }
    finishPartition :group {
      # The last write: the partition gets its name, and is never emptied again.
      disk @38 :Text;
      name @39 :Text;
    }
    growPartition :group {
      # To this size, into the space after it.
      disk @40 :Text;
      name @41 :Text;
      size @42 :UInt64;
    }
    makeSwap :group {
      # Writes the header of swap.
      device @43 :Text;
    }
    wipe :group {
      # Overwrites a disk or a partition that nothing uses with zeros: all of it, or only where its content is recognized.
      device @47 :Text;              # /dev/vdb
      zeroes @48 :Bool;              # all of it
    }
  }
  found @32 :FoundOnDisk;            # of write without wipe, of divide and addPartition: content of the disk
  ephemeral @44 :EphemeralSize;      # of write and grow
}
struct EphemeralSize {
  # The size of the partition EPHEMERAL; unset: all of the free space, and it grows.
  most @0 :UInt64;                   # bytes; 0 without mostPercent: all
  mostPercent @1 :UInt8;             # of the free space, in place of bytes
  leavesMost @2 :Bool;               # the maximum is what stays free
  fixed @3 :Bool;                    # it does not grow
  least @4 :UInt64;                  # bytes
}
struct InstallAnswer {
  union {
    none @0 :Void;
    progress @1 :Text;                 # a line of progress for the console; more messages follow
    done @2 :Bool;                   # true: something was changed
    failed @3 :Text;
    slots @4 :Slots;
  }
}
struct FoundOnDisk {
  # The content of a whole disk, as libblkid finds it, in plain characters.
  table @0 :Text;                    # gpt, dos; empty: no partition table
  partitions @1 :List(Text);         # their names; the number of one without a name
  volumes @2 :List(Volume);          # file systems, and parts of arrays and groups, on the whole disk
  struct Volume { type @0 :Text; label @1 :Text; }
}
struct ImageMount {
  # A mount as containerd describes it; `type` is "bind" or "overlay".
  type @0 :Text;
  source @1 :Text;
  options @2 :List(Text);
}
struct ImagePart {
  # A file of an image, at its place in an archive.
  name @0 :Text;                     # below usr/install
  offset @1 :UInt64;
  size @2 :UInt64;
}
struct Slots {
  confirmed @0 :Text;                # A or B
  attempt @1 :Text;                  # that will be tried, or was tried; empty: none
  tries @2 :UInt32;                  # that are left
  systems @3 :List(System);          # that are complete
  struct System { slot @0 :Text; version @1 :Text; }
  image @4 :Text;                    # of the request `version`, which answers only this and the next field
  configKeys @5 :Text;               # common/config/config-key-list.h; empty: the image does not list them
}
