// Pulls of images that have failed, as machined and the kubelet report them. Pure.
//
// machined: cannot pull "IMAGE": ERROR. The kubelet's log, of a pod: … "Error syncing pod,
// skipping" err="failed to \"StartContainer\" for \"NAME\" with ErrImagePull: \"…\"". The errors
// are containerd's.
#pragma once

#include "talosctl/diagnose/observed.h"

namespace talos::talosctl {

struct PullFailure {
  FailureKind failure = FailureKind::kOther;
  kj::String image;
  kj::String host;       // the registry, or the mirror that was asked
  kj::String container;  // of a pod; empty: of a service
  Statement statement;

  // The registry does not answer as it should, whatever the image.
  bool isOfRegistry() const;
  // With the placeholders {node}, {image} and {key}, the path in the machine config that names the
  // image; empty: none does.
  kj::StringPtr remedy(kj::StringPtr key) const;
};

// None: the statement does not report a failed pull. Of an image whose registry has mirrors
// containerd reports only the error of the last one that it asked, the registry itself; that a
// mirror cannot be reached is in its log. So such a failure is that mirror's, or kMirrors.
kj::Maybe<PullFailure> pullFailureOf(ObservedNode node, Statement statement);

// Of pods on this node whose image is still missing: the newest line for each container, not of
// one that runs, not of a pod that Kubernetes no longer has, and not older than the kubelet waits
// before it retries.
kj::Vector<PullFailure> podPullFailures(ObservedCluster cluster, ObservedNode node);

}  // namespace talos::talosctl
