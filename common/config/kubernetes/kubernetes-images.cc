#include "common/config/kubernetes/kubernetes-images.h"

#include <iterator>

namespace talos::config {
namespace {

constexpr size_t kMostVersionDigits = 4;

// Takes the number at the start of the text off it.
kj::Maybe<unsigned> takeNumber(kj::StringPtr& text) {
  unsigned value = 0;
  size_t digits = 0;
  for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits) {
    if (digits == kMostVersionDigits) return nullptr;
    value = value * 10 + static_cast<unsigned>(text[digits] - '0');
  }
  if (digits == 0) return nullptr;
  text = text.slice(digits);
  return value;
}

bool takeDot(kj::StringPtr& text) {
  if (!text.startsWith(".")) return false;
  text = text.slice(1);
  return true;
}

// Newer releases are at the new registry only; older ones stayed at the old one.
constexpr KubernetesVersion kMoved = {1, 25, 0};

// Minor releases of 1, each span with its ends.
struct Supported {
  unsigned first, last;
};
constexpr Supported kSupported[] = {{19, 20}, {30, 35}};

}  // namespace

bool isSupportedKubernetes(KubernetesVersion version) {
  for (auto& span : kSupported) {
    if (version.major == 1 && version.minor >= span.first && version.minor <= span.last)
      return true;
  }
  return false;
}

KubernetesVersion oldestKubernetes() {
  return {1, std::begin(kSupported)->first};
}

KubernetesVersion newestKubernetes() {
  return {1, std::rbegin(kSupported)->last};
}

bool hasDualStack(KubernetesVersion version) {
  return version >= KubernetesVersion{1, 21};
}

bool delaysShutdown(KubernetesVersion version) {
  return version >= KubernetesVersion{1, 21};
}

bool hasShutdownPriorities(KubernetesVersion version) {
  return version >= KubernetesVersion{1, 24};
}

bool hasSeccompDefault(KubernetesVersion version) {
  return version >= KubernetesVersion{1, 25};
}

bool hasCredentialProviders(KubernetesVersion version) {
  return version >= KubernetesVersion{1, 24};
}

bool limitsServiceSubnets(KubernetesVersion version) {
  return version < KubernetesVersion{1, 33};
}

bool hasAuthorizationFile(KubernetesVersion version) {
  return version >= KubernetesVersion{1, 30};
}

kj::String supportedKubernetesText() {
  auto spans = KJ_MAP(span, kSupported) {
    return kj::str("1.", span.first, " to 1.", span.last);
  };
  return kj::strArray(spans, ", ");
}

kj::StringPtr nameOf(KubernetesPart part) {
  switch (part) {
    case KubernetesPart::kApiServer:
      return "kube-apiserver"_kj;
    case KubernetesPart::kControllerManager:
      return "kube-controller-manager"_kj;
    case KubernetesPart::kScheduler:
      return "kube-scheduler"_kj;
    case KubernetesPart::kProxy:
      return "kube-proxy"_kj;
    case KubernetesPart::kKubelet:
      return "kubelet"_kj;
  }
  KJ_UNREACHABLE;
}

kj::Maybe<KubernetesVersion> parseKubernetesVersion(kj::StringPtr text) {
  if (text.startsWith("v")) text = text.slice(1);
  KubernetesVersion version;
  KJ_IF_MAYBE (major, takeNumber(text)) {
    version.major = *major;
  } else {
    return nullptr;
  }
  if (!takeDot(text)) return nullptr;
  KJ_IF_MAYBE (minor, takeNumber(text)) {
    version.minor = *minor;
  } else {
    return nullptr;
  }
  if (takeDot(text)) {
    KJ_IF_MAYBE (patch, takeNumber(text)) {
      version.patch = *patch;
    } else {
      return nullptr;
    }
  }
  // A suffix like -rc.0 or +k3s1; a tag writes the latter as -k3s1.
  if (text.size() > 0 && text[0] != '-' && text[0] != '+') return nullptr;
  return version;
}

kj::Maybe<KubernetesVersion> kubernetesVersionOf(kj::StringPtr image) {
  auto name = kj::heapString(image.slice(0, image.findFirst('@').orDefault(image.size())));
  KJ_IF_MAYBE (colon, name.findLast(':')) {
    auto tag = name.slice(*colon + 1);
    if (tag.findFirst('/') == nullptr) return parseKubernetesVersion(tag);  // else it was a port
  }
  return nullptr;
}

kj::String kubernetesRepository(KubernetesPart part, KubernetesVersion version) {
  bool moved = version >= kMoved;
  auto registry = part == KubernetesPart::kKubelet
                      ? moved ? "ghcr.io/siderolabs/"_kj : "ghcr.io/talos-systems/"_kj
                  : moved ? "registry.k8s.io/"_kj
                          : "k8s.gcr.io/"_kj;
  return kj::str(registry, nameOf(part));
}

kj::String kubernetesImage(KubernetesPart part, KubernetesVersion version) {
  return kj::str(kubernetesRepository(part, version), ":v", version.toString());
}

}  // namespace talos::config
