#include "machined/brain/daemon-loader.h"

#include <capnp/message.h>

#include "common/base/error.h"
#include "common/base/log.h"

namespace talos::machined {

kj::Promise<void> DaemonLoader::follow() {
  for (auto& daemon : table) {
    if (daemon.wantedWith.type == nullptr) {
      co_await load(daemon);
    } else {
      co_await await(daemon);
    }
  }
}

kj::Promise<void> DaemonLoader::await(const Daemon& daemon) {
  waiting[&daemon].change =
      deps.parts.store.onChange("", daemon.wantedWith.type, [this, &daemon]() {
        if (!becomesWanted(daemon)) return;
        waiting[&daemon].loading =
            loadAndStart(daemon).eagerlyEvaluate([this, &daemon](kj::Exception&& e) {
              waiting[&daemon].wanted = false;  // the next change tries again
              log::error("cannot start the service",
                         {{"service", daemon.id}, {"error", messageOf(e)}});
            });
      });
  if (becomesWanted(daemon)) return loadAndStart(daemon);
  return kj::READY_NOW;
}

// Whether it has become wanted just now.
bool DaemonLoader::becomesWanted(const Daemon& daemon) {
  auto& with = daemon.wantedWith;
  for (auto& [other, state] : waiting) {
    if (other->id == daemon.id && state.wanted) return false;
  }
  auto& store = deps.parts.store;
  bool there = with.id.size() > 0 ? store.tryGet("", with.type, with.id) != nullptr
                                  : store.list("", with.type).size() > 0;
  if (!there) return false;
  if (daemon.fits != nullptr && !daemon.fits(deps.parts)) return false;
  waiting[&daemon].wanted = true;
  return true;
}

kj::Promise<void> DaemonLoader::load(const Daemon& daemon) {
  int listening = -1;
  if (daemon.door.port != 0 || daemon.door.socket != nullptr) {
    listening = doors.add(co_await deps.open(daemon)).get();
  }
  deps.supervisor.load(definitionOf(daemon, listening, deps.parts));
}

kj::Promise<void> DaemonLoader::loadAndStart(const Daemon& daemon) {
  co_await load(daemon);
  capnp::MallocMessageBuilder scratch;
  auto service = scratch.initRoot<rpc::Service>();
  deps.supervisor.fill(daemon.id, service);
  // One that a user stopped before machined was started again stays stopped.
  if (service.getState() == rpc::ServiceState::INITIALIZED) deps.supervisor.start(daemon.id);
}

}  // namespace talos::machined
