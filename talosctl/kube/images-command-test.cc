#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>

#include "talosctl/kube/kube-commands.h"

namespace talos::talosctl {
namespace {

// Catches: a name that `docker pull` does not accept, a name that appears twice, another order.
TEST(Images, AreWholeReferencesInTheirOrder) {
  constexpr kj::StringPtr kNames[] = {"/flannel:"_kj,
                                      "/install-cni:"_kj,
                                      "/coredns:"_kj,
                                      "/kube-apiserver:"_kj,
                                      "/kube-controller-manager:"_kj,
                                      "/kube-scheduler:"_kj,
                                      "/kube-proxy:"_kj,
                                      "/kubelet:"_kj,
                                      "/installer:"_kj,
                                      "/pause:"_kj};
  auto images = clusterImages();
  ASSERT_EQ(images.size(), kj::size(kNames));
  std::set<std::string> seen;
  for (auto i : kj::indices(images)) {
    std::string image = images[i].cStr();
    auto at = image.find(kNames[i].cStr());
    ASSERT_NE(at, std::string::npos) << image;
    EXPECT_GT(image.size(), at + kNames[i].size()) << image;  // has a tag
    EXPECT_LT(image.find('.'), image.find('/')) << image;     // has a registry
    EXPECT_EQ(image.find_first_of(" \n"), std::string::npos);
    EXPECT_TRUE(seen.insert(image).second) << image;
  }
}

// Catches: a name from which the document's expression does not remove the registry, so that users
// push it under another name than nodes pull from the mirror.
TEST(Images, GetAnotherRegistryByTheExpressionOfTheDocument) {
  for (auto& image : clusterImages()) {
    std::string name = image.cStr();
    auto pushed = std::regex_replace(name, std::regex("^[^/]+/"), "127.0.0.1:6000/");
    auto rest = name.substr(name.find('/'));
    EXPECT_EQ(pushed, "127.0.0.1:6000" + rest);
    EXPECT_EQ(rest.find('.'), rest.find('.', rest.find(':'))) << "a registry is left in " << rest;
  }
}

}  // namespace
}  // namespace talos::talosctl
