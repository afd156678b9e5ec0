// Evidence that a node belongs to the control plane, required before a key is sent to it.
//
// The answer of a node about itself is no evidence: a compromised worker can claim "controlplane"
// as well. The private key of the CA of the machine API is evidence: each control-plane node has it
// in its config, no worker has it, and the user's client configuration names the CA. So a node that
// shows this key can learn nothing that it could not obtain by itself.
//
// While the CA is rotated, nodes have the old or the new CA. The new CA as the old CA signed it
// leads from the client's CA to its successor. The certificate of an older CA, left by an earlier
// rotation, leads nowhere: a node with this certificate may hold a key that was replaced because it
// leaked.
#pragma once

#include <kj/map.h>

#include "common/config/config.h"
#include "common/tls/pki.h"

namespace talos::talosctl {

// The CA of the machine API in a node's config, as PEM. Each field may be empty.
struct MachineAuthority {
  kj::String ca;
  pki::Pem key;
  kj::Vector<kj::String> accepted;  // certificates of machine.acceptedCAs, one per element
};
MachineAuthority machineAuthorityOf(config::Config::Reader config);
// Returns the certificates of machine.acceptedCAs or of a similar key, one per element.
// InvalidArgument if there are many times more than a rotation leaves, because each is verified
// against each.
kj::Vector<kj::String> acceptedCertificates(capnp::List<config::AcceptedCa>::Reader list);

class ControlPlaneProof {
 public:
  // `authorities`: the CAs by which the client configuration verifies the cluster, as PEM.
  explicit ControlPlaneProof(kj::StringPtr authorities);

  // Returns true if the node has the private key of a known CA, or of the successor of the client's
  // CA.
  bool isHeldBy(const MachineAuthority& node) const;
  // Remembers the CAs of a control-plane node that isHeldBy() accepts, so that nodes in other
  // phases of a rotation are recognized too. Ignores any other node.
  void learn(const MachineAuthority& node);
  void add(kj::StringPtr authority);  // PEM

 private:
  kj::Vector<kj::String> trusted;       // CAs of the client
  kj::TreeMap<kj::String, bool> known;  // hashes of keys; the values have no meaning
  bool isSuccessor(const MachineAuthority& node, kj::StringPtr hash) const;
};

// Throws FailedPrecondition with the node's address unless its config (machine.type, and the key)
// shows that it is a control-plane node. `authorities` as above; empty for the node's own socket on
// this host, whose root has access to the key anyway.
void requireControlPlane(kj::StringPtr node, config::Config::Reader config,
                         kj::StringPtr authorities);

}  // namespace talos::talosctl
