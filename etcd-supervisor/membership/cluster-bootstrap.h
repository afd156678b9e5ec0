// Makes a cluster, once (plan/bootstrap-claim.h proves that there are never two).
//
// Deletes only a snapshot that this call has received and cannot use. If the process crashes before
// `makes` is on disk, nothing has happened; if it crashes later, the reconciler continues by
// itself.
#pragma once

#include "etcd-supervisor/membership/local-member.h"
#include "etcd-supervisor/membership/peer-queries.h"

namespace talos::supervisor {

struct BootstrapRequest {
  kj::Array<kj::String> among;  // nodes to query besides those that this node knows
  kj::Array<kj::String> without;
  // Receives the snapshot into Files::snapshot() and verifies it; nullptr for a new cluster.
  kj::Maybe<kj::Function<kj::Promise<void>()>> receive;
  bool skipHashCheck = false;
  kj::Duration timeout = 60 * kj::SECONDS;  // for nodes that do not answer
};

class Bootstrap {
 public:
  Bootstrap(Dependencies& deps, LocalMember& self) : deps(deps), self(self) {}

  // Resolves when the intent to make a cluster is on disk. Refuses as rpc/etcd.capnp says. Dropping
  // the promise before withdraws the claim.
  kj::Promise<void> decide(BootstrapRequest request);

 private:
  Dependencies& deps;
  LocalMember& self;

  void requireEmpty();
  Config known(const BootstrapRequest& request);
  kj::Promise<void> claim(const BootstrapRequest& request);
  kj::String token();
};

}  // namespace talos::supervisor
