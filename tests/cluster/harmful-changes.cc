// The harmful kinds of changes.h.
#include <kj/encoding.h>

#include "common/tls/pki.h"
#include "tests/cluster/changes.h"

namespace talos::changes {
namespace {

using std::to_string;

constexpr const char* kUnreached = "no client has called the node";

std::string certificateOfAnother() {
  auto pair = pki::makeAuthority({.organization = "talos"});
  return kj::str("crt: ", kj::encodeBase64(pair.certificate.asBytes()),
                 ", key: ", kj::encodeBase64(pair.key.bytes()))
      .cStr();
}

// --- the node and its network

Change closedFirewall(Draw&, const Place&) {
  return {.patch = blocked(""), .onFirst = true, .cutsOff = true, .reasons = {kUnreached}};
}

Change firewallForOthers(Draw& draw, const Place&) {
  auto port = to_string(draw.number(40000, 49999));
  auto rules = draw.chance(50) ? rule("api", "50000", draw.addressIn("192.0.2") + "/32")
                               : rule("api", port, "0.0.0.0/0");
  return {.patch = blocked(rules), .onFirst = true, .cutsOff = true, .reasons = {kUnreached}};
}

Change deadGateway(Draw& draw, const Place& place) {
  return {.patch = ofLink(place, "routes: [{network: " + place.client +
                                     "/32, gateway: " + draw.addressIn("10.5.0") + "}]"),
          .cutsOff = true,
          .reasons = {kUnreached}};
}

// No machine has the gateways, so this member of etcd does not reach the others.
Change deadGatewayToMembers(Draw& draw, const Place& place) {
  std::string routes;
  for (auto& other : place.others) {
    routes += (routes.empty() ? "" : ", ") + std::string("{network: ") + other +
              "/32, gateway: " + draw.addressIn("10.5.0") + "}";
  }
  return {.patch = ofLink(place, "routes: [" + routes + "]"), .reasons = {"etcd", kUnreached}};
}

Change gatewayOffTheLink(Draw& draw, const Place& place) {
  return {.patch = ofLink(place, "routes: [{network: 198.51.100.0/24, gateway: " +
                                     draw.addressIn("192.0.2") + "}]"),
          .reasons = {"network"}};
}

// Answers to the client do not leave the node.
Change addressOfTheClient(Draw& draw, const Place& place) {
  auto link = draw.chance(50) ? ofLink(place, "addresses: [" + place.client + "/24]")
                              : "machine: {network: {interfaces: [{interface: lo, addresses: [" +
                                    place.client + "/32]}]}}";
  return {.patch = link, .cutsOff = true, .reasons = {kUnreached}};
}

// Packets of the client are longer than the link of the node takes; one value is no MTU.
Change smallMtu(Draw& draw, const Place& place) {
  auto value = draw.chance(10) ? 65536 : draw.number(68, 150);
  return {
      .patch = ofLink(place, "mtu: " + to_string(value)), .cutsOff = true, .reasons = {kUnreached}};
}

Change bridgeThatTakesTheLink(Draw& draw, const Place&) {
  auto name = "br" + to_string(draw.number(1, 99));
  return {
      .patch = "machine: {network: {interfaces: [{interface: eth0, ignore: false}, {interface: " +
               name + ", bridge: {interfaces: [eth0]}}]}}",
      .cutsOff = true,
      .reasons = {kUnreached}};
}

Change ruleAgainstTheClient(Draw& draw, const Place& place) {
  constexpr const char* kActions[] = {"blackhole", "unreachable", "prohibit"};
  return {.patch = document("RoutingRuleConfig", "name: \"" + to_string(draw.number(100, 9999)) +
                                                     "\"\ndst: " + place.client +
                                                     "/32\naction: " + draw.oneOf(kActions) + "\n"),
          .cutsOff = true,
          .reasons = {kUnreached}};
}

Change blackholeForTheClient(Draw&, const Place& place) {
  return {.patch = document("BlackholeRouteConfig", "name: " + place.client + "/32\n"),
          .cutsOff = true,
          .reasons = {kUnreached}};
}

Change dhcpWithoutServer(Draw&, const Place&) {
  return {
      .patch = "machine: {network: {interfaces: [{interface: eth0, ignore: false, dhcp: true}]}}",
      .onFirst = true,
      .reasons = {"network", "lease"}};
}

Change otherCa(Draw&, const Place&) {
  return {.patch = "machine: {ca: {" + certificateOfAnother() + "}}",
          .cutsOff = true,
          .reasons = {kUnreached}};
}

Change unknownArgument(Draw& draw, const Place&) {
  return {.patch = ofEtcd("no-" + draw.word(), to_string(draw.number(1, 99))), .reasons = {"etcd"}};
}

Change wrongArgument(Draw& draw, const Place&) {
  constexpr const char* kArguments[] = {"snapshot-count",   "quota-backend-bytes",
                                        "max-txn-ops",      "heartbeat-interval",
                                        "election-timeout", "max-request-bytes"};
  return {.patch = ofEtcd(draw.oneOf(kArguments), draw.word()), .reasons = {"etcd"}};
}

// etcd wants an election to take five heartbeats.
Change shortElection(Draw& draw, const Place&) {
  auto heartbeat = draw.number(300, 900);
  return {.patch = "cluster: {etcd: {extraArgs: {heartbeat-interval: \"" + to_string(heartbeat) +
                   "\", election-timeout: \"" + to_string(heartbeat * draw.number(1, 4)) + "\"}}}",
          .reasons = {"etcd"}};
}

Change etcdElsewhere(Draw& draw, const Place&) {
  auto key = draw.chance(50) ? "advertisedSubnets" : "listenSubnets";
  return {.patch =
              std::string("cluster: {etcd: {") + key + ": [" + draw.addressIn("192.0.2") + "/32]}}",
          .reasons = {"etcd"}};
}

Change imageOfEtcd(Draw& draw, const Place& place) {
  return {.patch = "cluster: {etcd: {image: \"" + place.client + ":9/" + draw.word() + ":v3\"}}",
          .reboots = true,
          .reasons = {"etcd"}};
}

Change variableOfEtcd(Draw& draw, const Place&) {
  return {.patch = "machine: {env: {ETCD_MAX_TXN_OPS: \"" + draw.word() + "\"}}",
          .reboots = true,
          .reasons = {"etcd"}};
}

Change otherRole(Draw& draw, const Place&) {
  auto keyless = draw.chance(50) ? ", ca: {key: \"\"}" : "";
  return {.patch = std::string("machine: {type: worker") + keyless + "}",
          .reboots = true,
          .cutsOff = true,
          .reasons = {"etcd", "apid", "trustd", kUnreached}};
}

Change containerdThatFails(Draw& draw, const Place&) {
  constexpr const char* kContents[] = {"state = \\\"/proc/none\\\"", "root = \\\"/sys/none\\\"",
                                       "oom_score = \\\"none\\\""};
  return {.patch = document("CRICustomizationConfig", "name: " + draw.word() + "\ncontent: \"" +
                                                          draw.oneOf(kContents) + "\\n\"\n"),
          .reboots = true,
          .reasons = {"cri", "containerd", "boot"}};
}

// --- harmful changes of Kubernetes

std::string ofKubelet(const std::string& settings) {
  return "machine: {kubelet: {" + settings + "}}";
}

std::string ofComponent(const std::string& component, const std::string& settings) {
  return "cluster: {" + component + ": {" + settings + "}}";
}

Change kubeletArgument(Draw& draw, const Place&) {
  constexpr const char* kWrong[] = {"max-pods", "image-gc-high-threshold", "node-status-max-images",
                                    "cpu-cfs-quota"};
  auto name = draw.chance(50) ? "no-" + draw.word() : draw.oneOf(kWrong);
  return {.patch = ofKubelet("extraArgs: {" + name + ": \"" + draw.word() + "\"}"),
          .reasons = {"kubelet"}};
}

Change kubeletSetting(Draw& draw, const Place&) {
  constexpr const char* kSettings[] = {"maxPods", "podPidsLimit", "registryPullQPS"};
  return {.patch = ofKubelet(std::string("extraConfig: {") + draw.oneOf(kSettings) + ": " +
                             draw.word() + "}"),
          .reasons = {"kubelet"}};
}

Change kubeletElsewhere(Draw& draw, const Place&) {
  return {.patch = ofKubelet("nodeIP: {validSubnets: [" + draw.addressIn("192.0.2") + "/32]}"),
          .reasons = {"kubelet"}};
}

Change imageOfKubelet(Draw& draw, const Place&) {
  return {.patch = ofKubelet("image: \"10.5.0.1:9/" + draw.word() + ":v1.34.4\""),
          .reasons = {"kubelet"}};
}

// The parts of a control plane, as the config and as their pods name them.
constexpr const char *kComponents[] = {"apiServer", "scheduler", "controllerManager"},
                     *kPods[] = {"kube-apiserver", "kube-scheduler", "kube-controller-manager"};

Change componentArgument(Draw& draw, const Place&) {
  auto which = draw.number(0, 2);
  return {.patch = ofComponent(kComponents[which], "extraArgs: {no-" + draw.word() + ": \"1\"}"),
          .reasons = {kPods[which]}};
}

Change imageOfComponent(Draw& draw, const Place&) {
  auto which = draw.number(0, 2);
  return {
      .patch = ofComponent(kComponents[which], "image: \"10.5.0.1:9/" + draw.word() + ":v1.34.4\""),
      .reasons = {kPods[which]}};
}

Change endpointOfKubernetes(Draw& draw, const Place&) {
  auto host = draw.chance(50) ? draw.addressIn("10.5.0") : draw.word() + ".invalid";
  return {.patch = "cluster: {controlPlane: {endpoint: \"https://" + host + ":6443\"}}",
          .reasons = {"Kubernetes", "kubelet", "kube-"}};
}

// --- on machines

Change bondThatTakesTheCard(Draw& draw, const Place&) {
  constexpr const char* kModes[] = {"active-backup", "802.3ad", "balance-rr"};
  return {
      .patch = std::string("machine: {network: {interfaces: [{interface: bond0, bond: {mode: ") +
               draw.oneOf(kModes) + ", interfaces: [eth0]}}]}}",
      .cutsOff = true,
      .reasons = {kUnreached, "network"}};
}

Change onlyOnVlan(Draw& draw, const Place& place) {
  return {.patch =
              "machine: {network: {interfaces: [{interface: eth0, $patch: delete}, {interface: "
              "eth0, vlans: [{vlanId: " +
              to_string(draw.number(2, 4000)) + ", cidr: " + place.address + "/24}]}]}}",
          .cutsOff = true,
          .reasons = {kUnreached, "network"}};
}

Change otherAddress(Draw& draw, const Place&) {
  return {.patch = "machine: {network: {interfaces: [{interface: eth0, cidr: " +
                   draw.addressIn("192.0.2") + "/24}]}}",
          .cutsOff = true,
          .reasons = {kUnreached, "network"}};
}

Change missingDisk(Draw& draw, const Place&) {
  return {.patch = "machine: {disks: [{device: /dev/" + draw.word() +
                   ", partitions: [{mountpoint: /var/" + draw.word() + "}]}]}",
          .reboots = true,
          .reasons = {"boot", "disk", "volume"}};
}

constexpr Kind kHarmful[] = {
    {"firewall that is closed", kLone | kTrio | kWorker | kMachine | kKube, closedFirewall},
    {"firewall for others", kLone | kWorker, firewallForOthers},
    {"gateway that is dead", kLone | kTrio | kWorker, deadGateway},
    {"gateway to members is dead", kTrio, deadGatewayToMembers},
    {"gateway off the link", kLone, gatewayOffTheLink},
    {"address of the client", kLone | kWorker, addressOfTheClient},
    {"mtu that is small", kLone | kWorker, smallMtu},
    {"bridge takes the link", kMachine, bridgeThatTakesTheLink},
    {"rule against the client", kLone, ruleAgainstTheClient},
    {"blackhole for the client", kLone | kWorker, blackholeForTheClient},
    {"dhcp without a server", kMachine, dhcpWithoutServer},
    {"other ca", kLone | kTrio | kWorker, otherCa},
    {"etcd: unknown argument", kLone | kTrio, unknownArgument},
    {"etcd: wrong argument", kLone | kTrio | kKube, wrongArgument},
    {"etcd: short election", kLone | kTrio, shortElection},
    {"etcd: other subnet", kLone | kTrio, etcdElsewhere},
    {"etcd: image is missing", kLone, imageOfEtcd},
    {"etcd: variable", kLone, variableOfEtcd},
    {"other role", kLone | kTrio, otherRole},
    {"containerd that fails", kLone, containerdThatFails},
    {"kubelet: argument", kKube | kKubeWorker, kubeletArgument},
    {"kubelet: setting", kKube | kKubeWorker, kubeletSetting},
    {"kubelet: other subnet", kKube | kKubeWorker, kubeletElsewhere},
    {"kubelet: image is missing", kKube | kKubeWorker, imageOfKubelet},
    {"component: unknown argument", kKube, componentArgument},
    {"component: image is missing", kKube, imageOfComponent},
    {"endpoint of kubernetes", kKube | kKubeWorker, endpointOfKubernetes},
    {"bond takes the card", kMachine, bondThatTakesTheCard},
    {"only on a vlan", kMachine, onlyOnVlan},
    {"other address", kMachine, otherAddress},
    {"disk is missing", kMachine, missingDisk},
};

}  // namespace

std::span<const Kind> harmfulKinds() {
  return kHarmful;
}

}  // namespace talos::changes
