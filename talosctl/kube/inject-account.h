// Puts access to the machine API into manifests of Kubernetes: a ServiceAccount of talos.dev beside
// each object that runs pods, and its Secret, which kubed makes, as a volume of their containers.
//
// Pure. What runs no pods is left as it is, and so is what has the volume already.
#pragma once

#include <kj/string.h>

#include "common/kube/json.h"

namespace talos::talosctl {

struct InjectedManifests {
  kj::Vector<kube::Json> documents;  // in the order of the input, each account behind its object
  unsigned accounts = 0;
};

// InvalidArgument for an object that cannot have it, with its kind and name.
InjectedManifests injectAccounts(kj::Vector<kube::Json> documents,
                                 kj::ArrayPtr<const kj::String> roles);

}  // namespace talos::talosctl
