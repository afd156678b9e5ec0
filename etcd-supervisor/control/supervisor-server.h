// API of etcd-supervisor (rpc/local.capnp, EtcdSupervisor; rpc/etcd.capnp, Etcd). Callers are
// authorized before a call arrives here.
#pragma once

#include "common/etcd-data/snapshot-signature.h"
#include "common/wire/request-trace.h"
#include "etcd-supervisor/control/kept-snapshot.h"
#include "etcd-supervisor/membership/membership-reconciler.h"
#include "etcd-supervisor/tokens/join-token-book.h"
#include "rpc/local.capnp.h"

namespace talos::supervisor {

using SignSnapshot = kj::Function<kj::Array<kj::byte>(const SnapshotStatement& statement)>;

// Dependencies of the server; all must outlive it.
struct ServedParts {
  kj::Timer& timer;
  const kj::Clock& clock;
  MembershipReconciler& reconciler;
  Files& files;
  KeptSnapshot& kept;  // shared by all connections: an upload and the bootstrap that restores it
                       // may use different ones
  DiskQueue& queue;
  JoinTokenBook& tokens;
  SignSnapshot& sign;  // signs with this node's member
};

// `trace` is for rpc::Etcd; without one, requests are not traced.
rpc::EtcdSupervisor::Client makeServer(const ServedParts& parts,
                                       kj::Maybe<RequestTrace&> trace = nullptr);

// Serves the join tokens to trustd (rpc/join-tokens.capnp). Keeps no state.

// `tokens` must outlive the server.
rpc::JoinTokens::Client serveJoinTokens(JoinTokenBook& tokens);

}  // namespace talos::supervisor
