// The manifests with which a cluster starts: tokens and rights of kubelets, the network of pods,
// kube-proxy, CoreDNS, access of pods to the machine API. Pure: equal input gives equal bytes.
//
// Each is a YAML list of objects, with an id by which they are ordered. They lack the secret half
// of the bootstrap token, since they are stored and shown (to os:admin): kubed, which creates the
// objects, adds it.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "rpc/kubernetes-resources.capnp.h"

namespace talos::machined {

struct BootstrapManifest {
  kj::String id;
  kj::String objects;
};

using SystemManifests = rpc::ControlPlaneConfigSpec::SystemManifests::Reader;

// Returns the manifests in the order of their ids. `tokenId`: first half of the bootstrap token; if
// it is empty, no manifest has a token. `podAccess`: with the Service of the machine API
// and the kind of the accounts that pods have there.
kj::Vector<BootstrapManifest> renderManifests(SystemManifests config, kj::StringPtr tokenId,
                                              bool podAccess = false);

}  // namespace talos::machined
