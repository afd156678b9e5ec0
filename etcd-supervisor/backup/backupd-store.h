// The store of backups as backupd serves it (rpc/backups.capnp). backupd reads what a foreign
// server sends, so its answers are checked here: names are sorted and begin with the prefix, an
// error is a line of 500 bytes at most. A call to one that says nothing any more ends. It may be
// starting, with the config that names the store: the first call waits a moment for it.
#pragma once

#include <kj/timer.h>

#include "etcd-supervisor/backup/object-store.h"
#include "rpc/backups.capnp.h"

namespace talos::supervisor {

// An answer, or the next piece of an upload that backupd asks for. Its own deadlines are shorter.
constexpr auto kBackupdSilence = 10 * kj::MINUTES;

// `store`: "ENDPOINT/BUCKET" of the config.
kj::Own<ObjectStore> backupdStore(kj::Timer& timer, rpc::Backupd::Client backupd, kj::String store);

}  // namespace talos::supervisor
