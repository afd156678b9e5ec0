// Documents of the kubelet and of the Node object: machine.kubelet, nodeLabels, nodeAnnotations and
// nodeTaints of the view.

#include "common/config/documents/document-components.h"
#include "common/config/kubernetes/kubelet-configuration.h"
#include "common/config/rules/config-check.h"

namespace talos::config {
namespace {

// Label and taint of control-plane nodes, which the node adds (common/kube/node-roles.h).
constexpr auto kRoleName = "node-role.kubernetes.io/control-plane"_kj;

// The hint for a field of the kubelet, where a key of a document is meant and not one of the main
// document.
struct InsteadOfField {
  kj::StringPtr field, instead;
};
constexpr auto kStaticPods = "remove it; KubeStaticPodConfig documents have static pods"_kj;
constexpr InsteadOfField kInsteadOfFields[] = {
    {"address"_kj,
     "remove it; nodeIP of KubeNodeConfig chooses the address that the node registers"_kj},
    {"clusterDNS"_kj, "use clusterDNS of the document"_kj},
    {"registerNode"_kj, "use skipNodeRegistration of KubeNodeConfig"_kj},
    {"registerWithTaints"_kj, "use taints of KubeNodeConfig"_kj},
    {"staticPodPath"_kj, kStaticPods},
    {"staticPodURL"_kj, kStaticPods},
    {"staticPodURLHeader"_kj, kStaticPods},
};

kj::StringPtr insteadOf(const OwnKubeletField& own) {
  for (auto& row : kInsteadOfFields) {
    if (row.field == own.name) return row.instead;
  }
  return own.instead;
}

kj::Maybe<kj::StringPtr> entryCalled(capnp::List<StringPair>::Reader list, kj::StringPtr key) {
  for (auto pair : list) {
    if (pair.getKey() == key) return kj::StringPtr(pair.getValue());
  }
  return nullptr;
}

bool isUsualRoleTaint(kj::StringPtr value) {
  return value == "NoSchedule" || value == ":NoSchedule";
}

// Writes the entries into the list that `init` makes; without the role if `withoutRole`, which is
// there with its usual value: the node adds it.
template <typename Init>
void writeEntries(capnp::List<StringPair>::Reader list, bool withoutRole, Init init) {
  auto isLeftOut = [&](StringPair::Reader pair) {
    return withoutRole && pair.getKey() == kRoleName;
  };
  unsigned count = 0;
  for (auto pair : list) count += !isLeftOut(pair);
  if (count == 0) return;
  auto out = init(count);
  unsigned i = 0;
  for (auto pair : list) {
    if (!isLeftOut(pair)) out.setWithCaveats(i++, pair);
  }
}

}  // namespace

KubeletDocuments::KubeletDocuments(DocumentDecoder& decoder, Config::Builder view)
    : decoder(decoder), view(view), given(givenIn(view.asReader())) {}

KubeletDocuments::Given KubeletDocuments::givenIn(Config::Reader main) {
  auto machine = main.getMachine();
  auto cluster = main.getCluster();
  auto kubelet = machine.getKubelet();
  return Given{.kubelet = machine.hasKubelet(),
               .registerWithFqdn = kubelet.getRegisterWithFQDN(),
               .nodeIp = kubelet.hasNodeIP(),
               .skipNodeRegistration = kubelet.getSkipNodeRegistration(),
               .labels = machine.getNodeLabels().size() > 0,
               .annotations = machine.getNodeAnnotations().size() > 0,
               .taints = machine.getNodeTaints().size() > 0,
               .workloads = cluster.getAllowSchedulingOnControlPlanes(),
               .workloadsOnMasters = cluster.getAllowSchedulingOnMasters()};
}

bool KubeletDocuments::isOnControlPlane() const {
  return isControlPlane(view.asReader().getMachine().getType());
}

void KubeletDocuments::fields(Document& document, KubeletConfiguration::Reader fields) {
  for (auto other : fields.getOthers()) {
    KJ_IF_MAYBE (own, ownKubeletField(other.getKey())) {
      decoder.report(document, keyPath("config", own->name),
                     kj::str("the node sets this field itself: ", own->reason), insteadOf(*own));
    }
  }
}

void KubeletDocuments::kubelet(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::KubeletConfig>(document)) {
    constexpr auto kKey = "machine.kubelet"_kj;
    auto errors = decoder.errors();
    refuseBeside(decoder, document, given.kubelet, kKey);
    fields(document, d->getConfig());
    if (decoder.errors() > errors) return;
    auto out = view.getMachine().getKubelet();
    out.setImage(d->getImage());
    if (d->hasExtraArgs()) out.setExtraArgs(d->getExtraArgs());
    if (d->hasClusterDNS()) out.setClusterDNS(d->getClusterDNS());
    if (d->hasConfig()) out.setExtraConfig(d->getConfig());
    out.setDefaultRuntimeSeccompProfileEnabled(d->getDefaultRuntimeSeccompProfileEnabled());
    out.setDisableManifestsDirectory(true);
    decoder.from(document, "", kKey);
    decoder.fromAllOf(document, "config", "machine.kubelet.extraConfig");
  }
}

void KubeletDocuments::credentialProviders(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::KubeCredentialProviderConfig>(document)) {
    auto errors = decoder.errors();
    refuseBeside(decoder, document, given.kubelet, "machine.kubelet");
    if (decoder.errors() > errors) return;
    view.getMachine().getKubelet().setCredentialProviderConfig(d->getConfiguration());
    decoder.fromAllOf(document, "configuration", "machine.kubelet.credentialProviderConfig");
  }
}

void KubeletDocuments::besideNode(Document& document) {
  refuseBeside(decoder, document, given.registerWithFqdn, "machine.kubelet.registerWithFQDN");
  refuseBeside(decoder, document, given.nodeIp, "machine.kubelet.nodeIP");
  refuseBeside(decoder, document, given.skipNodeRegistration,
               "machine.kubelet.skipNodeRegistration");
  refuseBeside(decoder, document, given.labels, "machine.nodeLabels");
  refuseBeside(decoder, document, given.annotations, "machine.nodeAnnotations");
  refuseBeside(decoder, document, given.taints, "machine.nodeTaints");
  refuseBeside(decoder, document, given.workloads, "cluster.allowSchedulingOnControlPlanes");
  refuseBeside(decoder, document, given.workloadsOnMasters, "cluster.allowSchedulingOnMasters");
}

// The document says what a control-plane node is marked with, and the node marks itself.
void KubeletDocuments::roleOfNode(Document& document, document::KubeNodeConfig::Reader node) {
  if (!isOnControlPlane() || node.getSkipNodeRegistration()) return;
  auto label = entryCalled(node.getLabels(), kRoleName);
  if (label.orDefault("none"_kj).size() > 0) {
    decoder.report(
        document, label == nullptr ? kj::str("labels") : keyPath("labels", kRoleName),
        kj::str("each control-plane node has the label ", kRoleName, ", without a value"),
        kj::str("write ", kRoleName, ": \"\""));
  }
  KJ_IF_MAYBE (taint, entryCalled(node.getTaints(), kRoleName)) {
    if (isUsualRoleTaint(*taint)) return;
    decoder.report(document, keyPath("taints", kRoleName),
                   kj::str("this taint has the effect NoSchedule, and no value"),
                   "use NoSchedule, or remove it so that the node takes workloads");
  }
}

void KubeletDocuments::node(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::KubeNodeConfig>(document)) {
    auto errors = decoder.errors();
    besideNode(document);
    roleOfNode(document, *d);
    if (decoder.errors() > errors) return;
    auto machine = view.getMachine();
    auto kubelet = machine.getKubelet();
    kubelet.setSkipNodeRegistration(d->getSkipNodeRegistration());
    kubelet.setRegisterWithFQDN(d->getRegisterWithFQDN());
    if (d->hasNodeIP()) kubelet.setNodeIP(d->getNodeIP());
    bool marked = isOnControlPlane();
    writeEntries(d->getLabels(), marked, [&](unsigned n) { return machine.initNodeLabels(n); });
    writeEntries(d->getAnnotations(), false,
                 [&](unsigned n) { return machine.initNodeAnnotations(n); });
    writeEntries(d->getTaints(), marked, [&](unsigned n) { return machine.initNodeTaints(n); });
    bool workloads = entryCalled(d->getTaints(), kRoleName) == nullptr;
    if (marked && workloads) view.getCluster().setAllowSchedulingOnControlPlanes(true);
    for (auto key : {"skipNodeRegistration"_kj, "registerWithFQDN"_kj, "nodeIP"_kj}) {
      decoder.fromAllOf(document, key, kj::str("machine.kubelet.", key));
    }
    decoder.fromAllOf(document, "labels", "machine.nodeLabels");
    decoder.fromAllOf(document, "annotations", "machine.nodeAnnotations");
    decoder.fromAllOf(document, "taints", "machine.nodeTaints");
  }
}

}  // namespace talos::config
