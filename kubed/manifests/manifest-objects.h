// The objects of all manifests, in the order in which they are created. Pure; the text of extra
// manifests is foreign.
#pragma once

#include "common/kube/json.h"

namespace talos::kubed {

struct ManifestText {
  kj::StringPtr id;
  kj::StringPtr objects;  // YAML: a list
  bool extra = false;     // not of machined: of a URL, or of the config
  uint64_t version = 0;   // of the resource
};

struct ManifestObject {
  kj::String manifest;  // the id of its manifest
  kube::Json object;

  kj::StringPtr apiVersion() const { return kube::textAt(object, {"apiVersion"}); }
  kj::StringPtr kind() const { return kube::textAt(object, {"kind"}); }
  kj::StringPtr name() const { return kube::textAt(object, {"metadata", "name"}); }
  // That of its metadata, or `default`.
  kj::StringPtr nameSpace() const;
  // "apps/v1/DaemonSet/kube-proxy", "/v1/Secret/a": group, version, kind and name.
  kj::String words() const;
};

// By the ids of the manifests; namespaces first, then definitions of custom resources, each by
// name, then the others as they come. What a manifest hides of a bootstrap token
// (common/kube/bootstrap-token.h) is `tokenSecret`. InvalidArgument with the id of a manifest that
// is no list of objects.
kj::Vector<ManifestObject> objectsOf(kj::Vector<ManifestText> manifests, kj::StringPtr tokenSecret);

}  // namespace talos::kubed
