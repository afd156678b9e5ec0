// A slot for one piece of background work of a service, which the next piece replaces; and all
// services, as the parts of a single service see them.
//
// The promises of a service are in its slots and in the task set of all services, which must be
// destroyed before the services. A waiting task holds a reference to its service, because the
// service may be unloaded meanwhile.
#pragma once

#include <kj/refcount.h>

#include "machined/services/supervisor.h"

namespace talos::machined {

// All services, as a single service sees them.
class ServiceSet {
 public:
  virtual Supervisor::Dependencies& deps() = 0;
  virtual kj::TaskSet& tasks() = 0;
  virtual void failed(kj::Exception&& e) = 0;  // reports a failure of background work
  virtual bool closed() const = 0;             // true if nothing may be started any more
  virtual bool isUp(kj::StringPtr id) const = 0;
  virtual bool isStarting(kj::StringPtr id) const = 0;  // not up, but started
  virtual kj::Promise<void> change() = 0;               // resolves when a service has changed
  virtual void changed() = 0;

 protected:
  ~ServiceSet() = default;
};

class ServiceWork {
 public:
  // `service` owns the slot, and is kept alive until replaced work is destroyed.
  ServiceWork(ServiceSet& all, kj::Refcounted& service) : all(all), service(service) {}
  KJ_DISALLOW_COPY_AND_MOVE(ServiceWork);

  // Puts new work in the place of the old. The work may take a step at once, and that step may
  // replace the work. So it starts in the next turn of the event loop, when it is in its slot.
  void begin(kj::Function<kj::Promise<void>()> next) {
    replace(kj::evalLater(kj::mv(next)).eagerlyEvaluate([&all = all](kj::Exception&& e) {
      all.failed(kj::mv(e));
    }));
  }
  void drop() { replace(nullptr); }

 private:
  ServiceSet& all;
  kj::Refcounted& service;
  kj::Promise<void> work = nullptr;

  // The caller may run inside the old promise, so that is destroyed in the next turn of the event
  // loop, and the reference to the service after it. Until then the old work may take another step,
  // so it compares ServiceStatus::turn() before it has an effect.
  void replace(kj::Promise<void> next) {
    struct Old {
      kj::Own<kj::Refcounted> service;
      kj::Promise<void> work;
    };
    all.tasks().add(kj::evalLater([old = Old{kj::addRef(service), kj::mv(work)}]() {}));
    work = kj::mv(next);
  }
};

}  // namespace talos::machined
