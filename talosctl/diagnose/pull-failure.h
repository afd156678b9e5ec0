// Image pulls that failed, as machined and the kubelet report them. Pure.
//
// machined: cannot pull "IMAGE": ERROR. The kubelet's log, for a pod: … "Error syncing pod,
// skipping" err="failed to \"StartContainer\" for \"NAME\" with ErrImagePull: \"…\"". The errors
// are containerd's.
#pragma once

#include "talosctl/diagnose/observed.h"

namespace talos::talosctl {

// Path of the image of etcd in the machine config.
constexpr kj::StringPtr kEtcdImageKey = "/cluster/etcd/image"_kj;

struct PullFailure {
  FailureKind failure = FailureKind::kOther;
  kj::String image;
  kj::String host;       // registry or mirror that received the request
  kj::String container;  // container of a pod; empty: a service
  Statement statement;
  kj::String status;              // HTTP status that the host answered: "503 Service Unavailable"
  kj::Vector<Statement> mirrors;  // for kMirrors: containerd's lines about the mirrors' own answers

  // Returns true if the registry does not answer correctly, for any image.
  bool isOfRegistry() const;
  // Returns the cause as the user reads it, after the host.
  kj::String description() const;
  // Returns the remedy with the placeholders {node}, {image}, {registry} and {key}. `key`: the path
  // in the machine config that names the image; empty if no key does.
  kj::StringPtr remedy(kj::StringPtr key) const;
};

// Returns the failed pull that the statement reports, or nullptr if it reports none. If a registry
// has mirrors, containerd may report only the attempt at the registry itself; its log has the
// errors of the mirrors, and the answer "not found". So such a failure is attributed to the mirror
// that cannot be reached, or is kMirrors.
kj::Maybe<PullFailure> pullFailureOf(ObservedNode node, Statement statement);

// Returns failed pulls of pods on this node whose image is still missing: the newest line for each
// container. Ignores lines of running containers, of pods that Kubernetes no longer has, and lines
// older than the kubelet's longest wait before a retry.
kj::Vector<PullFailure> podPullFailures(ObservedCluster cluster, ObservedNode node);

}  // namespace talos::talosctl
