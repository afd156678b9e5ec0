#include "machined/kubernetes/kube-versions.h"

#include "common/kube/node-roles.h"

namespace talos::machined {
namespace {

constexpr KubernetesVersion kFirst = {}, kOn = {~0u, 0, 0};
constexpr KubernetesVersion v1_20 = {1, 20}, v1_21 = {1, 21}, v1_22 = {1, 22}, v1_24 = {1, 24},
                            v1_25 = {1, 25}, v1_26 = {1, 26}, v1_27 = {1, 27}, v1_30 = {1, 30},
                            v1_31 = {1, 31}, v1_32 = {1, 32}, v1_33 = {1, 33};

struct Span {
  KubernetesVersion from, until;
};
constexpr Span kFacts[] = {
#define HAS(what, from, until) {from, until},
#include "machined/kubernetes/kube-versions.inc"
#undef HAS
};

// Returns the version itself if it is between supported ones: the table has the range of each fact.
KubernetesVersion nearest(KubernetesVersion version) {
  auto oldest = config::oldestKubernetes(), newest = config::newestKubernetes();
  if (version < oldest) return oldest;
  if (version >= KubernetesVersion{1, newest.minor + 1}) return newest;
  return version;
}

kj::String minorOf(KubernetesVersion version) {
  return kj::str(version.major, ".", version.minor);
}

}  // namespace

bool has(KubernetesVersion version, KubeFact fact) {
  auto& span = kFacts[static_cast<size_t>(fact)];
  return version >= span.from && version < span.until;
}

AssumedVersion versionOf(kj::StringPtr image, kj::StringPtr said) {
  auto version = config::kubernetesVersionOf(image);
  if (version == nullptr && said.size() > 0) version = config::parseKubernetesVersion(said);
  KJ_IF_MAYBE (known, version) {
    if (config::isSupportedKubernetes(*known)) return {*known, nullptr};
    auto assumed = nearest(*known);
    return {assumed, kj::str("Kubernetes ", minorOf(*known), " of ", image,
                             " is not supported; run as ", minorOf(assumed))};
  }
  auto assumed = config::kDefaultKubernetes;
  return {assumed, kj::str("the release of ", image, " is not known; run as ", minorOf(assumed),
                           "; set cluster.kubernetesVersion, or name the image with a tag")};
}

kj::StringPtr roleTaint(KubernetesVersion version) {
  return has(version, KubeFact::kMasterRole) ? kube::kMasterRole : kube::kControlPlaneRole;
}

}  // namespace talos::machined
