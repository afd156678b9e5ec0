#include "etcd-supervisor/backup/backup-records.h"

#include "common/base/error.h"
#include "common/base/log.h"

namespace talos::supervisor {
namespace {

constexpr kj::StringPtr kStored = "stored"_kj, kUploading = "uploading"_kj;

kj::String recordKey(kj::StringPtr key) {
  return kj::str(kBackupsPrefix, key);
}

}  // namespace

kj::Promise<kj::Vector<BackupRecord>> backupRecords(etcd::Etcd& member) {
  auto answer = co_await member.range({.keys = {kj::str(kBackupsPrefix), true},
                                       .order = etcd::Range::Order::kCreateRevision,
                                       .descending = true});
  kj::Vector<BackupRecord> records;
  for (auto& kv : answer.kvs) {
    auto key = kj::str(kv.key.slice(kBackupsPrefix.size()));
    if (records.size() < kMostBackupRecords) {
      records.add(BackupRecord{kj::mv(key), kv.value == kStored});
    } else {
      co_await forgetBackup(member, key).catch_([&](kj::Exception&& e) {
        log::warn("cannot remove an old record of a backup; retrying", {{"error", messageOf(e)}});
      });
    }
  }
  co_return kj::mv(records);
}

kj::Promise<void> recordBackup(etcd::Etcd& member, const BackupRecord& record) {
  auto value = record.stored ? kStored : kUploading;
  return member.put({recordKey(record.key), kj::str(value)}).ignoreResult();
}

kj::Promise<void> forgetBackup(etcd::Etcd& member, kj::StringPtr key) {
  return member.remove({{recordKey(key), false}}).ignoreResult();
}

}  // namespace talos::supervisor
