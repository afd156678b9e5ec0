// runtime.PlatformController: the machine as its platform describes it, as PlatformMetadatas, and
// the network that the platform states, as PlatformConfigs.
//
// The platform's service is asked in the background, again and again until it has answered once;
// each new error is logged. Until then there is what it said at an earlier boot
// (platform-facts-file.h); without that the platform's name, and no PlatformConfig. What a platform
// states does not change while the machine runs. After a crash the records of before stay until
// there are facts again: the way to the service may lead through the network in them.
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
  kj::Promise<void> asking = nullptr, recalling = nullptr;

  kj::Promise<void> recall(PlatformFactsFile& file);
  kj::Promise<void> ask(kj::Function<kj::Promise<KnownFacts>()>& facts);
};

}  // namespace talos::machined
