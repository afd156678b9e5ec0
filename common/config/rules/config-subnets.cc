// cluster.network: the subnets of pods and Services, of one family or both.

#include <string.h>

#include <algorithm>

#include "common/config/kubernetes/cluster-networks.h"
#include "common/config/kubernetes/kubernetes-images.h"
#include "common/config/rules/config-check.h"
#include "common/net/ip.h"

namespace talos::config {
namespace {

constexpr auto kPods = "cluster.network.podSubnets"_kj,
               kServices = "cluster.network.serviceSubnets"_kj,
               kManagerArguments = "cluster.controllerManager.extraArgs"_kj;
constexpr kj::StringPtr kMaskOfNode = "node-cidr-mask-size"_kj;

// The API's service has the first address of the services' network, the DNS server the tenth.
constexpr unsigned kServiceHostBits = 4, kMostServiceBits = 20;
// A subnet of pods is at most so many bits shorter than the part of a node.
constexpr unsigned kPodBits = 16;
// Kubernetes takes two networks of each kind.
constexpr size_t kComparedSubnets = 4;

kj::StringPtr familyName(int family) {
  return family == AF_INET ? "IPv4"_kj : "IPv6"_kj;
}

// Refuses two networks of one family, as every program that gets them does.
void checkFamilies(Report& report, kj::StringPtr path, capnp::List<capnp::Text>::Reader subnets) {
  unsigned seen[2] = {};
  for (auto i : kj::range<size_t>(0, subnets.size())) {
    KJ_IF_MAYBE (subnet, Prefix::parse(subnets[i])) {
      auto family = subnet->address.family();
      if (seen[family == AF_INET ? 0 : 1]++ == 0) continue;
      report.error(kj::str(path, "[", i, "]"),
                   kj::str("there is another one of ", familyName(family)),
                   "name one of each family at most");
    }
  }
}

// Returns the families of all valid networks, in their order.
kj::Vector<int> familiesOf(kj::ArrayPtr<const kj::String> subnets) {
  kj::Vector<int> families;
  for (auto& text : subnets) {
    KJ_IF_MAYBE (subnet, Prefix::parse(text)) {
      int family = subnet->address.family();
      if (std::find(families.begin(), families.end(), family) == families.end())
        families.add(family);
    }
  }
  return families;
}

// --- the part of a node

kj::Maybe<kj::StringPtr> argumentOf(capnp::List<StringPair>::Reader arguments, kj::StringPtr key) {
  for (auto argument : arguments) {
    if (argument.getKey() == key) return kj::StringPtr(argument.getValue());
  }
  return nullptr;
}

// Prefix length of each node's part of the pod network, and the argument of the controller manager
// that sets it: with two families each has its own argument.
struct NodeMask {
  kj::String argument;
  unsigned length;
  bool isSet = false;
};
NodeMask nodeMaskOf(Cluster::Reader cluster, int family, bool both) {
  auto own = kj::str(kMaskOfNode, family == AF_INET ? "-ipv4" : "-ipv6");
  NodeMask mask{.argument = both ? kj::str(own) : kj::str(kMaskOfNode),
                .length = family == AF_INET ? 24u : 64u};
  auto arguments = cluster.getControllerManager().getExtraArgs();
  auto take = [&](kj::StringPtr key) {
    KJ_IF_MAYBE (text, argumentOf(arguments, key)) {
      mask.isSet = true;
      mask.length = text->tryParseAs<unsigned>().orDefault(mask.length);
    }
  };
  if (!both) take(kMaskOfNode);
  take(own);
  return mask;
}

// Checks that the controller manager, which gives each node a part of the subnet, can do so:
// otherwise it exits.
void checkPodSubnet(Report& report, kj::StringPtr path, const Prefix& pods, kj::StringPtr text,
                    const NodeMask& mask) {
  bool small = pods.length > mask.length, large = pods.length + kPodBits < mask.length;
  if (!small && !large) return;
  auto shortest = mask.length > kPodBits ? mask.length - kPodBits : 0;
  auto hint = kj::str("use /", shortest, " to /", mask.length, ", or ",
                      mask.isSet ? "change " : "set ", kManagerArguments, ".", mask.argument);
  auto message = kj::str("\"", text, "\" is too ", small ? "small" : "large",
                         ": each node gets a /", mask.length, " of it");
  if (mask.isSet) return report.laterError(path, kj::mv(message), hint);
  report.error(path, kj::mv(message), hint);
}

void checkPods(Report& report, Cluster::Reader cluster) {
  auto subnets = cluster.getNetwork().getPodSubnets();
  bool both = familiesOf(podSubnets(cluster)).size() == 2;
  size_t i = 0;
  for (auto subnet : subnets) {
    auto path = kj::str(kPods, "[", i++, "]");
    report.cidr(path, subnet);
    KJ_IF_MAYBE (pods, Prefix::parse(subnet)) {
      checkPodSubnet(report, path, *pods, subnet,
                     nodeMaskOf(cluster, pods->address.family(), both));
    }
  }
  checkFamilies(report, kPods, subnets);
  auto arguments = cluster.getControllerManager().getExtraArgs();
  if (both && argumentOf(arguments, kMaskOfNode) != nullptr) {
    report.laterError(keyPath(kManagerArguments, kMaskOfNode),
                      kj::str("kube-controller-manager refuses it with pods of both families"),
                      "use node-cidr-mask-size-ipv4 and node-cidr-mask-size-ipv6");
  }
}

// --- Services

KubernetesVersion releaseOf(Cluster::Reader cluster) {
  KJ_IF_MAYBE (version, kubernetesVersionOf(cluster.getApiServer().getImage())) return *version;
  return parseKubernetesVersion(cluster.getKubernetesVersion()).orDefault(kDefaultKubernetes);
}

void checkServiceSubnet(Report& report, kj::StringPtr path, const Prefix& services,
                        kj::StringPtr text, KubernetesVersion release) {
  auto bits = services.address.bits();
  if (services.length + kServiceHostBits > bits) {
    report.error(path, kj::str("\"", text, "\" is too small for services"),
                 "it must hold its tenth address, which is the DNS server's");
  } else if (services.length + kMostServiceBits < bits && limitsServiceSubnets(release)) {
    report.error(path, kj::str("\"", text, "\" is too large for services"),
                 kj::str("kube-apiserver ", release.major, ".", release.minor, " takes /",
                         bits - kMostServiceBits, " or longer"));
  }
}

void warnOfOverlaps(Report& report, kj::StringPtr path, const Prefix& services,
                    Cluster::Reader cluster, kj::StringPtr text) {
  size_t compared = 0;
  for (auto other : cluster.getNetwork().getPodSubnets()) {
    if (++compared > kComparedSubnets) break;
    KJ_IF_MAYBE (pods, Prefix::parse(other)) {
      if (pods->overlaps(services))
        report.warn(path, kj::str("\"", text, "\" overlaps the pods' ", other));
    }
  }
}

void checkServices(Report& report, Cluster::Reader cluster) {
  auto release = releaseOf(cluster);
  auto subnets = cluster.getNetwork().getServiceSubnets();
  size_t i = 0;
  for (auto subnet : subnets) {
    auto path = kj::str(kServices, "[", i++, "]");
    report.cidr(path, subnet);
    KJ_IF_MAYBE (services, Prefix::parse(subnet)) {
      checkServiceSubnet(report, path, *services, subnet, release);
      warnOfOverlaps(report, path, *services, cluster, subnet);
    }
  }
  checkFamilies(report, kServices, subnets);
}

// --- both together

// Warns of different families: a Service's address of a family that pods lack leads nowhere, and
// the API's own has the family of the nodes' first address, as pods have.
void compareFamilies(Report& report, Cluster::Reader cluster) {
  auto pods = familiesOf(podSubnets(cluster)), services = familiesOf(serviceSubnets(cluster));
  if (pods.empty() || services.empty()) return;
  // Either may be the default, which has no place in the document.
  bool named = report.has(kServices);
  auto pathOf = [&](size_t i) { return kj::str(named ? kServices : kPods, "[", i, "]"); };
  for (auto i : kj::indices(services)) {
    if (std::find(pods.begin(), pods.end(), services[i]) != pods.end()) continue;
    return report.laterError(
        pathOf(named ? i : 0),
        kj::str("Services have ", familyName(services[i]), " addresses, pods do not"),
        "name networks of the same families in cluster.network.podSubnets and serviceSubnets");
  }
  if (pods[0] != services[0]) {
    report.warn(pathOf(0),
                kj::str("Services have ", familyName(services[0]), " first, pods have ",
                        familyName(pods[0]), "; the nodes' first address is that of Services"));
  }
}

// Checks that the release has dual stack: before 1.21 it needs a feature gate.
void checkRelease(Report& report, Cluster::Reader cluster) {
  auto release = releaseOf(cluster);
  bool pods = familiesOf(podSubnets(cluster)).size() == 2;
  if (hasDualStack(release) || (!pods && familiesOf(serviceSubnets(cluster)).size() < 2)) return;
  auto gates = argumentOf(cluster.getApiServer().getExtraArgs(), "feature-gates");
  if (strstr(gates.orDefault(""_kj).cStr(), "IPv6DualStack=true") != nullptr) return;
  report.laterError(
      kj::str(pods ? kPods : kServices, "[1]"),
      kj::str("Kubernetes ", release.major, ".", release.minor, " has one family"),
      "use 1.21 or later, or feature-gates: IPv6DualStack=true in the extraArgs of "
      "cluster.apiServer, cluster.controllerManager, cluster.proxy and machine.kubelet");
}

}  // namespace

void checkClusterSubnets(Report& report, Cluster::Reader cluster, bool controlPlane) {
  checkPods(report, cluster);
  checkServices(report, cluster);
  compareFamilies(report, cluster);
  if (controlPlane) checkRelease(report, cluster);
}

}  // namespace talos::config
