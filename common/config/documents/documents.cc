#include "common/config/documents/documents.h"

#include <set>
#include <string>

#include "common/config/documents/document-cluster.h"
#include "common/config/documents/document-components.h"
#include "common/config/documents/document-extensions.h"
#include "common/config/documents/document-reader.h"
#include "common/config/rules/config-check.h"
#include "common/memory/zeroize.h"
#include "common/text/foreign-text.h"

namespace talos::config {
namespace {

using codec::YamlNode;

// A kind, and what reads it. There may be several documents of a named kind.
template <typename Reader>
struct DocumentKind {
  kj::StringPtr name;
  bool named;
  void (Reader::*read)(Document&);
};
constexpr DocumentKind<LinkDocuments> kLinkKinds[] = {
    {"BondConfig"_kj, true, &LinkDocuments::bond},
    {"BridgeConfig"_kj, true, &LinkDocuments::bridge},
    {"DHCPv4Config"_kj, true, &LinkDocuments::dhcp4},
    {"DHCPv6Config"_kj, true, &LinkDocuments::dhcp6},
    {"DummyLinkConfig"_kj, true, &LinkDocuments::dummy},
    {"HCloudVIPConfig"_kj, true, &LinkDocuments::hcloudAddress},
    {"Layer2VIPConfig"_kj, true, &LinkDocuments::sharedAddress},
    {"LinkAliasConfig"_kj, true, &LinkDocuments::alias},
    {"LinkConfig"_kj, true, &LinkDocuments::link},
    {"VLANConfig"_kj, true, &LinkDocuments::vlan},
    {"VRFConfig"_kj, true, &LinkDocuments::vrf},
    {"VethConfig"_kj, true, &LinkDocuments::veth},
    {"WireguardConfig"_kj, true, &LinkDocuments::wireguard},
};
constexpr DocumentKind<ExtensionDocuments> kExtensionKinds[] = {
    {"ExtensionServiceConfig"_kj, true, &ExtensionDocuments::serviceConfig},
};
constexpr DocumentKind<FirewallDocuments> kFirewallKinds[] = {
    {"NetworkDefaultActionConfig"_kj, false, &FirewallDocuments::defaultAction},
    {"NetworkRuleConfig"_kj, true, &FirewallDocuments::rule},
};
constexpr DocumentKind<RoutingDocuments> kRoutingKinds[] = {
    {"BlackholeRouteConfig"_kj, true, &RoutingDocuments::blackhole},
    {"RoutingRuleConfig"_kj, true, &RoutingDocuments::rule},
};
constexpr DocumentKind<EthernetDocuments> kEthernetKinds[] = {
    {"EthernetConfig"_kj, true, &EthernetDocuments::ethernet},
};
constexpr DocumentKind<ProbeDocuments> kProbeKinds[] = {
    {"HTTPProbeConfig"_kj, true, &ProbeDocuments::http},
    {"TCPProbeConfig"_kj, true, &ProbeDocuments::tcp},
};
constexpr DocumentKind<NodeDocuments> kNodeKinds[] = {
    {"EnvironmentConfig"_kj, false, &NodeDocuments::environment},
    {"EtcFileConfig"_kj, true, &NodeDocuments::etcFile},
    {"EventSinkConfig"_kj, false, &NodeDocuments::eventSink},
    {"HostnameConfig"_kj, false, &NodeDocuments::hostname},
    {"ImageCacheConfig"_kj, false, &NodeDocuments::imageCache},
    {"KmsgLogConfig"_kj, true, &NodeDocuments::kernelLog},
    {"KubePrismConfig"_kj, false, &NodeDocuments::kubePrism},
    {"RegistryAuthConfig"_kj, true, &NodeDocuments::registryAuth},
    {"RegistryMirrorConfig"_kj, true, &NodeDocuments::mirror},
    {"RegistryTLSConfig"_kj, true, &NodeDocuments::registryTls},
    {"ResolverConfig"_kj, false, &NodeDocuments::resolver},
    {"StaticHostConfig"_kj, true, &NodeDocuments::staticHost},
    {"TimeSyncConfig"_kj, false, &NodeDocuments::timeSync},
    {"TrustedRootsConfig"_kj, true, &NodeDocuments::trustedRoots},
    {"UnattendedInstallConfig"_kj, false, &NodeDocuments::installation},
    {"WatchdogTimerConfig"_kj, false, &NodeDocuments::watchdog},
};
constexpr DocumentKind<ControlPlaneDocuments> kControlPlaneKinds[] = {
    {"KubeAdmissionControlConfig"_kj, true, &ControlPlaneDocuments::admission},
    {"KubeAuditPolicyConfig"_kj, false, &ControlPlaneDocuments::auditPolicy},
    {"KubeAuthorizerConfig"_kj, true, &ControlPlaneDocuments::authorizer},
    {"KubeSchedulerConfig"_kj, false, &ControlPlaneDocuments::scheduler},
};
constexpr DocumentKind<ClusterDocuments> kClusterKinds[] = {
    {"KubeClusterConfig"_kj, false, &ClusterDocuments::cluster},
    {"KubeExternalManifestConfig"_kj, true, &ClusterDocuments::externalManifest},
    {"KubeFlannelCNIConfig"_kj, false, &ClusterDocuments::flannel},
    {"KubeInlineManifestConfig"_kj, true, &ClusterDocuments::inlineManifest},
    {"KubeNetworkConfig"_kj, false, &ClusterDocuments::network},
    {"KubeTalosAPIAccessConfig"_kj, false, &ClusterDocuments::apiAccess},
};
constexpr DocumentKind<ClusterSecretDocuments> kClusterSecretKinds[] = {
    {"KubeAPIServerCAConfig"_kj, false, &ClusterSecretDocuments::apiServerAuthority},
    {"KubeAggregatorCAConfig"_kj, false, &ClusterSecretDocuments::aggregatorAuthority},
    {"KubeEtcdEncryptionConfig"_kj, false, &ClusterSecretDocuments::etcdEncryption},
    {"KubeServiceAccountConfig"_kj, false, &ClusterSecretDocuments::serviceAccount},
};
constexpr DocumentKind<ComponentDocuments> kComponentKinds[] = {
    {"KubeAPIServerConfig"_kj, false, &ComponentDocuments::apiServer},
    {"KubeAuthenticationConfig"_kj, false, &ComponentDocuments::authentication},
    {"KubeControllerManagerConfig"_kj, false, &ComponentDocuments::controllerManager},
    {"KubeCoreDNSConfig"_kj, false, &ComponentDocuments::coreDns},
};
constexpr DocumentKind<KubeletDocuments> kKubeletKinds[] = {
    {"KubeCredentialProviderConfig"_kj, false, &KubeletDocuments::credentialProviders},
    {"KubeNodeConfig"_kj, false, &KubeletDocuments::node},
    {"KubeletConfig"_kj, false, &KubeletDocuments::kubelet},
};
constexpr DocumentKind<ProxyDocuments> kProxyKinds[] = {
    {"KubeProxyConfig"_kj, false, &ProxyDocuments::proxy},
};
constexpr DocumentKind<PodDocuments> kPodKinds[] = {
    {"CRIBaseRuntimeSpecConfig"_kj, false, &PodDocuments::baseRuntimeSpec},
    {"CRICustomizationConfig"_kj, true, &PodDocuments::containerdPart},
    {"KubeStaticPodConfig"_kj, true, &PodDocuments::staticPod},
};
constexpr DocumentKind<KernelDocuments> kKernelKinds[] = {
    {"KernelModuleConfig"_kj, true, &KernelDocuments::kernelModule},
    {"OOMConfig"_kj, false, &KernelDocuments::outOfMemory},
    {"PCIDriverRebindConfig"_kj, true, &KernelDocuments::pciDriver},
    {"SysctlConfig"_kj, false, &KernelDocuments::parameters},
    {"SysfsConfig"_kj, false, &KernelDocuments::attributes},
    {"UdevRulesConfig"_kj, false, &KernelDocuments::udevRules},
    {"ZswapConfig"_kj, false, &KernelDocuments::zswap},
};
constexpr DocumentKind<VolumeDocuments> kVolumeKinds[] = {
    {"ExistingVolumeConfig"_kj, true, &VolumeDocuments::existingVolume},
    {"FilesystemTrimConfig"_kj, false, &VolumeDocuments::trimOfAll},
    {"RawVolumeConfig"_kj, true, &VolumeDocuments::rawVolume},
    {"SwapVolumeConfig"_kj, true, &VolumeDocuments::swapVolume},
    {"UserVolumeConfig"_kj, true, &VolumeDocuments::userVolume},
    {"VolumeConfig"_kj, true, &VolumeDocuments::systemVolume},
};

// Returns the text of the scalar at a key; empty if the document has no such scalar.
kj::StringPtr textAt(const YamlNode& document, kj::StringPtr key) {
  for (auto& entry : document.entries) {
    if (entry.key == key && entry.value->kind == YamlNode::Kind::kScalar) return entry.value->text;
  }
  return "";
}

kj::String pathIn(const Document& document, kj::StringPtr key) {
  return key.size() == 0 ? kj::str(document.label) : kj::str(document.label, ".", key);
}

bool isAtOrBelow(kj::StringPtr path, kj::StringPtr above) {
  if (!path.startsWith(above)) return false;
  return path.size() == above.size() || path[above.size()] == '.' || path[above.size()] == '[';
}

}  // namespace

void Origins::add(kj::StringPtr inView, kj::StringPtr inDocument) {
  origins.add(Origin{kj::str(inView), kj::str(inDocument)});
}

kj::Maybe<kj::String> Origins::renamed(kj::StringPtr path) const {
  const Origin* best = nullptr;
  for (auto& origin : origins) {
    if (!isAtOrBelow(path, origin.inView)) continue;
    if (best == nullptr || origin.inView.size() > best->inView.size()) best = &origin;
  }
  if (best == nullptr) return nullptr;
  return kj::str(best->inDocument, path.slice(best->inView.size()));
}

void Origins::rename(Problem& problem) const {
  KJ_IF_MAYBE (path, renamed(problem.path)) problem.path = kj::mv(*path);
  KJ_IF_MAYBE (end, problem.message.findFirst(' ')) {
    KJ_IF_MAYBE (path, renamed(kj::heapString(problem.message.slice(0, *end)))) {
      problem.message = kj::str(*path, problem.message.slice(*end));
    }
  }
}

bool isInDocument(kj::StringPtr path) {
  return path.size() > 0 && path[0] >= 'A' && path[0] <= 'Z';
}

void DocumentDecoder::add(Problem problem) {
  if (counts[static_cast<int>(problem.severity)]++ >= codec::kMaxProblems) return;
  problems.add(kj::mv(problem));
}

void DocumentDecoder::report(const Document& document, kj::StringPtr key, kj::String text,
                             kj::StringPtr hint, Problem::Severity severity) {
  Problem problem;
  problem.severity = severity;
  problem.file = kj::str(file);
  auto place = document.places.find(key);
  if (place.line == 0) place = document.node.place;
  problem.line = place.line;
  problem.column = place.column;
  problem.path = pathIn(document, key);
  problem.message = kj::mv(text);
  problem.hint = kj::str(hint);
  add(kj::mv(problem));
}

void DocumentDecoder::conflict(const Document& document, kj::String text) {
  report(document, "", kj::mv(text), "remove one of the two");
  ++conflicts;
}

void DocumentDecoder::refuse(const Document& document, kj::StringPtr key, kj::StringPtr reason,
                             kj::StringPtr hint) {
  if (document.places.has(key)) report(document, key, kj::str(reason), hint);
}

void DocumentDecoder::from(const Document& document, kj::StringPtr key, kj::StringPtr inView) {
  auto place = document.places.find(key);
  if (place.line == 0) place = document.node.place;
  values.add(Value{kj::str(inView), pathIn(document, key), place});
  if (key.size() == 0) addKeys(document.node, inView);
}

void DocumentDecoder::fromAllOf(const Document& document, kj::StringPtr key, kj::StringPtr inView) {
  from(document, key, inView);
  for (auto& entry : document.node.entries) {
    if (entry.key == key) addKeys(*entry.value, inView);
  }
}

void DocumentDecoder::addKeys(const YamlNode& node, kj::StringPtr inView) {
  for (auto& entry : node.entries) {
    auto path = keyPath(inView, entry.key);
    addKeys(*entry.value, path);
    keys.add(KeyPlace{kj::mv(path), entry.place});
  }
  for (auto i : kj::indices(node.items)) {
    auto path = kj::str(inView, "[", i, "]");
    addKeys(*node.items[i], path);
    keys.add(KeyPlace{kj::mv(path), node.items[i]->place});
  }
}

void DocumentDecoder::end(bool good) {
  if (good) {
    for (auto& key : keys) where.replace(key.inView, key.place);
    for (auto& value : values) {
      where.replace(value.inView, value.place);
      origins.add(value.inView, value.inDocument);
    }
  }
  values.clear();
  keys.clear();
}

bool DocumentDecoder::decode(Document& document, capnp::DynamicStruct::Builder target) {
  Problems found;
  bool good =
      codec::readNode(stream, document.node, target, found, {.file = file}, &document.places);
  for (auto& problem : found) {
    problem.path = pathIn(document, problem.path);
    add(kj::mv(problem));
  }
  return good;
}

namespace {

class DocumentReader {
 public:
  DocumentReader(const codec::YamlStream& stream, kj::StringPtr file, Config::Builder view,
                 codec::Places& where, Origins& origins, Problems& problems,
                 RefusedDocuments& refused, kj::ArrayPtr<const Problem> known)
      : decoder(stream, file, where, origins, problems),
        view(view),
        refused(refused),
        known(known),
        kernel(decoder, view),
        links(decoder, view),
        routing(decoder, view),
        firewall(decoder, view),
        ethernet(decoder, view),
        extensions(decoder),
        probes(decoder, view),
        node(decoder, view),
        controlPlane(decoder, view),
        components(decoder, view),
        kubelet(decoder, view),
        proxy(decoder, view),
        pods(decoder, view),
        cluster(decoder, view),
        clusterSecrets(decoder, view),
        volumes(decoder, view) {}

  // Reads a document if it is of a kind with an effect.
  void read(const YamlNode& document) {
    auto name = textAt(document, "kind");
    for (auto& kind : kLinkKinds) {
      if (kind.name != name) continue;
      bool good = read(document, kind, links);
      // A shared address or another name does not say how a link is configured.
      if (name == "Layer2VIPConfig" || name == "HCloudVIPConfig") continue;
      linksRefused = linksRefused || !good;
      linksConfigured = linksConfigured || (good && name != "LinkAliasConfig");
    }
    for (auto& kind : kRoutingKinds) {
      if (kind.name == name) read(document, kind, routing);
    }
    for (auto& kind : kFirewallKinds) {
      if (kind.name == name && !read(document, kind, firewall)) firewallRefused = true;
    }
    for (auto& kind : kEthernetKinds) {
      if (kind.name == name) read(document, kind, ethernet);
    }
    for (auto& kind : kExtensionKinds) {
      if (kind.name == name) read(document, kind, extensions);
    }
    for (auto& kind : kProbeKinds) {
      if (kind.name == name) read(document, kind, probes);
    }
    for (auto& kind : kNodeKinds) {
      if (kind.name == name) read(document, kind, node);
    }
    for (auto& kind : kPodKinds) {
      if (kind.name == name) read(document, kind, pods);
    }
    for (auto& kind : kKernelKinds) {
      if (kind.name == name) read(document, kind, kernel);
    }
    for (auto& kind : kControlPlaneKinds) {
      if (kind.name == name) read(document, kind, controlPlane);
    }
    for (auto& kind : kClusterKinds) {
      if (kind.name != name) continue;
      if (!read(document, kind, cluster)) cluster.refused(name);
    }
    for (auto& kind : kClusterSecretKinds) {
      if (kind.name == name) read(document, kind, clusterSecrets);
    }
    for (auto& kind : kComponentKinds) {
      if (kind.name == name) read(document, kind, components);
    }
    for (auto& kind : kKubeletKinds) {
      if (kind.name == name) read(document, kind, kubelet);
    }
    for (auto& kind : kProxyKinds) {
      if (kind.name == name) read(document, kind, proxy);
    }
    for (auto& kind : kVolumeKinds) {
      if (kind.name == name) read(document, kind, volumes);
    }
  }

  void write() {
    // A kept config takes effect in spite of a refused document: the others must not lock out.
    if (linksConfigured && !linksRefused) {
      view.getMachine().getNetwork().setOnlyConfigured(true);
    }
    links.write();
    routing.write();
    if (firewallRefused) {
      for (auto& kind : kFirewallKinds) kinds.erase(kind.name.cStr());
    } else {
      firewall.write();
    }
    ethernet.write();
    probes.write();
    node.write();
    pods.write();
    kernel.write();
    controlPlane.write();
    components.write();
    volumes.write();
    cluster.write();
    clusterSecrets.write();
    // The view has the encryption where the main document would have it.
    for (auto& key : volumes.encryptions()) kinds.insert(key.cStr());
    if (kinds.empty()) return;
    auto list = view.initDocuments(static_cast<unsigned>(kinds.size()));
    unsigned i = 0;
    for (auto& kind : kinds) list.set(i++, kind);
  }

 private:
  DocumentDecoder decoder;
  Config::Builder view;
  RefusedDocuments& refused;
  kj::ArrayPtr<const Problem> known;  // errors that the checks have found
  KernelDocuments kernel;
  LinkDocuments links;
  RoutingDocuments routing;
  FirewallDocuments firewall;
  EthernetDocuments ethernet;
  ExtensionDocuments extensions;
  ProbeDocuments probes;
  NodeDocuments node;
  ControlPlaneDocuments controlPlane;
  ComponentDocuments components;
  KubeletDocuments kubelet;
  ProxyDocuments proxy;
  PodDocuments pods;
  ClusterDocuments cluster;
  ClusterSecretDocuments clusterSecrets;
  VolumeDocuments volumes;
  bool linksConfigured = false, linksRefused = false, firewallRefused = false;
  std::set<std::string> labels;  // of all documents
  std::set<std::string> kinds;   // of those that are in the view

  // Returns true if a check has found an error in the document.
  bool isKnownAsWrong(const Document& document) const {
    for (auto& problem : known) {
      // KmsgLogConfig[a] is not a part of a KmsgLogConfig without a name.
      bool another = problem.path.size() > document.label.size() &&
                     problem.path[document.label.size()] == '[' && !document.label.endsWith("]");
      if (!another && isAtOrBelow(problem.path, document.label)) return true;
    }
    return false;
  }

  // Returns true if the document is in the view.
  template <typename Reader>
  bool read(const YamlNode& node, const DocumentKind<Reader>& kind, Reader& reader) {
    auto name = textAt(node, "name");
    Document document{
        node, kind.name,
        kind.named && name.size() > 0 ? kj::str(kind.name, "[", name, "]") : kj::str(kind.name)};
    if (refused.count(&node) > 0) return false;
    if (isKnownAsWrong(document)) {
      refused.insert(&node);
      return false;
    }
    auto errors = decoder.errors();
    auto mark = reader.mark();
    if (textAt(node, "apiVersion") != "v1alpha1") {
      decoder.report(document, "apiVersion", kj::str("the document is not of version v1alpha1"),
                     "use apiVersion: v1alpha1");
    } else if (!labels.insert(document.label.cStr()).second) {
      decoder.report(document, "", kj::str("there is another such document"),
                     kind.named ? "give it another name, or merge the two" : "merge the two");
    } else {
      (reader.*kind.read)(document);
    }
    bool good = decoder.errors() == errors;
    decoder.end(good);
    if (good) {
      kinds.insert(kind.name.cStr());
    } else {
      reader.dropSince(mark);
      refused.insert(&node);
    }
    return good;
  }
};

}  // namespace

void readDocuments(const codec::YamlStream& stream, const YamlNode& main, kj::StringPtr file,
                   Config::Builder view, codec::Places& where, Origins& origins, Problems& problems,
                   RefusedDocuments& refused, kj::ArrayPtr<const Problem> known) {
  DocumentReader reader(stream, file, view, where, origins, problems, refused, known);
  for (auto* document : stream.documents()) {
    if (document != &main) reader.read(*document);
  }
  reader.write();
}

}  // namespace talos::config
