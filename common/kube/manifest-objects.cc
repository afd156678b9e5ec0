#include "common/kube/manifest-objects.h"

#include <algorithm>

#include "common/base/error.h"
#include "common/kube/bootstrap-token.h"
#include "common/kube/json-yaml.h"
#include "common/kube/kube-api.h"

namespace talos::kube {
namespace {

[[noreturn]] void refuseManifest(kj::StringPtr id, kj::StringPtr error) {
  fail(ErrorKind::kInvalidArgument, kj::str("manifest ", id, ": ", error));
}

// Refuses an object without the fields that give it a place in the API.
void requireObject(const ManifestText& from, const Json& object) {
  if (textAt(object, {"apiVersion"}).size() > 0 && textAt(object, {"kind"}).size() > 0 &&
      textAt(object, {"metadata", "name"}).size() > 0) {
    return;
  }
  refuseManifest(from.id, "an object lacks apiVersion, kind or metadata.name");
}

void fillToken(Json& object, kj::StringPtr tokenSecret, kj::StringPtr tokenEnd) {
  if (textAt(object, {"type"}) != kTokenType) return;
  if (textAt(object, {"stringData", "token-secret"}) != kHiddenTokenSecret) return;
  object["stringData"]["token-secret"] = std::string(tokenSecret.begin(), tokenSecret.size());
  if (tokenEnd.size() > 0) object["stringData"]["expiration"] = tokenEnd.cStr();
}

// 0 and 1 are sorted by name.
unsigned orderOf(const ManifestObject& one) {
  if (one.kind() == "Namespace" && one.apiVersion() == "v1") return 0;
  return one.kind() == "CustomResourceDefinition" ? 1 : 2;
}

}  // namespace

kj::StringPtr ManifestObject::nameSpace() const {
  auto given = textAt(object, {"metadata", "namespace"});
  return given.size() > 0 ? given : "default"_kj;
}

kj::String ManifestObject::displayName() const {
  auto at = readApiVersion(apiVersion());
  return kj::str(at.group, "/", at.version, "/", kind(), "/", name());
}

kj::Vector<ManifestObject> objectsOf(kj::Vector<ManifestText> manifests, kj::StringPtr tokenSecret,
                                     kj::StringPtr tokenEnd) {
  std::sort(manifests.begin(), manifests.end(), [](auto& a, auto& b) { return a.id < b.id; });
  kj::Vector<ManifestObject> objects;
  for (auto& manifest : manifests) {
    auto documents = readYaml(manifest.objects, manifest.id);
    for (auto& document : documents) {
      if (!document.is_array()) refuseManifest(manifest.id, "not a list of objects");
      for (auto& object : document) {
        requireObject(manifest, object);
        fillToken(object, tokenSecret, tokenEnd);
        objects.add(ManifestObject{kj::str(manifest.id), kj::mv(object)});
      }
    }
  }
  std::stable_sort(objects.begin(), objects.end(), [](auto& a, auto& b) {
    auto first = orderOf(a), second = orderOf(b);
    if (first != second || first == 2) return first < second;
    return a.name() < b.name();
  });
  return objects;
}

}  // namespace talos::kube
