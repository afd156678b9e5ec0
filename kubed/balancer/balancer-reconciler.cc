#include "kubed/balancer/balancer-reconciler.h"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/net/ip.h"
#include "common/wire/rpc-server.h"

namespace talos::kubed {
namespace {

constexpr kj::StringPtr kConfigId = "k8s-loadbalancer-config"_kj, kStatusId = "k8s-loadbalancer"_kj;
constexpr auto kRefresh = 5 * kj::SECONDS;
constexpr kj::StringPtr kNoneUsable = "no API server is usable"_kj,
                        kNoneReached = "no API server has answered yet"_kj;

kj::Vector<ApiServer> serversOf(rpc::KubePrismConfigSpec::Reader config) {
  kj::Vector<ApiServer> servers;
  for (auto endpoint : config.getEndpoints()) {
    servers.add(ApiServer{kj::str(endpoint.getHost()), static_cast<uint16_t>(endpoint.getPort())});
  }
  return servers;
}

}  // namespace

BalancerReconciler::BalancerReconciler(ApiBalancer::Dependencies deps, StoreClient& store)
    : deps(deps), store(store) {
  configs = store.watch<rpc::KubePrismConfigSpec>([this] { changed.raise(); }, kConfigId);
}

kj::Promise<void> BalancerReconciler::run() {
  for (;;) {
    auto change = changed.next();
    if (configs.synced()) {
      follow();
      co_await report().catch_([](kj::Exception&& e) {
        log::warn("cannot store the state of the balancer of API servers; retrying",
                  {{"error", messageOf(e)}});
      });
    }
    co_await change.exclusiveJoin(deps.timer.afterDelay(kRefresh));
  }
}

void BalancerReconciler::follow() {
  auto config = configs.find(kConfigId);
  KJ_IF_MAYBE (wanted, config) {
    auto port = static_cast<uint16_t>(wanted->getPort());
    bool keeps = false;
    KJ_IF_MAYBE (present, running) {
      keeps = present->port == port && present->host == kj::StringPtr(wanted->getHost()) &&
              present->balancer->failure() == nullptr;
    }
    if (!keeps) listen(wanted->getHost(), port);
    KJ_IF_MAYBE (present, running) present->balancer->setServers(serversOf(*wanted));
  } else {
    if (running != nullptr) log::info("the balancer of API servers is off");
    running = nullptr;
    problem = kj::str();
    health = Health::kUnknown;
  }
}

void BalancerReconciler::listen(kj::StringPtr host, uint16_t port) {
  running = nullptr;
  health = Health::kUnknown;
  auto address = hostInUrl(host, port);
  auto failure = kj::runCatchingExceptions([&] {
    auto balancer = kj::heap<ApiBalancer>(deps, listenTcp(host, port), kj::str(address),
                                          [this] { changed.raise(); });
    running = Running{kj::str(host), port, kj::mv(balancer)};
  });
  KJ_IF_MAYBE (e, failure) {
    auto text = kj::str("cannot listen on ", address, ": ", messageOf(*e));
    if (text != problem) {
      log::warn("cannot listen for the balancer of API servers; retrying",
                {{"address", address}, {"error", messageOf(*e)}});
    }
    problem = kj::mv(text);
  } else {
    problem = kj::str();
    log::info("listening for the balancer of API servers", {{"address", address}});
  }
}

void BalancerReconciler::noteHealth(Health now) {
  if (now == health) return;
  health = now;
  if (now == Health::kReached) log::info("an API server is usable");
  if (now == Health::kNone) log::warn("no API server is usable; checking them every 2 s");
}

void BalancerReconciler::fill(rpc::KubePrismStatusSpec::Builder out,
                              rpc::KubePrismConfigSpec::Reader config) {
  out.setHost(config.getHost());
  KJ_IF_MAYBE (present, running) {
    auto& scores = present->balancer->scores();
    noteHealth(scores.health());
    out.setPort(present->port);
    out.setHealthy(health == Health::kReached);
    if (health == Health::kNone) out.setMessage(kNoneUsable);
    if (health == Health::kUnknown) out.setMessage(kNoneReached);
    auto entries = scores.all();
    auto list = out.initEndpoints(static_cast<unsigned>(entries.size()));
    for (auto i : kj::indices(entries)) {
      list[i].setEndpoint(entries[i].server.name());
      list[i].setUsable(entries[i].isUsable());
      list[i].setScore(entries[i].score);
    }
  } else {
    out.setMessage(problem);
  }
}

// Writes only a state that differs from the published one.
kj::Promise<void> BalancerReconciler::report() {
  StoreClient::Wanted wanted;
  kj::Array<capnp::word> state;
  auto config = configs.find(kConfigId);
  KJ_IF_MAYBE (enabled, config) {
    auto record = kj::heap<capnp::MallocMessageBuilder>();
    fill(record->initRoot<rpc::KubePrismStatusSpec>(), *enabled);
    state = capnp::messageToFlatArray(*record);
    wanted.insert(kj::str(kStatusId), kj::mv(record));
  }
  KJ_IF_MAYBE (before, reported) {
    if (before->asBytes() == state.asBytes()) co_return;
  }
  co_await store.replaceAll<rpc::KubePrismStatusSpec>(kj::mv(wanted));
  reported = kj::mv(state);
}

}  // namespace talos::kubed
