// A snapshot that is received, to be restored later: written to a file, synced, and checked.
//
// What is accepted is a database of bbolt with its SHA-256 behind it, as `talosctl etcd snapshot`
// and `etcdctl snapshot save` write it; or, if the hash is to be skipped, a bare copy of the
// database. InvalidArgument says what is wrong. When it rejects, or is dropped, no file is left
// that anybody would use: the owner of the path removes it (Files::removeSnapshot).
#pragma once

#include <kj/async.h>
#include <kj/timer.h>

#include "rpc/stream.capnp.h"

namespace talos::supervisor {

kj::Promise<void> receiveSnapshot(kj::Timer& timer, rpc::ByteSource::Client source, uint64_t size,
                                  bool skipHashCheck, kj::String path);

}  // namespace talos::supervisor
