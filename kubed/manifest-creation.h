// Creates the objects of manifests: what is there already is left as it is, nothing is ever
// changed or removed. So it may be repeated, from the beginning, after whatever happened to it.
#pragma once

#include "common/kube/kube-client.h"
#include "kubed/manifest-objects.h"

namespace talos::kubed {

constexpr kj::StringPtr kFieldManager = "talos"_kj;

// In their order. Rejects with the first object that cannot be created, named. `created` hears of
// each that is.
kj::Promise<void> createObjects(kube::KubeClient& kubernetes,
                                kj::ArrayPtr<const ManifestObject> objects,
                                kj::FunctionParam<void(const ManifestObject&)> created);

}  // namespace talos::kubed
