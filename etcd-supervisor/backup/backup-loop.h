// Backups of the cluster's etcd: encrypted and signed snapshots at intervals in a store outside of
// it, of which the newest are kept (cluster.etcd.backup).
//
// The member that leads takes them; the others stand by. A snapshot is in the series if the store
// lists it and the cluster's record in etcd says that a member has stored it (backup-records.h): a
// name alone delays nothing, and replaces nothing. Both are read when a member becomes the leader
// and before each snapshot. So after a crash, or with another leader, the series continues. Two
// members that both believe to lead take two snapshots, which are both whole. The store shows an
// object when all of it is there; whoever reads the series never sees half of one. The signature is
// there first. A record that cannot be written, because etcd is full, prevents no backup: this
// process knows what it has stored.
//
// A snapshot whose name has a time in the future, of a clock that was wrong, delays nothing, and is
// neither counted nor deleted. Neither is one of another cluster: after all control planes were
// lost, and one was made again with the same config, those before it are what it is recovered from.
// Nor is one that is not in the record: it may be a snapshot of an earlier version.
#pragma once

#include "common/base/signal.h"
#include "common/etcd/etcd.h"
#include "etcd-supervisor/backup/backup-records.h"
#include "etcd-supervisor/backup/object-store.h"

namespace talos::supervisor {

struct BackupSchedule {
  kj::String prefix;
  kj::Duration every;
  size_t keep;
};

// EtcdBackupStatuses/etcd by value.
struct BackupState {
  kj::StringPtr phase = "";  // waiting, uploading, standby
  kj::String newest, taken;
  uint64_t bytes = 0;
  unsigned kept = 0;
  kj::String next, message;
};

// The series as the names of a store, sorted and without the prefix, and the records show it at
// this time. Pure.
struct BackupPlan {
  unsigned kept = 0;
  kj::String newest;  // empty: there is none
  kj::Maybe<kj::Date> taken;
  kj::Date due = kj::UNIX_EPOCH;
  kj::Vector<kj::String> replaced;  // when one more is there
  unsigned foreign = 0;             // of other clusters, or of none that is known
  kj::Vector<kj::String> unknown;   // have this cluster's id, and no record
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
    // Takes a snapshot of this node's member, encrypts it and signs it: of this time and cluster.
    kj::Function<kj::Promise<BackupUpload>(kj::Date taken, uint64_t cluster)> spool;
  };
  struct Dependencies {
    kj::Timer& timer;
    const kj::Clock& clock;
    etcd::Etcd& member;                                               // of this node
    kj::Function<bool()> runs;                                        // its etcd
    kj::Function<kj::Maybe<kj::Own<Target>>()> target;                // of the config as it is now
    kj::Function<kj::Promise<void>(kj::Maybe<BackupState>)> publish;  // none: there is no config
  };
  explicit BackupLoop(Dependencies deps) : deps(kj::mv(deps)) {}
  KJ_DISALLOW_COPY_AND_MOVE(BackupLoop);

  // Never ends.
  kj::Promise<void> run();
  // The config has changed: what is under way is broken off.
  void configChanged() { changed.raise(); }

 private:
  Dependencies deps;
  Signal changed;
  kj::Maybe<kj::Own<Target>> current;
  // While this member leads, and the store answers.
  struct Known {
    kj::Vector<kj::String> names;
    kj::Vector<BackupRecord> records;
  };
  kj::Maybe<Known> known;
  kj::Vector<kj::String> recorded;  // by this process alone: etcd has not taken the records
  BackupPlan shown;                 // of the names that were known last
  uint64_t cluster = 0;             // its id, as the member said last
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
