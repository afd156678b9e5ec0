#include "common/kube/manifest-objects.h"

#include <gtest/gtest.h>

#include "common/base/error.h"

namespace talos::kube {
namespace {

kj::Vector<ManifestText> texts(std::initializer_list<ManifestText> list) {
  kj::Vector<ManifestText> all;
  for (auto& one : list) all.add(one);
  return all;
}

kj::String namesOf(kj::Vector<ManifestText> manifests) {
  auto objects = objectsOf(kj::mv(manifests), "secret");
  kj::Vector<kj::String> names;
  for (auto& one : objects) names.add(kj::str(one.manifest, " ", one.displayName()));
  return kj::strArray(names, "; ");
}

constexpr kj::StringPtr kMixed = R"(
- {apiVersion: v1, kind: ConfigMap, metadata: {name: z}}
- {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: y}}
- {apiVersion: v1, kind: Namespace, metadata: {name: b}}
)"_kj;

// Catches: an object that is created before the namespace or the kind that it needs.
TEST(ManifestObjects, NamespacesAndKindsComeFirst) {
  EXPECT_EQ(namesOf(texts({{"99-x", kMixed},
                           {"05-y",
                            "- {apiVersion: v1, kind: Namespace, metadata: {name: a}}\n"
                            "- {apiVersion: v1, kind: Secret, metadata: {name: s}}\n"}})),
            "05-y /v1/Namespace/a; 99-x /v1/Namespace/b; "
            "99-x apiextensions.k8s.io/v1/CustomResourceDefinition/y; 05-y /v1/Secret/s; "
            "99-x /v1/ConfigMap/z"_kj);
}

TEST(ManifestObjects, TheSecretOfTheTokenIsPutIn) {
  auto objects =
      objectsOf(texts({{"00",
                        "- {apiVersion: v1, kind: Secret, type: bootstrap.kubernetes.io/token,"
                        " metadata: {name: a, namespace: kube-system},"
                        " stringData: {token-id: abcdef, token-secret: \"***\"}}\n"
                        "- {apiVersion: v1, kind: Secret, type: Opaque, metadata: {name: b},"
                        " stringData: {token-secret: \"***\"}}\n"}}),
                "0123456789abcdef", "2026-11-20T13:00:00Z");
  EXPECT_EQ(kube::textAt(objects[0].object, {"stringData", "token-secret"}), "0123456789abcdef"_kj);
  EXPECT_EQ(kube::textAt(objects[0].object, {"stringData", "expiration"}),
            "2026-11-20T13:00:00Z"_kj);
  EXPECT_EQ(objects[0].nameSpace(), "kube-system"_kj);
  EXPECT_EQ(kube::textAt(objects[1].object, {"stringData", "token-secret"}), "***"_kj);
  EXPECT_EQ(kube::find(objects[1].object, {"stringData", "expiration"}), nullptr);
  EXPECT_EQ(objects[1].nameSpace(), "default"_kj);
}

TEST(ManifestObjects, InvalidManifestIsRefusedWithItsId) {
  auto errorOf = [](kj::StringPtr text) {
    auto failed = kj::runCatchingExceptions([&]() { namesOf(texts({{"05-x", text}})); });
    return messageOf(KJ_ASSERT_NONNULL(failed));
  };
  EXPECT_EQ(errorOf("a: b\n"), "manifest 05-x: not a list of objects"_kj);
  EXPECT_EQ(errorOf("- {kind: A, apiVersion: v1}\n"),
            "manifest 05-x: an object lacks apiVersion, kind or metadata.name"_kj);
  EXPECT_TRUE(errorOf("- [\n").startsWith("05-x:"));
}

}  // namespace
}  // namespace talos::kube
