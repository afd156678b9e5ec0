// Brings an object of the nodes' manifests to what they want of it now. kubed creates such objects
// and changes none; an upgrade does.
//
// By server-side apply (KEP-555) as the field manager of kubed. A field that somebody else has set
// to another value stays as it is, and is named; so do fields that the manifests no longer have.
// Nothing is written when nothing would change, so a repeated call is harmless.
#pragma once

#include "common/kube/kube-client.h"
#include "common/kube/manifest-objects.h"

namespace talos::talosctl {

struct ObjectChange {
  kj::String object;     // Deployment kube-system/coredns
  bool missing = false;  // it is not there yet: kubed creates it
  bool changes = false;
  kj::String diff;              // of `changes`: unified, of its YAML; values of a Secret are ***
  kj::Vector<kj::String> kept;  // ".spec.replicas by kubectl-edit"
};

// A rehearsal changes nothing. NotFound: the API server does not know the kind.
kj::Promise<ObjectChange> changeObject(kube::KubeClient& kubernetes,
                                       const kube::ManifestObject& object, bool rehearsal);

// --- pure, for the above

// Removes a field by its path as a conflict names it: .spec.containers[name="a"].args. False: it
// is not in the object, or the path is of another form.
bool removeField(kube::Json& object, kj::StringPtr path);
// The object without what the API server keeps about it: status, managedFields, resourceVersion,
// generation.
kube::Json comparable(const kube::Json& object);
// The reason why a Deployment or DaemonSet still runs pods of its earlier template, or has too few;
// empty: none, or an object of another kind.
kj::String missingOfRollout(const kube::Json& object);

}  // namespace talos::talosctl
