#include "common/config/kubernetes/kubernetes-images.h"

#include <gtest/gtest.h>

namespace talos::config {
namespace {

std::string shown(kj::Maybe<KubernetesVersion> version) {
  KJ_IF_MAYBE (v, version) return v->toString().cStr();
  return "none";
}

TEST(KubernetesImages, ATagSaysTheRelease) {
  EXPECT_EQ("1.34.4", shown(kubernetesVersionOf("registry.k8s.io/kube-apiserver:v1.34.4")));
  EXPECT_EQ("1.20.6", shown(kubernetesVersionOf("10.5.0.1:5000/kube-apiserver:v1.20.6")));
  EXPECT_EQ("1.30.0", shown(kubernetesVersionOf("kubelet:1.30")));
  EXPECT_EQ("1.35.4", shown(kubernetesVersionOf("a/b:v1.35.4@sha256:0123")));
  EXPECT_EQ("1.31.2", shown(kubernetesVersionOf("a/b:v1.31.2-rc.0")));
  // Catches: a port that is taken for a tag, and a digest for a version.
  for (auto image :
       {"10.5.0.1:5000/kube-apiserver", "kube-apiserver", "a/b@sha256:1.2", "a/b:latest", "a/b:v1",
        "a/b:v1.", "a/b:v1.20.", "a/b:v1.20x", "a/b:v1.20.6.1", "a/b:v12345.1", ""}) {
    EXPECT_EQ("none", shown(kubernetesVersionOf(image))) << image;
  }
}

// Catches: the releases between the two spans; a release that is newer than this program.
TEST(KubernetesImages, WhichReleasesAreSupported) {
  EXPECT_EQ("1.19 to 1.20, 1.30 to 1.35"_kj, supportedKubernetesText());
  for (unsigned minor : {19u, 20u, 30u, 35u}) EXPECT_TRUE(isSupportedKubernetes({1, minor, 9}));
  for (unsigned minor : {18u, 21u, 29u, 36u}) EXPECT_FALSE(isSupportedKubernetes({1, minor, 0}));
  EXPECT_FALSE(isSupportedKubernetes({2, 30, 0}));
}

// Catches: 1.9 that counts as newer than 1.30.
TEST(KubernetesImages, ReleasesAreComparedByNumber) {
  EXPECT_LT((KubernetesVersion{1, 9, 11}), (KubernetesVersion{1, 30, 0}));
  EXPECT_LT((KubernetesVersion{1, 30, 9}), (KubernetesVersion{1, 30, 10}));
}

// Catches: a generated config that names another release than that of a config without images.
TEST(KubernetesImages, TheDefaultIsTheSameInBothForms) {
  EXPECT_EQ(kDefaultKubernetes.toString(), kDefaultKubernetesText);
}

TEST(KubernetesImages, AreWhereTheReleaseIs) {
  EXPECT_EQ("registry.k8s.io/kube-apiserver:v1.34.4", kubernetesImage(KubernetesPart::kApiServer));
  EXPECT_EQ("ghcr.io/siderolabs/kubelet:v1.34.4", kubernetesImage(KubernetesPart::kKubelet));
  EXPECT_EQ("k8s.gcr.io/kube-proxy:v1.20.6", kubernetesImage(KubernetesPart::kProxy, {1, 20, 6}));
  EXPECT_EQ("ghcr.io/talos-systems/kubelet:v1.24.9",
            kubernetesImage(KubernetesPart::kKubelet, {1, 24, 9}));
}

}  // namespace
}  // namespace talos::config
