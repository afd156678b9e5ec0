// Series of snapshots, in the folder of `etcd snapshot <folder> --every` or in a store
// (cluster.etcd.backup): their names, and those that a newer one replaces. Pure.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <kj/time.h>
#include <kj/vector.h>

namespace talos {

// "etcd-20261127T024600Z.snapshot", or with ".cms" behind it when it is encrypted.
kj::String snapshotName(kj::Date date, bool encrypted);

// The time in such a name; none for every other name.
kj::Maybe<kj::Date> snapshotDate(kj::StringPtr name);

// "etcd-20261127T024600Z-0123456789abcdef.snapshot.cms", of the cluster with this id. In a store, a
// cluster that is made anew finds the snapshots of the one before, which are all that is left of
// it.
kj::String backupName(kj::Date date, uint64_t cluster);
struct Backup {
  kj::Date date;
  kj::Maybe<uint64_t> cluster;  // none: the name does not say
};
// None for the name of another thing.
kj::Maybe<Backup> readBackupName(kj::StringPtr name);

// Those of the names that are such, without the newest `keep`. Others are nobody's to
// remove.
kj::Vector<kj::StringPtr> replacedSnapshots(kj::ArrayPtr<const kj::String> names, size_t keep);

}  // namespace talos
