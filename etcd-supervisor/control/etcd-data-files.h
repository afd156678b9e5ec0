// Data directory of etcd and folder of etcd-supervisor, on a real disk.
//
// The folder contains `intent` (plan/membership-intent.h), written completely or not at all, and
// `snapshot` while one is restored. Only this user can read them.
#pragma once

#include "etcd-supervisor/membership/membership-dependencies.h"

namespace talos::supervisor {

class DiskFiles final : public Files {
 public:
  DiskFiles(kj::StringPtr dataFolder, kj::StringPtr stateFolder);

  Data data() override;
  uint64_t freeBytes() override;
  Intent load() override;
  void store(const Intent& intent) override;
  void removeData() override;
  kj::StringPtr snapshot() override { return snapshotPath; }
  void removeSnapshot() override;

 private:
  kj::String dataFolder, stateFolder, intentPath, snapshotPath;
};

}  // namespace talos::supervisor
