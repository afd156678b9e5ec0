#include "machined/kubernetes/kubelet/kubelet-files.h"

#include <errno.h>
#include <kj/debug.h>
#include <kj/encoding.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/config/kubernetes/endpoint.h"
#include "common/kube/kubeconfig.h"
#include "common/kube/node-proof.h"
#include "common/memory/secret-buffer.h"
#include "common/memory/zeroize.h"
#include "common/tls/authorities.h"
#include "common/tls/node-certificate.h"
#include "common/tls/public-key.h"
#include "machined/kubernetes/kubelet/credential-providers.h"
#include "machined/kubernetes/kubelet/node-drain.h"
#include "machined/kubernetes/static-pods.h"
#include "machined/system/credential-programs.h"

namespace talos::machined {
namespace {

using kube::kNodeGroup, kube::kNodeUser;
constexpr kj::StringPtr kKubeletPki = "/var/lib/kubelet/pki"_kj,
                        kFirstPair = "kubelet-client-first.pem"_kj;

// Returns the name in the client certificate; empty if it cannot be read.
kj::String registeredAs(kj::StringPtr path) {
  kj::String name;
  KJ_IF_MAYBE (pair, tryReadFile(path)) {
    KJ_DEFER(zeroize(pair->asArray()));
    auto problem = kj::runCatchingExceptions([&]() { name = pki::inspect(*pair).commonName; });
    (void)problem;  // the certificate is renewed
  }
  return name;
}

void writeIfOther(kj::StringPtr path, kj::ArrayPtr<const char> content, mode_t mode) {
  KJ_IF_MAYBE (before, tryReadFile(path)) {
    KJ_DEFER(zeroize(before->asArray()));
    if (before->asArray() == content) return;
  }
  writeFileAtomically(path, content, mode);
}

void writeMachineId(kj::StringPtr root) {
  auto path = kj::str(root, kMachineId);
  KJ_IF_MAYBE (there, tryReadFile(path)) {
    if (there->size() > 0) return;
  }
  writeFileAtomically(path, kj::str(kj::encodeHex(pki::randomBytes(16)), "\n"), 0444);
}

void removeFile(kj::StringPtr path) {
  if (unlink(path.cStr()) < 0 && errno != ENOENT) KJ_FAIL_SYSCALL("unlink", errno, path);
}

// Writes the kubeconfig for the kubelet's own certificate.
void writeOwnKubeconfig(kj::StringPtr root, rpc::KubeletSecretsSpec::Reader secrets) {
  auto authority = kj::str(secrets.getCa().asChars());
  auto server = serverOf(secrets.getBootstrapKubeconfig()),
       tlsName = tlsNameOf(secrets.getBootstrapKubeconfig());
  auto kubeconfig = kube::writeKubeconfig({.cluster = "default-cluster",
                                           .server = server,
                                           .tlsName = tlsName,
                                           .authority = authority,
                                           .user = "default-auth",
                                           .credentials = kube::ClientPairFile{kKubeletClientPair},
                                           .context = "default-context",
                                           .nameSpace = "default"});
  writeFileAtomically(kj::str(root, kKubeletKubeconfig), kj::StringPtr(kubeconfig), 0600);
}

bool usesBalancer(kj::StringPtr kubeconfig) {
  return serverOf(kubeconfig).startsWith(kj::str("https://", config::kBalancerHost, ":"));
}

// Returns true if both lead to the same cluster, and at least one does so by the balancer of this
// node. Then the certificate serves for both.
bool differByBalancer(kj::StringPtr one, kj::StringPtr other) {
  constexpr auto kAuthority = "certificate-authority-data"_kj;
  return kubeconfigValue(one, kAuthority) == kubeconfigValue(other, kAuthority) &&
         (usesBalancer(one) || usesBalancer(other));
}

void joinAnewIfElsewhere(kj::StringPtr root, rpc::KubeletSpecSpec::Reader spec,
                         rpc::KubeletSecretsSpec::Reader secrets) {
  auto path = kj::str(root, kKubeletKubeconfig), pair = kj::str(root, kKubeletClientPair);
  KJ_IF_MAYBE (there, tryReadFile(path)) {
    KJ_DEFER(zeroize(there->asArray()));
    auto name = registeredAs(pair);
    bool same = name.size() == 0 || name == kj::str(kNodeUser, spec.getNodename());
    if (same && leadsToThisNode(*there, secrets.getBootstrapKubeconfig())) return;
    if (same && differByBalancer(*there, secrets.getBootstrapKubeconfig())) {
      return writeOwnKubeconfig(root, secrets);
    }
    removeFile(path);
    removeFile(pair);
  }
}

// The kubelet replaces an expired certificate itself; it is not removed, because the clock may be
// wrong.
bool hasGoodCertificate(kj::StringPtr root, kj::StringPtr authority, kj::Date now) {
  if (tryReadFile(kj::str(root, kKubeletKubeconfig)) == nullptr) return false;
  KJ_IF_MAYBE (pair, tryReadFile(kj::str(root, kKubeletClientPair))) {
    KJ_DEFER(zeroize(pair->asArray()));
    bool good = false;
    kj::runCatchingExceptions(
        [&] { good = pki::inspect(*pair).notAfter > now && pki::isSignedBy(*pair, authority); });
    return good;
  }
  return false;
}

kj::String userOf(rpc::KubeletSpecSpec::Reader spec) {
  return kj::str(kNodeUser, spec.getNodename());
}

// Signs a certificate as the controller manager would.
pki::CertificateAndKey issueHere(rpc::KubeletSpecSpec::Reader spec, const KubeletIssuer& issuer,
                                 kj::Date now) {
  auto user = userOf(spec);
  // A clock that is not set yet may be years before the CA.
  auto begin = kj::max(now - kBackdated, pki::inspect(issuer.authority).notBefore);
  return pki::issue(issuer.authority, issuer.key,
                    {.commonName = user,
                     .organizations = kj::arr(kj::str(kNodeGroup)),
                     .server = false,
                     .lifetime = issuer.lifetime + kBackdated,
                     .notBefore = begin});
}

// Stores the pair as the kubelet does.
void keepPair(kj::StringPtr root, rpc::KubeletSecretsSpec::Reader secrets,
              kj::StringPtr certificate, kj::StringPtr key) {
  SecretBuffer pair;
  pair.add(certificate);
  if (!certificate.endsWith("\n")) pair.add("\n"_kj);
  pair.add(key);
  auto text = pair.copyText();
  KJ_DEFER(zeroize(text.asArray()));
  auto current = kj::str(root, kKubeletClientPair), fresh = kj::str(current, ".new");
  makeDirectories(kj::str(root, kKubeletPki), 0755);
  writeFileAtomically(kj::str(root, kKubeletPki, "/", kFirstPair), text, 0600);
  removeFile(fresh);
  KJ_SYSCALL(symlink(kFirstPair.cStr(), fresh.cStr()), fresh);
  KJ_SYSCALL(rename(fresh.cStr(), current.cStr()), fresh, current);
  writeOwnKubeconfig(root, secrets);
}

KubeletRequest requestOf(rpc::KubeletSpecSpec::Reader spec) {
  auto user = userOf(spec);
  auto key = pki::makeKey(pki::KeyType::kEcdsaP256);
  auto text =
      pki::makeRequest(key, {.commonName = user, .organizations = kj::arr(kj::str(kNodeGroup))});
  return {kj::mv(key), kj::mv(text)};
}

}  // namespace

bool leadsToThisNode(kj::StringPtr kubeconfig, kj::StringPtr bootstrapKubeconfig) {
  for (auto key : {"server"_kj, "tls-server-name"_kj, "certificate-authority-data"_kj}) {
    if (kubeconfigValue(kubeconfig, key) != kubeconfigValue(bootstrapKubeconfig, key)) return false;
  }
  return true;
}

KubeletIssuer KubeletIssuer::clone() const {
  return {kj::str(authority), pki::Pem(kj::str(kj::StringPtr(key))), lifetime};
}

void writeClientCas(kj::StringPtr root, rpc::KubeletSecretsSpec::Reader secrets) {
  // Only root can read the file; the CAs are no secret.
  writeIfOther(kj::str(root, kKubeletCa), secrets.getClientCAs().asChars(), 0500);
}

bool servesForAnotherCa(kj::StringPtr root, kj::StringPtr authorities) {
  KJ_IF_MAYBE (pair, tryReadFile(kj::str(root, kKubeletServerPair))) {
    KJ_DEFER(zeroize(pair->asArray()));
    return !pki::isSignedByAny(*pair, authorities);
  }
  return false;
}

namespace {

// Writes the config of the programs that give the kubelet credentials, or removes it. Throws
// FailedPrecondition if the system lacks a program: the kubelet would not start.
void writeCredentialProviders(kj::StringPtr root, rpc::KubeletSpecSpec::Reader spec,
                              rpc::KubeletSecretsSpec::Reader secrets) {
  auto path = kj::str(root, kCredentialProviderConfig);
  auto names = KJ_MAP(name, spec.getCredentialProviders()) {
    return kj::str(name);
  };
  if (names.size() == 0) return removeFile(path);
  for (auto& missing : missingPrograms(root, names)) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("machine.kubelet.credentialProviderConfig: ", missing.problem, "; remove ",
                 missing.name, ", or upgrade to a system that has it"));
  }
  writeIfOther(path, secrets.getCredentialProviders(), 0600);
}

}  // namespace

kj::Maybe<KubeletRequest> writeKubeletFiles(kj::StringPtr root, rpc::KubeletSpecSpec::Reader spec,
                                            rpc::KubeletSecretsSpec::Reader secrets,
                                            kj::Maybe<const KubeletIssuer&> issuer, kj::Date now) {
  makeDirectories(kj::str(root, kManifestsFolder), 0755);
  if (spec.getStaticPodPath().size() > 0) {
    makeDirectories(kj::str(root, spec.getStaticPodPath()), 0755);
  }
  makeDirectories(kj::str(root, "/etc/kubernetes/pki"), 0755);
  for (auto path : {"/var/lib/kubelet"_kj, "/var/lib/containerd"_kj, "/var/log/pods"_kj,
                    "/var/log/containers"_kj, "/var/mnt"_kj, "/usr/libexec/kubernetes"_kj,
                    "/etc/cni/net.d"_kj, "/opt/cni/bin"_kj}) {
    makeDirectories(kj::str(root, path), 0755);
  }
  for (auto mount : spec.getExtraMounts()) {
    if (mount.getSource().startsWith("/")) {
      struct stat found;
      auto source = kj::str(root, mount.getSource());
      if (stat(source.cStr(), &found) != 0) makeDirectories(source, 0700);
    }
  }
  writeMachineId(root);
  joinAnewIfElsewhere(root, spec, secrets);
  writeClientCas(root, secrets);
  removeFile(kj::str(root, kKubeletBootstrap));  // of an earlier release
  writeIfOther(kj::str(root, kKubeletConfig), spec.getConfig(), 0600);
  writeCredentialProviders(root, spec, secrets);
  if (!isRegistered(spec)) return nullptr;
  auto authority = kj::str(secrets.getCa().asChars());
  if (servesForAnotherCa(root, authority)) removeFile(kj::str(root, kKubeletServerPair));
  if (hasGoodCertificate(root, authority, now)) return nullptr;
  KJ_IF_MAYBE (i, issuer) {
    auto issued = issueHere(spec, *i, now);
    keepPair(root, secrets, issued.certificate, issued.key);
    log::info("signed the first certificate of the kubelet", {{"user", userOf(spec)}});
    return nullptr;
  }
  return requestOf(spec);
}

void keepKubeletCertificate(kj::StringPtr root, rpc::KubeletSpecSpec::Reader spec,
                            rpc::KubeletSecretsSpec::Reader secrets, const KubeletRequest& request,
                            kj::StringPtr certificate) {
  auto user = userOf(spec);
  auto info = pki::inspect(certificate);
  if (info.commonName != user) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("the certificate is for ", info.commonName, ", not for ", user));
  }
  if (!pki::isSignedBy(certificate, kj::str(secrets.getCa().asChars()))) {
    fail(ErrorKind::kInvalidArgument, "the certificate is not signed by cluster.ca");
  }
  pki::checkPair(certificate, request.key);
  keepPair(root, secrets, certificate, request.key);
  log::info("got the first certificate of the kubelet", {{"user", user}});
}

}  // namespace talos::machined
