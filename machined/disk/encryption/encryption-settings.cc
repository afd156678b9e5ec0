#include "machined/disk/encryption/encryption-settings.h"

#include <algorithm>
#include <set>

#include "common/base/error.h"
#include "common/disk/sealed-key-names.h"
#include "machined/disk/encryption/node-id-passphrase.h"

namespace talos::machined {
namespace {

constexpr uint64_t kMostMemory = 1u << 30;
constexpr uint32_t kPasses = 4;
constexpr unsigned kMostThreads = 4;

[[noreturn]] void refuseConfig(kj::String problem) {
  fail(ErrorKind::kInvalidArgument, problem);
}

VolumeKey tpmKey(config::EncryptionKey::Reader key) {
  auto tpm = key.getTpm();
  std::set<unsigned> pcrs;
  if (tpm.hasOptions()) {
    for (auto pcr : tpm.getOptions().getPcrs()) pcrs.insert(pcr);
  } else {
    pcrs.insert(kDefaultPcr);
  }
  VolumeKey result(key.getSlot(), KeyKind::kTpm, nullptr);
  kj::Vector<unsigned> list;
  for (auto pcr : pcrs) list.add(pcr);
  result.sealing =
      Sealing{list.releaseAsArray(), tpm.getCheckSecurebootStatusOnEnroll(), kj::String()};
  return result;
}

VolumeKey kmsKey(config::EncryptionKey::Reader key, kj::StringPtr label) {
  VolumeKey result(key.getSlot(), KeyKind::kKms, nullptr);
  auto& sealing = result.sealing.emplace();
  sealing.endpoint = kj::str(key.getKms().getEndpoint());
  sealing.beforeConfig = label == kStateName;
  return result;
}

VolumeKey keyOf(config::EncryptionKey::Reader key, kj::StringPtr label, kj::StringPtr uuid,
                bool textAtBoot) {
  if (key.hasStatic()) {
    auto text = key.getStatic().getPassphrase();
    if (text.size() == 0)
      refuseConfig(kj::str("the passphrase of slot ", key.getSlot(), " is missing"));
    return {key.getSlot(), KeyKind::kStatic, kj::heapArray<kj::byte>(text.asBytes()), textAtBoot};
  }
  if (!key.hasNodeID() && key.hasKms()) return kmsKey(key, label);
  if (!key.hasNodeID() && key.hasTpm()) return tpmKey(key);
  if (!key.hasNodeID())
    refuseConfig(kj::str("the kind of the key of slot ", key.getSlot(), " is missing"));
  return {key.getSlot(), KeyKind::kNodeId, nodePassphrase(uuid, label)};
}

}  // namespace

bool isReadableInMeta(config::Encryption::Reader encryption) {
  for (auto option : encryption.getOptions()) {
    if (option == kReadableInMeta) return true;
  }
  for (auto key : encryption.getKeys()) {
    if ((key.hasNodeID() || key.hasTpm() || key.hasKms()) && !key.hasStatic()) return false;
  }
  return true;
}

kj::StringPtr nameOf(KeyKind kind) {
  switch (kind) {
    case KeyKind::kNodeId:
      return "nodeID"_kj;
    case KeyKind::kStatic:
      return "static"_kj;
    case KeyKind::kTpm:
      return "tpm"_kj;
    case KeyKind::kKms:
      break;
  }
  return "kms"_kj;
}

kj::StringPtr tokenTypeOf(KeyKind kind) {
  return kind == KeyKind::kTpm ? kTpmToken : kind == KeyKind::kKms ? kKmsToken : nullptr;
}

Derivation derivationFor(uint64_t memoryBytes, unsigned cpus) {
  auto memory = std::min(memoryBytes / 4, kMostMemory) >> 10;
  auto threads = std::clamp(cpus, 1u, kMostThreads);
  return {static_cast<uint32_t>(memory), kPasses, threads};
}

namespace {
// Treatment of a key that cannot be made.
enum class Unmade { kRefused, kLeftOut };
VolumeSettings readSettings(config::Encryption::Reader encryption, kj::StringPtr label,
                            kj::StringPtr uuid, Unmade unmade) {
  VolumeSettings settings;
  settings.label = kj::str(label);
  bool slots[kKeySlots] = {}, textAtBoot = label != kStateName || isReadableInMeta(encryption);
  for (auto key : encryption.getKeys()) {
    auto slot = key.getSlot();
    if (slot >= kKeySlots) refuseConfig(kj::str(slot, " is not a valid key slot; must be 0 to 31"));
    if (slots[slot]) refuseConfig(kj::str("key slot ", slot, " is a duplicate"));
    slots[slot] = true;
    bool made = key.hasStatic() || key.hasNodeID() || key.hasKms() || key.hasTpm();
    if (key.hasRecovery() && !made) {
      settings.recovery.add(slot);
    } else {
      bool makeable = key.hasStatic() || !key.hasNodeID() || weaknessOf(uuid) == nullptr;
      if (unmade == Unmade::kLeftOut && !makeable) continue;
      settings.keys.add(keyOf(key, label, uuid, textAtBoot));
    }
  }
  std::sort(settings.keys.begin(), settings.keys.end(),
            [](auto& a, auto& b) { return a.slot < b.slot; });
  std::sort(settings.recovery.begin(), settings.recovery.end());
  if (encryption.getKeySize() != 0) settings.keySize = encryption.getKeySize();
  if (encryption.getBlockSize() != 0) settings.sectorSize = encryption.getBlockSize();
  for (auto option : encryption.getOptions()) {
    if (option == "no_read_workqueue") settings.noReadWorkqueue = true;
    if (option == "no_write_workqueue") settings.noWriteWorkqueue = true;
    if (option == "same_cpu_crypt") settings.sameCpu = true;
  }
  return settings;
}

}  // namespace

VolumeSettings settingsOf(config::Encryption::Reader encryption, kj::StringPtr label,
                          kj::StringPtr uuid) {
  auto settings = readSettings(encryption, label, uuid, Unmade::kRefused);
  if (settings.keys.empty()) {
    refuseConfig(
        kj::str("an encrypted partition needs at least one static, nodeID, kms or tpm key"));
  }
  return settings;
}

VolumeSettings settingsBefore(config::Encryption::Reader encryption, kj::StringPtr label,
                              kj::StringPtr uuid) {
  return readSettings(encryption, label, uuid, Unmade::kLeftOut);
}

VolumeSettings settingsOfMachine(kj::StringPtr label, kj::StringPtr uuid) {
  VolumeSettings settings;
  settings.label = kj::str(label);
  settings.keys.add(0u, KeyKind::kNodeId, nodePassphrase(uuid, label));
  return settings;
}

bool hasSealedKey(const VolumeSettings& settings) {
  for (auto& key : settings.keys) {
    if (key.isSealed()) return true;
  }
  return false;
}

bool hasKmsKey(const VolumeSettings& settings) {
  for (auto& key : settings.keys) {
    if (key.kind == KeyKind::kKms) return true;
  }
  return false;
}

VolumeSettings withKeys(const VolumeSettings& settings, kj::Vector<VolumeKey> keys) {
  VolumeSettings result;
  result.label = kj::str(settings.label);
  result.keys = kj::mv(keys);
  result.recovery.addAll(settings.recovery);
  result.keySize = settings.keySize;
  result.sectorSize = settings.sectorSize;
  result.noReadWorkqueue = settings.noReadWorkqueue;
  result.noWriteWorkqueue = settings.noWriteWorkqueue;
  result.sameCpu = settings.sameCpu;
  return result;
}

bool hasMachineKey(const VolumeSettings& settings) {
  for (auto& key : settings.keys) {
    if (key.kind == KeyKind::kNodeId) return true;
  }
  return false;
}

// The key change takes a key at a slot of the `before` list for a key of that list, and removes it;
// and the first key of the `after` list is added first.
HandOver handOver(const VolumeSettings& opener, const VolumeSettings& wanted) {
  HandOver result;
  result.before.label = kj::str(opener.label);
  for (auto& key : opener.keys) result.before.keys.add(key.at(kKeySlots + key.slot));
  result.after.label = kj::str(wanted.label);
  for (bool machine : {true, false}) {
    for (auto& key : wanted.keys) {
      if ((key.kind == KeyKind::kNodeId) == machine) result.after.keys.add(key.clone());
    }
  }
  result.after.recovery.addAll(wanted.recovery);
  return result;
}

bool isSealedLike(const VolumeKey& one, const VolumeKey& other) {
  KJ_IF_MAYBE (a, one.sealing) {
    KJ_IF_MAYBE (b, other.sealing) return one.kind == other.kind && a->isTo(*b);
  }
  return false;
}

bool sameKeys(const VolumeSettings& a, const VolumeSettings& b) {
  if (a.keys.size() != b.keys.size() || a.recovery.asPtr() != b.recovery.asPtr()) return false;
  for (size_t i = 0; i < a.keys.size(); ++i) {
    auto &one = a.keys[i], &other = b.keys[i];
    bool sealed = one.sealing != nullptr || other.sealing != nullptr;
    bool same = sealed ? isSealedLike(one, other) : one.opensLike(other);
    if (one.slot != other.slot || one.atBoot != other.atBoot || !same) return false;
  }
  return true;
}

kj::String keysText(kj::ArrayPtr<const unsigned> slots, const VolumeSettings& settings) {
  auto kindOf = [&](unsigned slot) {
    for (auto& key : settings.keys) {
      if (key.slot == slot) return nameOf(key.kind);
    }
    for (auto reserved : settings.recovery) {
      if (reserved == slot) return "recovery"_kj;
    }
    return "unknown"_kj;
  };
  auto texts = KJ_MAP(slot, slots) {
    return kj::str(slot, " ", kindOf(slot));
  };
  return kj::strArray(texts, ", ");
}

}  // namespace talos::machined
