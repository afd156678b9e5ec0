// etcd-supervisor's own API (rpc/local.capnp, EtcdSupervisor; rpc/etcd.capnp, Etcd). Who may call
// what is decided before it comes here.
#pragma once

#include "common/etcd-data/snapshot-signature.h"
#include "common/wire/request-trace.h"
#include "etcd-supervisor/control/kept-snapshot.h"
#include "etcd-supervisor/membership/membership-reconciler.h"
#include "etcd-supervisor/tokens/join-token-book.h"
#include "rpc/local.capnp.h"

namespace talos::supervisor {

using SignSnapshot = kj::Function<kj::Array<kj::byte>(const SnapshotStatement& statement)>;

// All outlive the server.
struct ServedParts {
  kj::Timer& timer;
  const kj::Clock& clock;
  MembershipReconciler& reconciler;
  Files& files;
  KeptSnapshot& kept;  // of all connections: an upload and the bootstrap that restores it may come
                       // by different ones
  DiskQueue& queue;
  JoinTokenBook& tokens;
  SignSnapshot& sign;  // by this node's member
};

// `trace` is for rpc::Etcd; without one, requests are not traced.
rpc::EtcdSupervisor::Client makeServer(const ServedParts& parts,
                                       kj::Maybe<RequestTrace&> trace = nullptr);

}  // namespace talos::supervisor
