// v1alpha1.ServiceController: runtime/Services from the events of the services.
//
// A service that runs has a resource, any other has none (spec resources.md §4.2). One that is
// being stopped runs until it has ended, also if that came while it was being started and its
// process may not be there yet: who cleans up behind it waits for that. Its `healthy` is
// what the supervisor calls up: the last check was good, or there is no check; the original shows a
// service without a check as unhealthy for ever, and everything that waits for it waits with it.
#pragma once

#include "machined/logs/event-ring.h"
#include "machined/resources/controller-runtime.h"

namespace talos::machined {

class ServiceController final : public Controller {
 public:
  // `isUp` is the supervisor's answer for a service id. Hears what the ring of events holds
  // already, so it may be made after the services.
  ServiceController(Events& events, kj::Function<bool(kj::StringPtr)> isUp);
  ~ServiceController() noexcept(false);

  // For who does not call that a problem. Not in the spec, whose fields are a contract with
  // scripts: `running` has to stay as long as there is something to clean up behind, and what it
  // would say more is for one reader in this process, whom each change of the spec wakes.
  bool isStopping(kj::StringPtr id) const;

  kj::StringPtr name() const override { return "v1alpha1.ServiceController"; }
  kj::Array<Input> inputs() const override { return nullptr; }
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;
  void wakeBy(kj::Function<void()> wake) override;

 private:
  struct Heard;
  kj::Own<Heard> heard;
  kj::Function<bool(kj::StringPtr)> isUp;
};

}  // namespace talos::machined
