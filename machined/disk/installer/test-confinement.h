// For tests: runs steps in the test's own process, with all its rights.
#pragma once

#include "machined/disk/installer/confinement.h"

namespace talos::install {

class NoConfinement final : public Confinement {
 public:
  void enter(StepKind, confine::LandlockPaths) override {}
  kj::String step(kj::Function<kj::String(Confinement&)> body) override { return body(*this); }
};

}  // namespace talos::install
