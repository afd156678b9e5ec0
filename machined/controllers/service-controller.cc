#include "machined/controllers/service-controller.h"

#include <kj/map.h>
#include <kj/refcount.h>

#include "machined/resources/controller-outputs.h"
#include "rpc/types.capnp.h"

namespace talos::machined {
namespace {
constexpr kj::StringPtr kServiceOutputs[] = {"Services.v1alpha1.talos.dev"_kj};
}

// Shared with the listener, which the ring of events keeps longer than the controller lives.
struct ServiceController::Heard : public kj::Refcounted {
  kj::TreeMap<kj::String, bool> running;  // by service id
  kj::Maybe<kj::Function<void()>> wake;

  void hear(rpc::Event::Reader event) {
    if (!event.isService()) return;
    auto service = event.getService();
    bool runs = service.getState() == rpc::ServiceState::RUNNING;
    running.upsert(kj::str(service.getService()), runs, [](bool& old, bool fresh) { old = fresh; });
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

kj::ArrayPtr<const kj::StringPtr> ServiceController::outputs() const {
  return kServiceOutputs;
}

void ServiceController::wakeBy(kj::Function<void()> wake) {
  heard->wake = kj::mv(wake);
}

kj::Promise<void> ServiceController::reconcile(Store& store) {
  Outputs outputs("", kServiceOutputs[0], name());
  for (auto& entry : heard->running) {
    if (!entry.value) continue;
    auto spec = outputs.add<rpc::ServiceSpec>(entry.key);
    spec.setRunning(true);
    spec.setHealthy(isUp(entry.key));
  }
  outputs.apply(store);
  return kj::READY_NOW;
}

}  // namespace talos::machined
