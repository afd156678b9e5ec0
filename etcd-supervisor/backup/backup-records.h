// The cluster's own record of its backups, in etcd: which snapshots its members have stored.
//
// Everybody who may write into the store of cluster.etcd.backup can put an object with any name
// there. So the series is what the members say they have stored, not what the store lists. A record
// is written before the upload, and changed when the store has all of it; a crash in between leaves
// one that says so, by which the object is removed later. The newest 2000 are kept.
#pragma once

#include <kj/vector.h>

#include "common/etcd/etcd.h"

namespace talos::supervisor {

constexpr kj::StringPtr kBackupsPrefix = "talos:v1:etcdbackup:"_kj;
constexpr size_t kMostBackupRecords = 2000;

struct BackupRecord {
  kj::String key;       // of the object
  bool stored = false;  // else its upload began
};

kj::Promise<kj::Vector<BackupRecord>> backupRecords(etcd::Etcd& member);
kj::Promise<void> recordBackup(etcd::Etcd& member, const BackupRecord& record);
kj::Promise<void> forgetBackup(etcd::Etcd& member, kj::StringPtr key);

}  // namespace talos::supervisor
