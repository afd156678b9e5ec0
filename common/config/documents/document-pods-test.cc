// Documents of containers and pods, and the one that leaves the node's name to its identity.
#include <gmock/gmock.h>

#include <string>

#include "common/config/documents/test-documents.h"

namespace talos::config {
namespace {

using ::testing::HasSubstr;

// Catches: a name that is not made of the identity; two places that say how a node is named.
TEST(Documents, OfTheNameMayLeaveItToTheIdentity) {
  const auto document = oneDocument("kind: HostnameConfig, auto: stable");
  EXPECT_EQ("", problemsIn(mainDocument() + document));
  EXPECT_TRUE(
      parsed(mainDocument() + document).get().getMachine().getFeatures().getStableHostname());
  EXPECT_THAT(problemsIn(mainDocument() + "  features: {stableHostname: true}\n" + document),
              HasSubstr("HostnameConfig: machine.features.stableHostname is set as well"));
}

constexpr const char* kPodKeys =
    "{apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {containers: [{name: c}]}}";

// Catches: a pod, a part of containerd's configuration or an override that is lost on the way; a
// pod of the main document that is replaced; a second place for the overrides.
TEST(Documents, OfPodsAddToThoseOfTheMainDocument) {
  auto main = mainDocument() + "  pods:\n    - " + kPodKeys + "\n";
  auto pod = std::string(kPodKeys).replace(std::string(kPodKeys).find("name: b"), 7, "name: d");
  auto text = main + oneDocument("kind: KubeStaticPodConfig, name: x, pod: " + pod) +
              oneDocument("kind: CRICustomizationConfig, name: x, content: 'oom_score = 5'") +
              oneDocument(
                  "kind: CRIBaseRuntimeSpecConfig, overrides: {process: {rlimits: [{type: "
                  "RLIMIT_CORE, hard: 7, soft: 7}]}}");
  EXPECT_EQ("", problemsIn(text));
  auto config = parsed(text);
  auto machine = config.get().getMachine();
  ASSERT_EQ(2u, machine.getPods().size());
  EXPECT_STREQ("default-b", machine.getPods()[0].getId().cStr());
  EXPECT_STREQ("default-d", machine.getPods()[1].getId().cStr());
  ASSERT_EQ(1u, machine.getFiles().size());
  EXPECT_STREQ("/etc/cri/conf.d/20-customization.part", machine.getFiles()[0].getPath().cStr());
  EXPECT_STREQ("oom_score = 5", machine.getFiles()[0].getContent().cStr());
  EXPECT_THAT(machine.getBaseRuntimeSpec().cStr(), HasSubstr("\"type\": \"RLIMIT_CORE\""));
  auto twice = mainDocument() + "  baseRuntimeSpecOverrides: {process: {}}\n" +
               oneDocument("kind: CRIBaseRuntimeSpecConfig, overrides: {process: {}}");
  EXPECT_THAT(problemsIn(twice),
              HasSubstr("overrides: machine.baseRuntimeSpecOverrides is set as well"));
}

}  // namespace
}  // namespace talos::config
