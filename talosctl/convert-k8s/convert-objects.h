// Reads the objects of a control plane that bootkube created, and creates the patch of a node's
// config that takes it over. Pure.
#pragma once

#include "common/kube/json.h"
#include "common/tls/pki.h"

namespace talos::talosctl {

// Parts in the order of the handover.
constexpr kj::StringPtr kConvertedParts[] = {"kube-apiserver"_kj, "kube-controller-manager"_kj,
                                             "kube-scheduler"_kj};

// The data of the old control plane that the nodes need to run it themselves.
struct TakenControlPlane {
  pki::Pem serviceAccountKey;
  pki::CertificateAndKey aggregator;
  kj::String images[3];  // in the order of kConvertedParts
};

// Returns the key in the Secret kube-system/kube-controller-manager, as PEM. FailedPrecondition if
// it is missing or not a key.
pki::Pem serviceAccountKeyOf(const kube::Json& secret);
// Returns the image of the first container. FailedPrecondition, naming the DaemonSet, if there is
// none.
kj::String firstImageOf(const kube::Json& daemonSet);
// Returns true if its pods occupy ports of their nodes, so that another pod on the node cannot
// listen there.
bool isOnHostNetwork(const kube::Json& daemonSet);

// Returns true for the mirror of a static pod that a node of this cluster runs.
bool isOwnStaticPod(const kube::Json& pod);
bool isOfDaemonSet(const kube::Json& pod);
// Returns true for a copy that pod-checkpointer keeps of another pod.
bool isCheckpoint(const kube::Json& pod);
bool isPending(const kube::Json& pod);

// Returns a patch of a machine config. It holds secrets: zeroize() it.
kj::String conversionPatch(const TakenControlPlane& taken);

}  // namespace talos::talosctl
