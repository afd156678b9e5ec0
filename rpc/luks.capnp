@0xb6d2f1804ac97e35;
# Messages between the brain of machined and the program that handles encrypted volumes
# (machined/disk/encryption, machined/disk/luks): one request, one answer. No capabilities.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");

struct LuksRequest {
  device @0 :Text;                   # /dev/vda5
  union {
    inspect @1 :Void;
    format :group {
      # An empty device, or one whose format was interrupted.
      keys @2 :List(LuksKey);
      keySize @3 :UInt32;            # bits
      sectorSize @4 :UInt32;         # bytes
      label @5 :Text;
      derivation @6 :LuksDerivation;
    }
    open :group {
      # Opens the device with the first key that fits: each is tried at its own slot, then at all others.
      keys @7 :List(LuksKey);
      mapping @8 :Text;              # "vda5-encrypted"; empty: only find the key
      noReadWorkqueue @9 :Bool;
      noWriteWorkqueue @10 :Bool;
      sameCpu @11 :Bool;
    }
    test @12 :List(LuksKey);         # which of them open their own slots
    add :group {
      # Adds a key to a free slot.
      key @13 :LuksKey;
      by @14 :LuksKey;
      derivation @15 :LuksDerivation;
    }
    remove :group {
      # Removes the key of a slot. `keeping` must open another slot.
      slot @16 :UInt32;
      keeping @17 :LuksKey;
    }
    settle @18 :Void;                # the file system is complete
    close @19 :Text;                 # the mapping
    # The requests from here on are about the backup of the header in a file (machined/disk/luks/luks-header-backup.h).
    compare @20 :Text;
    mark @21 :Text;
    backup :group {
      file @22 :Text;
      last @23 :Bool;
    }
    restore :group {
      file @24 :Text;
      keys @25 :List(LuksKey);       # one of them must open the header
    }
    forget @26 :Text;                # the device is not read
    # For these two, the device is the TPM (machined/disk/luks/tpm-sealing.h).
    seal :group {
      secret @27 :Data;
      pcrs @28 :List(UInt32);
      secureBoot @29 :Bool;          # only while Secure Boot is on
    }
    unseal @30 :Text;                # UserData of a token
  }
}
struct LuksKey {
  slot @0 :UInt32;
  passphrase @1 :Data;
  # The token of a sealed key, whose number is the slot; "" without one.
  tokenType @2 :Text;
  userData @3 :Text;                 # JSON
}
struct LuksToken {
  slot @0 :UInt32;
  type @1 :Text;
  userData @2 :Text;
}
struct LuksDerivation {              # argon2id
  memory @0 :UInt32;                 # KiB
  passes @1 :UInt32;
  threads @2 :UInt32;
}
struct LuksAnswer {
  union {
    done @0 :Void;
    failed :group {
      kind @1 :Kind;
      message @2 :Text;
    }
    found :group {
      content @3 :Content;
      slots @4 :List(UInt32);        # in use
      problem @5 :Text;              # why it must not be opened
      tokens @14 :List(LuksToken);   # of sealed keys at slots in use
    }
    opened :group {
      slot @6 :UInt32;
      key @7 :UInt32;                # its index in the request
      fresh @8 :Bool;
    }
    rejected @9 :Void;               # no key fits
    tested @10 :List(Bool);
    compared @11 :Comparison;
    sealed @12 :Text;                # UserData
    unsealed :group {
      secret @13 :Data;
      pcrs @15 :List(UInt32);        # that it was sealed to
    }
  }
  enum Kind { internal @0; precondition @1; busy @2; }
  enum Comparison { none @0; same @1; other @2; changing @3; damaged @4; }
  enum Content { empty @0; luks @1; other @2; }
}
