// The workers to which trustd would give a certificate of the new CA of the machine API.
//
// A worker renews by its present certificate, whatever its machine.token, but not across a
// rotation: the control planes have the new CA before the first worker asks, and trustd verifies no
// certificate of another one. So a worker needs the token of the control plane, or a join token
// that was spent for its key, before anything is changed; later it would stop the run, and the end
// of the run would shut it out. Pure.
#pragma once

#include "rpc/etcd.capnp.h"
#include "talosctl/rotate-ca/rotation-plan.h"

namespace talos::talosctl {

// A join token, as etcd lists it.
struct ListedToken {
  kj::String id;
  rpc::Etcd::JoinToken::State state;
  kj::String usedBy, fingerprint;  // of the worker, of its key; empty: unused
};

// A worker whose machine.token is not that of a control-plane node: its certificate is needed, and
// the list of join tokens.
bool hasTokenOfItsOwn(const RotatedNode& node, kj::ArrayPtr<const RotatedNode> nodes);

// Throws FailedPrecondition with each worker that would get no certificate, and why. `newCa`: who
// has a certificate of it already needs no token.
void checkWorkerTokens(kj::ArrayPtr<const RotatedNode> nodes,
                       kj::ArrayPtr<const ListedToken> tokens, kj::StringPtr newCa);

}  // namespace talos::talosctl
