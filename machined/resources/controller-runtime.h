// The controller runtime: watches inputs, runs reconcile once per coalesced batch, backs off on
// failure. As Talos' runtime (COSI), but a success resets the back-off.
//
// A controller sees the store through a view that allows only what it declared. It runs once when
// it is added, after each change of an input (a burst is one run), when it is poked, and when one
// of its outputs that was being torn down has become free. Runs of one controller never overlap.
// After a crash of the brain every controller runs once on the recovered store and converges.
#pragma once

#include <kj/async.h>
#include <kj/timer.h>

#include "machined/logs/log-store.h"
#include "machined/resources/controller-dependencies.h"
#include "machined/resources/store.h"

namespace talos::machined {

class Controller {
 public:
  virtual ~Controller() noexcept(false) = default;
  // An input in the type's default namespace; an empty ID: the whole kind.
  struct Input {
    kj::StringPtr type;
    kj::StringPtr id = "";
    bool holds = false;  // the controller adds and removes finalizers
  };
  template <typename Spec>
  static Input input(kj::StringPtr id = "") {
    return {typeName<Spec>(), id};
  }
  template <typename Spec>
  static Input heldInput() {
    return {.type = typeName<Spec>(), .holds = true};
  }
  virtual kj::StringPtr name() const = 0;  // "config.MachineTypeController"
  virtual kj::Array<Input> inputs() const = 0;
  // Returns the full names of the types that only this controller writes (typeNames<Spec...>());
  // may be empty.
  virtual kj::Array<kj::StringPtr> outputs() const = 0;
  // Reads the inputs and writes the outputs. Idempotent. name() owns the outputs. A run that has
  // not ended after kReconcileDeadline is dropped and counts as failed.
  virtual kj::Promise<void> reconcile(Store& store) = 0;
  // For a controller that also depends on something outside the store: `wake` requests a run, any
  // number of times. Called once, before the first run; `wake` is valid as long as the controller.
  virtual void wakeBy(kj::Function<void()> wake) {}
};

constexpr auto kReconcileDeadline = 2 * kj::MINUTES;

class ControllerRuntime {
 public:
  // `random` in [0,1) jitters the back-off; `log` gets lines with a newline in the form of Talos'
  // log: the ring kControllerLog.
  ControllerRuntime(Store& store, kj::Function<void(kj::StringPtr)> log, kj::Timer& timer,
                    const kj::Clock& clock, kj::Function<double()> random);
  ControllerRuntime(Store& store, Logs& logs, kj::Timer& timer, const kj::Clock& clock,
                    kj::Function<double()> random);
  ~ControllerRuntime() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(ControllerRuntime);

  // Throws Conflict if another controller writes one of the outputs; NotFound for a type that does
  // not exist.
  void add(kj::Own<Controller> controller);
  // Wakes a controller that depends on something outside the store. Throws NotFound if no
  // controller has this name; does nothing before the first controller is added, because each
  // controller runs when it starts.
  void poke(kj::StringPtr controllerName);
  // Returns the declarations of all controllers, in the order in which they were added.
  kj::Vector<ControllerLinks> links() const;
  // Returns true if no controller runs or is about to run. A failed controller that waits for its
  // next attempt counts as idle.
  bool idle() const;
  // Resolves when idle() is true, with all writes to the store until now handled.
  kj::Promise<void> whenIdle();

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos::machined
