// The parts of DataVolumes (data-volumes.h): the volumes of a config, and the disks as they are.
#pragma once

#include "common/base/error.h"
#include "machined/disk/volumes/data-volumes.h"
#include "machined/disk/volumes/disks-of-volumes.h"

namespace talos::machined {

using config::StorageVolume;

inline Encryption encryptionOf(StorageVolume::Reader volume) {
  if (!volume.hasEncryption()) return nullptr;
  return volume.getEncryption();
}

// Looks for the partition of a placement, whose name the kernel may not know yet.
kj::Promise<Volume> partitionOf(Volumes& volumes, const Placement& placement, kj::StringPtr name);

struct WantedVolumes {
  SecretMessage message;
  config::Machine::Reader machine;
  DataVolumes::Occasion occasion;

  WantedVolumes(config::Machine::Reader from, DataVolumes::Occasion occasion) : occasion(occasion) {
    auto copy = message.initRoot<config::Machine>();
    copy.setVolumes(from.getVolumes());
    copy.setDisks(from.getDisks());
    copy.getInstall().setDisk(from.getInstall().getDisk());
    machine = copy.asReader();
  }
  bool has(kj::StringPtr id) const {
    for (auto volume : machine.getVolumes()) {
      if (volume.getId() == id) return true;
    }
    return false;
  }
  bool needsDisks() const {
    for (auto volume : machine.getVolumes()) {
      if (volume.getKind() != StorageVolume::Kind::DIRECTORY) return true;
    }
    return false;
  }
};

struct FoundVolumes {
  kj::Vector<Volume> volumes;
  kj::Vector<DiskOfVolumes> disks;
  kj::Vector<VolumeRecord> records;
  kj::Vector<Placement> plan;
  kj::TreeMap<kj::String, kj::String> failures;  // of volumes, by their ids

  kj::String keyOf(const Placement& placement) const {
    return keyOfAttempt(placement.volume, identityOf(volumes, placement.disk));
  }
  const Volume& volumeOf(const Placement& placement) const {
    for (auto& v : volumes) {
      if (!v.device.whole && v.device.disk == placement.disk &&
          partitionNumber(v.device) == placement.number) {
        return v;
      }
    }
    fail(ErrorKind::kUnavailable,
         kj::str("partition ", placement.number, " of /dev/", placement.disk, " does not appear"));
  }
};

}  // namespace talos::machined
