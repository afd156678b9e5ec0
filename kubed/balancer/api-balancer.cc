#include "kubed/balancer/api-balancer.h"

#include <kj/debug.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/within.h"
#include "common/net/connection-forwarder.h"

namespace talos::kubed {

ApiBalancer::ApiBalancer(Dependencies deps, kj::AutoCloseFd listening, kj::String address,
                         kj::Function<void()> healthChanged)
    : deps(deps),
      healthChanged(kj::mv(healthChanged)),
      forwarding(forwardConnections(
                     deps.lowLevel, kj::mv(listening), kj::mv(address),
                     [this](kj::AsyncIoStream&) { return connect(); }, kMostConnections)
                     .eagerlyEvaluate([this](kj::Exception&& e) { failed = messageOf(e); })),
      checking(check().eagerlyEvaluate(nullptr)) {}

void ApiBalancer::setServers(kj::ArrayPtr<const ApiServer> servers) {
  if (!known.set(servers)) return;
  ++lists;
  changed.raise();
}

kj::Maybe<kj::StringPtr> ApiBalancer::failure() const {
  return failed.map([](const kj::String& error) { return kj::StringPtr(error); });
}

kj::Promise<kj::Own<kj::AsyncIoStream>> ApiBalancer::connect() {
  kj::Vector<ApiServer> tried;
  for (;;) {
    auto picked = known.pick(tried);
    KJ_IF_MAYBE (server, picked) {
      tried.add(server->clone());
    } else {
      // The forwarder does not log this type of exception; the reconciler logs the health instead.
      kj::throwFatalException(KJ_EXCEPTION(DISCONNECTED, "no API server is usable"));
    }
    auto reached = co_await attempt(tried.back().clone());
    KJ_IF_MAYBE (stream, reached) co_return kj::mv(*stream);
  }
}

// Returns nullptr if the server is not reached.
kj::Promise<kj::Maybe<kj::Own<kj::AsyncIoStream>>> ApiBalancer::attempt(ApiServer server) {
  auto begun = deps.clock.now();
  kj::Maybe<kj::Own<kj::AsyncIoStream>> reached;
  kj::Maybe<kj::String> error;
  co_await within(deps.timer, kCheckTimeout, deps.dial(server),
                  kj::str("no answer from ", server.name()))
      .then([&](auto&& stream) { reached = kj::mv(stream); },
            [&](kj::Exception&& e) { error = messageOf(e); });
  auto before = known.health();
  KJ_IF_MAYBE (text, error) {
    known.failed(server);
    log::debug("cannot connect to an API server", {{"server", server.name()}, {"error", *text}});
  } else {
    known.reached(server, deps.clock.now() - begun);
  }
  if (known.health() != before) healthChanged();
  co_return kj::mv(reached);
}

kj::Promise<void> ApiBalancer::check() {
  for (;;) {
    auto list = lists;
    auto servers = KJ_MAP(entry, known.all()) {
      return entry.server.clone();
    };
    for (auto& server : servers) co_await attempt(server.clone()).ignoreResult();
    auto until = deps.timer.now() + kCheckInterval;
    while (list == lists) {
      auto change = changed.next();
      co_await change.exclusiveJoin(deps.timer.afterDelay(kCheckIntervalOfNone));
      // Connections of clients may have found out meanwhile that no server is usable.
      if (known.health() != Health::kReached || deps.timer.now() >= until) break;
    }
  }
}

}  // namespace talos::kubed
