// Reads the objects of a control plane that bootkube made, and makes the patch of a node's config
// that takes it over. Pure.
#pragma once

#include "common/kube/json.h"
#include "common/tls/pki.h"

namespace talos::talosctl {

// In the order in which they are handed over.
constexpr kj::StringPtr kConvertedParts[] = {"kube-apiserver"_kj, "kube-controller-manager"_kj,
                                             "kube-scheduler"_kj};

// All that the nodes need of it to run it themselves.
struct TakenControlPlane {
  pki::Pem serviceAccountKey;
  pki::CertificateAndKey aggregator;
  kj::String images[3];  // by kConvertedParts
};

// PEM, of the Secret kube-system/kube-controller-manager. FailedPrecondition when it is not there
// or no key.
pki::Pem serviceAccountKeyOf(const kube::Json& secret);
// Of the first container. FailedPrecondition, naming the DaemonSet, when there is none.
kj::String firstImageOf(const kube::Json& daemonSet);
// Its pods occupy ports of their nodes: another one beside them cannot listen there.
bool isOnHostNetwork(const kube::Json& daemonSet);

// A mirror of a pod that a node of ours runs by itself.
bool isOwnStaticPod(const kube::Json& pod);
bool isOfDaemonSet(const kube::Json& pod);
// A copy that pod-checkpointer keeps of another pod.
bool isCheckpoint(const kube::Json& pod);
bool isPending(const kube::Json& pod);

// A patch of a machine config; it holds secrets: zeroize() it.
kj::String conversionPatch(const TakenControlPlane& taken);

}  // namespace talos::talosctl
