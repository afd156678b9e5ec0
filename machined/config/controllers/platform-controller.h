// runtime.PlatformController: the machine as its platform describes it, as PlatformMetadatas, and
// the network that the platform states, as PlatformConfigs.
//
// The platform's service is asked in the background, again and again until it has answered once;
// each new error is logged. Until then there is what it said at an earlier boot
// (platform-facts-file.h); without that the platform's name, and no PlatformConfig. What a platform
// states does not change while the machine runs. In the same way the machine reports that it is
// ready, where the platform expects that.
//
// After a crash both are done again; a platform takes a second report as it took the first. The
// records of before stay until there are facts again: the way to the service may lead through the
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
    // One attempt to get them; none: this platform has none.
    kj::Maybe<kj::Function<kj::Promise<KnownFacts>()>> facts;
    kj::Maybe<PlatformFactsFile&> file = nullptr;
    // One attempt to report that this machine is ready; none: nobody expects it.
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
  bool answered = false;  // in this boot; maybe that there is nothing
  kj::Function<void()> wake = []() {};
  kj::Promise<void> asking = nullptr, recalling = nullptr, reporting = nullptr;

  kj::Promise<void> recall(PlatformFactsFile& file);
  kj::Promise<void> ask(kj::Function<kj::Promise<KnownFacts>()>& facts);
  kj::Promise<void> report(kj::Function<kj::Promise<void>()>& once);
  // Until it has succeeded; each new error is logged with this message.
  kj::Promise<void> repeat(kj::StringPtr message, kj::Function<kj::Promise<void>()> once);
};

}  // namespace talos::machined
