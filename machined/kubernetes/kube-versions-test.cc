#include "machined/kubernetes/kube-versions.h"

#include <gtest/gtest.h>

namespace talos::machined {
namespace {

// Facts of the release notes, for the oldest release, the documents' release, and both ends of the
// current range.
TEST(KubeVersions, EachReleaseHasWhatItHas) {
  struct Row {
    KubeFact fact;
    bool v1_19, v1_20, v1_30, v1_35;
  };
  constexpr Row kRows[] = {
      {KubeFact::kAdmissionOfPodSecurityPolicy, true, true, false, false},
      {KubeFact::kInsecurePort, true, true, false, false},
      {KubeFact::kApiServerCloudProvider, true, true, true, false},
      {KubeFact::kCiphersWithoutForwardSecrecy, true, true, false, false},
      {KubeFact::kPlainHealthPorts, true, true, false, false},
      {KubeFact::kEmptyCloudProvider, true, true, false, false},
      {KubeFact::kKubeletRemoteRuntimeFlag, true, true, false, false},
      {KubeFact::kKubeletDynamicConfig, true, true, false, false},
      {KubeFact::kKubeletCniFlags, true, true, false, false},
      {KubeFact::kCredentialProvidersV1, false, false, true, true},
      {KubeFact::kKubeletRefusesCgroup1, false, false, false, true},
      {KubeFact::kPodSecurityPolicies, true, true, false, false},
      {KubeFact::kMasterRole, true, true, false, false},
      {KubeFact::kEndpointSlices, false, false, true, true},
      {KubeFact::kProxyUserspace, true, true, false, false},
      {KubeFact::kProxyNftables, false, false, false, true},
  };
  for (auto& row : kRows) {
    auto number = static_cast<int>(row.fact);
    EXPECT_EQ(row.v1_19, has({1, 19, 16}, row.fact)) << number;
    EXPECT_EQ(row.v1_20, has({1, 20, 6}, row.fact)) << number;
    EXPECT_EQ(row.v1_30, has({1, 30, 0}, row.fact)) << number;
    EXPECT_EQ(row.v1_35, has({1, 35, 4}, row.fact)) << number;
  }
  // Catches: a range that ends one release late, or with its last patch.
  EXPECT_TRUE(has({1, 32, 99}, KubeFact::kApiServerCloudProvider));
  EXPECT_FALSE(has({1, 33, 0}, KubeFact::kApiServerCloudProvider));
}

TEST(KubeVersions, WhatIsNotCertainIsSaid) {
  struct Row {
    kj::StringPtr image, said, version, warning;
  };
  const Row kRows[] = {
      {"r/a:v1.34.4", "", "1.34.4", ""},
      {"r/a:v1.20.6", "v1.30.0", "1.20.6", ""},
      {"r/a@sha256:00", "v1.31.2", "1.31.2", ""},
      {"r/a:v1.18.0", "", "1.19.0", "Kubernetes 1.18 of r/a:v1.18.0 is not supported; run as 1.19"},
      {"r/a:v1.25.3", "", "1.25.3", "Kubernetes 1.25 of r/a:v1.25.3 is not supported; run as 1.25"},
      {"r/a:v1.36.0", "", "1.35.0", "Kubernetes 1.36 of r/a:v1.36.0 is not supported; run as 1.35"},
      {"r/a:v2.0.0", "", "1.35.0", "Kubernetes 2.0 of r/a:v2.0.0 is not supported; run as 1.35"},
      {"r/a:latest", "", "1.34.4",
       "the release of r/a:latest is not known; run as 1.34; set cluster.kubernetesVersion, or "
       "name the image with a tag"},
  };
  for (auto& row : kRows) {
    auto assumed = versionOf(row.image, row.said);
    EXPECT_EQ(row.version, assumed.version.toString()) << row.image.cStr();
    EXPECT_EQ(row.warning, assumed.warning.orDefault(kj::String())) << row.image.cStr();
  }
}

}  // namespace
}  // namespace talos::machined
