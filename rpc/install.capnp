@0x9c41b2d07fe35a68;
# What the brain of machined and the installer, the program that writes to the system disk, say to each other
# (machined/storage/installer.h, machined/install). One request, messages about its progress, one answer. No
# capabilities.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");

struct InstallRequest {
  union {
    none @0 :Void;
    write :group {
      # Everything but what makes the disk one of an installed node.
      disk @1 :Text;                 # /dev/vda
      wipe @2 :Bool;                 # whatever is on it
      arguments @3 :Text;            # of the kernel, in the boot entry
      again @4 :Bool;                # a request before this one may have got to its end
    }
    finish :group {
      # That.
      disk @5 :Text;
      bootLoader @6 :Bool;
    }
    format :group {
      # An XFS on a partition whose first bytes, so many, are zero.
      device @7 :Text;
      label @8 :Text;
      empty @9 :UInt64;
    }
    grow @10 :Text;                  # the last partition of this disk, to the disk's end
  }
}
struct InstallAnswer {
  union {
    none @0 :Void;
    doing @1 :Text;                  # a line for people; more follows
    done @2 :Bool;                   # whether anything had to be done
    failed @3 :Text;
  }
}
