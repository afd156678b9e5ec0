// The controller runtime: watches inputs, runs reconcile once per coalesced batch, backs off on
// failure. As Talos' runtime (COSI), but a success resets the back-off.
//
// A controller sees the store through a view that allows what it declared and nothing else. It is
// run once when it is added, after each change of an input (a burst is one run), when it is poked,
// and when an output of its own that was being torn down has become free. Runs of one controller
// never overlap. After a crash of the brain every controller runs once on the recovered store and
// converges.
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
  // Of the type's own namespace; an empty id: the whole kind.
  struct Input {
    kj::StringPtr type;
    kj::StringPtr id = "";
    bool holds = false;  // it adds and removes finalizers
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
  // Full names of the types that it alone writes (typeNames<Spec...>()); may be empty.
  virtual kj::Array<kj::StringPtr> outputs() const = 0;
  // Reads inputs, makes the outputs so. Idempotent. Owner of what it writes is name(). A run that
  // has not ended after kReconcileDeadline is dropped and counts as failed.
  virtual kj::Promise<void> reconcile(Store& store) = 0;
  // For one that depends on something outside the store too: `wake` asks for a run, any number of
  // times. Called once, before the first run; `wake` is valid as long as the controller.
  virtual void wakeBy(kj::Function<void()> wake) {}
};

constexpr auto kReconcileDeadline = 2 * kj::MINUTES;

class ControllerRuntime {
 public:
  // `random` in [0,1) jitters the back-off; `log` gets lines with a newline in the form of Talos'
  // own: the ring kControllerLog.
  ControllerRuntime(Store& store, kj::Function<void(kj::StringPtr)> log, kj::Timer& timer,
                    const kj::Clock& clock, kj::Function<double()> random);
  ControllerRuntime(Store& store, Logs& logs, kj::Timer& timer, const kj::Clock& clock,
                    kj::Function<double()> random);
  ~ControllerRuntime() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(ControllerRuntime);

  // Conflict when another controller writes one of its outputs; NotFound for a type that does not
  // exist.
  void add(kj::Own<Controller> controller);
  // Wakes a controller that depends on something outside the store. NotFound when there is none of
  // this name; before the first one is added nothing happens, since each looks when it begins.
  void poke(kj::StringPtr controllerName);
  // The declarations of all controllers, in the order in which they were added.
  kj::Vector<ControllerLinks> links() const;
  // No controller runs or is about to. One that failed and waits for its next attempt counts as
  // idle.
  bool idle() const;
  // Resolves when idle() is true, with all writes to the store until now handled.
  kj::Promise<void> whenIdle();

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos::machined
