// The cluster's record of its backups, in etcd: the snapshots that its members have stored.
//
// A client that may write into the store of cluster.etcd.backup can put an object with any name
// there. So the members' records define the series, not the store's list. A record is written
// before the upload, and changed when the store has all of the object; after a crash in between,
// the record still says "not stored", so the object is removed later. The newest 2000 records are
// kept.
#pragma once

#include <kj/vector.h>

#include "common/etcd/etcd.h"

namespace talos::supervisor {

constexpr kj::StringPtr kBackupsPrefix = "talos:v1:etcdbackup:"_kj;
constexpr size_t kMostBackupRecords = 2000;

struct BackupRecord {
  kj::String key;       // key of the object
  bool stored = false;  // false: its upload began
};

kj::Promise<kj::Vector<BackupRecord>> backupRecords(etcd::Etcd& member);
kj::Promise<void> recordBackup(etcd::Etcd& member, const BackupRecord& record);
kj::Promise<void> forgetBackup(etcd::Etcd& member, kj::StringPtr key);

}  // namespace talos::supervisor
