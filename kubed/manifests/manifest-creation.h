// Creates the objects of manifests, and removes those that only earlier releases created. The
// creation leaves existing objects unchanged, so it can be repeated from the start after any
// failure.
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

// Removes objects that the manifests of earlier releases created and those of this release do not:
// bindings of rights that are not needed. A cluster that was made with them would keep them for
// ever, because an object stays when its manifest is removed.
//
// Only a binding of this name, role and subject is removed: a binding that an administrator has
// made again for others is left. Can be repeated after any failure.

// Calls `removed` with the name of each removed binding.
kj::Promise<void> removeRetired(kube::KubeClient& kubernetes,
                                kj::Function<void(kj::StringPtr)> removed);

}  // namespace talos::kubed
