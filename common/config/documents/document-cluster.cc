// Documents of the cluster's name, networks, manifests, and of the access of pods to the machine
// API: cluster and machine.features of the view.

#include "common/config/documents/document-cluster.h"

#include <map>
#include <string_view>

#include "common/config/kubernetes/cluster-networks.h"
#include "common/config/rules/config-check.h"
#include "common/net/ip.h"
#include "common/text/foreign-text.h"

namespace talos::config {
namespace {

constexpr auto kNetwork = "cluster.network"_kj, kCniName = "cluster.network.cni.name"_kj,
               kManifestUrls = "cluster.extraManifests"_kj,
               kManifestHeaders = "cluster.extraManifestHeaders"_kj,
               kPodAccess = "machine.features.kubernetesTalosAPIAccess"_kj;
constexpr auto kFlannelKind = "KubeFlannelCNIConfig"_kj;
constexpr auto kOtherFlannel =
    "for another flannel, or another CNI, remove this document, and name its manifests in "
    "KubeExternalManifestConfig or KubeInlineManifestConfig documents"_kj;
// Flannel's settings here, and the masks of kube-controller-manager.
constexpr auto kBackend = "vxlan"_kj;
constexpr unsigned kBackendPort = 4789, kMaskOfIpv4 = 24, kMaskOfIpv6 = 64;
constexpr unsigned kLeastHostBits = 4, kMostMaskBits = 16;

// Returns true for the same names and values, in any order.
bool isSame(capnp::List<StringPair>::Reader one, capnp::List<StringPair>::Reader other) {
  if (one.size() != other.size()) return false;
  std::map<std::string_view, kj::StringPtr> pairs;
  auto viewOf = [](kj::StringPtr text) { return std::string_view(text.begin(), text.size()); };
  for (auto pair : one) pairs[viewOf(pair.getKey())] = pair.getValue();
  for (auto pair : other) {
    auto found = pairs.find(viewOf(pair.getKey()));
    if (found == pairs.end() || found->second != pair.getValue()) return false;
  }
  return true;
}

// Returns true if one of the networks is of this family.
bool hasFamily(capnp::List<capnp::Text>::Reader networks, int family) {
  for (auto text : networks) {
    KJ_IF_MAYBE (network, Prefix::parse(text)) {
      if (network->address.family() == family) return true;
    }
  }
  return false;
}

}  // namespace

bool isOnWorker(DocumentDecoder& decoder, Document& document, MachineType type) {
  if (isControlPlane(type)) return false;
  decoder.report(document, "", kj::str("only control-plane nodes have such a document"),
                 "remove it from the configs of workers");
  return true;
}

bool isBeside(DocumentDecoder& decoder, Document& document, bool isSet, kj::StringPtr key) {
  if (!isSet) return false;
  decoder.report(document, "", kj::str(key, " is set as well"), "remove one of the two");
  return true;
}

bool hasArgument(capnp::List<StringPair>::Reader arguments, kj::StringPtr name) {
  for (auto one : arguments) {
    if (one.getKey() == name) return true;
  }
  return false;
}

ClusterDocuments::ClusterDocuments(DocumentDecoder& decoder, Config::Builder view)
    : decoder(decoder),
      view(view),
      mainHasNetwork(main().hasNetwork()),
      mainUrls(main().getExtraManifests().size()),
      manifests(main().getInlineManifests().size()) {
  if (mainUrls == 0 && main().getExtraManifestHeaders().size() == 0) return;
  headers = main().getExtraManifestHeaders();
  headersFrom = kj::str(kManifestHeaders);
}

void ClusterDocuments::cluster(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::KubeClusterConfig>(document)) {
    constexpr auto kName = "cluster.clusterName"_kj, kUrl = "cluster.controlPlane.endpoint"_kj;
    if (isBeside(decoder, document, main().getClusterName().size() > 0, kName)) return;
    if (isBeside(decoder, document, main().getControlPlane().getEndpoint().size() > 0, kUrl))
      return;
    view.getCluster().setClusterName(d->getClusterName());
    view.getCluster().getControlPlane().setEndpoint(d->getEndpoint());
    decoder.from(document, "clusterName", kName);
    decoder.from(document, "endpoint", kUrl);
  }
}

// --- networks

void ClusterDocuments::subnets(Document& document, kj::StringPtr key, Texts::Reader list) {
  if (list.size() == 0) {
    decoder.report(document, key, kj::str("there is no network"),
                   "name one of IPv4, one of IPv6, or one of each");
  }
  for (auto i : kj::indices(list)) {
    auto path = kj::str(key, "[", i, "]");
    KJ_IF_MAYBE (subnet, Prefix::parse(list[i])) {
      if (subnet->masked() != *subnet) {
        decoder.report(document, path,
                       kj::str(jsonString(list[i]), " has bits after its prefix length"),
                       kj::str("use ", subnet->masked().toString()));
      } else if (subnet->length + kLeastHostBits > subnet->address.bits()) {
        decoder.report(document, path, kj::str(jsonString(list[i]), " is too small"),
                       kj::str("use /", subnet->address.bits() - kLeastHostBits, " or shorter"));
      }
    }
  }
}

void ClusterDocuments::checkMask(Document& document, kj::StringPtr key, Texts::Reader pods,
                                 int family, unsigned length) {
  for (auto i : kj::indices(pods)) {
    KJ_IF_MAYBE (subnet, Prefix::parse(pods[i])) {
      if (subnet->address.family() != family) continue;
      auto longest = kj::min(subnet->length + kMostMaskBits, subnet->address.bits());
      if (length >= subnet->length && length <= longest) continue;
      decoder.report(
          document, kj::str("podSubnets[", i, "]"),
          kj::str("each node gets a /", length, " of ", jsonString(pods[i])),
          kj::str("use another network, or /", subnet->length, " to /", longest, " in ", key));
    }
  }
}

kj::Maybe<ComponentArgument> ClusterDocuments::nodeMask(Document& document, Texts::Reader pods,
                                                        int family, unsigned length) {
  bool v4 = family == AF_INET;
  auto usual = v4 ? kMaskOfIpv4 : kMaskOfIpv6;
  auto key = v4 ? "nodeCIDRMaskSizeIPv4"_kj : "nodeCIDRMaskSizeIPv6"_kj;
  if (!hasFamily(pods, family)) {
    if (length != usual) {
      decoder.report(document, key, kj::str("podSubnets has no network of ", v4 ? "IPv4" : "IPv6"),
                     "remove it");
    }
    return nullptr;
  }
  checkMask(document, key, pods, family, length);
  if (length == usual) return nullptr;
  bool both = hasFamily(pods, v4 ? AF_INET6 : AF_INET);
  auto argument = !both ? "node-cidr-mask-size"_kj
                  : v4  ? "node-cidr-mask-size-ipv4"_kj
                        : "node-cidr-mask-size-ipv6"_kj;
  auto present = main().getControllerManager().getExtraArgs();
  for (auto old : {"node-cidr-mask-size"_kj, argument}) {
    if (!hasArgument(present, old)) continue;
    decoder.report(document, key,
                   kj::str("cluster.controllerManager.extraArgs.", old, " is set as well"),
                   "remove one of the two");
    break;
  }
  return ComponentArgument{argument, kj::str(length)};
}

void ClusterDocuments::network(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::KubeNetworkConfig>(document)) {
    if (isBeside(decoder, document, mainHasNetwork, kNetwork)) return;
    auto before = decoder.errors();
    auto pods = d->getPodSubnets(), services = d->getServiceSubnets();
    subnets(document, "podSubnets", pods);
    subnets(document, "serviceSubnets", services);
    if (pods.size() != services.size()) {
      decoder.report(document, "serviceSubnets",
                     kj::str("podSubnets has another number of networks"),
                     "name networks of the same families in both");
    }
    auto ipv4 = nodeMask(document, pods, AF_INET, d->getNodeCIDRMaskSizeIPv4());
    auto ipv6 = nodeMask(document, pods, AF_INET6, d->getNodeCIDRMaskSizeIPv6());
    if (decoder.errors() > before) return;
    for (auto* mask : {&ipv4, &ipv6}) {
      KJ_IF_MAYBE (argument, *mask) managerArguments.add(kj::mv(*argument));
    }
    networkGiven = true;
    auto out = view.getCluster().getNetwork();
    out.setDnsDomain(d->getDnsDomain());
    out.setPodSubnets(pods);
    out.setServiceSubnets(services);
    decoder.from(document, "", kNetwork);
    decoder.from(document, "kind", kCniName);  // none, without a KubeFlannelCNIConfig
  }
}

void ClusterDocuments::flannel(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::KubeFlannelCNIConfig>(document)) {
    if (isOnWorker(decoder, document, view.getMachine().getType())) return;
    if (isBeside(decoder, document, mainHasNetwork, kNetwork)) return;
    auto before = decoder.errors();
    auto only = [&](kj::StringPtr key, bool good, kj::StringPtr what) {
      if (!good) decoder.report(document, key, kj::str(what), kOtherFlannel);
    };
    only("backendType", d->getBackendType() == kBackend, "flannel has the backend vxlan here");
    only("backendPort", d->getBackendPort() == kBackendPort, "flannel uses port 4789 here");
    only("backendMTU", d->getBackendMTU() == 0, "flannel takes the MTU of the node's link here");
    only("backendExtraConfig", d->getBackendExtraConfig().size() == 0,
         "flannel's backend has no other settings here");
    only("resources", !d->hasResources(), "flannel has neither requests nor limits here");
    only("kubeNetworkPoliciesEnabled", !d->getKubeNetworkPoliciesEnabled(),
         "flannel does not enforce NetworkPolicies here");
    if (decoder.errors() > before) return;
    flannelGiven = true;
    auto cni = view.getCluster().getNetwork().getCni();
    cni.setName(CniName::FLANNEL);
    if (d->getExtraArgs().size() > 0) cni.getFlannel().setExtraArgs(d->getExtraArgs());
    decoder.from(document, "backendType", kCniName);
    decoder.from(document, "", "cluster.network.cni.flannel");
  }
}

void ClusterDocuments::refused(kj::StringPtr kind) {
  // A kept config does not take the CNI from a cluster because of a mistake.
  flannelRefused = flannelRefused || kind == kFlannelKind;
}

void ClusterDocuments::writeNetwork() {
  bool controlPlane = isControlPlane(view.getMachine().getType());
  if (controlPlane && networkGiven && !flannelGiven && !flannelRefused) {
    view.getCluster().getNetwork().getCni().setName(CniName::NONE);
  }
  if (!flannelGiven || networkGiven) return;
  view.getCluster().getNetwork().setDnsDomain(dnsDomain(main()));
}

// --- manifests

void ClusterDocuments::inlineManifest(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::KubeInlineManifestConfig>(document)) {
    kj::String path;
    auto manifest = manifests.add("cluster.inlineManifests", path);
    manifest.setName(d->getName());
    manifest.setContents(d->getManifest());
    decoder.from(document, "", path);
    decoder.from(document, "manifest", kj::str(path, ".contents"));
  }
}

void ClusterDocuments::externalManifest(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::KubeExternalManifestConfig>(document)) {
    auto given = d->getHeaders();
    KJ_IF_MAYBE (first, headers) {
      if (!isSame(*first, given)) {
        // Headers are often credentials, which must not go to another server.
        return decoder.report(
            document, "headers",
            kj::str("every manifest is fetched with the same headers, and ", headersFrom,
                    " has others"),
            "use the same headers, or put the manifest into a KubeInlineManifestConfig");
      }
    } else {
      headers = given;
      headersFrom = kj::str(document.label);
    }
    decoder.from(document, "url", kj::str(kManifestUrls, "[", mainUrls + urls.size(), "]"));
    decoder.from(document, "headers", kManifestHeaders);
    urls.add(d->getUrl());
  }
}

void ClusterDocuments::writeManifests() {
  manifests.write(main().getInlineManifests(),
                  [&](unsigned size) { return view.getCluster().initInlineManifests(size); });
  if (urls.empty()) return;
  auto old = view.getCluster().disownExtraManifests();
  auto present = old.getReader();
  auto list = view.getCluster().initExtraManifests(static_cast<unsigned>(mainUrls + urls.size()));
  unsigned next = 0;
  for (auto url : present) list.set(next++, url);
  for (auto url : urls) list.set(next++, url);
  KJ_IF_MAYBE (given, headers) {
    bool ofMain = main().getExtraManifestHeaders().size() > 0;
    if (!ofMain && given->size() > 0) view.getCluster().setExtraManifestHeaders(*given);
  }
}

// --- access of pods to the machine API

void ClusterDocuments::apiAccess(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::KubeTalosAPIAccessConfig>(document)) {
    if (isOnWorker(decoder, document, view.getMachine().getType())) return;
    auto features = view.asReader().getMachine().getFeatures();
    if (isBeside(decoder, document, features.hasKubernetesTalosAPIAccess(), kPodAccess)) return;
    auto out = view.getMachine().getFeatures().initKubernetesTalosAPIAccess();
    out.setEnabled(true);
    out.setAllowedRoles(d->getAllowedRoles());
    out.setAllowedKubernetesNamespaces(d->getAllowedKubernetesNamespaces());
    decoder.from(document, "", kPodAccess);
  }
}

void ClusterDocuments::write() {
  writeNetwork();
  if (!managerArguments.empty()) {
    addArguments(view.getCluster().getControllerManager(), managerArguments.asPtr());
  }
  writeManifests();
}

}  // namespace talos::config
