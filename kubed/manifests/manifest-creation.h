// Creates the objects of manifests. Leaves existing objects unchanged, and never changes or removes
// anything. So it can be repeated from the start after any failure.
#pragma once

#include "common/kube/kube-client.h"
#include "common/kube/manifest-objects.h"

namespace talos::kubed {

using kube::ManifestObject, kube::ManifestText;

constexpr kj::StringPtr kFieldManager = "talos"_kj;

// Creates the objects in the given order. Rejects at the first object that cannot be created, with
// its name. Calls `created` for each created object.
kj::Promise<void> createObjects(kube::KubeClient& kubernetes,
                                kj::ArrayPtr<const ManifestObject> objects,
                                kj::Function<void(const ManifestObject&)>& created);

struct CreatedManifests {
  struct Failure {
    kj::String id, error;
  };
  kj::Vector<kj::String> applied;  // ids of manifests whose objects all exist
  kj::Vector<Failure> failures;    // only of extra manifests
};
// Creates machined's manifests first and together: a failure there rejects. Each extra manifest is
// read and created separately, so its errors do not affect the others.
kj::Promise<CreatedManifests> createManifests(kube::KubeClient& kubernetes,
                                              kj::ArrayPtr<const ManifestText> manifests,
                                              kj::StringPtr tokenSecret,
                                              kj::Function<void(const ManifestObject&)> created,
                                              kj::StringPtr tokenEnd = "");

}  // namespace talos::kubed
