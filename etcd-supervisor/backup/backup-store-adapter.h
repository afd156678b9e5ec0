// machined's store for backups: reads EtcdBackupConfigs and the service, writes EtcdBackupStatuses.
#pragma once

#include "common/wire/store-adapter.h"
#include "etcd-supervisor/backup/backup-loop.h"
#include "rpc/etcd-resources.capnp.h"

namespace talos::supervisor {

struct BackupSettings {
  BackupSchedule schedule;
  kj::String store;      // "ENDPOINT/BUCKET"
  kj::String recipient;  // PEM
};

class BackupStoreAdapter {
 public:
  // `changed` is called when the config has changed, but not before the constructor has returned.
  BackupStoreAdapter(StoreClient& store, kj::Function<void()> changed);
  KJ_DISALLOW_COPY_AND_MOVE(BackupStoreAdapter);

  kj::Maybe<BackupSettings> settings();
  kj::Promise<void> publish(kj::Maybe<BackupState> state);

 private:
  StoreClient& store;
  StoreInputs inputs;
  Watched<rpc::EtcdBackupConfigSpec> configs;
};

}  // namespace talos::supervisor
