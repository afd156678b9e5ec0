#include "machined/kubernetes/kubernetes-secrets.h"

#include <kj/encoding.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/config/config.h"
#include "common/config/kubernetes/cluster-networks.h"
#include "common/net/ip.h"
#include "common/text/texts.h"
#include "common/tls/authorities.h"
#include "common/tls/public-key.h"
#include "common/wire/secret-file.h"
#include "machined/config/trust/stored-names.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/network-resources.capnp.h"

namespace talos::machined {
namespace {

constexpr size_t kMostKept = 1u << 20;
constexpr kj::StringPtr kMasters = "system:masters"_kj;
constexpr kj::StringPtr kCertificateKey = "client-certificate-data: "_kj;
constexpr kj::StringPtr kKeyKey = "client-key-data: "_kj;

// The identity of a client in the cluster.
struct ClusterClient {
  kj::StringPtr commonName, organization;
};
constexpr ClusterClient kKubeletClient = {"apiserver-kubelet-client"_kj, kMasters};
constexpr ClusterClient kFrontProxy = {"front-proxy-client"_kj, ""_kj};
constexpr ClusterClient kAdmin = {"talos:admin"_kj, kMasters};
constexpr ClusterClient kControllerManager = {"system:kube-controller-manager"_kj,
                                              "system:kube-controller-manager"_kj};
constexpr ClusterClient kScheduler = {"system:kube-scheduler"_kj, "system:kube-scheduler"_kj};
constexpr kj::StringPtr kServerOrganization = "kube-master"_kj;

using Pair = pki::CertificateAndKey;

kj::String textOf(capnp::Data::Reader pem) {
  return kj::str(pem.asChars());
}

kj::Array<kj::String> organizationsOf(const ClusterClient& client) {
  if (client.organization.size() == 0) return nullptr;
  return kj::arr(kj::str(client.organization));
}

Pair issueClient(const ClusterClient& client, kj::StringPtr authority, kj::StringPtr key,
                 kj::Duration lifetime, kj::Date now) {
  auto options = clientOptions(client.commonName, lifetime, now);
  options.organizations = organizationsOf(client);
  return pki::issue(authority, key, kj::mv(options));
}

// Returns true for another subject, an old certificate, or another CA.
bool isStale(kj::StringPtr certificate, const ClusterClient& client, kj::StringPtr authority,
             kj::Duration lifetime, kj::Date now) {
  auto info = pki::inspect(certificate);
  bool isHis =
      info.commonName == client.commonName &&
      (client.organization.size() == 0
           ? info.organizations.empty() || info.organizations[0].size() == 0
           : info.organizations.size() == 1 && info.organizations[0] == client.organization);
  return !isHis || !pki::isSignedBy(certificate, authority) ||
         renewalCause(info, lifetime, now) != nullptr;
}

// A certificate that cannot be read is issued again.
template <typename F>
bool orIfDamaged(F&& look) {
  bool result = true;
  kj::runCatchingExceptions([&] { result = look(); });
  return result;
}

void put(rpc::KeyPair::Builder out, const Pair& pair) {
  out.setCrt(pair.certificate.asBytes());
  out.setKey(pair.key.bytes());
}

// Kubeconfigs of this node have each of the two in one line.
kj::Maybe<pki::Pem> dataIn(kj::StringPtr kubeconfig, kj::StringPtr key) {
  for (size_t at = 0; at + key.size() <= kubeconfig.size(); ++at) {
    if (!kubeconfig.slice(at).startsWith(key)) continue;
    auto rest = kubeconfig.slice(at + key.size());
    auto end = rest.findFirst('\n').orDefault(rest.size());
    auto decoded = kj::decodeBase64(rest.slice(0, end));
    KJ_DEFER(zeroize(decoded.asBytes()));
    return pki::Pem(kj::str(decoded.asChars()));
  }
  return nullptr;
}

pki::Pem kubeconfigOf(const KubernetesIdentity& identity, const ClusterClient& client,
                      kj::StringPtr certificate, kj::StringPtr key) {
  auto context = kj::str(client.commonName, "@", identity.cluster);
  kube::KubeconfigContent content{.cluster = identity.cluster,
                                  .server = identity.server,
                                  .authority = identity.authority,
                                  .user = client.commonName,
                                  .credentials = kube::ClientPair{certificate, key},
                                  .context = context,
                                  .nameSpace = "default"};
  return kube::writeKubeconfig(content);
}

// Issues each certificate, or keeps the stored one.
class Renewal {
 public:
  Renewal(const KubernetesIdentity& identity, kj::Date now) : identity(identity), now(now) {}
  bool made = false;

  void server(rpc::KeyPair::Builder out, kj::Maybe<rpc::KeyPair::Reader> stored) {
    bool anew = orIfDamaged([&] {
      auto crt = textOf(KJ_REQUIRE_NONNULL(stored).getCrt());
      auto info = pki::inspect(crt);
      return !pki::isSignedBy(crt, identity.authority) ||
             renewalCause(info, identity.names, identity.lifetime, now) != nullptr;
    });
    if (!anew) return keepServer(out, KJ_ASSERT_NONNULL(stored));
    auto options = serverOptions(identity.names, identity.lifetime, now);
    options.organizations = kj::arr(kj::str(kServerOrganization));
    auto pair = pki::issue(identity.authority, identity.authorityKey, kj::mv(options));
    pair.certificate = pki::chainOf(pair.certificate, identity.behind);
    put(out, pair);
    made = true;
  }

  void client(rpc::KeyPair::Builder out, kj::Maybe<rpc::KeyPair::Reader> stored,
              const ClusterClient& who, kj::StringPtr authority, kj::StringPtr key) {
    bool anew = orIfDamaged([&] {
      return isStale(textOf(KJ_REQUIRE_NONNULL(stored).getCrt()), who, authority, identity.lifetime,
                     now);
    });
    if (!anew) return keep(out, KJ_ASSERT_NONNULL(stored));
    put(out, issueClient(who, authority, key, identity.lifetime, now));
    made = true;
  }

  pki::Pem kubeconfig(kj::Maybe<kj::StringPtr> stored, const ClusterClient& who) {
    kj::Maybe<pki::Pem> kept;
    orIfDamaged([&] {
      auto text = KJ_REQUIRE_NONNULL(stored);
      auto crt = KJ_REQUIRE_NONNULL(dataIn(text, kCertificateKey));
      auto key = KJ_REQUIRE_NONNULL(dataIn(text, kKeyKey));
      if (!isStale(crt, who, identity.authority, identity.lifetime, now)) {
        auto same = kubeconfigOf(identity, who, crt, key);
        // The key is kept, too, when another server or cluster name is all that has changed.
        if (kj::StringPtr(same) != text) made = true;
        kept = kj::mv(same);
      }
      return false;
    });
    KJ_IF_MAYBE (k, kept) return kj::mv(*k);
    made = true;
    auto pair = issueClient(who, identity.authority, identity.authorityKey, identity.lifetime, now);
    return kubeconfigOf(identity, who, pair.certificate, pair.key);
  }

 private:
  const KubernetesIdentity& identity;
  kj::Date now;

  void keepServer(rpc::KeyPair::Builder out, rpc::KeyPair::Reader stored) {
    keep(out, stored);
    auto before = textOf(stored.getCrt());
    auto now = pki::chainOf(before, identity.behind);
    if (now == before) return;
    out.setCrt(now.asBytes());
    made = true;
  }
  static void keep(rpc::KeyPair::Builder out, rpc::KeyPair::Reader stored) {
    out.setCrt(stored.getCrt());
    out.setKey(stored.getKey());
  }
};

// Returns true for an address of pods or services, or a shared one.
bool isForeign(kj::StringPtr address, kj::ArrayPtr<const kj::String> networks) {
  KJ_IF_MAYBE (ip, Ip::parse(address)) {
    if (ip->isLinkLocal()) return true;
    for (auto& network : networks) {
      KJ_IF_MAYBE (prefix, Prefix::parse(network)) {
        if (prefix->contains(*ip)) return true;
      }
    }
  }
  return false;
}

kj::Vector<kj::String> otherNetworks(config::Config::Reader config) {
  auto networks = config::podSubnets(config.getCluster());
  for (auto& subnet : config::serviceSubnets(config.getCluster())) networks.add(kj::mv(subnet));
  auto add = [&](config::Vip::Reader shared) {
    KJ_IF_MAYBE (ip, Ip::parse(shared.getIp())) networks.add(Prefix::host(*ip).toString());
  };
  for (auto interface : config.getMachine().getNetwork().getInterfaces()) {
    add(interface.getVip());
    for (auto vlan : interface.getVlans()) add(vlan.getVip());
  }
  return networks;
}

kj::Vector<pki::CertificateInfo> certificatesIn(rpc::KubernetesSecretsSpec::Reader secrets) {
  kj::Vector<pki::CertificateInfo> infos;
  for (auto pair :
       {secrets.getApiServer(), secrets.getApiServerKubeletClient(), secrets.getFrontProxy()}) {
    infos.add(pki::inspect(textOf(pair.getCrt())));
  }
  for (auto text : {secrets.getAdminKubeconfig(), secrets.getControllerManagerKubeconfig(),
                    secrets.getSchedulerKubeconfig()}) {
    infos.add(pki::inspect(KJ_REQUIRE_NONNULL(dataIn(text, kCertificateKey))));
  }
  return infos;
}

bool isTimeKnown(Store& store) {
  KJ_IF_MAYBE (status, store.tryGet<rpc::TimeStatusSpec>("node")) return status->getSynced();
  return false;
}

// Returns a time that is not before the certificates', because a clock that is not set yet may be
// far in the past.
kj::Date plausible(kj::Date now, bool timeKnown,
                   const kj::Maybe<rpc::KubernetesSecretsSpec::Reader>& stored) {
  if (!timeKnown) {
    kj::runCatchingExceptions([&] {
      KJ_IF_MAYBE (s, stored) now = kj::max(now, notBefore(*s));
    });
  }
  return now;
}

kj::Maybe<kj::Own<SecretMessage>> tryKeptSecrets(kj::StringPtr file) {
  kj::Maybe<kj::Own<SecretMessage>> result;
  auto failure = kj::runCatchingExceptions([&] { result = readKeptSecrets(file); });
  KJ_IF_MAYBE (e, failure) {
    log::error("cannot read the stored certificates of Kubernetes; issuing new ones",
               {{"file", file}, {"error", messageOf(*e)}});
  }
  return result;
}

}  // namespace

kj::Maybe<kj::Own<SecretMessage>> readKeptSecrets(kj::StringPtr file) {
  return readSecretFile<rpc::KubernetesSecretsSpec>(file, kMostKept);
}

KubernetesIdentity identityOf(rpc::RootSecretSpec::KubernetesRoot::Reader root, uint16_t localPort,
                              NodeNames node, kj::ArrayPtr<const kj::String> otherNetworks) {
  auto need = [](bool there, kj::StringPtr key) {
    if (!there) fail(ErrorKind::kFailedPrecondition, kj::str("missing ", key, " secret"));
  };
  need(root.getCa().getCrt().size() > 0 && root.getCa().getKey().size() > 0, "cluster.ca");
  need(root.getAggregatorCA().getCrt().size() > 0 && root.getAggregatorCA().getKey().size() > 0,
       "cluster.aggregatorCA");
  need(root.getServiceAccountKey().size() > 0, "cluster.serviceAccount");
  kj::Vector<kj::String> sans, addresses;
  for (auto san : root.getCertSANs()) sans.add(kj::str(san));
  for (auto ip : root.getApiServerIPs()) sans.add(kj::str(ip));
  for (auto& name : node.dns) sans.add(kj::mv(name));
  for (auto& address : node.addresses) {
    if (!isForeign(address, otherNetworks)) addresses.add(kj::mv(address));
  }
  KubernetesIdentity identity{
      .cluster = kj::str(root.getName().size() > 0 ? kj::StringPtr(root.getName()) : "local"_kj),
      .server = kj::str("https://127.0.0.1:", localPort),
      .authority = textOf(root.getCa().getCrt()),
      .aggregator = textOf(root.getAggregatorCA().getCrt()),
      .behind =
          pki::authoritiesOf(textOf(root.getCa().getCrt()), textOf(root.getAcceptedCAs())).behind,
      .authorityKey = pki::Pem(textOf(root.getCa().getKey())),
      .aggregatorKey = pki::Pem(textOf(root.getAggregatorCA().getKey())),
      .names = nodeNames("", "", addresses, sans)};
  identity.names.commonName = kj::str("kube-apiserver");
  return identity;
}

bool renewKubernetesSecrets(const KubernetesIdentity& identity,
                            kj::Maybe<rpc::KubernetesSecretsSpec::Reader> stored, kj::Date now,
                            rpc::KubernetesSecretsSpec::Builder out) {
  Renewal renewal(identity, now);
  using Reader = rpc::KubernetesSecretsSpec::Reader;
  auto old = [&](auto get) { return stored.map([&](Reader& s) { return get(s); }); };
  renewal.server(out.initApiServer(), old([](Reader& s) { return s.getApiServer(); }));
  renewal.client(out.initApiServerKubeletClient(),
                 old([](Reader& s) { return s.getApiServerKubeletClient(); }), kKubeletClient,
                 identity.authority, identity.authorityKey);
  renewal.client(out.initFrontProxy(), old([](Reader& s) { return s.getFrontProxy(); }),
                 kFrontProxy, identity.aggregator, identity.aggregatorKey);
  auto text = [&](auto get) {
    return stored.map([&](Reader& s) -> kj::StringPtr { return get(s); });
  };
  out.setAdminKubeconfig(kj::StringPtr(
      renewal.kubeconfig(text([](Reader& s) { return s.getAdminKubeconfig(); }), kAdmin)));
  out.setControllerManagerKubeconfig(kj::StringPtr(renewal.kubeconfig(
      text([](Reader& s) { return s.getControllerManagerKubeconfig(); }), kControllerManager)));
  out.setSchedulerKubeconfig(kj::StringPtr(
      renewal.kubeconfig(text([](Reader& s) { return s.getSchedulerKubeconfig(); }), kScheduler)));
  return renewal.made;
}

kj::Date halfLife(rpc::KubernetesSecretsSpec::Reader secrets) {
  auto infos = certificatesIn(secrets);
  auto first = talos::halfLife(infos[0]);
  for (auto& info : infos) first = kj::min(first, talos::halfLife(info));
  return first;
}

kj::Date notBefore(rpc::KubernetesSecretsSpec::Reader secrets) {
  auto newest = kj::UNIX_EPOCH;
  for (auto& info : certificatesIn(secrets)) newest = kj::max(newest, info.notBefore);
  return newest;
}

kj::Array<Controller::Input> KubernetesController::inputs() const {
  return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId),
                 input<rpc::RootSecretSpec>(kKubernetesRootId), input<rpc::NodeAddressSpec>(),
                 input<rpc::PlatformConfigSpec>(), input<rpc::HostnameSpecSpec>(),
                 input<rpc::TimeStatusSpec>());
}
kj::Array<kj::StringPtr> KubernetesController::outputs() const {
  return typeNames<rpc::KubernetesSecretsSpec>();
}

kj::Promise<void> KubernetesController::reconcile(Store& store) {
  KJ_IF_MAYBE (config, deps.readConfig(store)) {
    KJ_IF_MAYBE (root, store.tryGet<rpc::RootSecretSpec>(kKubernetesRootId)) {
      auto names = storedNames(store, nullptr);
      // Without a name or an address the certificate would change again soon.
      bool known = names.commonName.size() > 0 && !storedAddresses(store).empty();
      if (!known) return kj::READY_NOW;
      // A time before the CA's means that the clock is not set yet.
      auto authority = pki::inspect(textOf(root->getK8s().getCa().getCrt()));
      if (!isTimeKnown(store) && deps.clock.now() < authority.notBefore) return kj::READY_NOW;
      auto port = config::localApiServerPort(config->getCluster());
      auto identity = identityOf(root->getK8s(), port, kj::mv(names), otherNetworks(*config));
      identity.lifetime = deps.lifetime;
      return maintain(store, kj::mv(identity));
    }
  }
  Outputs<rpc::KubernetesSecretsSpec>(name()).apply(store);
  return kj::READY_NOW;
}

kj::Promise<void> KubernetesController::maintain(Store& store, KubernetesIdentity identity) {
  kj::Maybe<kj::Own<SecretMessage>> stored;
  KJ_IF_MAYBE (there, store.tryGet<rpc::KubernetesSecretsSpec>(kKubernetesSecretsId)) {
    auto copy = kj::heap<SecretMessage>();
    copy->setRoot(static_cast<const rpc::KubernetesSecretsSpec::Reader&>(*there));
    stored = kj::mv(copy);
  }
  kj::Maybe<kj::StringPtr> file;
  if (deps.isMounted()) file = deps.file;
  auto made =
      co_await deps.uv.blocking([identity = kj::mv(identity), stored = kj::mv(stored), file,
                                 now = deps.clock.now(), timeKnown = isTimeKnown(store)]() mutable {
        KJ_IF_MAYBE (path, file) {
          if (stored == nullptr) stored = tryKeptSecrets(*path);
        }
        auto result = kj::heap<SecretMessage>();
        auto old = stored.map([](kj::Own<SecretMessage>& message) {
          return message->getRoot<rpc::KubernetesSecretsSpec>().asReader();
        });
        bool isNew = renewKubernetesSecrets(identity, old, plausible(now, timeKnown, old),
                                            result->initRoot<rpc::KubernetesSecretsSpec>());
        KJ_IF_MAYBE (path, file) {
          if (isNew) writeSecretFile(*path, *result);
        }
        return result;
      });
  auto secrets = made->getRoot<rpc::KubernetesSecretsSpec>().asReader();
  Outputs<rpc::KubernetesSecretsSpec> outputs(name());
  outputs.set(kKubernetesSecretsId, secrets);
  outputs.apply(store);
  renewal.schedule(halfLife(secrets));
}

}  // namespace talos::machined
