// Replaces a CA of a running cluster, that of the machine API, of Kubernetes, of its aggregation
// layer or of etcd: what there is to do, by the configs of its nodes alone.
//
// Three phases, each complete on every node before the next begins:
//   accept  every node accepts the new CA beside its own, and shows with its certificates that of
//           its own CA as the new one signed it, so that clients of either verify it
//   issue   every node has certificates of the new CA, and accepts the old one; now it is the new
//           CA as the old one signed it that goes with them
//   drop    no node accepts the old CA
// So a client with a certificate of either CA, which trusts only that one, is served from the end
// of `accept` to the beginning of `drop`, and one of the old CA before as well.
//
// Of Kubernetes, the new CA as the old one signed it stays in `drop`: it accepts nobody, but
// programs in pods that read the old CA when they started still verify the API server with it.
//
// No file records how far a rotation has come: `ca` and `acceptedCAs` of the control-plane nodes
// say it, and of two CAs the one that was made later is the new one. The key of the new CA is in no
// config before the first node issues with it; a rotation that ended before is begun again with
// another new CA, which no client has seen. Workers come last, but first in `drop`: so a rotation
// that ended there is not complete for the control plane while a worker is left.
//
// A worker decides nothing: neither the CAs nor the phase, and its CA is one of the two, or the
// rotation is refused. Pure.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "talosctl/client/control-plane-proof.h"

namespace talos::talosctl {

// And two keys, which go through the same phases (secrets-key-plan.h, service-account-plan.h).
enum class RotatedCa { kMachine, kKubernetes, kSecretsKey, kServiceAccountKey, kAggregator, kEtcd };
bool isOfControlPlane(RotatedCa ca);  // workers have no part in it
// Where a config has it: "/cluster/etcd/ca"; empty: of a key. `accepted`: the CAs beside it.
struct RotatedPaths {
  kj::StringPtr ca, accepted;
};
RotatedPaths pathsOf(RotatedCa ca);
kj::String keyNameOf(RotatedCa ca);  // cluster.etcd.ca

// Of a node's config. PEM.
struct RotatedNode {
  kj::String address;         // as it is named in calls
  kj::String name, ip;        // in Kubernetes; empty: not known there
  bool controlPlane = false;  // as its config says: requireRole() compares it with what others say
  bool persists = true;
  kj::String ca, caHash;  // either may be empty
  pki::Pem key;
  kj::Vector<kj::String> accepted;  // CAs, or public keys of service accounts, whose own is `ca`
  pki::Pem token;                   // machine.token
  kj::String certificate;           // of a worker with another token than the control plane (PEM)
  pki::Pem secretbox, aescbc;       // keys of Secrets, base64; either may be empty
  kj::Vector<pki::Pem> acceptedKeys;
  MachineAuthority machine;  // evidence, whatever is rotated
};

enum class RotationPhase { kAccept, kIssue, kDrop };
kj::StringPtr phaseName(RotationPhase phase);

struct Rotation {
  RotatedCa which = RotatedCa::kMachine;
  RotationPhase phase = RotationPhase::kAccept;  // the first that is not complete on every node
  bool begun = false;                            // by an earlier run
  bool oldClient = false;                        // the user's certificate is of the old CA
  kj::String oldCa, newCa;
  pki::Pem newKey;                // of the CA, or that of Secrets or of service accounts
  pki::Pem oldKey;                // empty: no node has it any more
  kj::String oldByNew, newByOld;  // each CA as the other one signed it; the first only to accept
};

struct ListedToken;

// Throws FailedPrecondition, with nodes and reason, when it cannot be done: a node does not keep
// its config, nobody has a key that is needed, the nodes have CAs that are no pair of a rotation,
// or a worker would get no certificate (worker-tokens.h). `tokens`: all join tokens of the cluster,
// if a worker has one.
Rotation planRotation(RotatedCa which, kj::ArrayPtr<const RotatedNode> nodes, kj::Date now,
                      kj::ArrayPtr<const ListedToken> tokens = nullptr);

// The hash of a node's CA; empty: its config names none. InvalidArgument for what is no
// certificate.
kj::String caHashOf(const RotatedNode& node);

// The JSON Patch that brings a node's config to the end of a phase; none: it is there.
kj::Maybe<kj::String> rotationPatch(const RotatedNode& node, const Rotation& rotation,
                                    RotationPhase phase);

// The reason why a node with these certificates of its machine API (ApiCertificates/api) is not at
// the end of a phase; none: it is.
kj::Maybe<kj::StringPtr> phaseError(const Rotation& rotation, RotationPhase phase,
                                    kj::StringPtr trusted, kj::StringPtr server);

// "sha256:…", shortened for people.
kj::String shortHash(kj::StringPtr certificate);

}  // namespace talos::talosctl
