// The plan of an upgrade of Kubernetes: the image of each part on each node, in order, and the
// rules of Kubernetes' version skew policy. Pure: from the intent and the state of the cluster to
// changes, or to a refusal that names both releases and what to do.
//
// An image keeps the repository that the node's config has; its tag becomes that of the release.
// An image that has the tag already stays in the plan, so that a run that was interrupted continues
// where it ended and still waits for the change that it had started. The rules:
//   * no downgrade, and one minor release at a time: API servers beside each other may differ by
//   one;
//   * API servers first, then what speaks to them, kubelets last: nothing is newer than the API
//     server that it speaks to;
//   * no kubelet may be left behind so far that the new API server does not speak to it.
#pragma once

#include <kj/vector.h>

#include "common/config/kubernetes-images.h"

namespace talos::talosctl {

using config::KubernetesPart, config::KubernetesVersion;

struct KubernetesRelease {
  KubernetesVersion version;
  kj::String text;  // 1.35.4, 1.35.0-rc.1
};
// With a v in front or without; all three numbers. InvalidArgument naming the flag.
KubernetesRelease readRelease(kj::StringPtr text, kj::StringPtr flag);

// A node by Kubernetes and by its own config. Images are those of its config, with defaults; empty:
// it does not run the part.
struct NodeState {
  kj::String name;     // in Kubernetes
  kj::String address;  // its InternalIP
  bool controlPlane = false;
  bool persists = true;  // machine.persist
  kj::String apiServer, controllerManager, scheduler, proxy, kubelet;
  kj::String kubeletVersion;  // as the kubelet reports it

  kj::StringPtr image(KubernetesPart part) const;
};

struct ClusterState {
  kj::Vector<NodeState> nodes;
  kj::Maybe<kj::String> proxyImage;  // of the DaemonSet; none: there is none
};

struct UpgradeIntent {
  kj::Maybe<KubernetesRelease> from;  // none: any
  KubernetesRelease to;
  bool kubelets = true;
  bool force = false;  // hazards are warnings (upgrade-hazards.h)
};

struct ImageChange {
  KubernetesPart part;
  size_t node;  // of ClusterState::nodes
  kj::String was, image;
  bool isChange() const { return was != image; }
};

struct UpgradePlan {
  KubernetesVersion from;  // the oldest of the control plane
  // By part: API server, controller manager, scheduler, kube-proxy (what the config of a
  // control-plane node says of it), kubelet; within a part the control plane first.
  kj::Vector<ImageChange> changes;
  kj::Maybe<kj::String> daemonSetImage;  // the new one; none: there is no DaemonSet
};

// FailedPrecondition with every reason why it cannot be done.
UpgradePlan planUpgrade(const UpgradeIntent& intent, const ClusterState& state);

// The image with the tag of that release. FailedPrecondition for one that is named by a digest or
// has no tag; `of` says whose it is, `key` where it is named.
kj::String withRelease(kj::StringPtr image, const KubernetesRelease& release, kj::StringPtr of,
                       kj::StringPtr key);

// Where a config names the image of a part: cluster.apiServer.image.
kj::StringPtr imageKey(KubernetesPart part);
// A patch of the config that sets it.
kj::String imagePatch(KubernetesPart part, kj::StringPtr image);

}  // namespace talos::talosctl
