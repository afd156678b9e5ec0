// Checks machine.kubelet, machine.nodeLabels, nodeAnnotations and nodeTaints for values that make
// the kubelet, or the API server at the node's registration, refuse the whole request.
//
// Syntax: Kubernetes' documentation, "Labels and Selectors" and "Taints and Tolerations"; the size
// of annotations: TotalAnnotationSizeLimitB of its API machinery.

#include <string.h>

#include <set>

#include "common/base/reserved-names.h"
#include "common/config/kubernetes/kubelet-configuration.h"
#include "common/config/rules/config-check.h"
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
constexpr size_t kMostAnnotationBytes = 256 << 10;

// A kind of entries on the Node object.
struct NodeEntryKind {
  kj::StringPtr name;  // in messages
  kj::ArrayPtr<const kube::ReservedName> reserved;
  bool anyCase = false;  // capitals are allowed in front of the slash
};
const NodeEntryKind kLabelKind{.name = "a label"_kj, .reserved = kube::kReservedLabels},
    kAnnotationKind{
        .name = "an annotation"_kj, .reserved = kube::kReservedAnnotations, .anyCase = true},
    kTaintKind{.name = "a taint"_kj, .reserved = kube::kReservedTaints};

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

// Returns true for a subdomain as in RFC 1123.
bool isLabelPrefix(kj::ArrayPtr<const char> text) {
  char before = '.';
  for (char c : text) {
    if (!mayEndALabel(c) && c != '-' && c != '.') return false;
    bool atEdge = c == '.' || before == '.';
    if (atEdge && !mayEndALabel(c) && !mayEndALabel(before)) return false;
    before = c;
  }
  return mayEndALabel(before);
}

// Returns true for a name that no release has refused. Names that are not valid and pass are for
// isLabelPrefix().
bool isEarlierLabelKey(kj::StringPtr key, bool anyCase) {
  KJ_IF_MAYBE (slash, key.findFirst('/')) {
    auto prefix = kj::heapString(key.slice(0, *slash));
    for (char c : prefix) {
      if (!anyCase && c >= 'A' && c <= 'Z') return false;
    }
    return prefix.size() <= kLongestLabelPrefix && isDnsName(prefix) &&
           isLabelPart(key.slice(*slash + 1).asArray());
  }
  return isLabelPart(key.asArray());
}

bool isLabelValue(kj::ArrayPtr<const char> value) {
  return value.size() == 0 || isLabelPart(value);
}

void checkKey(Report& report, kj::StringPtr path, kj::StringPtr key, const NodeEntryKind& kind) {
  auto message = kj::str("\"", key, "\" is not a valid name of ", kind.name);
  constexpr kj::StringPtr kHint =
      "use at most 63 letters, digits, - _ and ., with a letter or digit at both ends, and with or "
      "without example.org/ before"_kj;
  if (!isEarlierLabelKey(key, kind.anyCase)) return report.error(path, kj::mv(message), kHint);
  KJ_IF_MAYBE (slash, key.findFirst('/')) {
    if (!isLabelPrefix(key.slice(0, *slash))) report.laterError(path, kj::mv(message), kHint);
  }
  KJ_IF_MAYBE (owner, kube::reservedFor(kind.reserved, key)) {
    report.laterError(path, kj::str("\"", key, "\" is ", kind.name, " of ", *owner),
                      "use another name");
  }
}

void checkLabels(Report& report, capnp::List<StringPair>::Reader labels) {
  for (auto label : labels) {
    auto path = keyPath("machine.nodeLabels", label.getKey());
    checkKey(report, path, label.getKey(), kLabelKind);
    if (!isLabelValue(label.getValue())) {
      report.error(path, kj::str("\"", label.getValue(), "\" is not a valid value of a label"),
                   "use at most 63 letters, digits, - _ and ., with a letter or digit at both "
                   "ends, or nothing");
    }
  }
}

// Values are any text.
void checkAnnotations(Report& report, capnp::List<StringPair>::Reader annotations) {
  size_t size = 0;
  for (auto annotation : annotations) {
    auto path = keyPath("machine.nodeAnnotations", annotation.getKey());
    checkKey(report, path, annotation.getKey(), kAnnotationKind);
    size += annotation.getKey().size() + annotation.getValue().size();
  }
  if (size > kMostAnnotationBytes) {
    report.laterError("machine.nodeAnnotations", kj::str("too large: names and values have ", size,
                                                         " bytes; at most ", kMostAnnotationBytes));
  }
}

void checkTaints(Report& report, capnp::List<StringPair>::Reader taints) {
  for (auto taint : taints) {
    auto path = keyPath("machine.nodeTaints", taint.getKey());
    checkKey(report, path, taint.getKey(), kTaintKind);
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

// Checks the ids of an idmapped mount. Earlier releases did not read these keys.
void checkMappings(Report& report, kj::StringPtr path, Mount::Reader mount, bool bind) {
  constexpr uint64_t kMostIds = 1ull << 32;
  auto check = [&](kj::StringPtr key, capnp::List<IdMapping>::Reader list, size_t others) {
    if (list.size() == 0) return;
    auto at = kj::str(path, ".", key);
    if (!bind) {
      report.laterError(at, kj::str("only files of a bind mount can be mapped"), "use type: bind");
    }
    if (others == 0) {
      report.laterError(at, kj::str("users are mapped without groups, or groups without users"),
                        "set both uidMappings and gidMappings");
    }
    for (auto i : kj::indices(list)) {
      uint64_t last =
          uint64_t(list[i].getSize()) + kj::max(list[i].getContainerID(), list[i].getHostID());
      if (list[i].getSize() > 0 && last <= kMostIds) continue;
      if (!report.isRead(kj::str(at, "[", i, "].size"))) continue;
      report.laterError(kj::str(at, "[", i, "].size"), kj::str("not a valid number of ids"),
                        "use 1 or more, so that the last id is below 2^32");
    }
  };
  check("uidMappings", mount.getUidMappings(), mount.getGidMappings().size());
  check("gidMappings", mount.getGidMappings(), mount.getUidMappings().size());
}

void checkMounts(Report& report, Kubelet::Reader kubelet) {
  size_t i = 0;
  for (auto mount : kubelet.getExtraMounts()) {
    auto path = kj::str("machine.kubelet.extraMounts[", i++, "]");
    report.absolutePath(kj::str(path, ".destination"), mount.getDestination());
    // The source of a bind mount is a path; of others it is whatever the file system takes.
    bool bind = mount.getType() == "bind" || mount.getType() == "";
    checkMappings(report, path, mount, bind);
    if (bind) report.absolutePath(kj::str(path, ".source"), mount.getSource());
    if (bind && mount.getSource().size() == 0 && !report.has(kj::str(path, ".source")))
      report.error(kj::str(path, ".source"), kj::str("a bind mount needs a source"));
  }
}

// Earlier releases did not read the key.
void checkSeccompDefault(Report& report, Config::Reader config) {
  constexpr auto kPath = "machine.kubelet.defaultRuntimeSeccompProfileEnabled"_kj;
  auto kubelet = config.getMachine().getKubelet();
  if (!kubelet.getDefaultRuntimeSeccompProfileEnabled()) return;
  auto release = kubeletRelease(config);
  if (!hasSeccompDefault(release)) {
    report.laterError(kPath,
                      kj::str("the kubelet of Kubernetes ", release.major, ".", release.minor,
                              " runs such pods without a filter"),
                      "remove it, or use Kubernetes 1.25 or newer");
  }
  for (auto other : kubelet.getExtraConfig().getOthers()) {
    if (other.getKey() != "seccompDefault") continue;
    report.laterError(kPath, kj::str("extraConfig.seccompDefault is set as well"),
                      "remove one of the two");
  }
}

// --- programs for credentials

constexpr kj::StringPtr kProviderPath = "machine.kubelet.credentialProviderConfig"_kj,
                        kConfigGroup = "kubelet.config.k8s.io/"_kj,
                        kRequestGroup = "credentialprovider.kubelet.k8s.io/"_kj,
                        kProviderConfigKind = "CredentialProviderConfig"_kj;

// Follows the check of the kubelet: the name of a file in a folder.
bool isProviderName(kj::StringPtr name) {
  if (name.size() == 0 || name == "." || name == "..") return false;
  for (char c : name) {
    if (c <= ' ' || c > '~' || c == '/') return false;
  }
  return true;
}

// Returns true for REGISTRY[:PORT][/PATH]. The kubelet refuses a scheme.
bool isMatchImage(kj::StringPtr text) {
  if (text.size() == 0 || strstr(text.cStr(), "://") != nullptr || text[0] == '/') return false;
  for (char c : text) {
    if (c <= ' ' || c > '~') return false;
  }
  return true;
}

void checkApi(Report& report, kj::StringPtr path, kj::StringPtr text, kj::StringPtr group) {
  if (text.size() == 0 || (text.startsWith(group) && text.size() > group.size())) return;
  report.error(path, kj::str("\"", text, "\" is not a valid version"),
               kj::str("use ", group, "v1, or remove it"));
}

void checkProvider(Report& report, kj::StringPtr path, CredentialProvider::Reader provider) {
  auto at = [&](kj::StringPtr key) { return kj::str(path, ".", key); };
  if (report.isRead(at("name")) && !isProviderName(provider.getName())) {
    report.error(at("name"),
                 kj::str("\"", provider.getName(), "\" is not a valid name of a program"),
                 "use the name of its file, without a folder");
  }
  auto images = provider.getMatchImages();
  if (images.size() == 0 && report.isRead(at("matchImages"))) {
    report.error(at("matchImages"), kj::str("the program is asked for no image"),
                 "name a registry, such as registry.example.org");
  }
  for (auto i : kj::indices(images)) {
    if (isMatchImage(images[i])) continue;
    report.error(kj::str(at("matchImages"), "[", i, "]"),
                 kj::str("\"", images[i], "\" does not name images"),
                 "use registry.example.org, *.example.org, or one of them with a port and a path");
  }
  report.duration(at("defaultCacheDuration"), provider.getDefaultCacheDuration(), 0 * kj::SECONDS,
                  "must not be negative", "use for example 12h, or 0s");
  checkApi(report, at("apiVersion"), provider.getApiVersion(), kRequestGroup);
}

void checkCredentialProviders(Report& report, Kubelet::Reader kubelet) {
  auto config = kubelet.getCredentialProviderConfig();
  checkApi(report, kj::str(kProviderPath, ".apiVersion"), config.getApiVersion(), kConfigGroup);
  if (config.getKind().size() > 0 && config.getKind() != kProviderConfigKind) {
    report.error(kj::str(kProviderPath, ".kind"),
                 kj::str("\"", config.getKind(), "\" is not a valid kind"),
                 kj::str("use ", kProviderConfigKind));
  }
  std::set<std::string> names;
  auto providers = config.getProviders();
  for (auto i : kj::indices(providers)) {
    auto path = kj::str(kProviderPath, ".providers[", i, "]");
    checkProvider(report, path, providers[i]);
    if (names.insert(providers[i].getName().cStr()).second) continue;
    report.error(kj::str(path, ".name"),
                 kj::str("\"", providers[i].getName(), "\" is a duplicate"));
  }
  if (providers.size() == 0) return;
  for (auto extra : kubelet.getExtraArgs()) {
    if (!extra.getKey().startsWith("image-credential-provider-")) continue;
    report.laterError(keyPath("machine.kubelet.extraArgs", extra.getKey()),
                      kj::str("credentialProviderConfig sets this argument as well"),
                      "remove one of the two");
  }
}

void checkProviderRelease(Report& report, Config::Reader config) {
  auto release = kubeletRelease(config);
  if (hasCredentialProviders(release)) return;
  if (config.getMachine().getKubelet().getCredentialProviderConfig().getProviders().size() == 0)
    return;
  report.error(kj::str(kProviderPath, ".providers"),
               kj::str("the kubelet of Kubernetes ", release.major, ".", release.minor,
                       " asks no programs for credentials"),
               "remove it, or use Kubernetes 1.24 or newer");
}

}  // namespace

void checkKubelet(Report& report, Machine::Reader machine) {
  auto kubelet = machine.getKubelet();
  report.image("machine.kubelet.image", kubelet.getImage());
  report.arguments("machine.kubelet.extraArgs", kubelet.getExtraArgs(), kKubeletArguments);
  checkMounts(report, kubelet);
  size_t i = 0;
  for (auto address : kubelet.getClusterDNS()) {
    auto path = kj::str("machine.kubelet.clusterDNS[", i++, "]");
    if (Ip::parse(address) == nullptr)
      report.error(path, kj::str("\"", address, "\" is not an IP address"));
  }
  checkCredentialProviders(report, kubelet);
  report.subnets("machine.kubelet.nodeIP.validSubnets", kubelet.getNodeIP().getValidSubnets());
  checkLabels(report, machine.getNodeLabels());
  checkAnnotations(report, machine.getNodeAnnotations());
  checkTaints(report, machine.getNodeTaints());
  if (!kubelet.getDisableManifestsDirectory()) return;
  for (auto file : machine.getFiles()) {
    if (!file.getPath().startsWith("/etc/kubernetes/manifests/")) continue;
    report.warn(
        "machine.kubelet.disableManifestsDirectory",
        kj::str("the kubelet does not run the static pod of machine.files in ", file.getPath()),
        "use machine.pods");
  }
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
  checkSeccompDefault(report, config);
  checkProviderRelease(report, config);
  auto shutdown = kubeletShutdown(extra, kubeletRelease(config));
  for (auto& mistake : shutdown.mistakes) {
    report.laterError(kj::str(kPath, ".", mistake.path), kj::mv(mistake.message), mistake.hint);
  }
}

}  // namespace talos::config
