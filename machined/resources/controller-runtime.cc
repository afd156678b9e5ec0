#include "machined/resources/controller-runtime.h"

#include <kj/debug.h>

#include "common/base/backoff.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/node-messages.h"
#include "common/base/signal.h"
#include "machined/logs/controller-lines.h"

namespace talos::machined {
namespace {
constexpr Backoff::Pace kControllerPace = {500 * kj::MILLISECONDS, 60 * kj::SECONDS, 1.5, 0.5, 1.5};
}

struct ControllerRuntime::Impl final {
  Store& store;
  kj::Function<void(kj::StringPtr)> log;
  kj::Timer& timer;
  const kj::Clock& clock;
  kj::Function<double()> random;

  // A controller and the state of its runs.
  struct Driver {
    Impl& runtime;
    kj::Own<Controller> controller;
    kj::Own<Store> view;
    Signal signal;
    bool wanted = true;  // the run at the start
    bool inRun = false;
    Backoff backoff{kControllerPace};
    kj::Vector<kj::Own<void>> subscriptions;
    kj::Promise<void> running = nullptr;

    Driver(Impl& runtime, kj::Own<Controller> controller)
        : runtime(runtime), controller(kj::mv(controller)) {}

    void wake() {
      wanted = true;
      signal.raise();
    }

    void say(kj::StringPtr message) {
      runtime.log(
          kj::str(controllerLogLine(runtime.clock.now(), controller->name(), message), "\n"));
    }

    Access access() {
      auto access = Access::none(controller->name());
      for (auto& input : controller->inputs()) {
        auto& type = runtime.store.typeOf(input.type);
        access.allowRead(type.defaultNamespace, type.name, input.id);
        if (input.holds) access.allowFinalizers(type.defaultNamespace, type.name, input.id);
      }
      for (auto output : controller->outputs())
        access.allowWrite(runtime.store.typeOf(output).name);
      return access;
    }

    void subscribe() {
      for (auto& input : controller->inputs()) {
        subscriptions.add(runtime.store.onChange("", input.type, [this] { wake(); }));
      }
      for (auto output : controller->outputs()) {
        subscriptions.add(runtime.store.onChange("", output, [this, output] {
          if (hasFree(output)) wake();
        }));
      }
    }

    // Returns true if the output was torn down and has no finalizers: it can be destroyed now.
    bool hasFree(kj::StringPtr output) {
      for (auto resource : runtime.store.list("", output)) {
        auto metadata = resource.getMetadata();
        if (metadata.getPhase() == rpc::Metadata::Phase::TEARING_DOWN &&
            metadata.getFinalizers().size() == 0 && metadata.getOwner() == controller->name()) {
          return true;
        }
      }
      return false;
    }

    // Returns the error of the run; nullptr if it succeeded.
    kj::Promise<kj::Maybe<kj::String>> attempt() {
      auto run = kj::evalNow([&] { return controller->reconcile(*view); });
      return runtime.timer.timeoutAfter(kReconcileDeadline, kj::mv(run))
          .then([]() -> kj::Maybe<kj::String> { return nullptr; },
                [](kj::Exception&& e) -> kj::Maybe<kj::String> {
                  if (e.getType() == kj::Exception::Type::OVERLOADED &&
                      e.getDescription() == "operation timed out") {
                    return kj::str("reconcile timed out after ", kReconcileDeadline / kj::SECONDS,
                                   " s");
                  }
                  return messageOf(e);
                });
    }

    kj::Promise<void> drive() {
      for (;;) {
        if (!wanted) co_await signal.next();
        // Changes that still arrive in this turn of the loop belong to this run.
        co_await kj::evalLast([] {});
        wanted = false;
        if (first) say("controller starting");
        first = false;
        inRun = true;
        auto failure = co_await attempt();
        inRun = false;
        runtime.ended.raise();
        KJ_IF_MAYBE (reason, failure) {
          auto pause = kj::min(backoff.next(runtime.random()), kControllerPace.longest);
          say(kj::str(messages::kControllerFailed, *reason));
          say(kj::str("restarting controller after ", pause / kj::MILLISECONDS, " ms"));
          co_await runtime.timer.afterDelay(pause);
          say("controller starting");
          wanted = true;
        } else {
          backoff.reset();
          if (talos::log::writes(talos::log::Level::kDebug)) say("controller ran");
        }
      }
    }
    bool first = true;
  };

  kj::Vector<kj::Own<Driver>> drivers;
  Signal ended;  // a run has ended

  kj::Maybe<Driver&> find(kj::StringPtr name) {
    for (auto& driver : drivers) {
      if (driver->controller->name() == name) return *driver;
    }
    return nullptr;
  }

  void add(kj::Own<Controller> controller) {
    if (find(controller->name()) != nullptr) {
      fail(ErrorKind::kConflict, kj::str("controller ", controller->name(), " is running already"));
    }
    for (auto output : controller->outputs()) {
      for (auto& other : drivers) {
        for (auto taken : other->controller->outputs()) {
          if (taken != output) continue;
          fail(ErrorKind::kConflict, kj::str(controller->name(), " cannot write ", output, ": ",
                                             other->controller->name(), " writes it"));
        }
      }
    }
    auto driver = kj::heap<Driver>(*this, kj::mv(controller));
    driver->view = store.limited(driver->access());
    driver->subscribe();
    driver->controller->wakeBy([d = driver.get()] { d->wake(); });
    driver->running = driver->drive().eagerlyEvaluate([d = driver.get()](kj::Exception&& e) {
      d->say(kj::str(messages::kControllerFailed, messageOf(e), "; it is stopped"));
    });
    drivers.add(kj::mv(driver));
  }
};

ControllerRuntime::ControllerRuntime(Store& store, kj::Function<void(kj::StringPtr)> log,
                                     kj::Timer& timer, const kj::Clock& clock,
                                     kj::Function<double()> random)
    : impl(kj::heap<Impl>(Impl{store, kj::mv(log), timer, clock, kj::mv(random), {}, {}})) {}

ControllerRuntime::ControllerRuntime(Store& store, Logs& logs, kj::Timer& timer,
                                     const kj::Clock& clock, kj::Function<double()> random)
    : ControllerRuntime(
          store, [&logs](kj::StringPtr line) { logs.append(kControllerLog, line.asArray()); },
          timer, clock, kj::mv(random)) {}

ControllerRuntime::~ControllerRuntime() noexcept(false) {}

void ControllerRuntime::add(kj::Own<Controller> controller) {
  impl->add(kj::mv(controller));
}

kj::Vector<ControllerLinks> ControllerRuntime::links() const {
  kj::Vector<ControllerLinks> all;
  for (auto& driver : impl->drivers) {
    auto& controller = *driver->controller;
    ControllerLinks links{.name = kj::str(controller.name()), .reads = {}, .writes = {}};
    for (auto& input : controller.inputs()) {
      auto& type = impl->store.typeOf(input.type);
      links.reads.add(ControllerLinks::Input{kj::str(type.defaultNamespace), kj::str(type.name),
                                             kj::str(input.id)});
    }
    for (auto output : controller.outputs()) links.writes.add(kj::str(output));
    all.add(kj::mv(links));
  }
  return all;
}

bool ControllerRuntime::idle() const {
  for (auto& driver : impl->drivers) {
    if (driver->wanted || driver->inRun) return false;
  }
  return true;
}

kj::Promise<void> ControllerRuntime::whenIdle() {
  for (;;) {
    // A write to the store reaches the controllers in the next turns of the loop.
    co_await kj::evalLast([] {});
    if (idle()) co_return;
    co_await impl->ended.next();
  }
}

void ControllerRuntime::poke(kj::StringPtr controllerName) {
  if (impl->drivers.empty()) return;
  KJ_IF_MAYBE (driver, impl->find(controllerName)) {
    driver->wake();
    return;
  }
  fail(ErrorKind::kNotFound, kj::str("unknown controller ", controllerName));
}

}  // namespace talos::machined
