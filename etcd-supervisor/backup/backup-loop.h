// Backups of the cluster's etcd: encrypted and signed snapshots at intervals in a store outside the
// cluster, which keeps the newest (cluster.etcd.backup).
//
// The leading member takes the snapshots; the others stand by. A snapshot is in the series if the
// store lists it and the cluster's record in etcd says that a member has stored it
// (BackupRecord): a name alone delays nothing, and replaces nothing. A member reads both when
// it becomes the leader and before each snapshot. So after a crash, or with another leader, the
// series continues. Two members that both believe to lead take two snapshots, both complete. The
// store shows an object only when all of it is stored, so a reader of the series never gets a
// partial one. The signature is stored first. A record that cannot be written, because etcd is
// full, prevents no backup: this process remembers its own uploads.
//
// A snapshot whose name has a time in the future, from a clock that was wrong, delays nothing, and
// is neither counted nor deleted. The same holds for a snapshot of another cluster: when all
// control planes were lost, and a cluster was created again with the same config, the older
// snapshots are needed to recover it. It also holds for a snapshot without a record, which may be
// from an earlier version.
#pragma once

#include <kj/vector.h>

#include "common/base/signal.h"
#include "common/etcd/etcd.h"
#include "etcd-supervisor/backup/object-store.h"

namespace talos::supervisor {

// The cluster's record of its backups, in etcd: the snapshots that its members have stored.
//
// A client that may write into the store of cluster.etcd.backup can put an object with any name
// there. So the members' records define the series, not the store's list. A record is written
// before the upload, and changed when the store has all of the object; after a crash in between,
// the record still says "not stored", so the object is removed later. The newest 2000 records are
// kept.
constexpr kj::StringPtr kBackupsPrefix = "talos:v1:etcdbackup:"_kj;
constexpr size_t kMostBackupRecords = 2000;

struct BackupRecord {
  kj::String key;       // key of the object
  bool stored = false;  // false: its upload began
};

kj::Promise<kj::Vector<BackupRecord>> backupRecords(etcd::Etcd& member);
kj::Promise<void> recordBackup(etcd::Etcd& member, const BackupRecord& record);
kj::Promise<void> forgetBackup(etcd::Etcd& member, kj::StringPtr key);

struct BackupSchedule {
  kj::String prefix;
  kj::Duration every;
  size_t keep;
};

// Fields of EtcdBackupStatuses/etcd.
struct BackupState {
  kj::StringPtr phase = "";  // waiting, uploading, standby
  kj::String newest, taken;
  uint64_t bytes = 0;
  unsigned kept = 0;
  kj::String next, message;
};

// The series at this time, from the names in a store, sorted and without the prefix, and from the
// records. Pure.
struct BackupPlan {
  unsigned kept = 0;
  kj::String newest;  // empty if there is no snapshot
  kj::Maybe<kj::Date> taken;
  kj::Date due = kj::UNIX_EPOCH;
  kj::Vector<kj::String> replaced;  // snapshots to delete once one more is stored
  unsigned foreign = 0;             // number of snapshots of other or unknown clusters
  kj::Vector<kj::String> unknown;   // snapshots with this cluster's id but without a record
};
BackupPlan planBackup(kj::ArrayPtr<const kj::String> names,
                      kj::ArrayPtr<const BackupRecord> records, const BackupSchedule& schedule,
                      uint64_t cluster, kj::Date now);

struct BackupUpload {
  UploadFile snapshot, signature;
};

class BackupLoop {
 public:
  struct Target {
    BackupSchedule schedule;
    kj::Own<ObjectStore> store;
    // Takes a snapshot of this node's member, encrypts it and signs it with this time and cluster.
    kj::Function<kj::Promise<BackupUpload>(kj::Date taken, uint64_t cluster)> spool;
  };
  struct Dependencies {
    kj::Timer& timer;
    const kj::Clock& clock;
    etcd::Etcd& member;                                 // of this node
    kj::Function<bool()> runs;                          // true if its etcd runs
    kj::Function<kj::Maybe<kj::Own<Target>>()> target;  // store of the current config
    // nullptr if there is no config
    kj::Function<kj::Promise<void>(kj::Maybe<BackupState>)> publish;
  };
  explicit BackupLoop(Dependencies deps) : deps(kj::mv(deps)) {}
  KJ_DISALLOW_COPY_AND_MOVE(BackupLoop);

  // Never ends.
  kj::Promise<void> run();
  // Cancels the work under way because the config has changed.
  void configChanged() { changed.raise(); }

 private:
  Dependencies deps;
  Signal changed;
  kj::Maybe<kj::Own<Target>> current;
  // State that is known while this member leads and the store answers.
  struct Known {
    kj::Vector<kj::String> names;
    kj::Vector<BackupRecord> records;
  };
  kj::Maybe<Known> known;
  kj::Vector<kj::String> recorded;  // snapshots that only this process knows of, because etcd did
                                    // not take the records
  BackupPlan shown;                 // plan from the names that were known last
  uint64_t cluster = 0;             // the cluster's id, as the member reported it last
  uint64_t bytes = 0;
  unsigned failures = 0;

  kj::Promise<void> whileUnchanged();
  kj::Promise<kj::Duration> once(Target& target);
  kj::Promise<kj::Duration> lead(Target& target);
  kj::Promise<Known> look(Target& target);
  kj::Promise<void> record(kj::StringPtr key, bool stored);
  kj::Promise<void> recordAgain();
  kj::Promise<void> removeReplaced(Target& target);
  kj::Promise<void> take(Target& target);
  void plan(Target& target);
  kj::Promise<void> publish(kj::Maybe<BackupState> state);
  kj::Promise<void> publish(kj::StringPtr phase, kj::String message);
  kj::Promise<kj::Duration> failed(Target& target, kj::Exception&& e);
};

}  // namespace talos::supervisor
