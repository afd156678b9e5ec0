#include "machined/config/controllers/platform-controller.h"

#include "common/base/backoff.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "machined/config/controllers/controller-dependencies.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/inventory-resources.capnp.h"
#include "rpc/network-resources.capnp.h"

namespace talos::machined {
namespace {

constexpr Backoff::Pace kPace = {1 * kj::SECONDS, 60 * kj::SECONDS, 2, 0.5, 1.5};

}  // namespace

kj::Array<kj::StringPtr> PlatformController::outputs() const {
  return typeNames<rpc::PlatformMetadataSpec, rpc::PlatformConfigSpec>();
}

void PlatformController::wakeBy(kj::Function<void()> w) {
  wake = kj::mv(w);
  KJ_IF_MAYBE (facts, deps.facts) {
    asking = ask(*facts).eagerlyEvaluate(nullptr);
    KJ_IF_MAYBE (file, deps.file) recalling = recall(*file).eagerlyEvaluate(nullptr);
  }
  KJ_IF_MAYBE (once, deps.report) {
    reporting = report(*once).eagerlyEvaluate(nullptr);
  }
}

kj::Promise<void> PlatformController::recall(PlatformFactsFile& file) {
  auto earlier = co_await file.earlier();
  if (answered || !earlier.exist()) co_return;
  log::info("until the platform answers, what it said at an earlier boot counts",
            {{"platform", deps.platform}});
  known = kj::mv(earlier);
  wake();
}

kj::Promise<void> PlatformController::repeat(kj::StringPtr message,
                                             kj::Function<kj::Promise<void>()> once) {
  kj::String logged;
  for (Backoff backoff(kPace);;) {
    kj::Maybe<kj::Exception> failure;
    co_await kj::evalNow([&]() { return once(); }).catch_([&](kj::Exception&& e) {
      failure = kj::mv(e);
    });
    if (failure == nullptr) co_return;
    auto error = messageOf(KJ_ASSERT_NONNULL(failure));
    if (error != logged) log::warn(message, {{"platform", deps.platform}, {"error", error}});
    logged = kj::mv(error);
    co_await deps.timer.afterDelay(backoff.next(deps.random()));
  }
}

kj::Promise<void> PlatformController::ask(kj::Function<kj::Promise<KnownFacts>()>& facts) {
  co_await repeat("cannot get the facts of the platform; retrying", [this, &facts]() {
    return facts().then([this](KnownFacts answer) { known = kj::mv(answer); });
  });
  for (auto problem : known.get().getProblems()) {
    log::warn("ignored a value that the platform states",
              {{"platform", deps.platform}, {"problem", problem}});
  }
  answered = true;
  wake();
  KJ_IF_MAYBE (file, deps.file) co_await file->keep(known);
}

kj::Promise<void> PlatformController::report(kj::Function<kj::Promise<void>()>& once) {
  co_await repeat("cannot report to the platform that this machine is ready; retrying",
                  [&once]() { return once(); });
  log::info("reported to the platform that this machine is ready", {{"platform", deps.platform}});
}

kj::Promise<void> PlatformController::reconcile(Store& store) {
  bool awaited = deps.facts != nullptr && !answered && !known.exist();
  if (awaited && store.tryGet<rpc::PlatformMetadataSpec>(kPlatformMetadataId) != nullptr) {
    return kj::READY_NOW;
  }
  auto facts = known.get();
  Outputs<rpc::PlatformMetadataSpec> metadata(name());
  auto spec = metadata.add(kPlatformMetadataId);
  if (known.exist()) {
    auto from = facts.getMetadata();
    spec.setHostname(from.getHostname());
    spec.setRegion(from.getRegion());
    spec.setZone(from.getZone());
    spec.setInstanceType(from.getInstanceType());
    spec.setInstanceId(from.getInstanceId());
    spec.setProviderId(from.getProviderId());
    spec.setSpot(from.getSpot());
    spec.setInternalDns(from.getInternalDns());
    spec.setExternalDns(from.getExternalDns());
  }
  spec.setPlatform(deps.platform);
  metadata.apply(store);

  Outputs<rpc::PlatformConfigSpec> configs(name());
  if (known.exist()) {
    auto config = configs.add(kPlatformConfigId);
    config.setNetwork(facts.getNetwork());
    config.setTimeServers(facts.getTimeServers());
    config.setExternalIPs(facts.getExternalAddresses());
    config.setProblems(facts.getProblems());
  }
  configs.apply(store);
  return kj::READY_NOW;
}

kj::Own<Controller> platformController(ControllerDependencies& deps) {
  return kj::heap<PlatformController>(
      PlatformController::Dependencies{.platform = deps.platform,
                                       .timer = deps.timer,
                                       .random = [&deps]() { return deps.random(); },
                                       .facts = kj::mv(deps.platformFacts),
                                       .file = deps.platformFactsFile,
                                       .report = kj::mv(deps.platformReport)});
}

}  // namespace talos::machined
