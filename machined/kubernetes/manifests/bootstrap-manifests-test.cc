#include "machined/kubernetes/manifests/bootstrap-manifests.h"

#include <capnp/message.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "common/base/file.h"
#include "common/kube/json-yaml.h"

namespace talos::machined {
namespace {

// The settings of a cluster of this release.
struct Release {
  capnp::MallocMessageBuilder message;
  rpc::ControlPlaneConfigSpec::SystemManifests::Builder config =
      message.initRoot<rpc::ControlPlaneConfigSpec>().initSystemManifests();

  explicit Release(kj::StringPtr version) {
    config.setServer("https://10.5.0.1:6443");
    config.setClusterDomain("cluster.local");
    setPods({"10.244.0.0/16"});
    config.setProxyEnabled(true);
    config.setProxyImage(kj::str("registry.k8s.io/kube-proxy:v", version));
    config.setCoreDNSImage("docker.io/coredns/coredns:1.12.1");
    config.setDnsServiceIP("10.96.0.10");
    config.setCoreDNSEnabled(true);
    config.setFlannelEnabled(true);
    config.setFlannelImage("ghcr.io/flannel-io/flannel:v0.28.4");
    config.setFlannelCNIImage("ghcr.io/siderolabs/install-cni:v1.9.0");
    config.setKubernetesVersion(version);
  }
  void setPods(std::initializer_list<kj::StringPtr> cidrs) {
    auto out = config.initPodCIDRs(cidrs.size());
    size_t i = 0;
    for (auto cidr : cidrs) out.set(i++, cidr);
  }
  kj::Vector<BootstrapManifest> render() { return renderManifests(config.asReader(), "abcdef"); }
  // Returns all of them, as one text.
  kj::String all() {
    kj::Vector<kj::String> parts;
    for (auto& manifest : render()) parts.add(kj::str("# ", manifest.id, "\n", manifest.objects));
    return kj::strArray(parts, "---\n");
  }
  kube::Json only(kj::StringPtr id) {
    for (auto& manifest : render()) {
      if (manifest.id == id) return kj::mv(kube::readYaml(manifest.objects, id)[0]);
    }
    return nullptr;
  }
};

void expectGolden(kj::StringPtr name, kj::StringPtr text) {
  auto path = kj::str(TALOS_SOURCE_DIR, "/machined/kubernetes/manifests/testdata/", name, ".yaml");
  if (getenv("TALOS_WRITE_GOLDEN") != nullptr) writeFileAtomically(path, text, 0644);
  EXPECT_EQ(text, readFile(path)) << path.cStr();
}

// The ten manifests of the users' document, in its order, for its release. Catches: a missing or
// additional manifest that the evidence does not list (docs/evidence/documents-line-by-line.md).
TEST(BootstrapManifests, AreThoseOfTheDocument) {
  auto ids = [](Release& release) {
    kj::Vector<kj::String> names;
    for (auto& manifest : release.render()) names.add(kj::str(manifest.id));
    return kj::strArray(names, "\n");
  };
  Release old("1.20.4"), today("1.34.4");
  old.config.setPodSecurityPolicyEnabled(true);
  EXPECT_EQ(ids(old),
            "00-kubelet-bootstrapping-token\n"
            // 01-csr-approver-role-binding: kubed approves
            "01-csr-node-bootstrap\n"
            "01-csr-renewal-role-binding\n"
            // 02-kube-system-sa-role-binding: each part has an account with its own rights
            "03-default-pod-security-policy\n"
            "05-flannel\n"  // the document's cluster had another network
            "10-kube-proxy\n"
            "11-core-dns\n"
            "11-core-dns-svc\n"
            "11-kube-config-in-cluster"_kj);
  EXPECT_EQ(ids(today),
            "00-kubelet-bootstrapping-token\n"
            "01-csr-node-bootstrap\n"
            "01-csr-renewal-role-binding\n"
            "05-flannel\n"
            "10-kube-proxy\n"
            "11-core-dns\n"
            "11-core-dns-svc\n"
            "11-kube-config-in-cluster"_kj);
}

// Catches: any unintended change of the manifests with which a cluster begins.
TEST(BootstrapManifests, OfEachTestedRelease) {
  Release old("1.20.6");
  old.config.setPodSecurityPolicyEnabled(true);
  expectGolden("1.20", old.all());
  expectGolden("1.30", Release("1.30.0").all());
  expectGolden("1.34", Release("1.34.4").all());
}

// Catches: a Service or a kind of accounts in a cluster whose config does not enable them, or of
// another name than the documented one.
TEST(BootstrapManifests, AccessOfPodsOnlyWhereItIsEnabled) {
  Release release("1.34.4");
  auto without = release.render();
  auto with = renderManifests(release.config.asReader(), "abcdef", true);
  ASSERT_EQ(with.size(), without.size() + 2);
  auto &service = with[with.size() - 2], &kind = with[with.size() - 1];
  EXPECT_EQ(service.id, "12-talos-api-service");
  auto first = kube::readYaml(service.objects, service.id)[0][0];
  EXPECT_EQ(kube::nameOf(first), "default/talos");
  EXPECT_EQ(first["spec"]["ports"][0]["port"], 50000);
  EXPECT_FALSE(first["spec"].contains("selector"));
  EXPECT_EQ(kind.id, "13-talos-service-account-crd");
  auto second = kube::readYaml(kind.objects, kind.id)[0][0];
  EXPECT_EQ(kube::nameOf(second), "serviceaccounts.talos.dev");
  EXPECT_EQ(second["spec"]["names"]["shortNames"][0], "tsa");
}

TEST(BootstrapManifests, AreListsOfObjectsInTheOrderOfTheirIds) {
  Release release("1.20.6");
  release.config.setPodSecurityPolicyEnabled(true);
  release.config.setDnsServiceIPv6("fd00::a");
  kj::String before = kj::str("");
  for (auto& manifest : release.render()) {
    EXPECT_LT(before, manifest.id);
    before = kj::str(manifest.id);
    auto documents = kube::readYaml(manifest.objects, manifest.id);
    ASSERT_EQ(documents.size(), 1u) << manifest.id.cStr();
    ASSERT_TRUE(documents[0].is_array()) << manifest.id.cStr();
    for (auto& object : documents[0]) {
      EXPECT_GT(kube::textAt(object, {"apiVersion"}).size(), 0u) << manifest.id.cStr();
      EXPECT_GT(kube::textAt(object, {"kind"}).size(), 0u) << manifest.id.cStr();
      EXPECT_GT(kube::nameOf(object).size(), 0u) << manifest.id.cStr();
    }
  }
}

// Catches: the secret half of the token where any reader gets it.
TEST(BootstrapManifests, TheSecretOfTheTokenIsNotThere) {
  auto secret = Release("1.34.4").only("00-kubelet-bootstrapping-token")[0];
  EXPECT_EQ(kube::nameOf(secret), "kube-system/bootstrap-token-abcdef"_kj);
  EXPECT_EQ(kube::textAt(secret, {"stringData", "token-id"}), "abcdef"_kj);
  EXPECT_EQ(kube::textAt(secret, {"stringData", "token-secret"}), "***"_kj);
}

// Catches: a Secret whose name the API refuses, again and again.
TEST(BootstrapManifests, WithoutATokenOfKubernetesFormThereIsNoSecret) {
  Release release("1.34.4");
  auto manifests = renderManifests(release.config.asReader(), "");
  EXPECT_EQ(manifests.size(), release.render().size() - 1);
  EXPECT_EQ(manifests[0].id, "01-csr-node-bootstrap");
}

TEST(BootstrapManifests, WhatIsSwitchedOffIsNotThere) {
  Release release("1.34.4");
  release.config.setProxyEnabled(false);
  release.config.setFlannelEnabled(false);
  EXPECT_TRUE(release.only("10-kube-proxy").is_null());
  EXPECT_TRUE(release.only("05-flannel").is_null());
  EXPECT_TRUE(release.only("03-default-pod-security-policy").is_null());
  EXPECT_TRUE(release.only("11-core-dns-v6-svc").is_null());
  EXPECT_FALSE(release.only("11-core-dns").is_null());
}

// Catches: a DNS server, or its address, in a cluster whose config has neither.
TEST(BootstrapManifests, WithoutCoreDnsThereIsNoServiceOfIt) {
  Release release("1.34.4");
  release.config.setDnsServiceIPv6("fd00:1::a");
  EXPECT_FALSE(release.only("11-core-dns-v6-svc").is_null());
  release.config.setCoreDNSEnabled(false);
  for (auto id : {"11-core-dns"_kj, "11-core-dns-svc"_kj, "11-core-dns-v6-svc"_kj}) {
    EXPECT_TRUE(release.only(id).is_null()) << id.cStr();
  }
  EXPECT_FALSE(release.only("11-kube-config-in-cluster").is_null());
}

// Catches: an argument of flannel that stays in the config, or that replaces those of the system.
TEST(BootstrapManifests, FlannelGetsItsArguments) {
  Release release("1.34.4");
  auto extra = release.config.initFlannelExtraArgs(2);
  extra.set(0, "--iface=eth1");
  extra.set(1, "--v=4");
  auto objects = release.only("05-flannel");
  std::string found;
  for (auto& object : objects) {
    if (object["kind"] != "DaemonSet") continue;
    for (auto& word : object["spec"]["template"]["spec"]["containers"][0]["args"]) {
      found += word.get_ref<const std::string&>() + " ";
    }
  }
  EXPECT_EQ("--ip-masq --kube-subnet-mgr --iface=eth1 --v=4 ", found);
}

kj::String commandOf(Release& release) {
  auto daemons = release.only("10-kube-proxy");
  auto containers = kube::itemsAt(daemons[0], {"spec", "template", "spec", "containers"});
  kj::Vector<kj::StringPtr> words;
  auto& command = (*containers[0])["command"];
  for (auto& word : command) words.add(kube::toPtr(word.get_ref<const std::string&>()));
  return kj::strArray(words, " ");
}

// Catches: an extra argument that comes twice, and the order of a map.
TEST(BootstrapManifests, ExtraArgumentsOfKubeProxyReplaceOurs) {
  Release release("1.34.4");
  release.config.setProxyMode("nftables");
  auto extra = release.config.initProxyExtraArgs(3);
  extra[0].setKey("v");
  extra[0].setValue("4");
  extra[1].setKey("conntrack-max-per-core");
  extra[1].setValue("7");
  extra[2].setKey("bind-address");
  extra[2].setValue("::");
  EXPECT_EQ(commandOf(release),
            "/usr/local/bin/kube-proxy --cluster-cidr=10.244.0.0/16 "
            "--hostname-override=$(NODE_NAME) --kubeconfig=/etc/kubernetes/kubeconfig "
            "--proxy-mode=nftables --conntrack-max-per-core=7 --bind-address=:: --v=4"_kj);
}

TEST(BootstrapManifests, FlannelKnowsBothFamilies) {
  Release release("1.34.4");
  auto network = [&]() {
    auto objects = release.only("05-flannel");
    for (auto& object : objects) {
      auto text = kube::textAt(object, {"data", "net-conf.json"});
      if (text.size() > 0) return kube::writeJson(kube::readJson(text, "net-conf.json"));
    }
    return kj::str();
  };
  EXPECT_EQ(network(), R"({"Network":"10.244.0.0/16","Backend":{"Type":"vxlan","Port":4789}})"_kj);
  release.setPods({"10.244.0.0/16", "fd00:10::/56"});
  EXPECT_EQ(network(),
            R"({"Network":"10.244.0.0/16","EnableIPv6":true,)"
            R"("IPv6Network":"fd00:10::/56","Backend":{"Type":"vxlan","Port":4789}})"_kj);
  release.setPods({"fd00:10::/56"});
  EXPECT_EQ(network(),
            R"({"EnableIPv4":false,"EnableIPv6":true,)"
            R"("IPv6Network":"fd00:10::/56","Backend":{"Type":"vxlan","Port":4789}})"_kj);
}

TEST(BootstrapManifests, ASecondServiceForTheNamesOverIpv6) {
  Release release("1.34.4");
  release.config.setDnsServiceIPv6("fd00::a");
  auto service = release.only("11-core-dns-v6-svc")[0];
  EXPECT_EQ(kube::nameOf(service), "kube-system/kube-dnsv6"_kj);
  EXPECT_EQ(kube::writeJson(service["spec"]["ipFamilies"]), "[\"IPv6\"]"_kj);
  Release old("1.19.0");
  old.config.setDnsServiceIPv6("fd00::a");
  EXPECT_EQ(kube::textAt(old.only("11-core-dns-v6-svc")[0], {"spec", "ipFamily"}), "IPv6"_kj);
}

}  // namespace
}  // namespace talos::machined
