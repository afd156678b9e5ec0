// The brain of a container-testbed: the real supervisor, log store and loader of services, and a
// separate table of services: containerd as `cri`, and containers with the ids SERVICE0 and so on,
// of IMAGE0. It serves a Node with services, logs and containers at FOLDER/node, writes each event
// of a service into FOLDER/events, and stops all services when process 1 is to power off.
#include <fcntl.h>
#include <kj/async-io.h>
#include <kj/debug.h>
#include <linux/reboot.h>
#include <stdlib.h>
#include <unistd.h>

#include <deque>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/wire/rpc-server.h"
#include "machined/api/containers-server.h"
#include "machined/api/node-server.h"
#include "machined/brain/daemon-loader.h"
#include "machined/brain/held-sockets.h"
#include "machined/logs/events-and-logs-server.h"
#include "machined/logs/log-store.h"
#include "machined/process1/process1-socket.h"
#include "machined/process1/read-pool.h"
#include "machined/services/service-lifecycle.h"
#include "machined/services/services-server.h"

namespace talos::machined {
namespace {

kj::String inFolder(kj::StringPtr name) {
  return kj::str(getenv("FOLDER"), "/", name);
}

template <size_t kNumber>
ContainerSpec sampleContainer(DaemonDependencies&) {
  ContainerSpec spec;
  spec.image = kj::str(getenv(kj::str("IMAGE", kNumber).cStr()));
  spec.arguments = kj::arr(kj::str("/sample"));
  return spec;
}
constexpr ContainerSpec (*kContainers[])(DaemonDependencies&) = {
    sampleContainer<0>, sampleContainer<1>, sampleContainer<2>, sampleContainer<3>,
    sampleContainer<4>};

// The rows of the table, and the owner of the objects to which they refer.
class Table {
 public:
  Table() {
    for (auto* word : {"/bin/containerd", "--config", "base.toml", "--address", "socket", "--root",
                       "root", "--state", "state"}) {
      bool ours = word[0] != '/' && word[0] != '-';
      words.add(ours ? inFolder(word) : kj::str(word));
    }
    command = KJ_MAP(w, words) {
      return kj::StringPtr(w);
    };
    rows.add(Daemon{.id = "cri",
                    .command = command,
                    .check = [](DaemonDependencies& deps) { return deps.containerd.serving(); },
                    .checkTimeout = 20 * kj::SECONDS});
    for (auto* container : kContainers) {
      auto* id = getenv(kj::str("SERVICE", names.size()).cStr());
      if (id == nullptr) break;
      rows.add(Daemon{.id = names.emplace_back(kj::str(id)), .container = container});
    }
  }
  kj::ArrayPtr<const Daemon> all() const { return rows; }

 private:
  kj::Vector<kj::String> words;
  std::deque<kj::String> names;
  kj::Array<kj::StringPtr> command;
  kj::Vector<Daemon> rows;
};

class Brain {
 public:
  explicit Brain(kj::AsyncIoContext& io) : io(io) {}

  kj::Promise<void> run() {
    auto listener =
        co_await heldSocket(process1, "node", []() { return listenUnix(inFolder("node"), 0600); });
    auto serving = serveUnix(*io.lowLevelProvider, timer, kj::mv(listener),
                             [this](const UnixPeer&) { return node(); });
    co_await loader.follow();
    if (process1.brainRestarts() == 0) {
      for (auto& id : supervisor.ids()) supervisor.start(id);
    }
    co_await takeDown().exclusiveJoin(kj::mv(serving));
  }

 private:
  kj::AsyncIoContext& io;
  kj::Timer& timer = io.provider->getTimer();
  const kj::Clock& clock = kj::systemPreciseCalendarClock();
  SocketProcess1 process1{io.unixEventPort, kj::AutoCloseFd(process1::kBrainFd)};
  Registry registry;
  Store store{registry, clock};
  Logs logs{process1, io.unixEventPort};
  ReadPool pool{timer, {}, [](kj::StringPtr) {}};
  Containerd containerd{*io.lowLevelProvider, timer, inFolder("socket")};
  kj::AutoCloseFd events{
      open(inFolder("events").cStr(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600)};
  Supervisor supervisor{{process1, timer, clock, []() { return 0.0; }, KJ_BIND_METHOD(logs, writer),
                         KJ_BIND_METHOD(*this, announce)}};
  Table table;
  DaemonLoader loader{
      table.all(),
      {.supervisor = supervisor,
       .daemon = {.lowLevel = *io.lowLevelProvider,
                  .store = store,
                  .networkd = nullptr,
                  .etcdSupervisor = nullptr,
                  .containerd = containerd,
                  .etcd = nullptr},
       .open = [](const Daemon&) -> kj::Promise<kj::AutoCloseFd> { KJ_UNREACHABLE; }}};

  void announce(rpc::ServiceStateEvent::Reader event) {
    auto line = kj::str(event.getService(), " ", nameOf(event.getState()), " ", event.getMessage(),
                        event.getHealth().getHealthy() ? " [healthy]" : "", "\n");
    KJ_SYSCALL(write(events, line.begin(), line.size()));
  }

  rpc::Node::Client node() {
    auto calls = kj::refcounted<NodeCalls>();
    auto mine = [&]() { return kj::refcounted<ClientCalls>(kj::addRef(*calls)); };
    return serveNode({.machine = nullptr,
                      .services = serveServices(supervisor),
                      .events = nullptr,
                      .logs = serveLogs(
                          logs, [](auto) -> kj::Promise<void> { KJ_UNREACHABLE; },
                          [](auto) -> kj::Promise<void> { KJ_UNREACHABLE; }, mine()),
                      .files = nullptr,
                      .resources = nullptr,
                      .sensitiveResources = nullptr,
                      .networkd = nullptr,
                      .configuration = nullptr,
                      .storage = nullptr,
                      .containers = serveContainers(
                          containerd,
                          {pool, io.unixEventPort, timer,
                           [this](kj::StringPtr id) { return supervisor.signal(id, SIGTERM); }},
                          mine()),
                      .upgrades = nullptr,
                      .etcdSupervisor = nullptr,
                      .kubed = nullptr});
  }

  kj::Promise<void> takeDown() {
    co_await process1.nextPowerAction();
    co_await supervisor.stopAll();
    co_await process1.reboot(LINUX_REBOOT_CMD_POWER_OFF);
  }
};

}  // namespace
}  // namespace talos::machined

int main() {
  auto failure = kj::runCatchingExceptions([]() {
    auto io = kj::setupAsyncIo();
    talos::machined::Brain brain(io);
    brain.run().wait(io.waitScope);
  });
  KJ_IF_MAYBE (e, failure) talos::log::error("exiting", {{"error", talos::messageOf(*e)}});
  return 1;
}
