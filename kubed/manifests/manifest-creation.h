// Creates the objects of manifests: what is there already is left as it is, nothing is ever
// changed or removed. So it may be repeated, from the beginning, after whatever happened to it.
#pragma once

#include "common/kube/kube-client.h"
#include "kubed/manifests/manifest-objects.h"

namespace talos::kubed {

constexpr kj::StringPtr kFieldManager = "talos"_kj;

// In their order. Rejects with the first object that cannot be created, named. `created` hears of
// each that is.
kj::Promise<void> createObjects(kube::KubeClient& kubernetes,
                                kj::ArrayPtr<const ManifestObject> objects,
                                kj::Function<void(const ManifestObject&)>& created);

struct CreatedManifests {
  struct Failure {
    kj::String id, why;
  };
  kj::Vector<kj::String> applied;  // ids of those whose objects are all there
  kj::Vector<Failure> failures;    // of extra ones
};
// Those of machined first and together: what fails there rejects. Each extra one is read and
// created by itself: whatever is wrong with it is nobody else's trouble.
kj::Promise<CreatedManifests> createManifests(kube::KubeClient& kubernetes,
                                              kj::ArrayPtr<const ManifestText> manifests,
                                              kj::StringPtr tokenSecret,
                                              kj::Function<void(const ManifestObject&)> created);

}  // namespace talos::kubed
