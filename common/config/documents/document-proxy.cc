// The document of kube-proxy: cluster.proxy of the view. Its pods have arguments and no file, so a
// field of the configuration becomes the argument that sets it.
//
// Reference: kubeproxy.config.k8s.io/v1alpha1, and the arguments of kube-proxy.

#include <set>
#include <string>

#include "common/config/documents/document-components.h"
#include "common/config/kubernetes/kubernetes-images.h"
#include "common/config/rules/config-check.h"
#include "common/text/foreign-text.h"

namespace talos::config {
namespace {

struct ProxyField {
  kj::StringPtr field, argument;
};
constexpr ProxyField kProxyFields[] = {
    {"bindAddress"_kj, "bind-address"_kj},
    {"bindAddressHardFail"_kj, "bind-address-hard-fail"_kj},
    {"clientConnection.burst"_kj, "kube-api-burst"_kj},
    {"clientConnection.contentType"_kj, "kube-api-content-type"_kj},
    {"clientConnection.qps"_kj, "kube-api-qps"_kj},
    {"clusterCIDR"_kj, "cluster-cidr"_kj},
    {"configSyncPeriod"_kj, "config-sync-period"_kj},
    {"conntrack.maxPerCore"_kj, "conntrack-max-per-core"_kj},
    {"conntrack.min"_kj, "conntrack-min"_kj},
    {"conntrack.tcpBeLiberal"_kj, "conntrack-tcp-be-liberal"_kj},
    {"conntrack.tcpCloseWaitTimeout"_kj, "conntrack-tcp-timeout-close-wait"_kj},
    {"conntrack.tcpEstablishedTimeout"_kj, "conntrack-tcp-timeout-established"_kj},
    {"conntrack.udpStreamTimeout"_kj, "conntrack-udp-timeout-stream"_kj},
    {"conntrack.udpTimeout"_kj, "conntrack-udp-timeout"_kj},
    {"detectLocal.bridgeInterface"_kj, "pod-bridge-interface"_kj},
    {"detectLocal.interfaceNamePrefix"_kj, "pod-interface-name-prefix"_kj},
    {"detectLocalMode"_kj, "detect-local-mode"_kj},
    {"enableProfiling"_kj, "profiling"_kj},
    {"featureGates"_kj, "feature-gates"_kj},
    {"healthzBindAddress"_kj, "healthz-bind-address"_kj},
    {"iptables.localhostNodePorts"_kj, "iptables-localhost-nodeports"_kj},
    {"iptables.masqueradeAll"_kj, "masquerade-all"_kj},
    {"iptables.masqueradeBit"_kj, "iptables-masquerade-bit"_kj},
    {"iptables.minSyncPeriod"_kj, "iptables-min-sync-period"_kj},
    {"iptables.syncPeriod"_kj, "iptables-sync-period"_kj},
    {"ipvs.excludeCIDRs"_kj, "ipvs-exclude-cidrs"_kj},
    {"ipvs.minSyncPeriod"_kj, "ipvs-min-sync-period"_kj},
    {"ipvs.scheduler"_kj, "ipvs-scheduler"_kj},
    {"ipvs.strictARP"_kj, "ipvs-strict-arp"_kj},
    {"ipvs.syncPeriod"_kj, "ipvs-sync-period"_kj},
    {"ipvs.tcpFinTimeout"_kj, "ipvs-tcpfin-timeout"_kj},
    {"ipvs.tcpTimeout"_kj, "ipvs-tcp-timeout"_kj},
    {"ipvs.udpTimeout"_kj, "ipvs-udp-timeout"_kj},
    {"logging.format"_kj, "logging-format"_kj},
    {"logging.verbosity"_kj, "v"_kj},
    {"metricsBindAddress"_kj, "metrics-bind-address"_kj},
    {"nodePortAddresses"_kj, "nodeport-addresses"_kj},
    {"oomScoreAdj"_kj, "oom-score-adj"_kj},
    {"showHiddenMetricsForVersion"_kj, "show-hidden-metrics-for-version"_kj},
};
// Fields that are not for the user.
struct FixedProxyField {
  kj::StringPtr field, reason, hint;
};
constexpr FixedProxyField kFixedProxyFields[] = {
    {"clientConnection.kubeconfig"_kj, "the DaemonSet has the kubeconfig of the cluster"_kj,
     "remove it"_kj},
    {"hostnameOverride"_kj, "each node has its own name"_kj, "remove it"_kj},
    {"mode"_kj, "it has a key of its own"_kj, "use mode of the document"_kj},
};
constexpr auto kProxyKey = "cluster.proxy"_kj;
constexpr auto kProxyGroup = "kubeproxy.config.k8s.io/"_kj,
               kProxyKind = "KubeProxyConfiguration"_kj;
constexpr KubernetesVersion kFirstWithNftables = {1, 31, 0};

kj::Maybe<kj::StringPtr> argumentOf(kj::StringPtr field) {
  for (auto& row : kProxyFields) {
    if (row.field == field) return row.argument;
  }
  return nullptr;
}

bool hasFieldsBelow(kj::StringPtr path) {
  for (auto& row : kProxyFields) {
    if (row.field.startsWith(kj::str(path, "."))) return true;
  }
  return false;
}

// Returns a value as an argument has it: a,b of a list, a=true,b=false of a mapping.
kj::String argumentText(const codec::YamlNode& value) {
  kj::Vector<kj::String> parts;
  for (auto item : value.items) parts.add(kj::str(item->text));
  for (auto& entry : value.entries) parts.add(kj::str(entry.key, "=", entry.value->text));
  return parts.empty() ? kj::str(value.text) : kj::strArray(parts, ",");
}

}  // namespace

ProxyDocuments::ProxyDocuments(DocumentDecoder& decoder, Config::Builder view)
    : decoder(decoder), view(view), given(view.asReader().getCluster().hasProxy()) {}

void ProxyDocuments::otherField(Document& document, kj::StringPtr path, kj::StringPtr text) {
  auto key = kj::str("config.", path);
  bool isHead = path == "kind" || path == "apiVersion";
  if (isHead) {
    if (path == "kind" ? text == kProxyKind : text.startsWith(kProxyGroup)) return;
    return decoder.report(document, key,
                          kj::str(jsonString(text), " is not that of a ", kProxyKind), "remove it");
  }
  for (auto& fixed : kFixedProxyFields) {
    if (fixed.field != path) continue;
    return decoder.report(document, key, kj::str(fixed.reason), fixed.hint);
  }
  decoder.report(document, key, kj::str("kube-proxy has no argument for this field"),
                 "remove it; with enabled: false, a manifest of yours can have the whole "
                 "configuration");
}

void ProxyDocuments::field(Document& document, kj::StringPtr path, const codec::YamlNode& value,
                           kj::Vector<Argument>& out) {
  if (value.kind == codec::YamlNode::Kind::kNull) return;
  KJ_IF_MAYBE (argument, argumentOf(path)) {
    auto text = argumentText(value);
    if (text.size() == 0) return;
    out.add(Argument{kj::str("config.", path), kj::str(*argument), kj::mv(text)});
  } else if (hasFieldsBelow(path) && value.kind == codec::YamlNode::Kind::kMapping) {
    fields(document, path, value, out);
  } else {
    otherField(document, path, value.text);
  }
}

void ProxyDocuments::fields(Document& document, kj::StringPtr path, const codec::YamlNode& mapping,
                            kj::Vector<Argument>& out) {
  for (auto& entry : mapping.entries) {
    auto below = path.size() == 0 ? kj::str(entry.key) : kj::str(path, ".", entry.key);
    field(document, below, *entry.value, out);
  }
}

void ProxyDocuments::mode(Document& document, document::KubeProxyConfig::Reader proxy) {
  if (proxy.getMode() != ProxyMode::NFTABLES || !proxy.getEnabled()) return;
  KJ_IF_MAYBE (version, kubernetesVersionOf(proxy.getImage())) {
    if (*version >= kFirstWithNftables) return;
    decoder.report(document, "mode",
                   kj::str("kube-proxy of Kubernetes ", version->major, ".", version->minor,
                           " has no mode nftables, which is the default of the document"),
                   "use iptables, or Kubernetes 1.31 or newer");
  }
}

void ProxyDocuments::check(Document& document, document::KubeProxyConfig::Reader proxy,
                           kj::ArrayPtr<const Argument> arguments) {
  needControlPlane(decoder, document, view.asReader());
  refuseBeside(decoder, document, given, kProxyKey);
  mode(document, proxy);
  auto resources = proxy.getResources();
  if (resources.getRequests().size() + resources.getLimits().size() > 0) {
    decoder.report(document, "resources", kj::str("the DaemonSet of kube-proxy has none"),
                   "remove it; kubectl -n kube-system set resources daemonset kube-proxy does it");
  }
  std::set<std::string> names;
  for (auto argument : proxy.getExtraArgs()) names.insert(argument.getKey().cStr());
  for (auto& argument : arguments) {
    if (names.insert(argument.name.cStr()).second) continue;
    decoder.report(document, argument.field,
                   kj::str("the argument ", argument.name, " is set as well"),
                   "remove one of the two");
  }
}

void ProxyDocuments::proxy(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::KubeProxyConfig>(document)) {
    auto errors = decoder.errors();
    kj::Vector<Argument> arguments;
    for (auto& entry : document.node.entries) {
      if (entry.key == "config") fields(document, "", *entry.value, arguments);
    }
    check(document, *d, arguments);
    if (decoder.errors() > errors) return;
    auto out = view.getCluster().initProxy();
    out.setDisabled(!d->getEnabled());
    out.setImage(d->getImage());
    out.setMode(d->getMode());
    if (d->hasExtraArgs()) out.setExtraArgs(d->getExtraArgs());
    auto list = kj::str(kProxyKey, ".extraArgs");
    Additions<StringPair> added(d->getExtraArgs().size());
    for (auto& argument : arguments) {
      kj::String path;
      auto pair = added.add(list, path);
      pair.setKey(argument.name);
      pair.setValue(argument.value);
      decoder.from(document, argument.field, keyPath(list, argument.name));
    }
    added.write(out.asReader().getExtraArgs(), [&](unsigned n) { return out.initExtraArgs(n); });
    decoder.from(document, "", kProxyKey);
    decoder.from(document, "enabled", kj::str(kProxyKey, ".disabled"));
  }
}

}  // namespace talos::config
