// Reads how far the history of an etcd database goes, without etcd. The database is a file of bbolt
// (layout 2, as its documentation and page.go describe it). The bytes are foreign: every offset and
// length is checked, and references that form a circle are refused.
#pragma once

#include <kj/array.h>
#include <kj/function.h>
#include <stdint.h>

namespace talos {

// Reads so many bytes at an offset, all of them inside the file; its errors are passed on.
using ReadDatabase = kj::Function<kj::Array<kj::byte>(uint64_t at, size_t size)>;

// Returns the newest revision of a key; 1, the revision of a new database, if there are no keys.
// Reads the few pages that lead to it, at most 64 MiB of each. `size` is the size of the database
// in bytes. Throws InvalidArgument: "the snapshot is not a database of etcd: …".
int64_t newestRevision(uint64_t size, ReadDatabase read);

}  // namespace talos
