#include "machined/services/supervisor.h"

#include <kj/debug.h>
#include <kj/map.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/signal.h"
#include "common/text/texts.h"
#include "machined/services/service.h"

namespace talos::machined {
namespace {

constexpr auto kStopAllTimeout = 30 * kj::SECONDS;

kj::StringPtr nameOfLevel(rpc::LogLevel level) {
  auto known = capnp::Schema::from<rpc::LogLevel>().getEnumerants();
  auto number = static_cast<unsigned>(level);
  if (number < known.size()) return known[number].getProto().getName();
  fail(ErrorKind::kInvalidArgument, kj::str(number, " is not a valid log level"));
}

}  // namespace

struct Supervisor::Impl final : public ServiceSet, private kj::TaskSet::ErrorHandler {
  Dependencies dependencies;
  kj::TreeMap<kj::String, kj::Own<Service>> services;
  kj::Vector<Process1::Survivor> survivors;
  bool stopping = false;  // stopAll() was called
  Signal changes;
  kj::TaskSet aside;

  explicit Impl(Dependencies w)
      : dependencies(kj::mv(w)), survivors(dependencies.process1.takeSurvivors()), aside(*this) {
    aside.add(reap());
  }

  // --- for a service ---

  Dependencies& deps() override { return dependencies; }
  kj::TaskSet& tasks() override { return aside; }
  void failed(kj::Exception&& e) override { taskFailed(kj::mv(e)); }
  bool closed() const override { return stopping; }
  kj::Promise<void> change() override { return changes.next(); }
  void changed() override { changes.raise(); }
  bool isUp(kj::StringPtr id) const override {
    KJ_IF_MAYBE (found, services.find(id)) return (*found)->status.isUp();
    return false;
  }
  bool isStarting(kj::StringPtr id) const override {
    KJ_IF_MAYBE (found, services.find(id))
      return !(*found)->status.isUp() && !(*found)->status.isDown();
    return false;
  }

  void taskFailed(kj::Exception&& e) override {
    log::error("error in the service supervisor", {{"error", messageOf(e)}});
  }

  // --- all services ---

  void requireOpen(kj::StringPtr id) const {
    if (stopping) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str("service \"", id, "\" is not started: the node is shutting down"));
    }
  }

  Service& find(kj::StringPtr id) {
    return const_cast<Service&>(kj::implicitCast<const Impl*>(this)->find(id));
  }
  const Service& find(kj::StringPtr id) const {
    KJ_IF_MAYBE (service, services.find(id)) return **service;
    fail(ErrorKind::kNotFound, kj::str("service \"", id, "\" is not known on this node"));
  }

  Service& add(ServiceDefinition definition) {
    auto service = kj::refcounted<Service>(*this, kj::mv(definition));
    auto& ref = *service;
    services.insert(kj::str(ref.id()), kj::mv(service));
    return ref;
  }

  void unload(Service& service, kj::StringPtr problem) {
    auto reference = kj::addRef(service);
    service.unload(problem);
    services.erase(service.id());
  }

  // Handles the exits of children, one after the other. Process 1 takes the request for the next
  // exit as the acknowledgement of the previous one, and forgets that. If the brain crashed after
  // the request and before the exit was handled, the exit would be lost. So the request is sent
  // when no work is left in this turn.
  kj::Promise<void> reap() {
    for (;;) {
      auto exit = co_await dependencies.process1.nextExit();
      KJ_IF_MAYBE (found, services.find(exit.slot)) {
        (*found)->runner.exited(kj::mv(exit));
      } else {
        forgetSurvivor(exit);
      }
      co_await kj::evalLast([]() {});
    }
  }

  // A child of the previous brain ended before its service was loaded in this one. Its PID may be
  // another process's by now, so the service must not adopt it.
  void forgetSurvivor(const Process1::Exit& exit) {
    kj::Vector<Process1::Survivor> left;
    for (auto& s : survivors) {
      if (s.slot != exit.slot || s.pid != exit.pid) left.add(kj::mv(s));
    }
    survivors = kj::mv(left);
  }

  bool hasDependants(kj::StringPtr id) {
    for (auto& item : services) {
      auto& other = *item.value;
      if (other.status.isDown()) continue;
      if (contains(other.definition.dependsOn, id)) return true;
    }
    return false;
  }

  kj::Promise<void> stopInTurn(Service& service, kj::TimePoint deadline) {
    auto reference = kj::addRef(service);
    auto& timer = dependencies.timer;
    while (hasDependants(service.id()) && timer.now() < deadline) {
      co_await change().exclusiveJoin(timer.atTime(deadline));
    }
    co_await service.stop();
  }

  kj::Promise<void> stopAll() {
    stopping = true;
    auto deadline = dependencies.timer.now() + kStopAllTimeout;
    kj::Vector<kj::Promise<void>> all;
    for (auto& item : services) {
      if (!item.value->runner.isSelf()) all.add(stopInTurn(*item.value, deadline));
    }
    return kj::joinPromises(all.releaseAsArray());
  }
};

Supervisor::Supervisor(Dependencies deps) : impl(kj::heap<Impl>(kj::mv(deps))) {}
Supervisor::~Supervisor() noexcept(false) = default;

void Supervisor::load(ServiceDefinition definition) {
  impl->add(kj::mv(definition)).recover(impl->survivors);
}

void Supervisor::unload(kj::StringPtr id, kj::StringPtr problem) {
  impl->unload(impl->find(id), problem);
}

void Supervisor::loadSelf(kj::StringPtr id) {
  ServiceDefinition definition;
  definition.id = kj::str(id);
  definition.mayBeStarted = definition.mayBeStopped = false;
  definition.carriesApi = true;
  impl->add(kj::mv(definition)).markAsSelf();
}

void Supervisor::note(kj::StringPtr id, kj::StringPtr message) {
  impl->find(id).status.addEvent(message);
}

void Supervisor::start(kj::StringPtr id) {
  auto& service = impl->find(id);
  impl->requireOpen(id);
  service.start();
}

kj::Promise<void> Supervisor::restart(kj::StringPtr id) {
  auto& service = impl->find(id);
  impl->requireOpen(id);
  return service.restart();
}

kj::Promise<void> Supervisor::signal(kj::StringPtr id, int number) {
  return impl->find(id).signal(number);
}

kj::Promise<crash::CrashRecord> Supervisor::stackOf(kj::StringPtr id) {
  if (impl->find(id).status.pid == 0) {
    fail(ErrorKind::kFailedPrecondition, kj::str("service \"", id, "\" is not running"));
  }
  return KJ_REQUIRE_NONNULL(impl->dependencies.stackOf)(id);
}

void Supervisor::setLogLevel(kj::StringPtr id, rpc::LogLevel level) {
  auto& service = impl->find(id);
  KJ_IF_MAYBE (switches, impl->dependencies.switches) {
    auto name = nameOfLevel(level);
    switches->setLevel(id, level);
    return service.status.addEvent(kj::str("Log level set to ", name));
  }
  fail(ErrorKind::kFailedPrecondition, "this node has one log level only");
}

void Supervisor::setKeepsCores(kj::StringPtr id, bool keep) {
  auto& service = impl->find(id);
  KJ_IF_MAYBE (switches, impl->dependencies.switches) {
    switches->setKeepsCores(id, keep);
    return service.status.addEvent(keep ? "Cores of crashes are kept"_kj
                                        : "Cores of crashes are not kept"_kj);
  }
  fail(ErrorKind::kFailedPrecondition, "this node keeps no cores");
}

kj::Promise<void> Supervisor::kept(kj::StringPtr id) {
  return impl->find(id).status.kept();
}

kj::Promise<void> Supervisor::stop(kj::StringPtr id) {
  return impl->find(id).stop();
}
kj::Promise<void> Supervisor::stopAll() {
  return impl->stopAll();
}

kj::Promise<void> Supervisor::whenUp(kj::StringPtr name) {
  auto service = kj::addRef(impl->find(name));
  while (!impl->isUp(service->id())) {
    if (service->status.cannotBe()) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str("service \"", service->id(), "\" is down: ", service->status.lastMessage()));
    }
    co_await impl->change();
  }
}

kj::Promise<void> Supervisor::whenStarted(kj::StringPtr name) {
  auto service = kj::addRef(impl->find(name));
  while (service->status.isBeingStarted()) co_await impl->change();
}

bool Supervisor::isUp(kj::StringPtr id) const {
  return impl->isUp(id);
}
bool Supervisor::isAwaited(kj::StringPtr id) const {
  return impl->find(id).definition.awaited;
}
bool Supervisor::mayBeStarted(kj::StringPtr id) const {
  return impl->find(id).definition.mayBeStarted;
}
bool Supervisor::mayBeStopped(kj::StringPtr id) const {
  return impl->find(id).definition.mayBeStopped;
}

void Supervisor::fill(kj::StringPtr id, rpc::Service::Builder out) const {
  impl->find(id).status.fill(out);
}

kj::Vector<kj::String> Supervisor::problems() const {
  kj::Vector<kj::String> result;
  for (auto& item : impl->services) {
    capnp::MallocMessageBuilder scratch;
    auto service = scratch.initRoot<rpc::Service>();
    item.value->status.fill(service);
    auto events = service.getEvents();
    auto health = service.getHealth();
    auto state = service.getState();
    if (state == rpc::ServiceState::FINISHED) {
      if (item.value->definition.restart != ServiceRestart::kAlways) continue;  // it has completed
      result.add(
          kj::str("service ", item.key, " is stopped: talosctl service ", item.key, " start"));
    } else if (state == rpc::ServiceState::FAILED) {
      auto last = events.size() > 0 ? kj::StringPtr(events[events.size() - 1].getMessage()) : ""_kj;
      result.add(kj::str("service ", item.key, " has failed: ", last));
    } else if (state == rpc::ServiceState::RUNNING && !health.getUnknown() &&
               !health.getHealthy()) {
      result.add(kj::str("service ", item.key, " is not healthy: ", health.getLastMessage()));
    }
  }
  return result;
}

kj::Vector<kj::String> Supervisor::ids() const {
  kj::Vector<kj::String> result;
  for (auto& item : impl->services) result.add(kj::str(item.key));
  return result;
}

void startApi(Supervisor& supervisor) {
  for (auto& id : supervisor.ids()) {
    if (id == "networkd" || id == "apid") supervisor.start(id);
  }
}

}  // namespace talos::machined
