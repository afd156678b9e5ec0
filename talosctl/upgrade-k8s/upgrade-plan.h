// Which images an upgrade of Kubernetes gives to which nodes, in which order, and what it must not
// do. Pure: from what is wanted and what was seen to steps, or to a refusal that names both
// releases and what would be right.
//
// An image keeps the repository that the node's config has; its tag becomes that of the release.
// What has the tag already stays a step, so that a run that was cut off goes on where it ended and
// still waits for what it had begun. Rules, of Kubernetes' version skew policy:
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
KubernetesRelease readRelease(kj::StringPtr word, kj::StringPtr flag);

// A node as Kubernetes and its own config have it. Images are those that it runs by its config,
// defaults filled in; empty: it has no such part.
struct SeenNode {
  kj::String name;     // in Kubernetes
  kj::String address;  // its InternalIP
  bool controlPlane = false;
  bool persists = true;  // machine.persist
  kj::String apiServer, controllerManager, scheduler, proxy, kubelet;
  kj::String kubeletVersion;  // that the kubelet tells

  kj::StringPtr image(KubernetesPart part) const;
};

struct SeenCluster {
  kj::Vector<SeenNode> nodes;
  kj::Maybe<kj::String> proxyImage;  // of the DaemonSet; none: there is none
};

struct UpgradeIntent {
  kj::Maybe<KubernetesRelease> from;  // none: what is found
  KubernetesRelease to;
  bool kubelets = true;
};

struct ImageChange {
  KubernetesPart part;
  size_t node;  // of SeenCluster::nodes
  kj::String was, image;
  bool isChange() const { return was != image; }
};

struct UpgradePlan {
  KubernetesVersion from;  // the oldest of the control plane
  // By part: API server, controller manager, scheduler, kube-proxy (what the config of a
  // control-plane node says of it), kubelet; within a part the control plane first.
  kj::Vector<ImageChange> changes;
  kj::Maybe<kj::String> daemonSetImage;  // that it is to have; none: there is none
};

// FailedPrecondition with everything that stands against it.
UpgradePlan planUpgrade(const UpgradeIntent& intent, const SeenCluster& seen);

// The image with the tag of that release. FailedPrecondition for one that is named by a digest or
// has no tag; `of` says whose it is, `key` where it is named.
kj::String withRelease(kj::StringPtr image, const KubernetesRelease& release, kj::StringPtr of,
                       kj::StringPtr key);

// Where a config names the image of a part: cluster.apiServer.image.
kj::StringPtr imageKey(KubernetesPart part);
// A patch of the config that sets it.
kj::String imagePatch(KubernetesPart part, kj::StringPtr image);

}  // namespace talos::talosctl
