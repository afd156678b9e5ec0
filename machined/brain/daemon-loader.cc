#include "machined/brain/daemon-loader.h"

#include <capnp/message.h>

#include "common/base/error.h"
#include "common/base/log.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kArgument = "talos.debug.services"_kj;

kj::Maybe<const Daemon&> find(kj::ArrayPtr<const Daemon> table, kj::ArrayPtr<const char> id) {
  for (auto& daemon : table) {
    if (daemon.id.asArray() == id) return daemon;
  }
  return nullptr;
}

}  // namespace

kj::Maybe<std::set<kj::StringPtr>> chosenDaemons(const KernelArguments& arguments,
                                                 kj::ArrayPtr<const Daemon> table,
                                                 kj::FunctionParam<void(kj::StringPtr)> warn) {
  auto values = arguments.all(kArgument);
  if (values.empty()) return nullptr;
  std::set<kj::StringPtr> chosen;
  auto choose = [&](kj::ArrayPtr<const char> name) {
    kj::Maybe<const Daemon&> next = find(table, name);
    if (next == nullptr) {
      auto ids = kj::strArray(KJ_MAP(daemon, table) { return daemon.id; }, ", ");
      warn(kj::str(kArgument, ": no service is named \"", name, "\"; use one of ", ids));
    }
    while (next != nullptr) {
      auto& daemon = KJ_ASSERT_NONNULL(next);
      chosen.insert(daemon.id);
      // etcd starts when the supervisor has decided how it runs.
      if (daemon.id == kEtcdService) chosen.insert("etcd-supervisor"_kj);
      next = nullptr;
      if (daemon.after != nullptr) next = find(table, daemon.after);
    }
  };
  for (auto value : values) {
    kj::ArrayPtr<const char> rest = value;
    while (rest.size() > 0) {
      size_t end = 0;
      while (end < rest.size() && rest[end] != ',') ++end;
      if (end > 0) choose(rest.slice(0, end));
      rest = rest.slice(kj::min(end + 1, rest.size()), rest.size());
    }
  }
  return kj::mv(chosen);
}

kj::Promise<void> DaemonLoader::follow() {
  for (auto& daemon : table) {
    KJ_IF_MAYBE (chosen, deps.chosen) {
      if (chosen->count(daemon.id) == 0) continue;
    }
    if (daemon.wantedWith.type == nullptr) {
      co_await load(daemon);
    } else {
      co_await await(daemon);
    }
  }
}

kj::Promise<void> DaemonLoader::await(const Daemon& daemon) {
  waiting[&daemon].change =
      deps.daemon.store.onChange("", daemon.wantedWith.type, [this, &daemon]() {
        if (!becomesWanted(daemon)) return;
        waiting[&daemon].loading =
            loadAndStart(daemon).eagerlyEvaluate([this, &daemon](kj::Exception&& e) {
              waiting[&daemon].wanted = false;  // the next change retries
              log::error("cannot start the service",
                         {{"service", daemon.id}, {"error", messageOf(e)}});
            });
      });
  if (becomesWanted(daemon)) return loadAndStart(daemon);
  return kj::READY_NOW;
}

// Returns true if the daemon is wanted and was not before.
bool DaemonLoader::becomesWanted(const Daemon& daemon) {
  auto& with = daemon.wantedWith;
  auto& state = waiting[&daemon];
  if (state.wanted) return false;
  auto& store = deps.daemon.store;
  bool exists = with.id.size() > 0 ? store.tryGet("", with.type, with.id) != nullptr
                                   : store.list("", with.type).size() > 0;
  if (!exists || (with.suits != nullptr && !with.suits(store))) return false;
  state.wanted = true;
  return true;
}

kj::Promise<void> DaemonLoader::load(const Daemon& daemon) {
  DaemonSockets of;
  if (daemon.listen.port != 0 || daemon.listen.socket != nullptr) {
    of.listening = sockets.add(co_await deps.open(daemon)).get();
  }
  if (daemon.keeps) {
    auto pair = co_await deps.openPair(daemon);
    of.keeping = sockets.add(kj::mv(pair.keeping)).get();
    of.kept = sockets.add(kj::mv(pair.kept)).get();
  }
  if (isOurs(daemon)) of.page = co_await deps.openPage(daemon.id);
  deps.supervisor.load(definitionOf(daemon, of, deps.daemon));
}

kj::Promise<void> DaemonLoader::loadAndStart(const Daemon& daemon) {
  co_await load(daemon);
  capnp::MallocMessageBuilder scratch;
  auto service = scratch.initRoot<rpc::Service>();
  deps.supervisor.fill(daemon.id, service);
  // A service that a user stopped before machined restarted stays stopped.
  if (service.getState() == rpc::ServiceState::INITIALIZED) deps.supervisor.start(daemon.id);
}

}  // namespace talos::machined
