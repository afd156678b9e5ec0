// Adds access to the machine API to manifests of Kubernetes: a ServiceAccount of talos.dev beside
// each object that runs pods, and its Secret, which kubed creates, as a volume of their containers.
//
// Pure. Objects that run no pods stay unchanged, and so do objects that have the volume already.
#pragma once

#include <kj/string.h>

#include "common/kube/json.h"

namespace talos::talosctl {

struct InjectedManifests {
  kj::Vector<kube::Json> documents;  // in the order of the input, each account after its object
  unsigned accounts = 0;
};

// Adds accounts. InvalidArgument for an object that cannot have one, with its kind and name.
InjectedManifests injectAccounts(kj::Vector<kube::Json> documents,
                                 kj::ArrayPtr<const kj::String> roles);

}  // namespace talos::talosctl
