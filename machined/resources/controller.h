// The controller runtime: watches inputs, runs reconcile once per coalesced batch, backs off on failure.
// Rules: spec resources.md §3, with its quirks fixed (the back-off is reset by a success).
#pragma once

#include <kj/async.h>
#include <kj/timer.h>

#include "machined/telemetry/logs.h"
#include "machined/resources/store.h"

namespace talos::machined {

class Controller {
 public:
  virtual ~Controller() noexcept(false) = default;
  struct Input { kj::StringPtr ns; kj::StringPtr type; kj::StringPtr id = ""; bool strong = false; };
  virtual kj::StringPtr name() const = 0;                       // "config.MachineTypeController"
  virtual kj::ArrayPtr<const Input> inputs() const = 0;
  virtual kj::StringPtr outputType() const = 0;                 // "" = writes no resources
  // Reads inputs, makes the output so. Idempotent. Owner of what it writes is name().
  virtual kj::Promise<void> reconcile(Store& store) = 0;
};

class ControllerRuntime {
 public:
  // `random` in [0,1) jitters the back-off; logs go to the ring "controller-runtime" in the spec's form.
  ControllerRuntime(Store& store, Logs& logs, kj::Timer& timer, const kj::Clock& clock, kj::Function<double()> random);
  ~ControllerRuntime() noexcept(false);
  void add(kj::Own<Controller> controller);
  // Wakes a controller that depends on something outside the store.
  void poke(kj::StringPtr controllerName);

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos::machined
