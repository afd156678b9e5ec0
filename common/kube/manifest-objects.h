// Objects of all manifests, in the order in which they are created. Pure; the text of extra
// manifests is foreign.
#pragma once

#include "common/kube/json.h"

namespace talos::kube {

// Namespace of the manifests that manifestd fetches, and of its status.
constexpr kj::StringPtr kExtraManifests = "extras"_kj;

struct ManifestText {
  kj::StringPtr id;
  kj::StringPtr objects;  // YAML: a list
  bool extra = false;     // from a URL or from the config, not rendered by machined
  uint64_t version = 0;   // version of the resource
};

struct ManifestObject {
  kj::String manifest;  // id of its manifest
  Json object;

  kj::StringPtr apiVersion() const { return textAt(object, {"apiVersion"}); }
  kj::StringPtr kind() const { return textAt(object, {"kind"}); }
  kj::StringPtr name() const { return textAt(object, {"metadata", "name"}); }
  // Returns the namespace of its metadata, or `default`.
  kj::StringPtr nameSpace() const;
  // Returns "apps/v1/DaemonSet/kube-proxy", "/v1/Secret/a": group, version, kind and name.
  kj::String displayName() const;
};

// Returns the objects ordered by the ids of the manifests: namespaces first, then definitions of
// custom resources, each by name, then the others in their order. `tokenSecret` replaces the
// placeholder of the bootstrap token's secret (common/kube/bootstrap-token.h); `tokenEnd`, in RFC
// 3339, is the time when this token expires; empty for never. Throws InvalidArgument with the id of
// a manifest that is not a list of objects.
kj::Vector<ManifestObject> objectsOf(kj::Vector<ManifestText> manifests, kj::StringPtr tokenSecret,
                                     kj::StringPtr tokenEnd = "");

}  // namespace talos::kube
