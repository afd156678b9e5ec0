// The plan of an upgrade of Kubernetes: the image of each part on each node, in order, by the rules
// of Kubernetes' version skew policy. Pure: turns the intent and the state of the cluster into
// changes, or into a refusal that names both releases and the remedy.
//
// An image keeps its repository in the node's config; its tag becomes the tag of the release. An
// image that has this tag already stays in the plan, so that an interrupted run continues where it
// ended and still waits for the change that it had started. The rules:
//   * no downgrade, and one minor release at a time: concurrent API servers may differ by one;
//   * API servers first, then their clients, kubelets last: no client is newer than its API server;
//   * no kubelet may become so old that the new API server does not support it.
#pragma once

#include <kj/vector.h>

#include <set>

#include "common/config/kubernetes/kubernetes-images.h"

namespace talos::talosctl {

using config::KubernetesPart, config::KubernetesVersion;

struct KubernetesRelease {
  KubernetesVersion version;
  kj::String text;  // such as 1.35.4, 1.35.0-rc.1
};
// Parses a release with or without a leading v; all three numbers are required. InvalidArgument
// naming the flag.
KubernetesRelease readRelease(kj::StringPtr text, kj::StringPtr flag);

// State of a node in Kubernetes and in its own config. Images are those of its config, with
// defaults; empty if the node does not run the part.
struct NodeState {
  kj::String name;     // name in Kubernetes
  kj::String address;  // InternalIP
  bool controlPlane = false;
  bool persists = true;                  // machine.persist
  std::set<KubernetesPart> inDocuments;  // parts with an image in their own document
  kj::String apiServer, controllerManager, scheduler, proxy, kubelet;
  kj::String kubeletVersion;  // version that the kubelet reports

  kj::StringPtr image(KubernetesPart part) const;
};

struct ClusterState {
  kj::Vector<NodeState> nodes;
  kj::Maybe<kj::String> proxyImage;  // image of the DaemonSet; nullptr: there is no DaemonSet
};

struct UpgradeIntent {
  kj::Maybe<KubernetesRelease> from;  // required present release; nullptr: any
  KubernetesRelease to;
  bool kubelets = true;
  bool force = false;  // hazards are warnings (upgrade-hazards.h)
};

struct ImageChange {
  KubernetesPart part;
  size_t node;  // index in ClusterState::nodes
  kj::String was, image;
  bool isChange() const { return was != image; }
};

struct UpgradePlan {
  KubernetesVersion from;  // oldest release of the control plane
  // Changes by part: API server, controller manager, scheduler, kube-proxy (its image in the config
  // of a control-plane node), kubelet; for each part the control plane first.
  kj::Vector<ImageChange> changes;
  kj::Maybe<kj::String> daemonSetImage;  // new image; nullptr: there is no DaemonSet
};

// Plans the upgrade. FailedPrecondition with every reason against it.
UpgradePlan planUpgrade(const UpgradeIntent& intent, const ClusterState& state);

// Returns the image with the tag of this release. FailedPrecondition if the image is named by a
// digest or has no tag; `of` names the image's owner, `key` the config key with the image.
kj::String withRelease(kj::StringPtr image, const KubernetesRelease& release, kj::StringPtr of,
                       kj::StringPtr key);

// Returns the config key of a part's image: cluster.apiServer.image.
kj::StringPtr imageKey(KubernetesPart part);
// Returns the kind of the document that may have the image instead: KubeAPIServerConfig.
kj::StringPtr imageDocument(KubernetesPart part);
// Returns a patch of the config that sets the image, in the document if `inDocument`.
kj::String imagePatch(KubernetesPart part, kj::StringPtr image, bool inDocument = false);

}  // namespace talos::talosctl
