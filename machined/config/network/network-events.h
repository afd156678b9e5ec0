// network.EventController: publishes the repairs of networkd (NetworkStatuses, `repaired`) as
// events, each once.
//
// networkd numbers its repairs from boot on. `keep` gets the number of the newest repair before its
// event is published; after a crash of the brain this number is restored as `lastReported`, so no
// event is published twice. An event can be lost if the brain crashes in between, or if there are
// more repairs at once than the resource holds; the resource still counts them.
#pragma once

#include <kj/async.h>

#include "machined/resources/controller-runtime.h"

namespace talos::machined {

class NetworkEventController final : public Controller {
 public:
  using Keep = kj::Function<kj::Promise<void>(uint64_t number)>;
  using Report = kj::Function<void(kj::StringPtr link, kj::StringPtr what)>;
  NetworkEventController(uint64_t lastReported, Keep keep, Report report)
      : lastReported(lastReported), keep(kj::mv(keep)), report(kj::mv(report)) {}

  kj::StringPtr name() const override { return "network.EventController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override { return nullptr; }
  kj::Promise<void> reconcile(Store& store) override;

 private:
  uint64_t lastReported;
  Keep keep;
  Report report;
};

}  // namespace talos::machined
