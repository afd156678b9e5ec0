// Serves /run/talos/backupd.sock: what etcd-supervisor stores, lists and removes in the store of
// cluster.etcd.backup (rpc/backups.capnp).
//
// Each call has a store of its own, made of the config as it is then: this object has no state. A
// caller whose config is newer waits a moment for this process to have it. What the caller sends is
// encrypted and signed already; what the store answers is read here and nowhere else.
#pragma once

#include <kj/timer.h>

#include "backupd/s3-store.h"
#include "common/base/signal.h"
#include "rpc/backups.capnp.h"

namespace talos::backupd {

// "ENDPOINT/BUCKET"
kj::String nameOf(const S3Settings& settings);

class BackupServer final : public rpc::Backupd::Server {
 public:
  struct Dependencies {
    kj::Timer& timer;
    kj::Function<kj::Maybe<S3Settings>()> settings;  // none: there is no config
    Signal& changed;                                 // raised when they have
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
