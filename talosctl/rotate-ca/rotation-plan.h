// Replaces a CA of a running cluster: the CA of the machine API, of Kubernetes, of its aggregation
// layer or of etcd. This unit determines the remaining work from the configs of the nodes alone.
//
// There are three phases, each complete on every node before the next begins:
//   accept  every node accepts the new CA beside its own, and presents with its certificates its
//           own CA as signed by the new one, so that clients of either CA verify it
//   issue   every node has certificates of the new CA, and accepts the old one; it now presents
//           the new CA as signed by the old one
//   drop    no node accepts the old CA
//
// So a client with a certificate of either CA, which trusts only this CA, is served from the end of
// `accept` to the beginning of `drop`; a client of the old CA also before.
//
// For Kubernetes, the new CA as signed by the old one stays in `drop`: it authenticates no client,
// but programs in pods that read the old CA when they started still verify the API server with it.
//
// No file records the progress of a rotation: `ca` and `acceptedCAs` of the control-plane nodes
// show it, and of two CAs the later one is the new one. The key of the new CA is in no config
// before the first node issues with it. A rotation that ended earlier starts again with another new
// CA; no client has seen the first one. Workers come last, but first in `drop`, so that a rotation
// that ended there is not complete for the control plane while a worker is left.
//
// A worker decides neither the CAs nor the phase; its CA must be one of the two, otherwise the
// rotation is refused. Pure.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "talosctl/client/control-plane-proof.h"

namespace talos::talosctl {

// The CAs to rotate, and two keys that go through the same phases (secrets-key-plan.h,
// service-account-plan.h).
enum class RotatedCa { kMachine, kKubernetes, kSecretsKey, kServiceAccountKey, kAggregator, kEtcd };
bool isOfControlPlane(RotatedCa ca);  // workers are not involved
// Paths in a config, such as "/cluster/etcd/ca"; empty for a key. `accepted`: the path of the
// additional CAs.
struct RotatedPaths {
  kj::StringPtr ca, accepted;
};
RotatedPaths pathsOf(RotatedCa ca);
kj::String keyNameOf(RotatedCa ca);  // cluster.etcd.ca

// The fields of a node's config that a rotation needs, as PEM.
struct RotatedNode {
  kj::String address;   // address used in calls
  kj::String name, ip;  // name and address in Kubernetes; empty: unknown
  // Role in its config: requireRole() compares it with the assigned role.
  bool controlPlane = false;
  bool persists = true;
  kj::String ca, caHash;  // either may be empty
  pki::Pem key;
  // CAs, or public keys of service accounts; `ca` is the node's own key then.
  kj::Vector<kj::String> accepted;
  pki::Pem token;          // machine.token
  kj::String certificate;  // certificate of a worker whose token is not the control plane's (PEM)
  pki::Pem secretbox, aescbc;  // keys of Secrets, base64; either may be empty
  kj::Vector<pki::Pem> acceptedKeys;
  MachineAuthority machine;  // evidence of the control plane, for any rotation
};

enum class RotationPhase { kAccept, kIssue, kDrop };
kj::StringPtr phaseName(RotationPhase phase);

struct Rotation {
  RotatedCa which = RotatedCa::kMachine;
  RotationPhase phase = RotationPhase::kAccept;  // first phase that is not complete on every node
  bool begun = false;                            // an earlier run has begun it
  bool oldClient = false;                        // the user's certificate is of the old CA
  kj::String oldCa, newCa;
  pki::Pem newKey;                // key of the CA, of Secrets or of service accounts
  pki::Pem oldKey;                // empty: no node has the key any more
  kj::String oldByNew, newByOld;  // each CA as signed by the other one; the first only for `accept`
};

struct ListedToken;

// Plans the rotation. Throws FailedPrecondition, with nodes and reason, if it is impossible: a node
// does not keep its config, no node has a required key, the CAs of the nodes are not a pair of a
// rotation, or a worker would get no certificate (worker-tokens.h). `tokens`: all join tokens of
// the cluster, if a worker has one.
Rotation planRotation(RotatedCa which, kj::ArrayPtr<const RotatedNode> nodes, kj::Date now,
                      kj::ArrayPtr<const ListedToken> tokens = nullptr);

// Returns the hash of a node's CA; empty if its config names no CA. InvalidArgument if the text is
// not a certificate.
kj::String caHashOf(const RotatedNode& node);

// Returns the JSON Patch that brings a node's config to the end of a phase; nullptr if no change is
// needed.
kj::Maybe<kj::String> rotationPatch(const RotatedNode& node, const Rotation& rotation,
                                    RotationPhase phase);

// Returns true if the config of every node is that of the end of a planned rotation.
bool isComplete(const Rotation& rotation, kj::ArrayPtr<const RotatedNode> nodes);

// Returns the reason why a node with these certificates of its machine API (ApiCertificates/api) is
// not at the end of a phase; nullptr if it is.
kj::Maybe<kj::StringPtr> phaseError(const Rotation& rotation, RotationPhase phase,
                                    kj::StringPtr trusted, kj::StringPtr server);

// Returns "sha256:…", shortened to a readable length.
kj::String shortHash(kj::StringPtr certificate);

// --- for the plans of CAs and of keys

// Throws FailedPrecondition.
[[noreturn]] void refuseRotation(kj::StringPtr reason);
// Returns the control-plane nodes. Refuses a cluster without one.
kj::Vector<const RotatedNode*> controlPlaneOf(kj::ArrayPtr<const RotatedNode> nodes);
// Refuses a node that does not keep its config. `rotated`: "CA" or "key".
void requirePersistence(const RotatedNode& node, kj::StringPtr rotated);

// Makes a JSON Patch. Its operations may hold keys: zeroize() the text.
class JsonPatch {
 public:
  void set(kj::StringPtr path, kj::StringPtr json);
  void remove(kj::StringPtr path);
  kj::String text() const;

 private:
  kj::Vector<kj::String> operations;
};

}  // namespace talos::talosctl
