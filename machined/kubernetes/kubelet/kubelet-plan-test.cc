#include "machined/kubernetes/kubelet/kubelet-plan.h"

#include <capnp/message.h>
#include <gmock/gmock.h>

#include <functional>
#include <set>

#include "common/base/fill-list.h"

namespace talos::machined {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

struct Node {
  capnp::MallocMessageBuilder message, specs, secrets;
  config::Config::Builder config = message.initRoot<config::Config>();
  rpc::KubeletSpecSpec::Builder spec = specs.initRoot<rpc::KubeletSpecSpec>();
  rpc::KubeletSecretsSpec::Builder secret = secrets.initRoot<rpc::KubeletSecretsSpec>();
  KubeletNodeContext at;

  explicit Node(kj::StringPtr image = "ghcr.io/siderolabs/kubelet:v1.34.4") {
    auto machine = config.initMachine();
    machine.setType(config::MachineType::WORKER);
    machine.initKubelet().setImage(image);
    auto cluster = config.initCluster();
    cluster.initControlPlane().setEndpoint("https://10.5.0.2:6443");
    cluster.setToken("abcdef.0123456789abcdef");
    cluster.initCa().setCrt("CA\n"_kj.asBytes());
    at.hostname = kj::str("Worker-1");
    at.domainname = kj::str("example.org");
    addresses({"10.5.0.3"});
  }
  config::Kubelet::Builder kubelet() { return config.getMachine().getKubelet(); }
  void addresses(std::initializer_list<kj::StringPtr> list) {
    at.addresses.clear();
    for (auto a : list) at.addresses.add(kj::str(a));
  }
  void subnets(std::initializer_list<kj::StringPtr> list) {
    auto out = kubelet().initNodeIP().initValidSubnets(list.size());
    unsigned i = 0;
    for (auto s : list) out.set(i++, s);
  }
  void services(std::initializer_list<kj::StringPtr> list) {
    auto out = config.getCluster().initNetwork().initServiceSubnets(list.size());
    unsigned i = 0;
    for (auto s : list) out.set(i++, s);
  }
  std::string waits() {
    auto waits = planKubelet(config, at, nullptr, spec);
    KJ_IF_MAYBE (w, waits) return w->what.cStr();
    return "";
  }
  std::string chosen(std::initializer_list<kj::StringPtr> before = {}) {
    auto list = KJ_MAP(b, before) {
      return kj::str(b);
    };
    return kj::strArray(nodeAddresses(config, at, list), " ").cStr();
  }
  std::vector<std::string> arguments() {
    EXPECT_EQ("", waits());
    std::vector<std::string> result;
    for (auto a : spec.getArguments()) result.push_back(a.cStr());
    return result;
  }
};

// Catches: a name that no node may have; a domain that the config does not want.
TEST(KubeletPlan, Nodename) {
  EXPECT_EQ("worker-1", nodename("Worker-1", "example.org", false));
  EXPECT_EQ("worker-1.example.org", nodename("Worker-1", "Example.org", true));
  EXPECT_EQ("worker-1", nodename("worker-1", "", true));
  EXPECT_EQ("", nodename("", "example.org", true));
  Node node;
  EXPECT_THAT(node.arguments(), testing::Contains("--hostname-override=worker-1"));
  node.kubelet().setRegisterWithFQDN(true);
  EXPECT_THAT(node.arguments(), testing::Contains("--hostname-override=worker-1.example.org"));
}

// Catches: a node that registers an address of pods, of another node or of a tunnel; a node that
// changes its address without need.
TEST(KubeletPlan, Addresses) {
  Node node;
  EXPECT_EQ("10.5.0.3", node.chosen());
  node.addresses(
      {"127.0.0.1", "169.254.1.1", "fe80::1", "10.244.0.1", "10.96.0.10", "10.5.0.3", "10.5.0.4"});
  EXPECT_EQ("10.5.0.3", node.chosen());
  EXPECT_EQ("10.5.0.4", node.chosen({"10.5.0.4"})) << "it is registered by this one";
  EXPECT_EQ("10.5.0.3", node.chosen({"10.5.0.9"}));
  node.at.assigned.all.add(kj::str("10.5.0.9"));
  EXPECT_EQ("10.5.0.9", node.chosen({"10.5.0.9"})) << "its link is without a carrier for a moment";
  EXPECT_EQ("10.5.0.3", node.chosen()) << "nobody knows it by that one";
  for (auto kind : {&AssignedAddresses::pods, &AssignedAddresses::tunnels}) {
    node.at.assigned.pods.clear();
    (node.at.assigned.*kind).add(kj::str("10.5.0.3"));
    EXPECT_EQ("10.5.0.4", node.chosen());
  }
  node.subnets({"10.5.0.3/32"});
  EXPECT_EQ("10.5.0.3", node.chosen()) << "asked for";
  node.subnets({"!10.5.0.4/32"});
  EXPECT_EQ("", node.chosen());
  EXPECT_EQ("an IPv4 address in machine.kubelet.nodeIP.validSubnets", node.waits());
  node.subnets({"10.5.0.0/24", "!10.5.0.3/32"});
  EXPECT_EQ("10.5.0.4", node.chosen());
  node.subnets({});
  node.addresses({"10.96.0.10"});
  EXPECT_EQ("an IPv4 address of this node", node.waits());
}

// Catches: an address of a family that the cluster does not have; a missing second address.
TEST(KubeletPlan, FamiliesAreThoseOfTheServices) {
  Node node;
  node.addresses({"10.5.0.3", "2001:db8::3"});
  EXPECT_EQ("10.5.0.3", node.chosen());
  node.services({"fd00:20::/112"});
  EXPECT_EQ("2001:db8::3", node.chosen());
  node.services({"fd00:20::/112", "10.96.0.0/12"});
  EXPECT_EQ("2001:db8::3 10.5.0.3", node.chosen());
  EXPECT_THAT(node.arguments(), testing::Contains("--node-ip=2001:db8::3,10.5.0.3"));
  node.kubelet().setImage("kubelet:v1.20.6");
  EXPECT_THAT(node.arguments(), testing::Contains("--node-ip=2001:db8::3")) << "a list is refused";
  node.kubelet().setImage("kubelet:v1.34.4");
  EXPECT_THAT(node.spec.getConfig().cStr(), HasSubstr("\naddress: '::'\n"));
}

// Catches: a kubelet that starts with the family that came first, and an API server that exits
// because Services have the other one.
TEST(KubeletPlan, WaitsForTheFirstFamilyOfTheServices) {
  Node node;
  node.services({"fd00:20::/112", "10.96.0.0/12"});
  EXPECT_EQ("an IPv6 address of this node", node.waits());
  node.addresses({"10.5.0.3", "2001:db8::3"});
  EXPECT_EQ("", node.waits());
  node.services({"10.96.0.0/12", "fd00:20::/112"});
  node.addresses({"10.5.0.3"});
  EXPECT_EQ("", node.waits()) << "the second one may come later";
}

// Catches: one family's DNS server alone, or in the order of the nodes' addresses.
TEST(KubeletPlan, PodsAskTheDnsServersOfBothFamilies) {
  Node node;
  node.addresses({"10.5.0.3", "2001:db8::3"});
  node.services({"fd00:20::/112", "10.96.0.0/12"});
  EXPECT_EQ("", node.waits());
  EXPECT_THAT(node.spec.getConfig().cStr(),
              HasSubstr("clusterDNS:\n- 'fd00:20::a'\n- '10.96.0.10'\n"));
}

// Catches: an argument that a release does not know (its kubelet does not start) or needs.
TEST(KubeletPlan, ArgumentsOfReleases) {
  Node oldest("ghcr.io/talos-systems/kubelet:v1.20.6"), newest;
  EXPECT_THAT(
      oldest.arguments(),
      ElementsAre("--cert-dir=/var/lib/kubelet/pki", "--cni-conf-dir=/etc/cni/net.d",
                  "--config=/etc/kubernetes/kubelet.yaml", "--container-runtime=remote",
                  "--container-runtime-endpoint=unix:///run/containerd/containerd.sock",
                  "--dynamic-config-dir=/etc/kubernetes/kubelet", "--hostname-override=worker-1",
                  "--kubeconfig=/etc/kubernetes/kubeconfig-kubelet", "--node-ip=10.5.0.3"));
  EXPECT_THAT(newest.arguments(),
              ElementsAre("--cert-dir=/var/lib/kubelet/pki",
                          "--config=/etc/kubernetes/kubelet.yaml", "--hostname-override=worker-1",
                          "--kubeconfig=/etc/kubernetes/kubeconfig-kubelet", "--node-ip=10.5.0.3"));
}

// Catches: labels and taints of a worker that are not requested; a label that no kubelet may set on
// itself, with which it would not start; a name that belongs to Kubernetes; those of a
// control-plane node requested twice.
TEST(KubeletPlan, LabelsAndTaintsOfAWorker) {
  Node node;
  auto machine = node.config.getMachine();
  auto names = {"rack",
                "node-role.kubernetes.io/gpu",
                "node.kubernetes.io/type",
                "xnode.kubernetes.io/a",
                "topology.kubernetes.io/zone",
                "topology.kubernetes.io/x",
                "kubernetes.io/hostname",
                "failure-domain.beta.kubernetes.io/zone"};
  auto labels = machine.initNodeLabels(names.size());
  unsigned i = 0;
  for (auto name : names) {
    labels[i].setKey(name);
    labels[i++].setValue("x");
  }
  auto taints = machine.initNodeTaints(3);
  taints[0].setKey("gpu");
  taints[0].setValue("yes:NoSchedule");
  taints[1].setKey("slow");
  taints[1].setValue("NoExecute");
  taints[2].setKey("node.kubernetes.io/not-ready");
  taints[2].setValue("NoSchedule");
  EXPECT_THAT(node.arguments(),
              testing::IsSupersetOf(
                  {"--node-labels=rack=x,node.kubernetes.io/type=x,topology.kubernetes.io/zone=x,"
                   "failure-domain.beta.kubernetes.io/zone=x",
                   "--register-with-taints=gpu=yes:NoSchedule,slow=:NoExecute"}));
  EXPECT_EQ("node-role.kubernetes.io/gpu xnode.kubernetes.io/a topology.kubernetes.io/x",
            kj::strArray(refusedLabels(machine), " "));
  machine.setType(config::MachineType::CONTROLPLANE);
  EXPECT_THAT(node.arguments(), testing::Contains("--register-with-taints=node-role.kubernetes.io/"
                                                  "control-plane=:NoSchedule,gpu=yes:NoSchedule,"
                                                  "slow=:NoExecute"));
  EXPECT_THAT(node.arguments(), testing::Each(Not(HasSubstr("node-labels"))));
}

// Catches: workloads on a control-plane node that was just registered; a node that may have
// workloads and does not get them; a node that the cloud's controller does not know.
TEST(KubeletPlan, WhatKeepsPodsAwayAtFirst) {
  Node node;
  EXPECT_THAT(node.arguments(), testing::Each(Not(HasSubstr("taint"))));
  node.config.getMachine().setType(config::MachineType::CONTROLPLANE);
  node.kubelet().setImage("kubelet:v1.20.6");
  EXPECT_THAT(
      node.arguments(),
      testing::Contains("--register-with-taints=node-role.kubernetes.io/master=:NoSchedule"));
  node.config.getCluster().setAllowSchedulingOnControlPlanes(true);
  EXPECT_THAT(node.arguments(), testing::Each(Not(HasSubstr("taint"))));
  node.config.getCluster().setAllowSchedulingOnControlPlanes(false);
  node.config.getCluster().setAllowSchedulingOnMasters(true);
  EXPECT_THAT(node.arguments(), testing::Each(Not(HasSubstr("taint"))));
  EXPECT_THAT(node.arguments(), testing::Each(Not(HasSubstr("cloud"))));
  node.config.getCluster().initExternalCloudProvider().setEnabled(true);
  EXPECT_THAT(node.arguments(), testing::Contains("--cloud-provider=external"));
}

// Catches: a release that is assumed without a warning.
TEST(KubeletPlan, ReportsAnImageOfAnUnknownRelease) {
  Node node;
  EXPECT_TRUE(assumedRelease(node.config) == nullptr);
  node.kubelet().setImage(
      "kubelet@sha256:0123456789012345678901234567890123456789012345678901234567890123");
  EXPECT_TRUE(assumedRelease(node.config) != nullptr);
}

// Catches: a user's argument that does not replace the built-in one; another order with each start.
TEST(KubeletPlan, ExtraArgumentsReplaceByName) {
  Node node;
  auto extra = node.kubelet().initExtraArgs(2);
  extra[0].setKey("v");
  extra[0].setValue("4");
  extra[1].setKey("node-ip");
  extra[1].setValue("10.5.0.9");
  auto arguments = node.arguments();
  EXPECT_EQ("--node-ip=10.5.0.9", arguments[4]);
  EXPECT_EQ("--v=4", arguments[5]);
  EXPECT_EQ(6u, arguments.size());
}

constexpr const char* kCommon =
    "apiVersion: kubelet.config.k8s.io/v1beta1\n"
    "kind: KubeletConfiguration\n"
    "staticPodPath: /etc/kubernetes/manifests\n"
    "address: 0.0.0.0\n"
    "port: 10250\n"
    "rotateCertificates: true\n"
    "serverTLSBootstrap: true\n"
    "authentication:\n"
    "  x509:\n"
    "    clientCAFile: /etc/kubernetes/pki/ca.crt\n"
    "  webhook:\n"
    "    enabled: true\n"
    "  anonymous:\n"
    "    enabled: false\n"
    "authorization:\n"
    "  mode: Webhook\n"
    "clusterDomain: 'cluster.local'\n"
    "clusterDNS:\n"
    "- '10.96.0.10'\n"
    "resolvConf: /run/talos/networkd/pod-resolv.conf\n"
    "serializeImagePulls: false\n"
    "failSwapOn: false\n";

// Catches: a key that a release refuses; a missing key that a release needs; a kubelet that accepts
// anonymous calls.
TEST(KubeletPlan, ConfigurationOfReleases) {
  const std::string endpoint = "containerRuntimeEndpoint: unix:///run/containerd/containerd.sock\n";
  const std::string grace = "shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s\n";
  for (auto [release, more] :
       {std::pair("v1.20.6", std::string()), std::pair("v1.30.0", endpoint + grace),
        std::pair("v1.35.4", endpoint + grace + "failCgroupV1: false\n")}) {
    Node node(kj::str("kubelet:", release));
    EXPECT_EQ("", node.waits());
    EXPECT_EQ(kCommon + more, node.spec.getConfig().cStr()) << release;
  }
}

struct ExtraNode : Node {
  config::KubeletConfiguration::Builder extra = kubelet().initExtraConfig();
  explicit ExtraNode(kj::StringPtr image = "kubelet:v1.30.0") : Node(image) {}

  // Sets keys that no field of the schema has ("*"), with the text of their values.
  void others(std::initializer_list<std::pair<kj::StringPtr, kj::StringPtr>> list) {
    auto out = extra.initOthers(list.size());
    unsigned i = 0;
    for (auto [key, value] : list) {
      out[i].setKey(key);
      out[i++].setValue(value);
    }
  }
  void priorities(std::initializer_list<std::pair<int32_t, uint32_t>> list) {
    auto out = extra.initShutdownGracePeriodByPodPriority(list.size());
    unsigned i = 0;
    for (auto [priority, seconds] : list) {
      out[i].setPriority(priority);
      out[i++].setShutdownGracePeriodSeconds(seconds);
    }
  }
  std::string written() {
    EXPECT_EQ("", waits());
    return spec.getConfig().cStr();
  }
  // Returns all values of the field.
  std::string syncFrequency() {
    std::string text = written(), values;
    const std::string key = "\nsyncFrequency: ";
    for (size_t at = 0; (at = text.find(key, at)) != text.npos;) {
      at += key.size();
      values += (values.empty() ? "" : " ") + text.substr(at, text.find('\n', at) - at);
    }
    return values;
  }
  // Returns the text from the fields of the shutdown on.
  std::string shutdown() {
    auto text = written();
    auto at = text.find("shutdown");
    return at == text.npos ? "" : text.substr(at);
  }
};

// Catches: a user's field beside the built-in one, which is a duplicate key; a user's field that is
// lost or changed; built-in fields that are lost because of a user's field.
TEST(KubeletPlan, ExtraConfigReplacesByName) {
  ExtraNode node;
  node.others({{"maxPods", "200\n"},
               {"serializeImagePulls", "true\n"},
               {"featureGates", "A: true\nB: false\n"},
               {"allowedUnsafeSysctls", "- kernel.msg*\n"},
               {"odd: key", "\"a: b\"\n"},
               {"nothing", ""}});
  std::string ours = kCommon;
  const std::string replaced = "serializeImagePulls: false\n";
  ours.erase(ours.find(replaced), replaced.size());
  EXPECT_EQ(node.written(), ours +
                                "containerRuntimeEndpoint: unix:///run/containerd/containerd.sock\n"
                                "shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s\n"
                                "maxPods: 200\n"
                                "serializeImagePulls: true\n"
                                "featureGates:\n  A: true\n  B: false\n"
                                "allowedUnsafeSysctls:\n  - kernel.msg*\n"
                                "\"odd: key\":\n  \"a: b\"\n"
                                "nothing: null\n");
}

// Catches: static pods that Kubernetes does not show until a minute after the first API server is
// ready; workers that sync their pods more often without need; a period of the config that is lost.
TEST(KubeletPlan, AControlPlaneSyncsItsPodsMoreOften) {
  for (auto [type, period] : {std::pair(config::MachineType::INIT, "10s"),
                              std::pair(config::MachineType::CONTROLPLANE, "10s"),
                              std::pair(config::MachineType::WORKER, "")}) {
    ExtraNode node;
    node.config.getMachine().setType(type);
    EXPECT_EQ(node.syncFrequency(), period);
    node.others({{"syncFrequency", "2m0s\n"}});
    EXPECT_EQ(node.syncFrequency(), "2m0s");
  }
}

// Catches: a kept config that removes fields which the node needs.
TEST(KubeletPlan, FieldsOfTheNodeStay) {
  ExtraNode node;
  auto without = node.written();
  node.others({{"port", "1\n"}, {"authentication", "anonymous:\n  enabled: true\n"}});
  EXPECT_EQ(node.written(), without);
}

// Catches: a config with which the kubelet does not start; a node that waits for another time than
// the kubelet requests.
TEST(KubeletPlan, PeriodsOfTheShutdownAreTheConfigs) {
  ExtraNode node;
  node.written();
  EXPECT_EQ(node.spec.getShutdownSeconds(), 30u);
  node.extra.setShutdownGracePeriod("1m30s");
  EXPECT_EQ(node.shutdown(), "shutdownGracePeriod: 90s\nshutdownGracePeriodCriticalPods: 10s\n");
  EXPECT_EQ(node.spec.getShutdownSeconds(), 90u);
  node.extra.setShutdownGracePeriod("7.5s");
  EXPECT_EQ(node.shutdown(), "shutdownGracePeriod: 7500ms\nshutdownGracePeriodCriticalPods: 2s\n")
      << "no more than the whole";
  EXPECT_EQ(node.spec.getShutdownSeconds(), 8u);
  node.extra.setShutdownGracePeriod("0s");
  EXPECT_EQ(node.shutdown(), "shutdownGracePeriod: 0s\nshutdownGracePeriodCriticalPods: 0s\n");
  EXPECT_EQ(node.spec.getShutdownSeconds(), 0u);
  node.extra.setShutdownGracePeriod("");
  node.extra.setShutdownGracePeriodCriticalPods("20s");
  EXPECT_EQ(node.shutdown(), "shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 20s\n");
  for (auto wrong : {"6m", "5", "x", "5s"}) {
    node.extra.setShutdownGracePeriod(wrong);
    EXPECT_EQ(node.shutdown(), "shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s\n")
        << wrong << " of a kept config, whose critical pods have 20 s";
    EXPECT_EQ(node.spec.getShutdownSeconds(), 30u);
  }
}

// Catches: built-in periods beside priorities, which the kubelet refuses; priorities for a release
// that refuses them; a sum that differs from the kubelet's request.
TEST(KubeletPlan, PrioritiesOfTheShutdownTakeThePlaceOfPeriods) {
  ExtraNode node;
  node.priorities({{-1, 20}, {2000000000, 15}});
  EXPECT_EQ(node.shutdown(),
            "shutdownGracePeriodByPodPriority:\n"
            "- priority: -1\n  shutdownGracePeriodSeconds: 20\n"
            "- priority: 2000000000\n  shutdownGracePeriodSeconds: 15\n");
  EXPECT_EQ(node.spec.getShutdownSeconds(), 35u);
  const std::string usual = "shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s\n";
  node.priorities({{1, 20}, {1, 15}});
  EXPECT_EQ(node.shutdown(), usual);
  node.priorities({{1, 4294967295}, {2, 4294967295}});
  EXPECT_EQ(node.shutdown(), usual) << "the sum does not wrap";
  node.priorities({{1, 20}});
  node.kubelet().setImage("kubelet:v1.23.5");
  EXPECT_THAT(node.shutdown(), HasSubstr(usual));
  node.kubelet().setImage("kubelet:v1.20.6");
  EXPECT_EQ(node.shutdown(), "");
  EXPECT_EQ(node.spec.getShutdownSeconds(), 0u);
}

// Catches: a user's thresholds that are lost on a node in a container; all others that are lost
// with them.
TEST(KubeletPlan, ThresholdsAreMergedByTheirSignal) {
  ExtraNode node;
  auto signals = node.extra.initEvictionHard(2);
  signals[0].setKey("nodefs.available");
  signals[0].setValue("5%");
  signals[1].setKey("pid.available");
  signals[1].setValue("'");
  const std::string own = "  nodefs.available: '5%'\n  pid.available: ''''\n";
  EXPECT_THAT(node.written(), HasSubstr("\nevictionHard:\n" + own));
  node.at.sharesDisk = true;
  EXPECT_THAT(
      node.written(),
      HasSubstr("\nevictionHard:\n  memory.available: 100Mi\n  imagefs.available: 1Gi\n" + own));
}

// Catches: a node in a container that is under DiskPressure because a large disk of the host is 88
// % full, so that no pod is scheduled; a node that loses the default for memory by this.
TEST(KubeletPlan, ADiskThatIsSharedIsFullByBytes) {
  Node node;
  EXPECT_EQ("", node.waits());
  EXPECT_THAT(node.spec.getConfig().cStr(), testing::Not(HasSubstr("evictionHard")));
  node.at.sharesDisk = true;
  EXPECT_EQ("", node.waits());
  EXPECT_THAT(node.spec.getConfig().cStr(),
              HasSubstr("imageGCHighThresholdPercent: 100\nevictionHard:\n  memory.available: "
                        "100Mi\n  nodefs.available: 1Gi\n  imagefs.available: 1Gi\n"));
}

// Catches: a node with 2 GiB of a host's 24 to which the scheduler gives pods for 24.
TEST(KubeletPlan, ALimitOfMemoryIsTheKubelets) {
  Node node;
  node.kubelet().initExtraMounts(1)[0].setDestination("/var/lib/x");
  EXPECT_EQ("", node.waits());
  EXPECT_EQ(node.spec.getExtraMounts().size(), 1u);
  node.at.memoryFile = "/run/.meminfo";
  EXPECT_EQ("", node.waits());
  auto mounts = node.spec.getExtraMounts();
  ASSERT_EQ(mounts.size(), 2u);
  EXPECT_STREQ("/var/lib/x", mounts[0].getDestination().cStr());
  EXPECT_STREQ("/proc/meminfo", mounts[1].getDestination().cStr());
  EXPECT_STREQ("/run/.meminfo", mounts[1].getSource().cStr());
}

// Catches: a text of the config that becomes separate YAML.
TEST(KubeletPlan, WhatTheConfigSaysIsQuoted) {
  Node node;
  node.config.getCluster().initNetwork().setDnsDomain("a'\n- b");
  node.kubelet().initClusterDNS(1).set(0, "10.1.1.1");
  EXPECT_EQ("", node.waits());
  EXPECT_THAT(node.spec.getConfig().cStr(), HasSubstr("\nclusterDomain: 'a''"));
  EXPECT_THAT(node.spec.getConfig().cStr(), HasSubstr("\nclusterDNS:\n- '10.1.1.1'\nresolvConf"));
}

// Catches: a node that joins without the required secrets.
TEST(KubeletPlan, Secrets) {
  Node node;
  EXPECT_TRUE(planKubeletSecrets(node.config, node.secret) == nullptr);
  auto text = node.secret.getBootstrapKubeconfig();
  EXPECT_THAT(text.cStr(), HasSubstr("server: https://10.5.0.2:6443\n"));
  EXPECT_THAT(text.cStr(), HasSubstr("token: abcdef.0123456789abcdef\n"));
  EXPECT_THAT(text.cStr(), HasSubstr("Q0EK")) << "the CA in base64";
  node.config.getCluster().setToken("");
  EXPECT_EQ("cluster.token of the config",
            KJ_ASSERT_NONNULL(planKubeletSecrets(node.config, node.secret)).what);
  node.config.getCluster().initCa();
  EXPECT_EQ("cluster.ca of the config",
            KJ_ASSERT_NONNULL(planKubeletSecrets(node.config, node.secret)).what);
}

// Catches: a kubelet that does not use the balancer of the config, or uses one that is off.
TEST(KubeletPlan, TheBalancerLeadsToTheApi) {
  Node node;
  auto balancer = node.config.getMachine().initFeatures().initKubePrism();
  balancer.setPort(7446);
  balancer.setTlsServerName("api.example.org");
  auto server = [&] {
    EXPECT_TRUE(planKubeletSecrets(node.config, node.secret) == nullptr);
    return std::string(serverOf(node.secret.getBootstrapKubeconfig()).cStr());
  };
  EXPECT_EQ("https://10.5.0.2:6443", server());
  EXPECT_STREQ("", tlsNameOf(node.secret.getBootstrapKubeconfig()).cStr()) << "it is off";
  balancer.setEnabled(true);
  EXPECT_EQ("https://127.0.0.1:7446", server());
  EXPECT_STREQ("api.example.org", tlsNameOf(node.secret.getBootstrapKubeconfig()).cStr());
  balancer.setPort(443);
  EXPECT_EQ("https://10.5.0.2:6443", server()) << "kubed cannot listen there";
}

// Catches: a change for which the kubelet is not restarted.
TEST(KubeletPlan, EveryDifferenceCounts) {
  Node node;
  EXPECT_EQ("", node.waits());
  EXPECT_TRUE(planKubeletSecrets(node.config, node.secret) == nullptr);
  auto digest = [&]() { return std::string(kubeletDigest(node.spec, node.secret).cStr()); };
  std::set<std::string> seen = {digest()};
  EXPECT_EQ(*seen.begin(), digest());
  std::function<void()> changes[] = {
      [&] { node.spec.setImage("other"); },
      [&] { node.spec.setConfig("other"); },
      [&] { node.spec.getArguments().set(0, "--v=1"); },
      [&] { node.spec.initExtraMounts(1)[0].setDestination("/x"); },
      [&] { node.spec.getExtraMounts()[0].initOptions(1).set(0, "ro"); },
      [&] { node.secret.setCa("other"_kj.asBytes()); },
      [&] { node.secret.setBootstrapKubeconfig("tls-server-name: b\ntoken: a\n"); },
      [&] { node.secret.setBootstrapKubeconfig("server: https://other:6443\ntoken: a\n"); },
  };
  for (auto& change : changes) {
    change();
    EXPECT_TRUE(seen.insert(digest()).second);
  }
  node.secret.setBootstrapKubeconfig("server: https://other:6443\ntoken: b\n");
  EXPECT_FALSE(seen.insert(digest()).second) << "it does not get the token";
  node.secret.setClientCAs("other"_kj.asBytes());
  EXPECT_FALSE(seen.insert(digest()).second) << "it reads them again by itself";
}

// Catches: a kubelet that is restarted for labels or taints, which it reads only when it registers
// its node.
TEST(KubeletPlan, LabelsAndTaintsRestartNothing) {
  Node node;
  EXPECT_EQ("", node.waits());
  auto digest = [&](kj::StringPtr labels, kj::StringPtr taints, kj::StringPtr other) {
    fillTexts(node.spec.initArguments(3), kj::arr(labels, taints, other));
    return std::string(kubeletDigest(node.spec, node.secret).cStr());
  };
  auto one = digest("--node-labels=a=1", "--register-with-taints=a=:NoSchedule", "--v=1");
  EXPECT_EQ(one, digest("--node-labels=a=2", "--register-with-taints=b=:NoExecute", "--v=1"));
  EXPECT_NE(one, digest("--node-labels=a=1", "--register-with-taints=a=:NoSchedule", "--v=2"));
}

// Catches: a kubelet that sees another node than its own, or whose mounts are not visible to other
// programs.
TEST(KubeletPlan, ContainerIsPartOfTheNode) {
  Node node;
  auto mounts = node.kubelet().initExtraMounts(2);
  auto mount = mounts[0];
  mount.setDestination("/data");
  mount.setSource("/var/data");
  mount.setType("bind");
  mount.initOptions(1).set(0, "rshared");
  mounts[1].setDestination("/more");
  mounts[1].setSource("/var/more");
  EXPECT_EQ("", node.waits());
  auto container = kubeletContainer(node.spec);
  container.capabilities = kj::arr("CAP_SYS_ADMIN"_kj);
  auto text = runtimeSpec(container);
  for (auto part :
       {"\"args\":[\"/usr/local/bin/kubelet\",\"--cert-dir", "\"rootfsPropagation\":\"shared\"",
        "\"namespaces\":[{\"type\":\"mount\"}]", "{\"allow\":true,\"access\":\"rwm\"}",
        "\"noNewPrivileges\":false", "\"effective\":[\"CAP_SYS_ADMIN\"]",
        "{\"destination\":\"/proc\",\"type\":\"bind\",\"source\":\"/proc\"",
        "{\"destination\":\"/var/lib/kubelet\",\"type\":\"bind\",\"source\":\"/var/lib/kubelet\","
        "\"options\":[\"rbind\",\"rshared\",\"rw\"]}",
        "{\"destination\":\"/etc/machine-id\",\"type\":\"bind\",\"source\":\"/var/lib/kubelet/"
        "machine-id\",\"options\":[\"bind\",\"ro\"]}",
        "{\"destination\":\"/etc/nfsmount.conf\",\"type\":\"bind\",\"source\":\"/etc/"
        "nfsmount.conf\",\"options\":[\"bind\",\"ro\"]}",
        "{\"destination\":\"/run\",\"type\":\"bind\",\"source\":\"/run\"",
        "{\"destination\":\"/sys\",\"type\":\"sysfs\",\"source\":\"sysfs\"",
        "{\"destination\":\"/data\",\"type\":\"bind\",\"source\":\"/var/data\",\"options\":["
        "\"rshared\",\"rbind\"]}",
        "{\"destination\":\"/more\",\"type\":\"bind\",\"source\":\"/var/more\",\"options\":["
        "\"rbind\"]}"}) {
    EXPECT_THAT(text.cStr(), HasSubstr(part));
  }
  for (auto part : {"maskedPaths", "seccomp"}) EXPECT_THAT(text.cStr(), Not(HasSubstr(part)));
  EXPECT_THAT(text.cStr(), Not(HasSubstr("/var/run"))) << "a link to /run, which is shared";
}

}  // namespace
}  // namespace talos::machined
