// Why an image could not be pulled, as machined and the kubelet say it. Pure.
//
// machined: cannot pull "IMAGE": WHY. The kubelet's log, of a pod: … "Error syncing pod, skipping"
// err="failed to \"StartContainer\" for \"NAME\" with ErrImagePull: \"…\"". The texts are
// containerd's; what they do not say is Reason::kOther, and they stand beside it as evidence.
#pragma once

#include "talosctl/diagnose/illness-table.h"

namespace talos::talosctl {

struct PullFailure {
  enum class Reason {
    kOther,
    kNoSuchImage,
    kReference,  // not a valid name of an image
    kName,       // of the registry: it cannot be resolved
    kRefused,
    kUnreachable,
    kSilent,
    kCertificate,
    kCredentials,
    kMirrors,  // none of its mirrors has it, and the registry itself cannot be reached
  };
  Reason reason = Reason::kOther;
  kj::String image, host, text;
  kj::String container;  // of a pod; empty: of a service
  kj::String source;     // service kubelet, logs kubelet
  uint64_t time = 0;
};

kj::StringPtr wordsOf(PullFailure::Reason reason);
PullFailure::Reason pullReason(kj::StringPtr text);
// The registry does not answer as it should, whatever the image.
bool isOfRegistry(PullFailure::Reason reason);
// The registry of an image's name: docker.io when it says none.
kj::String registryOf(kj::StringPtr image);

// Of an image whose registry has mirrors containerd says only why the last one that it asked gives
// none, the registry itself; that a mirror cannot be reached stands in its log. So such a failure
// is that mirror's, or kMirrors.
void blameMirrors(SeenNode node, PullFailure& failure);

// None: the text tells of no failed pull.
kj::Maybe<PullFailure> readPullFailure(kj::StringPtr text);

// Of pods on this node whose image is still missing: the newest line for each container, not of
// one that runs, not of a pod that Kubernetes has no more, and not older than the kubelet waits
// before it tries again.
kj::Vector<PullFailure> podPullsOf(Seen seen, SeenNode node);

}  // namespace talos::talosctl
