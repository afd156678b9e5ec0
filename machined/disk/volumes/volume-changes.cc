#include "machined/disk/volumes/volume-changes.h"

#include <capnp/any.h>

#include "common/base/error.h"
#include "machined/disk/volumes/ephemeral-volume.h"
#include "machined/disk/volumes/volume-plan.h"
#include "machined/disk/volumes/xfs-growth.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/storage-resources.capnp.h"

namespace talos::machined {

using config::StorageVolume;
using Status = rpc::VolumeStatusSpec;

namespace {

// Stages of MachineStatus in which nothing new begins.
constexpr kj::StringPtr kEnding[] = {"failed"_kj, "rebooting"_kj, "shuttingDown"_kj,
                                     "resetting"_kj};

template <typename Reader>
bool areSame(Reader a, Reader b) {
  return capnp::AnyStruct::Reader(a) == capnp::AnyStruct::Reader(b);
}

bool hasPartition(StorageVolume::Reader volume) {
  return volume.getKind() != StorageVolume::Kind::DIRECTORY &&
         volume.getKind() != StorageVolume::Kind::EXISTING;
}

// Returns the most bytes that a size allows, 0 if they depend on the disk.
uint64_t absoluteMost(config::VolumeSize::Reader size) {
  return size.getLeavesMost() ? 0 : size.getMost();
}

// Adds what of a size does not apply to a volume of so many bytes. `shrinks`: what makes it
// smaller.
void addSize(kj::Vector<kj::String>& texts, kj::StringPtr document, config::VolumeSize::Reader size,
             uint64_t bytes, kj::StringPtr shrinks) {
  auto most = absoluteMost(size);
  if (bytes == 0) return;
  if (most > 0 && bytes >= most + kWorthGrowing) {
    texts.add(kj::str(document, ".provisioning: not in effect: it has ", binarySize(bytes),
                      " and does not shrink; ", shrinks));
  }
  if (size.getLeast() >= bytes + kWorthGrowing) {
    texts.add(kj::str(document, ".provisioning: it has ", binarySize(bytes), ", and minSize is ",
                      binarySize(size.getLeast())));
  }
}

void addOfSystem(kj::Vector<kj::String>& texts, const Store& store, config::Config::Reader config) {
  auto machine = config.getMachine();
  auto add = [&](kj::StringPtr label, Encryption how) {
    KJ_IF_MAYBE (status, store.tryGet<Status>(label)) {
      bool plain = status->getPhase() == nameOf(VolumePhase::kReady) &&
                   status->getEncryptionProvider().size() == 0;
      if (how == nullptr || !plain) return;
      texts.add(notEncryptedText(encryptionFrom(config, label), label));
    }
  };
  add(kStateName, encryptionOfState(machine));
  add(kEphemeralName, encryptionOfEphemeral(machine));
  if (!machine.hasEphemeralSize()) return;
  KJ_IF_MAYBE (status, store.tryGet<Status>(kEphemeralName)) {
    addSize(texts, "VolumeConfig[EPHEMERAL]", machine.getEphemeralSize(), status->getSize(),
            "a new installation has the size");
  }
}

void addReady(kj::Vector<kj::String>& texts, StorageVolume::Reader volume, Status::Reader status) {
  auto document = documentOf(volume);
  if (!hasPartition(volume)) return;
  bool encrypted = status.getEncryptionProvider().size() > 0;
  if (encrypted != volume.hasEncryption()) {
    texts.add(kj::str(document, ".encryption: not in effect: the partition is ",
                      encrypted ? "" : "not ", "encrypted"));
  }
  addSize(texts, document, volume.getSize(), status.getSize(), "a new volume has the size");
}

}  // namespace

kj::Maybe<StorageVolume::Reader> volumeNamed(config::Machine::Reader machine, kj::StringPtr id) {
  for (auto volume : machine.getVolumes()) {
    if (volume.getId() == id) return volume;
  }
  return nullptr;
}

kj::Vector<kj::String> changedVolumes(config::Machine::Reader before,
                                      config::Machine::Reader after) {
  kj::Vector<kj::String> documents;
  for (auto volume : after.getVolumes()) {
    bool same = false, partition = hasPartition(volume);
    KJ_IF_MAYBE (old, volumeNamed(before, volume.getId())) {
      same = areSame(*old, volume);
      partition = partition || hasPartition(*old);
    }
    if (!same && partition) documents.add(documentOf(volume));
  }
  for (auto old : before.getVolumes()) {
    bool removed = volumeNamed(after, old.getId()) == nullptr;
    if (removed && hasPartition(old)) documents.add(documentOf(old));
  }
  return documents;
}

kj::Vector<kj::String> volumesWithOtherKeys(config::Machine::Reader before,
                                            config::Machine::Reader after) {
  kj::Vector<kj::String> documents;
  for (auto volume : after.getVolumes()) {
    KJ_IF_MAYBE (old, volumeNamed(before, volume.getId())) {
      if (!old->hasEncryption() || !volume.hasEncryption()) continue;
      if (areSame(old->getEncryption(), volume.getEncryption())) continue;
      documents.add(kj::str(documentOf(volume), ".encryption"));
    }
  }
  return documents;
}

void checkVolumeTypes(const Store& store, config::Machine::Reader before,
                      config::Machine::Reader after) {
  for (auto volume : after.getVolumes()) {
    KJ_IF_MAYBE (old, volumeNamed(before, volume.getId())) {
      if (hasPartition(*old) == hasPartition(volume)) continue;
      KJ_IF_MAYBE (status, store.tryGet<Status>(volume.getId())) {
        if (status->getTarget().size() == 0) continue;
        fail(ErrorKind::kFailedPrecondition,
             kj::str(documentOf(volume), ".volumeType: ", status->getTarget(), " is in use as a ",
                     status->getType(), "; remove the document first, then apply it with the ",
                     "other type, or use mode reboot"));
      }
    }
  }
}

bool mayGrowEphemeral(config::Machine::Reader machine, uint64_t bytes) {
  if (!machine.hasEphemeralSize() || bytes == 0) return true;
  auto size = machine.getEphemeralSize();
  auto most = absoluteMost(size);
  return size.getGrows() && (most == 0 || most >= bytes + kWorthGrowing);
}

kj::Vector<kj::String> volumesOfContainer(config::Machine::Reader machine) {
  kj::Vector<kj::String> texts;
  if (machine.hasEphemeralSize()) {
    texts.add(kj::str("VolumeConfig[EPHEMERAL]: a node in a container has no disks"));
  }
  for (auto volume : machine.getVolumes()) {
    bool directory = volume.getKind() == config::StorageVolume::Kind::DIRECTORY;
    texts.add(kj::str(documentOf(volume), ": a node in a container ",
                      directory ? "makes no mounts of volumes" : "has no disks"));
  }
  for (auto rule : machine.getTrims()) {
    // The rules of volumes are a part of their documents.
    if (rule.getMountpoint().size() > 0 || rule.getSeconds() == 0) continue;
    texts.add(
        kj::str("FilesystemTrimConfig: a node in a container has no disks, and trims nothing"));
  }
  return texts;
}

kj::Vector<kj::String> volumesNotInEffect(const Store& store, config::Config::Reader config,
                                          bool container) {
  if (container) return volumesOfContainer(config.getMachine());
  kj::Vector<kj::String> texts;
  for (auto volume : config.getMachine().getVolumes()) {
    auto document = documentOf(volume);
    KJ_IF_MAYBE (status, store.tryGet<Status>(volume.getId())) {
      if (status->getPhase() == nameOf(VolumePhase::kReady)) {
        addReady(texts, volume, *status);
        continue;
      }
      auto reason = status->getErrorMessage();
      texts.add(kj::str(document, ": ", reason.size() > 0 ? reason : status->getPhase()));
    } else {
      texts.add(kj::str(document, ": not made yet"));
    }
  }
  addOfSystem(texts, store, config);
  return texts;
}

kj::Maybe<kj::String> volumesHeld(const Store& store) {
  KJ_IF_MAYBE (upgrade, store.tryGet<rpc::UpgradeStatusSpec>("node")) {
    // It may go back; "rebooting" follows when it is given up.
    auto stage = upgrade->getStage();
    if (stage == "trying" || stage == "rebooting") {
      return kj::str("the upgraded system is on trial");
    }
  }
  KJ_IF_MAYBE (machine, store.tryGet<rpc::MachineStatusSpec>("machine")) {
    if (machine->getRevertsAt().size() > 0) return kj::str("a config is on trial");
    for (auto stage : kEnding) {
      if (machine->getStage() == stage) return kj::str("the node is in the stage ", stage);
    }
  }
  return nullptr;
}

}  // namespace talos::machined
