#include "machined/config/controllers/service-controller.h"

#include <kj/map.h>
#include <kj/refcount.h>

#include "machined/resources/controller-outputs.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::machined {
// The states, shared with the listener, which the ring of events keeps longer than the controller
// lives.
struct ServiceController::Heard : public kj::Refcounted {
  kj::TreeMap<kj::String, rpc::ServiceState> states;  // by service id
  kj::Maybe<kj::Function<void()>> wake;

  void hear(rpc::Event::Reader event) {
    if (!event.isService()) return;
    auto service = event.getService();
    states.upsert(kj::str(service.getService()), service.getState(),
                  [](rpc::ServiceState& old, rpc::ServiceState fresh) { old = fresh; });
    KJ_IF_MAYBE (w, wake) {
      (*w)();
    }
  }
};

ServiceController::ServiceController(Events& events, kj::Function<bool(kj::StringPtr)> isUp)
    : heard(kj::refcounted<Heard>()), isUp(kj::mv(isUp)) {
  events.onEvent(
      [heard = kj::addRef(*heard)](rpc::Event::Reader event) mutable { heard->hear(event); });
}

ServiceController::~ServiceController() noexcept(false) {
  heard->wake = nullptr;
}

kj::Array<kj::StringPtr> ServiceController::outputs() const {
  return typeNames<rpc::ServiceSpec>();
}

bool ServiceController::isStopping(kj::StringPtr id) const {
  KJ_IF_MAYBE (state, heard->states.find(id)) return *state == rpc::ServiceState::STOPPING;
  return false;
}

void ServiceController::wakeBy(kj::Function<void()> wake) {
  heard->wake = kj::mv(wake);
}

kj::Promise<void> ServiceController::reconcile(Store& store) {
  Outputs<rpc::ServiceSpec> outputs(name());
  for (auto& entry : heard->states) {
    if (entry.value != rpc::ServiceState::RUNNING && !isStopping(entry.key)) continue;
    auto spec = outputs.add(entry.key);
    spec.setRunning(true);
    spec.setHealthy(isUp(entry.key));
  }
  outputs.apply(store);
  return kj::READY_NOW;
}

}  // namespace talos::machined
