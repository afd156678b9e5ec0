#include "common/config/config-generate.h"

#include <gtest/gtest.h>

#include <string>

#include "common/base/error.h"
#include "common/base/lines.h"
#include "common/base/version.h"
#include "common/config/config-example.h"
#include "common/config/config.h"
#include "common/config/test-original-keys.h"
#include "common/testing/printing.h"
#include "common/tls/openssl.h"

namespace talos::config {
namespace {

template <typename F>
kj::String failureOf(F&& f) {
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { f(); })) return messageOf(*e);
  return kj::str("no failure");
}

// Catches: configs that our own reader warns about; an authority's key in a worker's config; keys
// that do not belong to their certificates.
TEST(Generate, MakesAWholeCluster) {
  auto made = generate("test", "https://10.5.0.2:6443", {.docs = false});
  for (auto* text : {&made.init, &made.controlplane, &made.join}) {
    auto config = parse(*text, "f");
    EXPECT_EQ(kj::str(), render(config.problems()));
    Problems problems;
    checkMode(config, Mode::kMetal, "f", problems);
    EXPECT_EQ(kj::str(), render(problems));
    EXPECT_TRUE(config.get().getPersist());
    EXPECT_EQ(kj::StringPtr("/dev/sda"), config.get().getMachine().getInstall().getDisk());
  }
  auto control = parse(made.controlplane, "f");
  auto join = parse(made.join, "f");
  EXPECT_EQ(MachineType::CONTROLPLANE, control.get().getMachine().getType());
  EXPECT_EQ(MachineType::INIT, parse(made.init, "f").get().getMachine().getType());
  EXPECT_EQ(MachineType::WORKER, join.get().getMachine().getType());
  EXPECT_EQ(control.get().getMachine().getCa().getCrt(), join.get().getMachine().getCa().getCrt())
      << "by which it knows the control plane";
  EXPECT_EQ(0, join.get().getMachine().getCa().getKey().size());
  auto cluster = join.get().getCluster();
  EXPECT_EQ(control.get().getCluster().getCa().getCrt(), cluster.getCa().getCrt());
  EXPECT_EQ(0, cluster.getCa().getKey().size());
  EXPECT_FALSE(cluster.hasEtcd() || cluster.hasAggregatorCA() || cluster.hasServiceAccount() ||
               cluster.hasAescbcEncryptionSecret() || cluster.hasApiServer());
  EXPECT_EQ(kj::StringPtr("test"), kj::StringPtr(cluster.getClusterName()));
  EXPECT_EQ(control.get().getMachine().getToken(), join.get().getMachine().getToken());
  EXPECT_NE(control.get().getMachine().getToken(), control.get().getCluster().getToken());

  auto admin = Talosconfig::parse(made.talosconfig, "f");
  EXPECT_EQ(kj::StringPtr("test"), admin.currentName());
  auto info = pki::inspect(admin.resolve().certificate);
  ASSERT_EQ(1, info.organizations.size());
  EXPECT_EQ(kj::StringPtr("os:admin"), info.organizations[0]);
  pki::checkPair(admin.resolve().certificate, admin.resolve().key);
  // Catches: an administrator who could pose as a machine.
  auto usage = X509_get_extended_key_usage(pki::readCertificate(admin.resolve().certificate).get());
  EXPECT_EQ(uint32_t(XKU_SSL_CLIENT), usage);
  EXPECT_EQ(kj::heapString(control.get().getMachine().getCa().getCrt().asChars()),
            admin.resolve().ca);
}

// Catches: an endpoint that is no node of the cluster; a stolen file that is of use for ten years;
// a worker that does not know the name of its cluster.
TEST(Generate, TheTalosconfigHasNoEndpointAndIsValidForAYear) {
  auto secrets = makeSecrets();
  for (auto endpoint :
       {"https://10.5.0.2:6443", "https://[fd00::2]:6443", "https://k8s.example.org",
        "https://127.0.0.1:6443", "https://localhost:6443"}) {
    auto made = generate(secrets, "site", endpoint, {.docs = false});
    auto admin = Talosconfig::parse(made.talosconfig, "f");
    EXPECT_EQ(0u, admin.resolve().endpoints.size()) << endpoint;
    EXPECT_EQ(0u, admin.resolve().nodes.size()) << endpoint;
    EXPECT_TRUE(containsText(made.talosconfig, "        endpoints: []\n")) << endpoint;
    auto info = pki::inspect(admin.resolve().certificate);
    auto lifetime = info.notAfter - info.notBefore;
    EXPECT_TRUE(lifetime >= 365 * kj::DAYS && lifetime < 366 * kj::DAYS) << endpoint;
    for (auto* text : {&made.init, &made.controlplane, &made.join}) {
      EXPECT_TRUE(containsText(*text, "    clusterName: site\n")) << endpoint;
    }
  }
}

// Catches: keys out of order, a lost `type: worker`, empty objects that readers of Talos
// expect.
TEST(Generate, WritesTheKeysOfTheSpecification) {
  auto made = generate("test", "https://10.5.0.2:6443", {.docs = false});
  EXPECT_TRUE(made.join.startsWith(
      "version: v1alpha1\ndebug: false\npersist: true\nmachine:\n    type: worker\n    token: "));
  auto install = kj::str(
      "    kubelet: {}\n    network: {}\n    install:\n        disk: /dev/sda\n        image: ",
      installerImage(), "\n");
  EXPECT_TRUE(containsText(made.join, install.cStr()));
  EXPECT_TRUE(containsText(
      made.join,
      "        bootloader: true\n        wipe: false\ncluster:\n    controlPlane:\n        "
      "endpoint: https://10.5.0.2:6443\n    clusterName: test\n    network:\n        dnsDomain: "
      "cluster.local\n        podSubnets:\n            - 10.244.0.0/16\n        serviceSubnets:\n"
      "            - 10.96.0.0/12\n    token: "));
  EXPECT_TRUE(made.join.endsWith("        key: \"\"\n"));
  EXPECT_TRUE(containsText(made.controlplane,
                           "    apiServer:\n        certSANs:\n            - 10.5.0.2\n    "
                           "controllerManager: {}\n    proxy: {}\n    scheduler: {}\n    etcd:\n"
                           "        ca:\n            crt: LS0tLS1CRUdJTi"));
  EXPECT_FALSE(containsText(made.controlplane, "#"));
  EXPECT_TRUE(containsText(generate("t", "https://x").init, "# Role of the machine."));
}

// Catches: both families in an order that is not the endpoint's, with which the API does not start.
TEST(Generate, TheFirstOfBothFamiliesIsTheEndpoints) {
  auto four = generate("test", "https://10.5.0.2:6443", {.dualStack = true, .docs = false});
  EXPECT_TRUE(containsText(four.controlplane,
                           "        podSubnets:\n            - 10.244.0.0/16\n            - "
                           "fc00:db8:10::/56\n        serviceSubnets:\n            - 10.96.0.0/12\n"
                           "            - fc00:db8:20::/112\n"));
  auto six = generate("test", "https://[fd00::2]:6443", {.dualStack = true, .docs = false});
  EXPECT_TRUE(containsText(six.controlplane,
                           "        podSubnets:\n            - fc00:db8:10::/56\n            - "
                           "10.244.0.0/16\n        serviceSubnets:\n            - "
                           "fc00:db8:20::/112\n            - 10.96.0.0/12\n"));
}

// Catches: options that are read and then forgotten.
TEST(Generate, HonoursItsOptions) {
  auto sans = kj::arr(kj::str("api.example.org"));
  auto mirrors =
      kj::arr(kj::str("docker.io=http://10.5.0.1:5000"), kj::str("*=http://10.5.0.1:6000"),
              kj::str("docker.io=http://10.5.0.1:5001"));
  auto made = generate("test", "https://[fd00::1]:6443",
                       {.installDisk = "/dev/vda",
                        .installImage = "example.org/i:1",
                        .additionalSans = sans,
                        .dnsDomain = "k8s.test",
                        .talosVersion = "v0.8.3",
                        .kubernetesVersion = "v1.20.4",
                        .registryMirrors = mirrors,
                        .persist = false,
                        .debug = true,
                        .docs = false});
  auto config = parse(made.controlplane, "f");
  auto cluster = config.get().getCluster();
  EXPECT_EQ(kj::StringPtr("/dev/vda"), config.get().getMachine().getInstall().getDisk());
  EXPECT_EQ(kj::StringPtr("example.org/i:1"), config.get().getMachine().getInstall().getImage());
  EXPECT_EQ(kj::StringPtr("fd00::1"), cluster.getApiServer().getCertSANs()[0]);
  EXPECT_EQ(kj::StringPtr("api.example.org"), cluster.getApiServer().getCertSANs()[1]);
  EXPECT_EQ(kj::StringPtr("fc00:db8:10::/56"), cluster.getNetwork().getPodSubnets()[0]);
  EXPECT_EQ(kj::StringPtr("k8s.test"), cluster.getNetwork().getDnsDomain());
  EXPECT_EQ(kj::StringPtr("k8s.gcr.io/kube-proxy:v1.20.4"), cluster.getProxy().getImage());
  EXPECT_EQ(kj::StringPtr("ghcr.io/talos-systems/kubelet:v1.20.4"),
            config.get().getMachine().getKubelet().getImage());
  EXPECT_FALSE(config.get().getPersist());
  EXPECT_TRUE(config.get().getDebug());
  // Before v0.9 there was neither of these, and the authorities were RSA.
  EXPECT_FALSE(cluster.hasAggregatorCA() || cluster.hasServiceAccount());
  EXPECT_TRUE(containsText(kj::heapString(cluster.getCa().getKey().asChars()), "RSA PRIVATE KEY"));
  auto found = config.get().getMachine().getRegistries().getMirrors();
  ASSERT_EQ(2, found.size());
  EXPECT_EQ(kj::StringPtr("*"), found[0].getKey());
  EXPECT_EQ(kj::StringPtr("http://10.5.0.1:5001"), found[1].getValue().getEndpoints()[0]);
}

// Catches: a key of ours in a config that Talos' programs are to read.
TEST(Generate, WritesOnlyKeysThatTheOriginalKnows) {
  auto made = generate("test", "https://10.5.0.2:6443",
                       {.kubernetesVersion = "1.34.4", .docs = true, .examples = true});
  for (auto* text : {&made.init, &made.controlplane, &made.join}) {
    EXPECT_EQ("", kj::strArray(OriginalKeys::unknownIn(*text), " "));
  }
  EXPECT_EQ("machine.caHash cluster.trustd",
            kj::strArray(OriginalKeys::unknownIn("machine: {caHash: x, token: y}\n"
                                                 "cluster: {trustd: {endpoints: [a]}}\n"),
                         " "));
}

// Catches: a machine of a local cluster that gets another address than its cluster expects.
TEST(Generate, GivesAMachineItsOwnNetwork) {
  auto secrets = makeSecrets();
  auto nameservers = kj::arr(kj::str("8.8.8.8"));
  auto text =
      machineConfig(secrets, MachineType::WORKER, "test", "https://10.5.0.2:6443", {.docs = false},
                    {.hostname = "test-worker-1",
                     .cidr = "10.5.0.3/24",
                     .gateway = "10.5.0.1",
                     .nameservers = nameservers});
  EXPECT_TRUE(containsText(text,
                           "    network:\n"
                           "        hostname: test-worker-1\n"
                           "        interfaces:\n"
                           "            - interface: eth0\n"
                           "              cidr: 10.5.0.3/24\n"
                           "              routes:\n"
                           "                - network: 0.0.0.0/0\n"
                           "                  gateway: 10.5.0.1\n"
                           "              mtu: 0\n"
                           "        nameservers:\n"
                           "            - 8.8.8.8\n"))
      << text.cStr();
  EXPECT_NE(text, machineConfig(makeSecrets(), MachineType::WORKER, "test", "https://10.5.0.2:6443",
                                {.docs = false}));
}

// Catches: a config written from nonsense; a message without the URL that was meant.
TEST(Generate, InvalidInputIsRefused) {
  auto wrong = [](kj::StringPtr endpoint) { return failureOf([&]() { checkEndpoint(endpoint); }); };
  EXPECT_EQ(wrong("10.5.0.9"),
            "no scheme and port specified for the cluster endpoint URL\n"
            "try: \"https://10.5.0.9:6443\"");
  EXPECT_EQ(wrong("fd00::1"),
            "no scheme and port specified for the cluster endpoint URL\n"
            "try: \"https://[fd00::1]:6443\"");
  EXPECT_EQ(wrong("x.org:443"),
            "no scheme specified for the cluster endpoint URL\ntry: \"https://x.org:443\"");
  EXPECT_EQ(wrong("http://x.org"),
            "the control plane endpoint URL should have scheme https://\n"
            "try: \"https://x.org:6443\"");
  EXPECT_EQ(wrong("https://"),
            "the endpoint of the Kubernetes API must be an https URL, for example "
            "https://10.5.0.2:6443; \"https://\" is not one");
  EXPECT_EQ(kj::str("no failure"), failureOf([]() { checkEndpoint("https://x.org"); }));
  EXPECT_TRUE(failureOf([]() { generate("", "https://x"); }).startsWith("cluster name is empty"));
  EXPECT_TRUE(
      containsText(failureOf([]() { generate("t", "https://x", {.talosVersion = "nine"}); }),
                   "\"nine\" is not a valid version"));
  EXPECT_TRUE(
      containsText(failureOf([]() { generate("t", "https://x", {.kubernetesVersion = "1 2"}); }),
                   "is not a valid version of Kubernetes"));
  EXPECT_TRUE(containsText(failureOf([]() { generate("t", "https://x", {.dnsDomain = "a b"}); }),
                           "dnsDomain"));
  // Catches: configs of a release that nodes run as another one, without a word.
  for (auto text : {"1.34.4"_kj, "v1.20.6"_kj, "v1.30.0-rc.1"_kj, ""_kj, "x"_kj}) {
    EXPECT_TRUE(unsupportedRelease(text) == nullptr) << text.cStr();
  }
  EXPECT_EQ(KJ_ASSERT_NONNULL(unsupportedRelease("v1.99.0")),
            "Kubernetes 1.99 is not supported; use one of 1.19 to 1.20, 1.30 to 1.35");
  auto mirrors = kj::arr(kj::str("docker.io"));
  EXPECT_TRUE(
      containsText(failureOf([&]() { generate("t", "https://x", {.registryMirrors = mirrors}); }),
                   "<registry host>=<URL>"));
}

// Catches: an example that is not valid; an example that is read as if it were set; a lost example;
// comments that hide a key.
TEST(Generate, ShowsExamplesOfAbsentKeys) {
  for (bool controlPlane : {false, true}) {
    auto example = parse(configExample(controlPlane), "example");
    for (auto& problem : example.problems())
      EXPECT_NE(Problem::Severity::kError, problem.severity) << problem.toString().cStr();
  }
  auto secrets = makeSecrets();
  auto write = [&](MachineType type, bool docs, bool examples) {
    return machineConfig(secrets, type, "test", "https://10.5.0.2:6443",
                         {.docs = docs, .examples = examples});
  };
  for (auto type : {MachineType::CONTROLPLANE, MachineType::WORKER}) {
    auto plain = write(type, false, false), with = write(type, false, true);
    kj::Vector<kj::String> kept;
    size_t begin = 0;
    for (size_t i = 0; i < with.size(); ++i) {
      if (with[i] != '\n') continue;
      auto line = with.slice(begin, i + 1);
      size_t first = 0;
      while (line[first] == ' ') ++first;
      if (line[first] != '#') kept.add(kj::heapString(line));
      begin = i + 1;
    }
    EXPECT_EQ(plain, kj::strArray(kept, ""));
    EXPECT_TRUE(
        containsText(with,
                     "    kubelet: {}\n        # image: ghcr.io/talos-systems/kubelet:v1.20.6\n"
                     "        # extraArgs:\n        #     feature-gates: ServerSideApply=true\n"));
    EXPECT_TRUE(containsText(with, "    # sysctls:\n    #     net.ipv4.ip_forward: \"1\"\n"));
  }
  EXPECT_TRUE(
      containsText(write(MachineType::WORKER, true, true),
                   "    # # Additional names and addresses for the certificate of the machine API, "
                   "besides those of\n    # # the machine.\n    # certSANs:\n"));
  EXPECT_FALSE(containsText(write(MachineType::WORKER, true, true), "apiServer"));
}

}  // namespace
}  // namespace talos::config
