// runtime.ScreenController: keeps the facts of the machine's own screen and hands them over when
// they have changed. It writes no resource.
#pragma once

#include <kj/function.h>

#include "machined/resources/controller-runtime.h"
#include "machined/screen/screen-facts.h"

namespace talos::machined {

class ScreenController final : public Controller {
 public:
  static constexpr kj::StringPtr kName = "runtime.ScreenController"_kj;

  struct Progress {
    kj::String stage, text;  // as in ScreenFacts
  };
  // A change of `progress` must poke this controller. `withNetwork`: the facts have links, gateways
  // and servers.
  ScreenController(bool withNetwork, kj::Function<Progress()> progress,
                   kj::Function<void(ScreenFacts)> show)
      : withNetwork(withNetwork), progress(kj::mv(progress)), show(kj::mv(show)) {}

  kj::StringPtr name() const override { return kName; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override { return nullptr; }
  kj::Promise<void> reconcile(Store& store) override;

 private:
  bool withNetwork;
  kj::Function<Progress()> progress;
  kj::Function<void(ScreenFacts)> show;
};

}  // namespace talos::machined
