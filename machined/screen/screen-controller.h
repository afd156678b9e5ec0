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
  // A change of `progress` must poke this controller.
  ScreenController(kj::Function<Progress()> progress, kj::Function<void(ScreenFacts)> show)
      : progress(kj::mv(progress)), show(kj::mv(show)) {}

  kj::StringPtr name() const override { return kName; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override { return nullptr; }
  kj::Promise<void> reconcile(Store& store) override;

 private:
  kj::Function<Progress()> progress;
  kj::Function<void(ScreenFacts)> show;
};

}  // namespace talos::machined
