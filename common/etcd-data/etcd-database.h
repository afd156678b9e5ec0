// Reads the database of etcd, a file of bbolt (layout 2, as its documentation and page.go describe
// it), without etcd: how far its history goes. The bytes are foreign: every offset and length is
// checked, and what points in a circle is refused.
#pragma once

#include <kj/array.h>
#include <kj/function.h>
#include <stdint.h>

namespace talos {

// Reads so many bytes at an offset, all of them inside of the file; its errors are passed on.
using ReadDatabase = kj::Function<kj::Array<kj::byte>(uint64_t at, size_t size)>;

// The newest revision of a key; 1, the one that a new database has, when there is none. Reads the
// few pages that lead to it, 64 MiB at most of each. `size`, in bytes, is that of the database.
// InvalidArgument: "the snapshot is not a database of etcd: …".
int64_t newestRevision(uint64_t size, ReadDatabase read);

}  // namespace talos
