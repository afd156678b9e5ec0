// The files of `etcd snapshot <folder> --every`: their names, and those that a newer one replaces.
// Pure.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <kj/time.h>
#include <kj/vector.h>

namespace talos::talosctl {

// "etcd-20261127T024600Z.snapshot", or with ".cms" behind it when it is encrypted.
kj::String snapshotName(kj::Date date, bool encrypted);

// Those of a folder's names that are such, without the newest `keep`. Others are nobody's to
// remove.
kj::Vector<kj::StringPtr> replacedSnapshots(kj::ArrayPtr<const kj::String> names, size_t keep);

}  // namespace talos::talosctl
