// Serves /run/talos/backupd.sock: etcd-supervisor's calls to store, list and remove objects in the
// store of cluster.etcd.backup (rpc/backups.capnp).
//
// Each call uses a new store object, made from the current config: the server has no state. A
// caller whose config is newer waits a moment for this process to get it. The caller's content is
// already encrypted and signed; only this program reads the store's answers.
#pragma once

#include <kj/timer.h>

#include "backupd/s3-store.h"
#include "common/base/signal.h"
#include "rpc/backups.capnp.h"

namespace talos::backupd {

// Returns "ENDPOINT/BUCKET".
kj::String nameOf(const S3Settings& settings);

class BackupServer final : public rpc::Backupd::Server {
 public:
  struct Dependencies {
    kj::Timer& timer;
    kj::Function<kj::Maybe<S3Settings>()> settings;  // nullptr: no config
    Signal& changed;                                 // raised when `settings` have changed
    kj::Function<kj::Own<S3Store>(S3Settings)> open;
  };
  explicit BackupServer(Dependencies& deps) : deps(deps) {}

  kj::Promise<void> list(ListContext context) override;
  kj::Promise<void> put(PutContext context) override;
  kj::Promise<void> remove(RemoveContext context) override;
  kj::Promise<void> ready(ReadyContext) override { return kj::READY_NOW; }

 private:
  Dependencies& deps;

  kj::Promise<kj::Own<S3Store>> open(kj::StringPtr store);
  kj::Maybe<kj::Own<S3Store>> tryOpen(kj::StringPtr store);
};

}  // namespace talos::backupd
