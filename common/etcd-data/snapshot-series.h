// Series of snapshots, in the folder of `etcd snapshot <folder> --every` or in a store
// (cluster.etcd.backup): their names, and the snapshots that newer ones replace. Pure.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <kj/time.h>
#include <kj/vector.h>

namespace talos {

// Returns "etcd-20261127T024600Z.snapshot", with ".cms" appended if the snapshot is encrypted.
kj::String snapshotName(kj::Date date, bool encrypted);

// Returns the time in such a name; nullptr for every other name.
kj::Maybe<kj::Date> snapshotDate(kj::StringPtr name);

// Returns "etcd-20261127T024600Z-0123456789abcdef.snapshot.cms", with the cluster's id. A cluster
// that is created again finds in the store the snapshots of its predecessor, which are all that is
// left of it.
kj::String backupName(kj::Date date, uint64_t cluster);
struct Backup {
  kj::Date date;
  kj::Maybe<uint64_t> cluster;  // nullptr if the name has no id
};
// Returns nullptr if the name is not the name of a backup.
kj::Maybe<Backup> readBackupName(kj::StringPtr name);

// Returns the names of snapshots except the newest `keep`. Other names are left out, because their
// files must not be removed.
kj::Vector<kj::StringPtr> replacedSnapshots(kj::ArrayPtr<const kj::String> names, size_t keep);

}  // namespace talos
