// Changes an object to its present form in the nodes' manifests. kubed only creates such objects;
// an upgrade changes them.
//
// The change is a server-side apply (KEP-555) with kubed's field manager. A field that another
// manager has set to another value stays as it is and is reported, and so are fields that the
// manifests no longer have. Nothing is written if nothing would change, so a repeated call is
// harmless.
#pragma once

#include "common/kube/kube-client.h"
#include "common/kube/manifest-objects.h"

namespace talos::talosctl {

struct ObjectChange {
  kj::String object;     // such as Deployment kube-system/coredns
  bool missing = false;  // the object does not exist yet: kubed creates it
  bool changes = false;
  kj::String diff;  // unified diff of the YAML, if `changes`; values of a Secret are ***
  kj::Vector<kj::String> kept;  // such as ".spec.replicas by kubectl-edit"
};

// Changes the object; a rehearsal changes nothing. NotFound if the API server does not know the
// kind.
kj::Promise<ObjectChange> changeObject(kube::KubeClient& kubernetes,
                                       const kube::ManifestObject& object, bool rehearsal);

// --- pure functions used by changeObject()

// Removes a field by its path in the form of a conflict: .spec.containers[name="a"].args. Returns
// false if the object has no such field, or if the path has another form.
bool removeField(kube::Json& object, kj::StringPtr path);
// Returns the object without the data that the API server adds: status, managedFields,
// resourceVersion, generation.
kube::Json comparable(const kube::Json& object);
// Returns the reason why a Deployment or DaemonSet still runs pods of its earlier template, or has
// too few pods; empty if it does neither, or for an object of another kind.
kj::String missingOfRollout(const kube::Json& object);

}  // namespace talos::talosctl
