// How a volume is encrypted, as machine.systemDiskEncryption says it and this machine can do it.
// Pure.
//
// Keys are derived by argon2id with four passes, a quarter of the machine's memory but at most 1
// GiB, and as many threads as it has CPUs, at most four. There is no benchmark, as cryptsetup has
// it: what it finds depends on what else the machine does at that moment, and stays so for ever;
// the first boot is when it does most.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "common/memory/zeroize.h"
#include "rpc/config.capnp.h"
#include "rpc/luks.capnp.h"

namespace talos::machined {

constexpr kj::StringPtr kStateName = "STATE"_kj;
constexpr unsigned kKeySlots = 32;
constexpr unsigned kKeyBits = 512, kSectorBytes = 512;  // unless the config says otherwise

enum class KeyKind { kNodeId, kStatic };
kj::StringPtr nameOf(KeyKind kind);  // as the config calls it

// Zeroed with the object.
struct VolumeKey {
  unsigned slot = 0;
  KeyKind kind = KeyKind::kNodeId;
  kj::Array<kj::byte> passphrase;
  bool atBoot = true;  // a boot has it when it opens the volume: of STATE, without its config

  VolumeKey() = default;
  VolumeKey(unsigned slot, KeyKind kind, kj::Array<kj::byte> passphrase, bool atBoot = true)
      : slot(slot), kind(kind), passphrase(kj::mv(passphrase)), atBoot(atBoot) {}
  VolumeKey clone() const {
    return {slot, kind, kj::heapArray<kj::byte>(passphrase.asPtr()), atBoot};
  }
  VolumeKey(VolumeKey&&) = default;
  VolumeKey& operator=(VolumeKey&& other) {
    zeroize(passphrase);
    slot = other.slot;
    kind = other.kind;
    passphrase = kj::mv(other.passphrase);
    atBoot = other.atBoot;
    return *this;
  }
  ~VolumeKey() noexcept(false) { zeroize(passphrase); }

  bool opensLike(const VolumeKey& other) const { return passphrase.asPtr() == other.passphrase; }
};

struct Derivation {
  uint32_t memory;  // KiB
  uint32_t passes;
  uint32_t threads;
};
Derivation derivationFor(uint64_t memoryBytes, unsigned cpus);

struct VolumeSettings {
  kj::String label;
  kj::Vector<VolumeKey> keys;     // sorted by slot, at least one
  kj::Vector<unsigned> recovery;  // slots of keys that the node does not have
  unsigned keySize = kKeyBits, sectorSize = kSectorBytes;
  bool noReadWorkqueue = false, noWriteWorkqueue = false, sameCpu = false;
};

// Throws InvalidArgument for what the config's own check would have found, FailedPrecondition for a
// key that this machine cannot make. `uuid` is the text of its UUID, empty when it has none.
VolumeSettings settingsOf(config::Encryption::Reader encryption, kj::StringPtr label,
                          kj::StringPtr uuid);

// The same of a list that was in force, on this machine or another: without the keys that this one
// cannot make, which may leave none. Does not throw for what boots would have.
VolumeSettings settingsBefore(config::Encryption::Reader encryption, kj::StringPtr label,
                              kj::StringPtr uuid);

// True if static keys of STATE are stored in META, where whoever has the disk can read them: the
// config has the option, or no key with nodeID, so that nothing else could open STATE at a boot.
bool isReadableInMeta(config::Encryption::Reader encryption);
constexpr kj::StringPtr kReadableInMeta = "readable_in_meta"_kj;  // the option

// With the one key that the machine has without any config, in whatever slot. FailedPrecondition
// when its UUID is not good enough.
VolumeSettings settingsOfMachine(kj::StringPtr label, kj::StringPtr uuid);

bool hasMachineKey(const VolumeSettings& settings);
// The keys of a volume that was opened with those of `opener` become those of `wanted`, which has
// one of the machine. A change (open-encrypted-volume.h) from .before to .after does that so that
// after a cut anywhere the machine's key opens it, or one of the opener's still does; what the
// opener has at a slot that `wanted` leaves to a recovery key stays there.
struct HandOver {
  VolumeSettings before, after;
};
HandOver handOver(const VolumeSettings& opener, const VolumeSettings& wanted);

// True if both have the same keys at the same slots, for boots too, and leave the same slots to
// recovery keys.
bool sameKeys(const VolumeSettings& a, const VolumeSettings& b);

// "0 nodeID, 3 recovery": these slots, with what the settings have there. "9 unknown" is in no
// list.
kj::String keysText(kj::ArrayPtr<const unsigned> slots, const VolumeSettings& settings);

}  // namespace talos::machined
