// The keys of STATE and EPHEMERAL, between the config, the volumes and what `get volumestatus`
// shows.
//
// A config is checked before anything changes: this machine can have these keys, and no volume
// would have to become encrypted or plain while it is mounted. Then the keys of both volumes change
// around the one moment at which the config is stored: what is new in either is added before it,
// what is old is removed after it, so that at each moment the stored config opens both, wherever
// power goes. A config that was staged is the stored one. A volume that is not mounted gets no
// keys: it is one that the stored config does not open, or the boot did not get to it, and the next
// boot tries the new config.
#pragma once

#include "machined/config/config-manager.h"
#include "machined/disk/devices/meta-partition.h"
#include "machined/disk/devices/storage-server.h"
#include "machined/disk/volumes/ephemeral-volume.h"
#include "machined/disk/volumes/state-volume.h"

namespace talos::machined {

class VolumeKeys {
 public:
  struct Dependencies {
    Store& store;
    MachineConfigReader& reader;
    SystemPartitions& partitions;
    // What the volume of this label is mounted from; none when it is not.
    kj::Function<kj::Maybe<kj::String>(kj::StringPtr label)> mounted;
    bool container;  // whose folders are the host's
  };
  explicit VolumeKeys(Dependencies deps) : deps(kj::mv(deps)) {}

  // For ConfigKeeper::Dependencies.
  void check(config::Config::Reader wanted, rpc::ApplyMode mode);
  kj::Promise<void> persisting(config::Config::Reader wanted, rpc::ApplyMode mode,
                               kj::Maybe<config::Config::Reader> staged,
                               ConfigKeeper::Persist persist, ConfigKeeper::Step step);

  // InvalidArgument for another volume than these two.
  kj::Promise<kj::String> newRecoveryKey(kj::String volume, unsigned slot);

 private:
  Dependencies deps;
};

// The list of STATE's keys in META, by the tag of the original.
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
  void reportKeys(kj::StringPtr label, const KeysReport& report) override;
  void reportFailure(kj::StringPtr label, kj::StringPtr problem) override;

 private:
  Store& store;
};

}  // namespace talos::machined
