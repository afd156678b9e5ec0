// Changes the keys of STATE, EPHEMERAL and the volumes of documents with the config, and publishes
// VolumeStatuses.
//
// A config is checked before anything changes: this machine can have these keys, and no volume
// would have to become encrypted or plain while it is mounted. Then the keys of all volumes change
// around the moment at which the config is stored: new keys are added before it, old keys are
// removed after it, so that the stored config opens the volumes at each moment, also after a power
// cut. A staged config is the stored one. An EPHEMERAL that is not mounted, because the boot has
// failed or has not mounted it yet, gets the new keys too, and the next boot removes the old ones.
// If no key of either config opens the volume, it gets no new keys, and the config is stored all
// the same. So it is with an encrypted volume of a document that is not mounted.
#pragma once

#include "machined/config/config-manager.h"
#include "machined/disk/devices/meta-partition.h"
#include "machined/disk/devices/storage-server.h"
#include "machined/disk/volumes/ephemeral-volume.h"
#include "machined/disk/volumes/state-volume.h"

namespace talos::machined {

class VolumeKeys final : public KeyChanges {
 public:
  struct Dependencies {
    Store& store;
    MachineConfigReader& reader;
    SystemPartitions& partitions;
    // Returns the device that the volume with this label is mounted from; nullptr if not mounted.
    kj::Function<kj::Maybe<kj::String>(kj::StringPtr label)> mounted;
    // Returns the name of the partition EPHEMERAL, "vda6"; nullptr if it does not exist, or if
    // several exist.
    kj::Function<kj::Promise<kj::Maybe<kj::String>>()> ephemeralPartition;
    bool container;  // its folders are the host's
    // Returns why the use of the device as swap cannot be stopped now (swaps.h).
    kj::Function<kj::Maybe<kj::String>(kj::StringPtr device)> whySwapStays =
        [](kj::StringPtr) -> kj::Maybe<kj::String> { return nullptr; };
  };
  explicit VolumeKeys(Dependencies deps) : deps(kj::mv(deps)) {}

  void check(config::Config::Reader wanted, rpc::ApplyMode mode) override;
  kj::Promise<void> persist(config::Config::Reader wanted, rpc::ApplyMode mode,
                            kj::Maybe<config::Config::Reader> staged, Persist persist,
                            Step step) override;

  // Throws InvalidArgument for another volume than these two.
  kj::Promise<kj::String> newRecoveryKey(kj::String volume, unsigned slot);

 private:
  Dependencies deps;

  kj::Promise<void> changeEphemeral(Encryption before, Encryption after, KeyChangeExtent extent,
                                    Persist persist, Step step);
  kj::Promise<void> changeUnmounted(Encryption before, Encryption after, Persist persist,
                                    Step step);
  struct OfDocument;  // a volume whose keys change
  void checkDocuments(config::Machine::Reader before, config::Machine::Reader after,
                      rpc::ApplyMode mode);
  kj::Vector<OfDocument> ofDocuments(config::Machine::Reader before,
                                     kj::Maybe<config::Config::Reader> staged,
                                     config::Machine::Reader after);
  kj::Promise<void> changeDocuments(kj::ArrayPtr<OfDocument> rest, KeyChangeExtent extent,
                                    Persist& persist, Step& step);
};

// The list of STATE's keys in META, with the tag of Talos.
class StateKeysInMeta final : public StateKeys {
 public:
  StateKeysInMeta(MetaPartition& meta, ReadPool& pool) : meta(meta), pool(pool) {}
  kj::Promise<kj::Maybe<kj::Array<kj::byte>>> read() override;
  kj::Promise<void> store(kj::Array<kj::byte> text) override;
  kj::Promise<void> remove() override;

 private:
  MetaPartition& meta;
  ReadPool& pool;
};

// Writes the resource VolumeStatuses/<label>.
class StoredVolumeReports final : public VolumeReports {
 public:
  explicit StoredVolumeReports(Store& store) : store(store) {}

  void report(kj::StringPtr label, const VolumeReport& report) override;
  // These methods change an existing record.
  void reportKeys(kj::StringPtr label, const KeysReport& report) override;
  void reportFailure(kj::StringPtr label, kj::StringPtr problem) override;
  void reportTarget(kj::StringPtr label, kj::StringPtr target) override;

 private:
  Store& store;
};

}  // namespace talos::machined
