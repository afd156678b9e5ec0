// Making a cluster, once (plan/bootstrap-claim.h says why there are never two).
//
// Nothing is deleted but what this call has brought itself: a snapshot that is of no use. After a
// crash before `makes` is on disk nothing has happened; after it the keeper goes on by itself.
#pragma once

#include "etcd-supervisor/membership/local-member.h"
#include "etcd-supervisor/membership/peer-queries.h"

namespace talos::supervisor {

struct BootstrapRequest {
  kj::Array<kj::String> among;  // asked besides those that this node knows of
  kj::Array<kj::String> without;
  // Brings the snapshot to Files::snapshot(), verified, when it is time to; none: a new cluster.
  kj::Maybe<kj::Function<kj::Promise<void>()>> receive;
  bool skipHashCheck = false;
  kj::Duration patience = 60 * kj::SECONDS;  // with nodes that do not answer
};

class Bootstrap {
 public:
  Bootstrap(Edges& edges, Here& here) : edges(edges), here(here) {}

  // Resolves when the intent to make a cluster is on disk. Refuses as rpc/etcd.capnp says. Dropping
  // it before withdraws the claim.
  kj::Promise<void> decide(BootstrapRequest request);

 private:
  Edges& edges;
  Here& here;

  void requireEmpty();
  Config known(const BootstrapRequest& request);
  kj::Promise<void> claim(const BootstrapRequest& request);
  kj::String token();
};

}  // namespace talos::supervisor
