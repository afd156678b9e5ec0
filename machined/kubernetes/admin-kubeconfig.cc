#include "machined/kubernetes/admin-kubeconfig.h"

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/kube/kubeconfig.h"
#include "common/net/text-values.h"
#include "common/tls/node-certificate.h"

namespace talos::machined {
namespace {

constexpr auto kAdminLifetime = 8760 * kj::HOURS;
constexpr auto kShortestAdminLifetime = 1 * kj::HOURS;  // a shorter lifetime is useless
constexpr kj::StringPtr kAdminName = "admin"_kj, kAdminGroup = "system:masters"_kj;

}  // namespace

AdminKubeconfig adminKubeconfigOf(rpc::RootSecretSpec::KubernetesRoot::Reader root,
                                  kj::StringPtr certLifetime) {
  auto ca = root.getCa();
  if (ca.getCrt().size() == 0 || ca.getKey().size() == 0) {
    fail(ErrorKind::kFailedPrecondition, "missing cluster.ca secret");
  }
  auto lifetime = config::parseDuration(certLifetime).orDefault(kAdminLifetime);
  return {
      .cluster = kj::str(root.getName().size() > 0 ? kj::StringPtr(root.getName()) : "local"_kj),
      .server = kj::str(root.getEndpoint()),
      .authority = kj::str(ca.getCrt().asChars()),
      .authorityKey = pki::Pem(kj::str(ca.getKey().asChars())),
      .lifetime = kj::max(lifetime, kShortestAdminLifetime)};
}

pki::Pem writeAdminKubeconfig(const AdminKubeconfig& wanted, kj::Date now) {
  auto authority = pki::inspect(wanted.authority);
  if (now < authority.notBefore) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("the clock of this node is not set: it is ", dateText(now),
                 ", before cluster.ca was made; retry when it is set"));
  }
  auto begin = kj::max(now - kBackdated, authority.notBefore);
  auto end = kj::min(now + wanted.lifetime, authority.notAfter);
  auto pair = pki::issue(wanted.authority, wanted.authorityKey,
                         {.commonName = kAdminName,
                          .organizations = kj::arr(kj::str(kAdminGroup)),
                          .server = false,
                          .lifetime = end - begin,
                          .notBefore = begin});
  auto user = kj::str(kAdminName, "@", wanted.cluster);
  return kube::writeKubeconfig({.cluster = wanted.cluster,
                                .server = wanted.server,
                                .authority = wanted.authority,
                                .user = user,
                                .credentials = kube::ClientPair{pair.certificate, pair.key},
                                .context = user,
                                .nameSpace = "default"});
}

}  // namespace talos::machined
