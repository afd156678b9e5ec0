// Finds the workers to which trustd would issue a certificate of the new CA of the machine API.
//
// Normally a worker renews with its present certificate, whatever its machine.token is, but not
// during a rotation: the control-plane nodes have the new CA before the first worker requests a
// certificate, and trustd verifies no certificate of another CA. So before anything is changed a
// worker needs the token of the control plane, or a join token that was spent for its key. Later a
// worker without either would stop the run, and the end of the run would exclude it. Pure.
#pragma once

#include "rpc/etcd.capnp.h"
#include "talosctl/rotate-ca/rotation-plan.h"

namespace talos::talosctl {

// A join token as etcd lists it.
struct ListedToken {
  kj::String id;
  rpc::Etcd::JoinToken::State state;
  kj::String usedBy, fingerprint;  // name of the worker, fingerprint of its key; empty: unused
};

// Returns true for a worker whose machine.token no control-plane node has: its certificate and the
// list of join tokens are needed.
bool hasTokenOfItsOwn(const RotatedNode& node, kj::ArrayPtr<const RotatedNode> nodes);

// Throws FailedPrecondition with each worker that would get no certificate, and the reason.
// `newCa`: a worker with a certificate of this CA needs no token.
void checkWorkerTokens(kj::ArrayPtr<const RotatedNode> nodes,
                       kj::ArrayPtr<const ListedToken> tokens, kj::StringPtr newCa);

}  // namespace talos::talosctl
