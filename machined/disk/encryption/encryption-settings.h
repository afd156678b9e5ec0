// The settings of an encrypted volume: from machine.systemDiskEncryption, as far as this machine
// can apply them. Pure.
//
// Keys are derived by argon2id with four passes, a quarter of the machine's memory but at most 1
// GiB, and as many threads as the machine has CPUs, at most four. cryptsetup's benchmark is not
// used: its result depends on the machine's load at that moment and is kept for ever, and the load
// is highest at the first boot.
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
constexpr unsigned kDefaultPcr = 7;                     // of the TPM: Secure Boot
constexpr unsigned kKeyBits = 512, kSectorBytes = 512;  // unless the config says otherwise

enum class KeyKind { kNodeId, kStatic, kTpm, kKms };
kj::StringPtr nameOf(KeyKind kind);  // as the config calls it
// Returns the type of the token of sealed keys of this kind; empty for kinds that are not sealed.
kj::StringPtr tokenTypeOf(KeyKind kind);

// The conditions of a sealed key, and the content of its token (machined/disk/tpm/sealed-key.h,
// kms-client.h).
struct Sealing {
  kj::Array<unsigned> pcrs;   // of the TPM, in ascending order, each once
  bool secureBoot = false;    // sealed only while Secure Boot is on
  kj::String userData;        // empty: the key is not sealed yet
  kj::String endpoint = {};   // of the key server, for kKms (kms-client.h)
  bool beforeConfig = false;  // of STATE: the server is called before the config is read
  bool isTo(const Sealing& other) const {
    return pcrs.asPtr() == other.pcrs && endpoint == other.endpoint;
  }
  Sealing clone() const {
    return {kj::heapArray<unsigned>(pcrs.asPtr()), secureBoot, kj::str(userData), kj::str(endpoint),
            beforeConfig};
  }
};

// Zeroed with the object.
struct VolumeKey {
  unsigned slot = 0;
  KeyKind kind = KeyKind::kNodeId;
  kj::Array<kj::byte> passphrase;  // empty: sealed, see sealed-keys.h
  bool atBoot = true;  // a boot can use it to open the volume; for STATE, before the config is read
  kj::Maybe<Sealing> sealing = nullptr;  // of a kind with a token

  VolumeKey() = default;
  VolumeKey(unsigned slot, KeyKind kind, kj::Array<kj::byte> passphrase, bool atBoot = true)
      : slot(slot), kind(kind), passphrase(kj::mv(passphrase)), atBoot(atBoot) {}
  VolumeKey at(unsigned slot) const {
    VolumeKey copy(slot, kind, kj::heapArray<kj::byte>(passphrase.asPtr()), atBoot);
    copy.sealing = sealing.map([](const Sealing& s) { return s.clone(); });
    return copy;
  }
  VolumeKey clone() const { return at(slot); }
  VolumeKey(VolumeKey&&) = default;
  VolumeKey& operator=(VolumeKey&& other) {
    zeroize(passphrase);
    slot = other.slot;
    kind = other.kind;
    passphrase = kj::mv(other.passphrase);
    atBoot = other.atBoot;
    sealing = kj::mv(other.sealing);
    return *this;
  }
  ~VolumeKey() noexcept(false) { zeroize(passphrase); }

  bool isSealed() const { return sealing != nullptr && passphrase.size() == 0; }
  bool opensLike(const VolumeKey& other) const {
    return passphrase.size() > 0 && passphrase.asPtr() == other.passphrase;
  }
};

struct Derivation {
  uint32_t memory;  // KiB
  uint32_t passes;
  uint32_t threads;
};
Derivation derivationFor(uint64_t memoryBytes, unsigned cpus);

struct VolumeSettings {
  kj::String label;
  kj::Vector<VolumeKey> keys;     // sorted by slot; never empty
  kj::Vector<unsigned> recovery;  // slots of keys that the node does not have
  unsigned keySize = kKeyBits, sectorSize = kSectorBytes;
  bool noReadWorkqueue = false, noWriteWorkqueue = false, sameCpu = false;
};

// Throws InvalidArgument for errors that the config's own check would have found,
// FailedPrecondition for a key that this machine cannot make. `uuid` is the text of the machine's
// UUID, or empty.
VolumeSettings settingsOf(config::Encryption::Reader encryption, kj::StringPtr label,
                          kj::StringPtr uuid);

// Returns the settings of a list that was in force earlier, on this machine or another. Keys that
// this machine cannot make are left out, perhaps all. Does not throw for settings with which a
// machine could have booted.
VolumeSettings settingsBefore(config::Encryption::Reader encryption, kj::StringPtr label,
                              kj::StringPtr uuid);

// Returns true if static keys of STATE are stored in META, where anyone with access to the disk can
// read them: if the config has the option, or has no key of the machine (nodeID, TPM), so that no
// other key could open STATE at a boot.
bool isReadableInMeta(config::Encryption::Reader encryption);
constexpr kj::StringPtr kReadableInMeta = "readable_in_meta"_kj;  // the option

// Returns settings with only the machine's own key, which needs no config, in any slot.
// FailedPrecondition if the machine's UUID is too weak.
VolumeSettings settingsOfMachine(kj::StringPtr label, kj::StringPtr uuid);

bool hasMachineKey(const VolumeSettings& settings);
bool hasSealedKey(const VolumeSettings& settings);  // one without a passphrase
bool hasKmsKey(const VolumeSettings& settings);
// Returns true if both are sealed, by the same means and to the same conditions.
bool isSealedLike(const VolumeKey& one, const VolumeKey& other);
// Returns a copy with these keys.
VolumeSettings withKeys(const VolumeSettings& settings, kj::Vector<VolumeKey> keys);
// The change from the keys of `opener`, with which a volume was opened, to the keys of `wanted`,
// which include one of the machine. A key change (open-encrypted-volume.h) from .before to .after
// does this. After a cut at any point the machine's key, or one of the opener's keys, still opens
// the volume. A key of the opener at a slot that `wanted` leaves to a recovery key stays there.
struct HandOver {
  VolumeSettings before, after;
};
HandOver handOver(const VolumeSettings& opener, const VolumeSettings& wanted);

// Returns true if both have the same keys at the same slots, with the same `atBoot`, and leave the
// same slots to recovery keys. Sealed keys are the same if they are sealed to the same registers,
// or by the same server.
bool sameKeys(const VolumeSettings& a, const VolumeSettings& b);

// Describes these slots by the keys in the settings: "0 nodeID, 3 recovery". "9 unknown" is a slot
// in no list.
kj::String keysText(kj::ArrayPtr<const unsigned> slots, const VolumeSettings& settings);

}  // namespace talos::machined
