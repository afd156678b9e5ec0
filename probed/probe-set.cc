#include "probed/probe-set.h"

#include <set>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/net/text-values.h"
#include "common/wire/store-adapter.h"

namespace talos::probed {
namespace {

constexpr auto kReportAgain = 1 * kj::SECONDS;

kj::Duration durationOf(kj::StringPtr text) {
  auto duration = config::parseDuration(text).orDefault(0 * kj::NANOSECONDS);
  return duration > 0 * kj::NANOSECONDS ? duration : 1 * kj::SECONDS;
}

}  // namespace

void ProbeState::restore(bool succeeded, kj::StringPtr error) {
  known = true;
  success = succeeded;
  lastError = kj::str(error);
}

bool ProbeState::add(kj::Maybe<kj::String> failure, unsigned threshold) {
  bool good = failure == nullptr;
  auto error = kj::mv(failure).orDefault(kj::String());
  if (good) {
    failures = 0;
  } else if (++failures < threshold) {
    return false;
  }
  failures = kj::min(failures, threshold);
  if (known && success == good && lastError == error) return false;
  known = true;
  success = good;
  lastError = kj::mv(error);
  return true;
}

ProbeSettings settingsOf(rpc::ProbeSpecSpec::Reader spec) {
  bool http = spec.hasHttp();
  return {.target = kj::str(http ? spec.getHttp().getUrl() : spec.getTcp().getEndpoint()),
          .http = http,
          .interval = durationOf(spec.getInterval()),
          .timeout = durationOf(http ? spec.getHttp().getTimeout() : spec.getTcp().getTimeout()),
          .failureThreshold = spec.getFailureThreshold()};
}

ProbeSet::ProbeSet(kj::Timer& timer, StoreClient& store, Ask& ask)
    : timer(timer),
      ask(ask),
      store(store),
      specs(store.watch<rpc::ProbeSpecSpec>([this]() { changed.raise(); })),
      statuses(store.watch<rpc::ProbeStatusSpec>([this]() { changed.raise(); })) {}

kj::Promise<void> ProbeSet::run() {
  return follow().exclusiveJoin(report());
}

kj::Promise<void> ProbeSet::follow() {
  for (;;) {
    auto next = changed.next();
    if (specs.synced() && statuses.synced()) {
      std::set<std::string> wanted;
      for (auto spec : specs) {
        wanted.insert(spec.id().cStr());
        update(spec);
      }
      std::erase_if(probes, [&](auto& entry) { return wanted.count(entry.first) == 0; });
      results.raise();
    }
    co_await next;
  }
}

void ProbeSet::update(ResourceOf<rpc::ProbeSpecSpec> spec) {
  auto settings = settingsOf(spec);
  auto [entry, added] = probes.try_emplace(spec.id().cStr());
  auto& probe = entry->second;
  if (added) {
    probe = kj::heap<Probe>();
    KJ_IF_MAYBE (status, statuses.find(spec.id())) {
      probe->state.restore(status->getSuccess(), status->getLastError());
    }
  } else if (probe->settings == settings) {
    return;
  }
  probe->asking = nullptr;  // It refers to the settings.
  probe->settings = kj::mv(settings);
  probe->asking = askAgain(entry->first.c_str(), *probe).eagerlyEvaluate([](kj::Exception&& e) {
    log::error("a probe has ended", {{"error", messageOf(e)}});
  });
}

kj::Promise<void> ProbeSet::askAgain(kj::StringPtr id, Probe& probe) {
  for (;;) {
    auto next = timer.now() + probe.settings.interval;
    auto failure = co_await errorOf([&]() { return ask(probe.settings); });
    bool before = probe.state.success, first = !probe.state.known;
    if (probe.state.add(kj::mv(failure), probe.settings.failureThreshold)) {
      auto& state = probe.state;
      if (state.success && (first || !before)) log::info("the probe succeeds", {{"probe", id}});
      if (!state.success && (first || before)) {
        log::warn("the probe fails", {{"probe", id}, {"error", state.lastError}});
      }
      results.raise();
    }
    co_await timer.atTime(next);
  }
}

kj::Promise<void> ProbeSet::report() {
  for (;;) {
    co_await results.wait();
    StoreClient::Wanted records;
    for (auto& entry : probes) {
      auto& state = entry.second->state;
      if (!state.known) continue;
      addRecord<rpc::ProbeStatusSpec>(records, kj::str(entry.first.c_str()),
                                      [&](rpc::ProbeStatusSpec::Builder out) {
                                        out.setSuccess(state.success);
                                        out.setLastError(state.lastError);
                                      });
    }
    auto failure =
        co_await errorOf([&]() { return store.replaceAll<rpc::ProbeStatusSpec>(kj::mv(records)); });
    KJ_IF_MAYBE (error, failure) {
      log::warn("cannot report the states of the probes; retrying", {{"error", *error}});
      co_await timer.afterDelay(kReportAgain);
      results.raise();
    }
  }
}

}  // namespace talos::probed
