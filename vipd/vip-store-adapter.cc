#include "vipd/vip-store-adapter.h"

#include "common/base/date.h"
#include "common/base/log.h"

namespace talos::vipd {
namespace {

constexpr kj::StringPtr kEtcd = "etcd"_kj, kClient = "client"_kj, kWatcher = "kubed"_kj,
                        kApiServer = "kube-apiserver"_kj, kHcloud = "hcloud"_kj;
constexpr kj::Duration kUsualTtl = 2 * kj::SECONDS;

kj::StringPtr nameOf(Candidate::State state) {
  switch (state) {
    case Candidate::State::kIdle:
      return "idle";
    case Candidate::State::kWaiting:
      return "waiting";
    case Candidate::State::kHolder:
      return "holder";
  }
  KJ_UNREACHABLE;
}

}  // namespace

kj::Maybe<kj::String> apiObstacle(kj::Maybe<rpc::LocalApiStatusSpec::Reader> api, bool watched) {
  KJ_IF_MAYBE (status, api) {
    if (!watched || status->getReady() || !status->getEverReady()) return nullptr;
    return kj::str("kube-apiserver of this node is not ready: ", status->getMessage());
  }
  return nullptr;
}

Wanted::Vip wantedVip(const Ip& address, rpc::VipSpecSpec::Reader spec,
                      kj::Maybe<rpc::VipCredentialsSpec::Reader> credentials) {
  auto ttl = spec.getLeaseTtlMs() * kj::MILLISECONDS;
  Wanted::Vip vip{.address = address,
                  .link = kj::str(spec.getLinkName()),
                  .ttl = ttl > 0 * kj::SECONDS ? ttl : kUsualTtl,
                  .hcloud = spec.getProvider() == kHcloud,
                  .hcloudToken = nullptr};
  KJ_IF_MAYBE (given, credentials) vip.hcloudToken = kj::str(given->getApiToken());
  return vip;
}

StoreAdapter::StoreAdapter(StoreClient& store, TlsEndpoint& tls, kj::Function<void()> changed)
    : store(store),
      tls(tls),
      inputs(store, kj::mv(changed)),
      noCredentials(kj::str("waiting for the certificate of etcd's clients")) {
  inputs.watch(specs);
  inputs.watch(tokens);
  inputs.watch(platforms);
  inputs.watch(hostnames);
  inputs.watch(services, kEtcd);
  inputs.watch(secrets, kClient, [this] {
    takeCredentials();
    inputs.announce();
  });
  inputs.watch(memberships, kEtcd);
  inputs.watch(watchers, kWatcher);
  inputs.watch(apis, kApiServer);
}

StoreAdapter::~StoreAdapter() noexcept(false) = default;

void StoreAdapter::takeCredentials() {
  noCredentials = kj::str("waiting for the certificate of etcd's clients");
  KJ_IF_MAYBE (found, secrets.find(kClient)) {
    auto failure = kj::runCatchingExceptions(
        [&] { tls.replace(credentialsOf(found->getClient(), found->getCa())); });
    KJ_IF_MAYBE (e, failure) {
      noCredentials = kj::str("the certificate of etcd's clients is not valid: ", messageOf(*e));
    } else {
      noCredentials = nullptr;
    }
  } else {
    tls.close();
  }
}

kj::Maybe<kj::String> StoreAdapter::obstacle() {
  KJ_IF_MAYBE (service, services.find(kEtcd)) {
    if (!service->getRunning()) return kj::str("etcd of this node does not run");
    if (!service->getHealthy()) return kj::str("etcd of this node is not healthy");
  } else {
    return kj::str("etcd of this node does not run");
  }
  // Leaves while etcd still answers, so that another node gets the address at once.
  KJ_IF_MAYBE (membership, memberships.find(kEtcd)) {
    auto phase = membership->getPhase();
    if (phase == "leaving" || phase == "left")
      return kj::str("etcd of this node leaves its cluster");
  }
  KJ_IF_MAYBE (cause, noCredentials) return kj::str(*cause);
  bool watched = false;
  KJ_IF_MAYBE (service, watchers.find(kWatcher)) watched = service->getRunning();
  return apiObstacle(apis.find(kApiServer), watched);
}

kj::Maybe<Wanted> StoreAdapter::wanted() {
  if (!inputs.synced()) return nullptr;
  Wanted wanted;
  for (auto spec : specs) {
    KJ_IF_MAYBE (address, Ip::parse(spec.id())) {
      wanted.vips.add(wantedVip(*address, spec, tokens.find(spec.id())));
    } else {
      log::error("not a valid shared address", {{"id", spec.id()}});
    }
  }
  for (auto name : hostnames) wanted.host = kj::str(name.getHostname());
  for (auto platform : platforms) {
    if (platform.getPlatform() == kHcloud) wanted.instance = kj::str(platform.getInstanceId());
  }
  wanted.obstacle = obstacle();
  return kj::mv(wanted);
}

kj::Promise<void> StoreAdapter::publish(kj::Array<Shown> shown) {
  StoreClient::Wanted records;
  for (auto& one : shown) {
    addRecord<rpc::VipStatusSpec>(records, one.address.toString(), [&](auto spec) {
      spec.setLinkName(one.link);
      spec.setState(nameOf(one.status.state));
      spec.setHolder(one.status.holder);
      spec.setSince(dateText(one.status.since));
      KJ_IF_MAYBE (until, one.status.leaseUntil) spec.setLeaseUntil(dateText(*until));
      spec.setReason(one.status.reason);
      spec.setChanges(one.status.changes);
    });
  }
  return store.replaceAll<rpc::VipStatusSpec>(kj::mv(records));
}

}  // namespace talos::vipd
