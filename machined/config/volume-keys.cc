#include "machined/config/volume-keys.h"

#include <string.h>

#include "common/base/error.h"
#include "common/text/size.h"
#include "machined/disk/devices/meta-values.h"
#include "machined/disk/encryption/open-encrypted-volume.h"
#include "machined/disk/volumes/volume-changes.h"
#include "machined/disk/volumes/volume-plan.h"
#include "machined/resources/store-records.h"
#include "rpc/storage-resources.capnp.h"

namespace talos::machined {
namespace {

using Status = rpc::VolumeStatusSpec;

struct VolumeEncryption {
  Encryption state = nullptr, ephemeral = nullptr;
};
VolumeEncryption encryptionOf(config::Machine::Reader machine) {
  return {encryptionOfState(machine), encryptionOfEphemeral(machine)};
}
VolumeEncryption running(MachineConfigReader& reader, Store& store) {
  KJ_IF_MAYBE (machine, reader.tryMachine(store)) return encryptionOf(*machine);
  return {};
}

// Returns the key lists that boots rely on until the new lists are stored. If a staged config has
// no list for a volume, the volume waits to be wiped: until then its header has the keys of the
// running config.
VolumeEncryption storedNow(VolumeEncryption running, kj::Maybe<config::Config::Reader> staged) {
  KJ_IF_MAYBE (stored, staged) {
    auto next = encryptionOf(stored->getMachine());
    if (next.state == nullptr) next.state = running.state;
    if (next.ephemeral == nullptr) next.ephemeral = running.ephemeral;
    return next;
  }
  return running;
}

// A volume that is not a mounted partition has no keys: only the config changes.
kj::Promise<void> changeKeys(SystemPartitions& partitions, kj::Maybe<kj::String> node,
                             kj::StringPtr label, Encryption before, Encryption after,
                             KeyChangeExtent extent, KeyChanges::Persist persist, SayLine step) {
  KJ_IF_MAYBE (n, node) {
    return partitions.change(kj::mv(*n), label, before, after, extent, kj::mv(persist),
                             kj::mv(step));
  }
  return persist().attach(kj::mv(persist));
}

}  // namespace

void VolumeKeys::check(config::Config::Reader wanted, rpc::ApplyMode mode) {
  if (deps.container) return;
  auto next = encryptionOf(wanted.getMachine());
  deps.partitions.check(kStateName, next.state);
  deps.partitions.check(kEphemeralName, next.ephemeral);
  for (auto volume : wanted.getMachine().getVolumes()) {
    if (volume.hasEncryption()) deps.partitions.check(volume.getId(), volume.getEncryption());
  }
  KJ_IF_MAYBE (machine, deps.reader.tryMachine(deps.store)) {
    checkDocuments(*machine, wanted.getMachine(), mode);
  }
  if (mode != rpc::ApplyMode::NO_REBOOT && mode != rpc::ApplyMode::REBOOT) return;
  auto now = running(deps.reader, deps.store);
  KJ_IF_MAYBE (node, deps.mounted(kStateName)) {
    deps.partitions.checkChange(*node, kStateName, now.state, next.state);
  }
  KJ_IF_MAYBE (node, deps.mounted(kEphemeralName)) {
    deps.partitions.checkChange(*node, kEphemeralName, now.ephemeral, next.ephemeral);
  }
}

// A volume in use that its next boot would refuse is unavailable, whatever the mode.
void VolumeKeys::checkDocuments(config::Machine::Reader before, config::Machine::Reader after,
                                rpc::ApplyMode mode) {
  auto encryptionOf = [](config::StorageVolume::Reader volume) -> Encryption {
    if (!volume.hasEncryption()) return nullptr;
    return volume.getEncryption();
  };
  for (auto old : before.getVolumes()) {
    auto id = old.getId();
    KJ_IF_MAYBE (status, deps.store.tryGet<Status>(id)) {
      auto node = status->getMountLocation();
      KJ_IF_MAYBE (next, volumeNamed(after, id)) {
        bool partition = old.getKind() == config::StorageVolume::Kind::PARTITION &&
                         next->getKind() == config::StorageVolume::Kind::PARTITION;
        if (!partition || node.size() == 0 || status->getTarget().size() == 0) continue;
        deps.partitions.checkChange(node, id, encryptionOf(old), encryptionOf(*next));
      } else if (mode == rpc::ApplyMode::NO_REBOOT && node.size() > 0) {
        KJ_IF_MAYBE (reason, deps.whySwapStays(node)) {
          fail(ErrorKind::kFailedPrecondition,
               kj::str(documentOf(old), " cannot be removed now: ", *reason, "; use mode reboot"));
        }
      }
    }
  }
  if (mode == rpc::ApplyMode::NO_REBOOT) checkVolumeTypes(deps.store, before, after);
}

struct VolumeKeys::OfDocument {
  kj::String id, node;  // the mapping, also if it is not open
  bool mounted;
  kj::Own<SecretMessage> message = kj::heap<SecretMessage>();
  config::Encryption::Reader before = {}, after = {};
};

kj::Promise<void> VolumeKeys::persist(config::Config::Reader wanted, rpc::ApplyMode mode,
                                      kj::Maybe<config::Config::Reader> staged, Persist persist,
                                      Step step) {
  if (deps.container) {
    co_await persist();
    co_return;
  }
  kj::Vector<OfDocument> others;
  KJ_IF_MAYBE (machine, deps.reader.tryMachine(deps.store)) {
    others = ofDocuments(*machine, staged, wanted.getMachine());
  }
  auto next = encryptionOf(wanted.getMachine());
  auto now = storedNow(running(deps.reader, deps.store), staged);
  auto extent = mode == rpc::ApplyMode::NO_REBOOT ? KeyChangeExtent::kWhole
                                                  : KeyChangeExtent::kUntilPersisted;
  auto report = [&step](kj::StringPtr line) { step(line); };
  co_await changeKeys(
      deps.partitions, deps.mounted(kStateName), kStateName, now.state, next.state, extent,
      [&]() {
        auto last = [&]() { return changeDocuments(others, extent, persist, step); };
        return changeEphemeral(now.ephemeral, next.ephemeral, extent, kj::mv(last), report);
      },
      report);
}

// The documents are copied: the running config may be replaced meanwhile.
kj::Vector<VolumeKeys::OfDocument> VolumeKeys::ofDocuments(config::Machine::Reader before,
                                                           kj::Maybe<config::Config::Reader> staged,
                                                           config::Machine::Reader after) {
  kj::Vector<OfDocument> all;
  KJ_IF_MAYBE (config, staged) before = config->getMachine();
  for (auto volume : after.getVolumes()) {
    auto id = volume.getId();
    auto old = volumeNamed(before, id);
    auto status = deps.store.tryGet<Status>(id);
    if (old == nullptr || status == nullptr) continue;
    auto& from = KJ_ASSERT_NONNULL(old);
    auto& now = KJ_ASSERT_NONNULL(status);
    if (!from.hasEncryption() || !volume.hasEncryption()) continue;
    kj::StringPtr place = now.getLocation();
    if (!place.startsWith("/dev/") || now.getEncryptionProvider().size() == 0) continue;
    auto& out = all.add(OfDocument{
        .id = kj::str(id),
        .node = kj::str("/dev/mapper/", mappingOf(kj::str(place.slice(strlen("/dev/"))))),
        .mounted = now.getTarget().size() > 0});
    auto both = out.message->initRoot<config::SystemDiskEncryption>();
    both.setState(from.getEncryption());
    both.setEphemeral(volume.getEncryption());
    out.before = both.asReader().getState();
    out.after = both.asReader().getEphemeral();
  }
  return all;
}

// Changes one volume around the change of the rest, and that around `persist`.
kj::Promise<void> VolumeKeys::changeDocuments(kj::ArrayPtr<OfDocument> rest, KeyChangeExtent extent,
                                              Persist& persist, Step& step) {
  if (rest.size() == 0) co_return co_await persist();
  auto& volume = rest[0];
  bool stored = false;
  auto others = [&]() {
    stored = true;
    return changeDocuments(rest.slice(1, rest.size()), extent, persist, step);
  };
  auto report = [&step](kj::StringPtr line) { step(line); };
  kj::Maybe<kj::String> problem;
  auto how = volume.mounted ? extent : KeyChangeExtent::kUntilPersisted;
  co_await deps.partitions
      .change(kj::str(volume.node), volume.id, volume.before, volume.after, how, others, report)
      .catch_([&](kj::Exception&& e) {
        if (stored || volume.mounted) kj::throwFatalException(kj::mv(e));
        problem = messageOf(e);
      });
  KJ_IF_MAYBE (text, problem) {
    step(kj::str(volume.id, " is not mounted and gets no new keys: ", *text,
                 "; the next boot tries those of the new config"));
    co_await others();
  }
}

kj::Promise<void> VolumeKeys::changeEphemeral(Encryption before, Encryption after,
                                              KeyChangeExtent extent, Persist persist, Step step) {
  auto node = deps.mounted(kEphemeralName);
  bool waits = node == nullptr && before != nullptr && after != nullptr;
  if (waits) return changeUnmounted(before, after, kj::mv(persist), kj::mv(step));
  return changeKeys(deps.partitions, kj::mv(node), kEphemeralName, before, after, extent,
                    kj::mv(persist), kj::mv(step));
}

// The config is stored in any case: it may have the key that opens the volume.
kj::Promise<void> VolumeKeys::changeUnmounted(Encryption before, Encryption after, Persist persist,
                                              Step step) {
  bool stored = false;
  auto store = [&]() {
    stored = true;
    return persist();
  };
  kj::Maybe<kj::String> problem;
  KJ_IF_MAYBE (partition, co_await deps.ephemeralPartition()) {
    auto report = [&step](kj::StringPtr line) { step(line); };
    co_await deps.partitions
        .change(kj::str("/dev/mapper/", *partition, "-encrypted"), kEphemeralName, before, after,
                KeyChangeExtent::kUntilPersisted, store, report)
        .catch_([&](kj::Exception&& e) {
          if (stored) kj::throwFatalException(kj::mv(e));
          problem = messageOf(e);
        });
  }
  KJ_IF_MAYBE (text, problem) {
    step(kj::str("EPHEMERAL is not mounted and gets no new keys: ", *text,
                 "; the next boot tries those of the new config"));
  }
  if (!stored) co_await persist();
}

kj::Promise<kj::String> VolumeKeys::newRecoveryKey(kj::String volume, unsigned slot) {
  auto now = running(deps.reader, deps.store);
  bool state = volume == kStateName;
  if (!state && volume != kEphemeralName) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("\"", volume, "\" is not a volume that can be encrypted; use STATE or EPHEMERAL"));
  }
  KJ_IF_MAYBE (node, deps.mounted(state ? kStateName : kEphemeralName)) {
    return deps.partitions.newRecoveryKey(kj::mv(*node), state ? kStateName : kEphemeralName,
                                          state ? now.state : now.ephemeral, slot);
  }
  fail(ErrorKind::kFailedPrecondition,
       kj::str(volume, " is not mounted from a partition, so it has no keys"));
}

namespace {
constexpr auto kStateKeysTag = static_cast<uint32_t>(MetaTag::kStateEncryption);
}

kj::Promise<kj::Maybe<kj::Array<kj::byte>>> StateKeysInMeta::read() {
  return meta.read(pool.of(0), kStateKeysTag)
      .then(
          [](kj::Vector<MetaValue> values) -> kj::Maybe<kj::Array<kj::byte>> {
            return kj::mv(values[0].value);
          },
          [](kj::Exception&& e) -> kj::Maybe<kj::Array<kj::byte>> {
            auto kind = kindOf(e);
            // The value or META does not exist; mounting reports several METAs.
            if (kind == ErrorKind::kNotFound || kind == ErrorKind::kFailedPrecondition) {
              return nullptr;
            }
            kj::throwFatalException(kj::mv(e));
          });
}

kj::Promise<void> StateKeysInMeta::store(kj::Array<kj::byte> text) {
  return meta.write(pool.of(0), kStateKeysTag, kj::mv(text));
}

kj::Promise<void> StateKeysInMeta::remove() {
  return meta.remove(pool.of(0), kStateKeysTag).catch_([](kj::Exception&& e) {
    if (kindOf(e) != ErrorKind::kNotFound) kj::throwFatalException(kj::mv(e));
  });
}

void StoredVolumeReports::report(kj::StringPtr label, const VolumeReport& report) {
  putRecord<Status>(store, label, [&](Status::Builder out) {
    out.setPhase(nameOf(report.phase));
    out.setLocation(report.location);
    out.setMountLocation(report.mountLocation);
    out.setFilesystem(report.fileSystem);
    out.setEncryptionProvider(report.encrypted ? "luks2" : "");
    KJ_IF_MAYBE (slot, report.slot) out.setEncryptionSlot(kj::str(*slot));
    out.setErrorMessage(report.error);
    out.setType(report.type);
    out.setSize(report.bytes);
    if (report.bytes > 0) out.setPrettySize(decimalSize(report.bytes));
    out.setTarget(report.target);
  });
}

namespace {

// Keeps the other fields of the record.
void changeVolume(Store& store, kj::StringPtr label, kj::Function<void(Status::Builder)> change) {
  KJ_IF_MAYBE (stored, store.tryGet<Status>(label)) {
    putRecord<Status>(store, label, [&](Status::Builder out) {
      out.setPhase(stored->getPhase());
      out.setLocation(stored->getLocation());
      out.setMountLocation(stored->getMountLocation());
      out.setFilesystem(stored->getFilesystem());
      out.setEncryptionProvider(stored->getEncryptionProvider());
      out.setEncryptionSlots(stored->getEncryptionSlots());
      out.setEncryptionSlot(stored->getEncryptionSlot());
      out.setErrorMessage(stored->getErrorMessage());
      out.setEncryptionKeys(stored->getEncryptionKeys());
      out.setType(stored->getType());
      out.setSize(stored->getSize());
      out.setPrettySize(stored->getPrettySize());
      out.setTarget(stored->getTarget());
      change(out);
    });
  }
}

}  // namespace

void StoredVolumeReports::reportKeys(kj::StringPtr label, const KeysReport& report) {
  changeVolume(store, label, [&](Status::Builder out) {
    auto slots = out.initEncryptionSlots(static_cast<unsigned>(report.slots.size()));
    for (unsigned i = 0; i < report.slots.size(); ++i) slots.set(i, report.slots[i]);
    out.setEncryptionKeys(report.keys);
  });
}

void StoredVolumeReports::reportFailure(kj::StringPtr label, kj::StringPtr problem) {
  changeVolume(store, label, [&](Status::Builder out) {
    out.setPhase(nameOf(VolumePhase::kFailed));
    out.setErrorMessage(problem);
  });
}

void StoredVolumeReports::reportTarget(kj::StringPtr label, kj::StringPtr target) {
  changeVolume(store, label, [&](Status::Builder out) { out.setTarget(target); });
}

}  // namespace talos::machined
