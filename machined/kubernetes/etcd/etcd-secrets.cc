#include "machined/kubernetes/etcd/etcd-secrets.h"

#include <algorithm>

#include "common/text/texts.h"
#include "common/tls/node-certificate.h"
#include "common/tls/public-key.h"
#include "common/wire/roles.h"
#include "machined/config/controllers/controller-dependencies.h"
#include "machined/config/trust/certificate-renewal.h"
#include "machined/config/trust/stored-names.h"
#include "machined/config/trust/trust-config.h"
#include "machined/kubernetes/etcd/etcd-config.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/etcd-resources.capnp.h"
#include "rpc/network-resources.capnp.h"

namespace talos::machined {
namespace {

// The certificates that must be issued.
struct Needed {
  bool peer = true, server = true, client = true, api = true;
  bool authorities = true;  // the accepted CAs, or those that have signed this one, have changed
  bool any() const { return peer || server || client || api || authorities; }
};
struct Issued {
  kj::Maybe<pki::CertificateAndKey> peer, server, client, api;
};

// Issuing CAs of the config, copied for the thread pool.
struct Issuers {
  pki::CertificateAndKey etcd, api;
  kj::Duration lifetime, apiLifetime;
};

pki::CertificateAndKey copyOf(config::CertificateAndKey::Reader pair) {
  return {kj::str(pair.getCrt().asChars()), pki::Pem(kj::str(pair.getKey().asChars()))};
}

Issued issueNeeded(const Issuers& issuers, const NodeNames& names, const Needed& needed,
                   kj::Date now) {
  auto issue = [&](pki::LeafOptions options) {
    return pki::issue(issuers.etcd.certificate, issuers.etcd.key, kj::mv(options));
  };
  // A member is a client of the others, and its gateway is a client of the member itself.
  auto both = [&]() {
    auto options = serverOptions(names, issuers.lifetime, now);
    options.client = true;
    return options;
  };
  Issued issued;
  if (needed.peer) issued.peer = issue(both());
  if (needed.server) issued.server = issue(both());
  if (needed.client) issued.client = issue(clientOptions(names.commonName, issuers.lifetime, now));
  if (needed.api) {
    auto api = clientOptions(names.commonName, issuers.apiLifetime, now);
    api.organizations = kj::arr(kj::str(kRoleReader));
    issued.api = pki::issue(issuers.api.certificate, issuers.api.key, kj::mv(api));
  }
  return issued;
}

// Fills in the issued pair, or else the stored one.
void fill(rpc::KeyPair::Builder pair, const kj::Maybe<pki::CertificateAndKey>& issued,
          kj::Maybe<rpc::KeyPair::Reader> stored) {
  KJ_IF_MAYBE (i, issued) {
    fillPair(pair, *i);
  } else {
    KJ_IF_MAYBE (s, stored) {
      pair.setCrt(s->getCrt());
      pair.setKey(s->getKey());
    }
  }
}

pki::Authorities authoritiesOf(config::Etcd::Reader etcd) {
  return pki::authoritiesOf(kj::str(etcd.getCa().getCrt().asChars()),
                            acceptedCas(etcd.getAcceptedCAs()));
}

// Returns the chain to send: through `behind`, clients that know only another CA verify the member.
kj::String sentBy(rpc::KeyPair::Reader pair, kj::StringPtr behind) {
  return pki::chainOf(kj::str(pair.getCrt().asChars()), behind);
}

Needed neededBeside(rpc::EtcdSecretsSpec::Reader stored, config::Config::Reader config,
                    const NodeNames& names, kj::Duration etcdLifetime, kj::Date now) {
  auto authority = kj::str(config.getCluster().getEtcd().getCa().getCrt().asChars());
  auto isOfAnother = [&](rpc::KeyPair::Reader pair) {
    return !pki::isSignedBy(kj::str(pair.getCrt().asChars()), authority);
  };
  auto isDue = [&](rpc::KeyPair::Reader pair) {
    return isOfAnother(pair) ||
           renewalCause(inspectPair(pair), names, etcdLifetime, now) != nullptr;
  };
  auto etcd = config.getCluster().getEtcd();
  auto behind = authoritiesOf(etcd).behind;
  auto sendsAnother = [&](rpc::KeyPair::Reader pair) {
    return pair.getCrt() != sentBy(pair, behind).asBytes();
  };
  auto client = inspectPair(stored.getClient());
  auto lifetime = apiCertLifetime(config);
  return {.peer = isDue(stored.getEtcdPeer()),
          .server = isDue(stored.getServer()),
          .client = isOfAnother(stored.getClient()) || client.commonName != names.commonName ||
                    renewalCause(client, etcdLifetime, now) != nullptr,
          .api = stored.getApiCa() != apiAuthorities(config).trusted.asBytes() ||
                 renewalCause(inspectPair(stored.getApi()), lifetime, now) != nullptr,
          .authorities = stored.getCa() != etcdAuthorities(etcd).asBytes() ||
                         sendsAnother(stored.getEtcdPeer()) || sendsAnother(stored.getServer())};
}

kj::Date due(rpc::EtcdSecretsSpec::Reader stored) {
  return kj::min(halfLife(inspectPair(stored.getEtcdPeer())),
                 halfLife(inspectPair(stored.getApi())));
}

// Returns the names without shared addresses, which move between nodes.
NodeNames ownNames(Store& store) {
  auto names = storedNames(store, nullptr);
  kj::Vector<kj::String> own;
  for (auto& address : names.addresses) {
    if (store.tryGet<rpc::VipSpecSpec>(address) == nullptr) own.add(kj::mv(address));
  }
  // Other members may still call this one at an address that it had before.
  KJ_IF_MAYBE (spec, store.tryGet<rpc::EtcdSpecSpec>(kEtcdId)) {
    for (auto address : spec->getFormerAddresses()) addOnce(own, kj::str(address));
    std::ranges::sort(own);
  }
  names.addresses = kj::mv(own);
  return names;
}

}  // namespace

kj::String etcdAuthorities(config::Etcd::Reader etcd) {
  auto trusted = authoritiesOf(etcd).trusted;
  auto all = pki::certificatesIn(trusted);
  if (all.size() < 2) return trusted;
  std::sort(all.begin(), all.end());
  return kj::strArray(all, "");
}

kj::Array<Controller::Input> EtcdSecretsController::inputs() const {
  return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId), input<rpc::NodeAddressSpec>(),
                 input<rpc::PlatformConfigSpec>(), input<rpc::HostnameSpecSpec>(),
                 input<rpc::VipSpecSpec>(), input<rpc::TimeStatusSpec>(),
                 input<rpc::EtcdSpecSpec>());
}
kj::Array<kj::StringPtr> EtcdSecretsController::outputs() const {
  return typeNames<rpc::EtcdSecretsSpec>();
}

kj::Promise<void> EtcdSecretsController::reconcile(Store& store) {
  auto found = readConfig(store);
  KJ_IF_MAYBE (config, found) {
    if (runsEtcd(*config)) {
      auto names = ownNames(store);
      if (names.commonName.size() == 0) return kj::READY_NOW;  // the stored ones stay
      return maintain(store, *config, kj::mv(names));
    }
  }
  Outputs<rpc::EtcdSecretsSpec>(name()).apply(store);
  return kj::READY_NOW;
}

kj::Promise<void> EtcdSecretsController::maintain(Store& store, config::Config::Reader config,
                                                  NodeNames names) {
  Needed needed;
  capnp::MallocMessageBuilder
      copy;  // a copy, because the stored record may change while keys are made
  kj::Maybe<rpc::EtcdSecretsSpec::Reader> kept;
  KJ_IF_MAYBE (stored, store.tryGet<rpc::EtcdSecretsSpec>(kEtcdId)) {
    copy.setRoot(static_cast<const rpc::EtcdSecretsSpec::Reader&>(*stored));
    kept = copy.getRoot<rpc::EtcdSecretsSpec>().asReader();
    needed = neededBeside(*stored, config, names, lifetime, clock.now());
    if (!needed.any()) {
      renewal.schedule(due(*stored));
      co_return;
    }
  }
  Issuers issuers{copyOf(config.getCluster().getEtcd().getCa()),
                  copyOf(config.getMachine().getCa()), lifetime, apiCertLifetime(config)};
  auto authority = etcdAuthorities(config.getCluster().getEtcd()),
       behind = authoritiesOf(config.getCluster().getEtcd()).behind,
       apiAuthority = apiAuthorities(config).trusted;
  auto issued = co_await uv.blocking(
      [issuers = kj::mv(issuers), names = kj::mv(names), needed, now = clock.now()] {
        return issueNeeded(issuers, names, needed, now);
      });
  Outputs<rpc::EtcdSecretsSpec> outputs(name());
  auto etcd = outputs.add(kEtcdId), client = outputs.add(kEtcdClientId);
  etcd.setCa(authority.asBytes());
  etcd.setApiCa(apiAuthority.asBytes());
  auto old = [&](auto get) { return kept.map([&](auto& k) { return get(k); }); };
  fill(etcd.initEtcdPeer(), issued.peer, old([](auto& k) { return k.getEtcdPeer(); }));
  fill(etcd.initServer(), issued.server, old([](auto& k) { return k.getServer(); }));
  fill(etcd.initClient(), issued.client, old([](auto& k) { return k.getClient(); }));
  fill(etcd.initApi(), issued.api, old([](auto& k) { return k.getApi(); }));
  for (auto pair : {etcd.getEtcdPeer(), etcd.getServer()}) {
    pair.setCrt(sentBy(pair, behind).asBytes());
  }
  client.setCa(authority.asBytes());
  client.setClient(etcd.asReader().getClient());
  renewal.schedule(due(etcd.asReader()));
  outputs.apply(store);
}

kj::Own<Controller> etcdSecretsController(ControllerDependencies& deps) {
  return kj::heap<EtcdSecretsController>(
      deps.uv, deps.timer, deps.clock, KJ_BIND_METHOD(deps.config, tryConfig),
      certificateLifetime(deps.arguments, deps.platform, kEtcdLifetime, deps.warn));
}

}  // namespace talos::machined
