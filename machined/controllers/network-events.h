// network.EventController: what networkd has made good (NetworkStatuses, `repaired`) as events,
// each once.
//
// networkd counts its repairs for as long as the machine is up. The number of the newest one that
// was told is given to `keep` before it is told, and comes back as `told` after a crash of the
// brain: what is told is told once, and one whose telling a crash came between is left to the
// resource, as is what there was more of at once than the resource holds.
#pragma once

#include <kj/async.h>

#include "machined/resources/controller-runtime.h"

namespace talos::machined {

class NetworkEventController final : public Controller {
 public:
  using Keep = kj::Function<kj::Promise<void>(uint64_t number)>;
  using Tell = kj::Function<void(kj::StringPtr link, kj::StringPtr what)>;
  NetworkEventController(uint64_t told, Keep keep, Tell tell)
      : told(told), keep(kj::mv(keep)), tell(kj::mv(tell)) {}

  kj::StringPtr name() const override { return "network.EventController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override { return nullptr; }
  kj::Promise<void> reconcile(Store& store) override;

 private:
  uint64_t told;
  Keep keep;
  Tell tell;
};

}  // namespace talos::machined
