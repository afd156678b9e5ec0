// runtime.PlatformController: publishes the machine as its platform describes it, as
// PlatformMetadatas, and the network that the platform states, as PlatformConfigs.
//
// The controller queries the platform's service in the background and retries until it has answered
// once; each new error is logged. Until then it publishes the facts of an earlier boot
// (platform-facts-file.h), or without those the platform's name and no PlatformConfig. A platform's
// facts do not change while the machine runs. In the same way the controller reports that the
// machine is ready, if the platform expects this.
//
// After a crash both are done again; a second report has the same effect as the first. The earlier
// records stay until there are facts again, because the route to the service may lead through the
// network in them.
#pragma once

#include <kj/function.h>
#include <kj/timer.h>

#include "machined/config/controllers/platform-facts-file.h"
#include "machined/confined/parser-client/known-facts.h"
#include "machined/resources/controller-runtime.h"

namespace talos::machined {

constexpr kj::StringPtr kPlatformConfigId = "platform"_kj;
constexpr kj::StringPtr kPlatformMetadataId = "platformmetadata"_kj;

class PlatformController final : public Controller {
 public:
  struct Dependencies {
    kj::StringPtr platform;  // metal, aws …
    kj::Timer& timer;
    kj::Function<double()> random;  // [0, 1)
    // Makes one attempt to get the facts; nullptr on a platform without facts.
    kj::Maybe<kj::Function<kj::Promise<KnownFacts>()>> facts;
    kj::Maybe<PlatformFactsFile&> file = nullptr;
    // Makes one attempt to report that this machine is ready; nullptr if the platform expects no
    // report.
    kj::Maybe<kj::Function<kj::Promise<void>()>> report = nullptr;
  };
  explicit PlatformController(Dependencies deps) : deps(kj::mv(deps)) {}

  kj::StringPtr name() const override { return "runtime.PlatformController"; }
  kj::Array<Input> inputs() const override { return nullptr; }
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;
  void wakeBy(kj::Function<void()> wake) override;

 private:
  Dependencies deps;
  KnownFacts known;
  bool answered = false;  // the platform has answered in this boot, possibly without facts
  kj::Function<void()> wake = []() {};
  kj::Promise<void> asking = nullptr, recalling = nullptr, reporting = nullptr;

  kj::Promise<void> recall(PlatformFactsFile& file);
  kj::Promise<void> ask(kj::Function<kj::Promise<KnownFacts>()>& facts);
  kj::Promise<void> report(kj::Function<kj::Promise<void>()>& once);
  // Repeats `once` until it succeeds; logs each new error with this message.
  kj::Promise<void> repeat(kj::StringPtr message, kj::Function<kj::Promise<void>()> once);
};

}  // namespace talos::machined
