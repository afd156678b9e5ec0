// Store of backups that backupd serves (rpc/backups.capnp). backupd reads the bytes of a foreign
// server, so its answers are checked here: names are sorted and begin with the prefix, an error is
// a line of at most 500 bytes. A call to a silent backupd ends. backupd may still be starting, if
// the config with the store is new: the first call waits a moment for it.
#pragma once

#include <kj/timer.h>

#include "etcd-supervisor/backup/object-store.h"
#include "rpc/backups.capnp.h"

namespace talos::supervisor {

// Longest wait for an answer of backupd, or for its request for the next piece of an upload.
// backupd's own deadlines are shorter.
constexpr auto kBackupdSilence = 10 * kj::MINUTES;

// `store`: "ENDPOINT/BUCKET" from the config.
kj::Own<ObjectStore> backupdStore(kj::Timer& timer, rpc::Backupd::Client backupd, kj::String store);

}  // namespace talos::supervisor
