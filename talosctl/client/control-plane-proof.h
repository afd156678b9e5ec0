// Evidence that a node belongs to the control plane, before a key is sent to it.
//
// The answer of a node about itself is no evidence: a worker in foreign hands says "controlplane"
// as well. The private key of the CA of the machine API is evidence: each control-plane node has it
// in its config, no worker has it, and the client configuration of the user names the CA. So a node
// that shows this key gets nothing that it could not get by itself.
//
// While the CA is rotated, nodes have the old or the new one. From the client's CA to its
// successor leads the new CA as the old one signed it. The certificate of an older CA that a
// rotation before has left leads nowhere: whoever has such a certificate may have a key that was
// replaced because it leaked.
#pragma once

#include <kj/map.h>

#include "common/config/config.h"
#include "common/tls/pki.h"

namespace talos::talosctl {

// The CA of the machine API in a node's config. PEM; each may be empty.
struct MachineAuthority {
  kj::String ca;
  pki::Pem key;
  kj::Vector<kj::String> accepted;  // machine.acceptedCAs, each certificate by itself
};
MachineAuthority machineAuthorityOf(config::Config::Reader config);
// Returns the certificates of machine.acceptedCAs or of a key like it, each by itself.
// InvalidArgument for many times more than a rotation leaves: each is verified with each.
kj::Vector<kj::String> acceptedCertificates(capnp::List<config::AcceptedCa>::Reader list);

class ControlPlaneProof {
 public:
  // `authorities`: the CAs by which the client configuration verifies the cluster, PEM.
  explicit ControlPlaneProof(kj::StringPtr authorities);

  // True if the node has the private key of a known CA, or of the successor of the client's.
  bool isHeldBy(const MachineAuthority& node) const;
  // Remembers the CAs of a control-plane node that isHeldBy() accepts, so that nodes in another
  // phase of a rotation are recognized too. Does nothing for any other node.
  void learn(const MachineAuthority& node);
  void add(kj::StringPtr authority);  // PEM

 private:
  kj::Vector<kj::String> trusted;       // the client's
  kj::TreeMap<kj::String, bool> known;  // hashes of keys; the values mean nothing
  bool isSuccessor(const MachineAuthority& node, kj::StringPtr hash) const;
};

// Throws FailedPrecondition with the node's address unless its config (machine.type, and the key)
// shows that it is a control-plane node. `authorities` as above; empty: the node's own socket on
// this host, whose root has the key anyway.
void requireControlPlane(kj::StringPtr node, config::Config::Reader config,
                         kj::StringPtr authorities);

}  // namespace talos::talosctl
