#include "kubed/nodes/api-endpoints-reconciler.h"

#include <algorithm>

#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/base/log.h"
#include "common/net/ip.h"
#include "common/text/texts.h"

namespace talos::kubed {
namespace {

constexpr auto kRefresh = 2 * kj::MINUTES;
constexpr Backoff::Pace kRetry = {
    .first = 1 * kj::SECONDS, .longest = 1 * kj::MINUTES, .chance0 = 0.75, .chance1 = 1.25};
constexpr size_t kMostEndpoints = 64;

}  // namespace

kj::Vector<kj::String> apiAddressesOf(const kube::Json& endpoints) {
  kj::Vector<kj::String> addresses;
  for (auto subset : kube::itemsAt(endpoints, {"subsets"})) {
    for (auto item : kube::itemsAt(*subset, {"addresses"})) {
      KJ_IF_MAYBE (address, Ip::parse(kube::textAt(*item, {"ip"}))) {
        if (addresses.size() < kMostEndpoints) addOnce(addresses, address->toString());
      }
    }
  }
  std::sort(addresses.begin(), addresses.end());
  return addresses;
}

uint16_t apiPortOf(const kube::Json& endpoints) {
  for (auto subset : kube::itemsAt(endpoints, {"subsets"})) {
    for (auto item : kube::itemsAt(*subset, {"ports"})) {
      auto port = kube::numberAt(*item, {"port"});
      if (port > 0 && port <= UINT16_MAX) return static_cast<uint16_t>(port);
    }
  }
  return 0;
}

ApiEndpointsReconciler::ApiEndpointsReconciler(NodeDependencies deps)
    : deps(deps), backoff(kRetry) {}

kj::Promise<void> ApiEndpointsReconciler::run() {
  for (;;) {
    auto change = deps.changed.next();
    auto client = deps.adapter.client();
    KJ_IF_MAYBE (kubernetes, client.tryGet<kj::Own<SharedKube>>()) {
      kj::Maybe<kj::String> failure;
      co_await refresh(**kubernetes).catch_([&](kj::Exception&& e) { failure = messageOf(e); });
      auto pause = kRefresh;
      KJ_IF_MAYBE (error, failure) {
        if (logged != *error) {
          log::warn("cannot read the endpoints of the API server; retrying", {{"error", *error}});
        }
        logged = kj::mv(*error);
        pause = backoff.next(deps.random());
      } else {
        logged = kj::str();
        backoff.reset();
      }
      change = change.exclusiveJoin(deps.timer.afterDelay(pause));
    }
    co_await change;
  }
}

kj::Promise<void> ApiEndpointsReconciler::refresh(SharedKube& kubernetes) {
  auto object = co_await (*kubernetes)
                    .get(kube::coreResource("endpoints", "Endpoints"), "default", "kubernetes");
  auto addresses = apiAddressesOf(object);
  if (addresses.empty()) co_return;  // no API server is ready, yet one has answered
  auto record = kj::heap<capnp::MallocMessageBuilder>();
  auto spec = record->initRoot<rpc::ApiEndpointsSpec>();
  fillTexts(spec.initAddresses(addresses.size()), addresses);
  spec.setPort(apiPortOf(object));
  StoreClient::Wanted wanted;
  wanted.insert(kj::str(kApiEndpointsId), kj::mv(record));
  co_await deps.store.replaceAll<rpc::ApiEndpointsSpec>(kj::mv(wanted));
}

}  // namespace talos::kubed
