#include "talosctl/cluster/cluster-supervisor.h"

#include <fcntl.h>
#include <kj/async-io.h>
#include <kj/debug.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/node-layout.h"
#include "common/net/ntp.h"
#include "common/wire/rpc-server.h"
#include "talosctl/cluster/cluster-network.h"
#include "talosctl/cluster/cluster-plan.h"
#include "talosctl/cluster/cluster-state.h"
#include "talosctl/cluster/node-config-server.h"
#include "talosctl/cluster/port-forwarder.h"
#include "talosctl/cluster/time-server.h"
#include "talosctl/cluster/virtual-machine.h"

namespace talos::cluster {
namespace {

class Supervisor final : private kj::TaskSet::ErrorHandler {
 public:
  Supervisor(kj::AsyncIoContext& io, const StateDirectory& state)
      : io(io),
        timer(io.provider->getTimer()),
        state(state),
        message(state.load()),
        cluster(message->getRoot<rpc::LocalCluster>().asReader()),
        tasks(*this) {}

  // The order matters: sockets of the host first, then this thread leaves the host's network.
  void start() {
    kj::Vector<kj::AutoCloseFd> doors;
    for (auto node : cluster.getNodes()) doors.add(listenTcp(node.getEndpoint(), kApidPort));
    KJ_SYSCALL(unshare(CLONE_NEWNET));
    network = kj::heap<Network>(cluster.getGateway(), parseCidr(cluster.getCidr()).length,
                                cluster.getMtu());
    serveConfigFiles();
    tasks.add(serveTime(timer, UdpSocket::bound(io.unixEventPort,
                                                {Ip::require(cluster.getGateway()), ntp::kPort})));
    auto doorOf = doors.begin();
    for (auto node : cluster.getNodes()) {
      tasks.add(forward(*io.lowLevelProvider, timer, kj::mv(*doorOf++), kj::str(node.getAddress()),
                        kApidPort));
    }
    auto qemu = findQemu(cluster.getQemuRoot());
    int log = STDERR_FILENO;  // already supervisor.log
    unsigned index = 0;
    for (auto node : cluster.getNodes()) {
      auto tap = network->addTap(kj::str("tap", index++));
      auto guest = kj::heap<Guest>(io.unixEventPort, qemu,
                                   qemuArguments(cluster, node, state.path(), tap), tap, log);
      ::talos::log::info("guest started", {{"node", node.getName()}, {"pid", guest->pid()}});
      exits.add(watch(kj::str(node.getName()), *guest));
      guests.add(kj::mv(guest));
    }
  }

  // Runs until a signal; then terminates every guest and waits for it.
  void runUntilSignal() {
    auto signalled = io.unixEventPort.onSignal(SIGTERM).ignoreResult().exclusiveJoin(
        io.unixEventPort.onSignal(SIGINT).ignoreResult());
    signalled.wait(io.waitScope);
    for (auto& guest : guests) guest->kill(SIGTERM);
    auto all = kj::joinPromises(exits.releaseAsArray()).fork();
    timer.timeoutAfter(5 * kj::SECONDS, all.addBranch())
        .catch_([&](kj::Exception&&) {
          for (auto& guest : guests) guest->kill(SIGKILL);
          return all.addBranch();
        })
        .wait(io.waitScope);
  }

 private:
  kj::AsyncIoContext& io;
  kj::Timer& timer;
  const StateDirectory& state;
  kj::Own<capnp::MallocMessageBuilder> message;
  rpc::LocalCluster::Reader cluster;
  kj::Own<Network> network;
  kj::Vector<kj::Own<Guest>> guests;
  kj::Vector<kj::Promise<void>> exits;
  kj::TaskSet tasks;

  void serveConfigFiles() {
    kj::HashMap<kj::String, ServedFile> files;
    for (auto node : cluster.getNodes()) {
      auto name = kj::str(node.getName(), ".yaml");
      files.insert(kj::str(node.getAddress()), ServedFile{kj::str("/", name), state.file(name)});
    }
    tasks.add(serveConfigs(*io.lowLevelProvider, timer,
                           listenTcp(cluster.getGateway(), kConfigPort), kj::mv(files)));
  }

  static kj::Promise<void> watch(kj::String name, Guest& guest) {
    auto how = co_await guest.onExit();
    log::info("guest exited", {{"node", name}, {"outcome", how}});
  }

  void taskFailed(kj::Exception&& e) override {
    log::error("a listener of the cluster failed", {{"error", e.getDescription()}});
  }
};

void tell(int fd, kj::StringPtr text) {
  auto ignored = ::write(fd, text.begin(), text.size());
  (void)ignored;  // nobody reads: the creator has exited, and the cluster continues
  ::close(fd);
}

}  // namespace

int runSupervisor(kj::StringPtr stateDirectory, int readyFd) {
  fcntl(readyFd, F_SETFD, FD_CLOEXEC);  // no guest keeps the creator waiting for its end
  kj::UnixEventPort::captureSignal(SIGTERM);
  kj::UnixEventPort::captureSignal(SIGINT);
  auto io = kj::setupAsyncIo();
  kj::Maybe<kj::Own<Supervisor>> supervisor;
  kj::AutoCloseFd lock;
  kj::Maybe<StateDirectory> state;
  KJ_IF_MAYBE (slash, stateDirectory.findLast('/')) {
    state.emplace(kj::heapString(stateDirectory.slice(0, *slash)),
                  stateDirectory.slice(*slash + 1));
  }
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                 auto& folder =
                     KJ_REQUIRE_NONNULL(state, "the state folder is not an absolute path");
                 lock = folder.lock();
                 auto made = kj::heap<Supervisor>(io, folder);
                 made->start();
                 supervisor = kj::mv(made);
               })) {
    log::error("cannot start the cluster", {{"error", messageOf(*e)}});
    tell(readyFd, kj::str("error: ", messageOf(*e), "\n"));
    return 1;
  }
  tell(readyFd, "ready\n");
  KJ_ASSERT_NONNULL(supervisor)->runUntilSignal();
  return 0;
}

}  // namespace talos::cluster
