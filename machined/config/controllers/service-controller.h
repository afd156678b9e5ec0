// v1alpha1.ServiceController: runtime/Services from the events of the services.
//
// A running service has a resource, any other has none. One that is being stopped counts as running
// until it has exited, also when it was still starting: cleanup waits for that. `healthy` is the
// supervisor's "up": the last check was good, or there is no check; Talos 0.9 shows a service
// without a check as unhealthy for ever, and its dependents wait for ever.
#pragma once

#include "machined/logs/event-ring.h"
#include "machined/resources/controller-runtime.h"

namespace talos::machined {

class ServiceController final : public Controller {
 public:
  // `isUp` is the supervisor's answer for a service id. Reads the events of the ring too, so it may
  // be made after the services.
  ServiceController(Events& events, kj::Function<bool(kj::StringPtr)> isUp);
  ~ServiceController() noexcept(false);

  // A service that is being stopped is no problem. Not a field of the spec, whose fields are a
  // contract with scripts: only one reader in this process needs it, and each change of the spec
  // wakes that.
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
