// Checks machine.kubelet, machine.nodeLabels, nodeAnnotations and nodeTaints for values that make
// the kubelet, or the API server at the node's registration, refuse the whole request.
//
// Syntax: Kubernetes' documentation, "Labels and Selectors" and "Taints and Tolerations".

#include "common/config/config-check.h"
#include "common/config/kubelet-configuration.h"
#include "common/net/ip.h"
#include "common/net/text-values.h"

namespace talos::config {
namespace {

constexpr kj::StringPtr kKubeletArguments[] = {
    "bootstrap-kubeconfig"_kj,
    "kubeconfig"_kj,
    "container-runtime"_kj,
    "config"_kj,
    "dynamic-config-dir"_kj,
    "container-runtime-endpoint"_kj,
    "cert-dir"_kj,
    "cni-conf-dir"_kj,
    "hostname-override"_kj,
};

constexpr kj::StringPtr kEffects[] = {"NoSchedule"_kj, "PreferNoSchedule"_kj, "NoExecute"_kj};
constexpr size_t kLongestLabelPart = 63, kLongestLabelPrefix = 253;

bool mayEndALabel(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Returns true for the name of a label without its prefix; a value that is not empty has the same
// form.
bool isLabelPart(kj::ArrayPtr<const char> text) {
  if (text.size() == 0 || text.size() > kLongestLabelPart) return false;
  for (char c : text) {
    if (!mayEndALabel(c) && c != '-' && c != '_' && c != '.') return false;
  }
  return mayEndALabel(text.front()) && mayEndALabel(text.back());
}

constexpr kj::StringPtr kSystemAnnotations = "talos.dev/"_kj;

bool isLabelKey(kj::StringPtr key) {
  KJ_IF_MAYBE (slash, key.findFirst('/')) {
    auto prefix = kj::heapString(key.slice(0, *slash));
    for (char c : prefix) {
      if (c >= 'A' && c <= 'Z') return false;
    }
    return prefix.size() <= kLongestLabelPrefix && isDnsName(prefix) &&
           isLabelPart(key.slice(*slash + 1).asArray());
  }
  return isLabelPart(key.asArray());
}

bool isLabelValue(kj::ArrayPtr<const char> value) {
  return value.size() == 0 || isLabelPart(value);
}

void checkKey(Report& report, kj::StringPtr path, kj::StringPtr key, kj::StringPtr what) {
  if (isLabelKey(key)) return;
  report.error(path, kj::str("\"", key, "\" is not a valid name of ", what),
               "use letters, digits, - _ and ., at most 63, with or without example.org/ before");
}

void checkLabels(Report& report, capnp::List<StringPair>::Reader labels) {
  for (auto label : labels) {
    auto path = keyPath("machine.nodeLabels", label.getKey());
    checkKey(report, path, label.getKey(), "a label");
    if (!isLabelValue(label.getValue())) {
      report.error(path, kj::str("\"", label.getValue(), "\" is not a valid value of a label"),
                   "use letters, digits, - _ and ., at most 63, or nothing");
    }
  }
}

// Values are any text.
void checkAnnotations(Report& report, capnp::List<StringPair>::Reader annotations) {
  for (auto annotation : annotations) {
    auto path = keyPath("machine.nodeAnnotations", annotation.getKey());
    checkKey(report, path, annotation.getKey(), "an annotation");
    if (annotation.getKey().startsWith(kSystemAnnotations)) {
      report.error(path, kj::str("\"", annotation.getKey(), "\" is an annotation of the system"),
                   "use another name");
    }
  }
}

void checkTaints(Report& report, capnp::List<StringPair>::Reader taints) {
  for (auto taint : taints) {
    auto path = keyPath("machine.nodeTaints", taint.getKey());
    checkKey(report, path, taint.getKey(), "a taint");
    kj::StringPtr text = taint.getValue(), effect = text;
    bool known = false, good = true;
    KJ_IF_MAYBE (colon, text.findLast(':')) {
      effect = text.slice(*colon + 1);
      good = isLabelValue(text.slice(0, *colon));
    }
    for (auto e : kEffects) known = known || e == effect;
    if (!known || !good) {
      report.error(path, kj::str("\"", text, "\" is not a valid taint"),
                   "use VALUE:EFFECT or EFFECT; an effect is NoSchedule, PreferNoSchedule or "
                   "NoExecute");
    }
  }
}

void checkMounts(Report& report, Kubelet::Reader kubelet) {
  size_t i = 0;
  for (auto mount : kubelet.getExtraMounts()) {
    auto path = kj::str("machine.kubelet.extraMounts[", i++, "]");
    report.absolutePath(kj::str(path, ".destination"), mount.getDestination());
    // The source of a bind mount is a path; of others it is whatever the file system takes.
    bool bind = mount.getType() == "bind" || mount.getType() == "";
    if (bind) report.absolutePath(kj::str(path, ".source"), mount.getSource());
    if (bind && mount.getSource().size() == 0 && !report.has(kj::str(path, ".source")))
      report.error(kj::str(path, ".source"), kj::str("a bind mount needs a source"));
  }
}

}  // namespace

void checkKubelet(Report& report, Machine::Reader machine) {
  auto kubelet = machine.getKubelet();
  report.arguments("machine.kubelet.extraArgs", kubelet.getExtraArgs(), kKubeletArguments);
  checkMounts(report, kubelet);
  size_t i = 0;
  for (auto address : kubelet.getClusterDNS()) {
    auto path = kj::str("machine.kubelet.clusterDNS[", i++, "]");
    if (Ip::parse(address) == nullptr)
      report.error(path, kj::str("\"", address, "\" is not an IP address"));
  }
  report.subnets("machine.kubelet.nodeIP.validSubnets", kubelet.getNodeIP().getValidSubnets());
  checkLabels(report, machine.getNodeLabels());
  checkAnnotations(report, machine.getNodeAnnotations());
  checkTaints(report, machine.getNodeTaints());
}

void checkKubeletConfiguration(Report& report, Config::Reader config) {
  constexpr kj::StringPtr kPath = "machine.kubelet.extraConfig"_kj;
  auto extra = config.getMachine().getKubelet().getExtraConfig();
  for (auto other : extra.getOthers()) {
    KJ_IF_MAYBE (own, ownKubeletField(other.getKey())) {
      report.laterError(keyPath(kPath, own->name),
                        kj::str("the node sets this field itself: ", own->reason), own->instead);
    }
  }
  auto shutdown = kubeletShutdown(extra, kubeletRelease(config));
  for (auto& mistake : shutdown.mistakes) {
    report.laterError(kj::str(kPath, ".", mistake.path), kj::mv(mistake.message), mistake.hint);
  }
}

}  // namespace talos::config
