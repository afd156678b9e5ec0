#include "talosctl/config/config-resource.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace talos::talosctl {
namespace {

constexpr kj::StringPtr kHead =
    "node: 10.0.0.2\nmetadata:\n    namespace: config\n    type: "
    "MachineConfigs.config.talos.dev\n    id: v1alpha1\n"_kj;

kj::String found(kj::StringPtr text) {
  return configInResource(text, "f").orDefault(kj::str("none"));
}

// Catches: lost comments, a node's config that is taken for a resource.
TEST(ConfigResource, IsTakenOutOfWhatGetPrints) {
  EXPECT_EQ(found(kj::str(kHead,
                          "spec:\n    version: v1alpha1\n    # the machine\n    machine:\n"
                          "        type: worker\n")),
            "version: v1alpha1\n# the machine\nmachine:\n    type: worker\n"_kj);
  EXPECT_EQ(found(kj::str(kHead, "spec: |\n    version: v1alpha1\n")), "version: v1alpha1\n"_kj);
  auto json = found(
      "{\"node\": \"10.0.0.2\", \"metadata\": {\"type\": \"MachineConfigs.config.talos.dev\"}, "
      "\"spec\": {\"version\": \"v1alpha1\", \"debug\": true}}");
  EXPECT_THAT(json.cStr(), ::testing::HasSubstr("version: v1alpha1"));
  EXPECT_THAT(json.cStr(), ::testing::HasSubstr("debug: true"));
  EXPECT_EQ(found("version: v1alpha1\nmachine: {}\n"), "none"_kj);
  EXPECT_EQ(found("metadata: {type: Services.v1alpha1.talos.dev}\nspec: {}\n"), "none"_kj);
  EXPECT_EQ(found("spec: [\n"), "none"_kj);
  EXPECT_ANY_THROW(found(kj::str(kHead, "spec: {}\n---\n", kHead, "spec: {}\n")));
}

}  // namespace
}  // namespace talos::talosctl
