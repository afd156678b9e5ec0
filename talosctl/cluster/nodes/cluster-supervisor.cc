#include "talosctl/cluster/nodes/cluster-supervisor.h"

#include <fcntl.h>
#include <kj/async-io.h>
#include <kj/debug.h>
#include <signal.h>
#include <unistd.h>

#include <random>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/node-layout.h"
#include "common/kube/received-kubeconfig.h"
#include "common/memory/zeroize.h"
#include "common/net/ntp.h"
#include "common/wire/rpc-server.h"
#include "talosctl/cluster/network/cluster-addresses.h"
#include "talosctl/cluster/network/node-servers.h"
#include "talosctl/cluster/network/port-forwarder.h"
#include "talosctl/cluster/network/uplink.h"
#include "talosctl/cluster/nodes/cluster-control.h"
#include "talosctl/cluster/nodes/cluster-nodes.h"
#include "talosctl/cluster/nodes/cluster-plan.h"
#include "talosctl/cluster/nodes/cluster-state.h"
#include "talosctl/cluster/nodes/launch-supervisor.h"
#include "talosctl/cluster/nodes/node-ports.h"
#include "talosctl/cluster/processes/program-tree.h"

namespace talos::cluster {
namespace {

constexpr kj::Duration kServicesPause = 2 * kj::SECONDS;

// A port of a node that is forwarded from the host's loopback.
struct ForwardedPort {
  kj::AutoCloseFd listening;
  kj::String node;
  uint16_t port;
};

class Supervisor final : private kj::TaskSet::ErrorHandler {
 public:
  Supervisor(kj::AsyncIoContext& io, const StateDirectory& state)
      : io(io),
        timer(io.provider->getTimer()),
        state(state),
        message(state.load()),
        cluster(message->getRoot<rpc::LocalCluster>().asReader()),
        tasks(*this) {
    prepareRun(message->getRoot<rpc::LocalCluster>(), buildFolder(), trustedOwners());
  }

  // The order matters: sockets of the host are opened first, then this thread leaves the host's
  // network. `begins` is called before each step, with the text that `cluster create` prints.
  void start(kj::FunctionParam<void(kj::StringPtr step)> begins) {
    begins(kj::str("creating network ", cluster.getNetworkName()));
    kj::Vector<ForwardedPort> ports;
    for (auto node : cluster.getNodes()) {
      auto open = [&](uint16_t port) {
        ports.add(
            ForwardedPort{listenTcp(node.getEndpoint(), port), kj::str(node.getAddress()), port});
      };
      open(kApidPort);
      // Opening fails if a program of this host listens on this port of all its addresses.
      auto openIfFree = [&](uint16_t port, kj::StringPtr warning) {
        KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { open(port); })) {
          log::warn(warning, {{"node", node.getName()}, {"error", messageOf(*e)}});
        }
      };
      if (cluster.getWithMetrics()) {
        openIfFree(kMetricsPort, "the host cannot reach these metrics at a loopback address");
      }
      if (node.getType() == "join") continue;
      openIfFree(kKubernetesPort,
                 "the host cannot reach this Kubernetes API at a loopback address");
    }
    host = kj::heap<HostNetwork>();
    nodes = kj::heap<ClusterNodes>(io, cluster, state.path());
    begins("creating load balancer");
    for (auto& each : ports) {
      tasks.add(forward(*io.lowLevelProvider, timer, kj::mv(each.listening), kj::mv(each.node),
                        each.port));
    }
    // Talos starts a DHCP server at this point; these nodes have their addresses from the
    // start.
    begins("creating config server");
    serveConfigFiles();
    tasks.add(serveTime(timer, UdpSocket::bound(io.unixEventPort,
                                                {Ip::require(cluster.getGateway()), ntp::kPort})));
    tasks.add(serveControl(io, state.path(), *nodes));
    startNodes(begins);
    if (!cluster.getWithoutUplink()) startUplink();
    tasks.add(forwardNodePorts());
  }

  // Runs until a signal; then ends every node and waits for it.
  void runUntilSignal() {
    io.unixEventPort.onSignal(SIGTERM)
        .ignoreResult()
        .exclusiveJoin(io.unixEventPort.onSignal(SIGINT).ignoreResult())
        .wait(io.waitScope);
    tasks.clear();
    nodes = nullptr;
  }

 private:
  kj::AsyncIoContext& io;
  kj::Timer& timer;
  const StateDirectory& state;
  kj::Own<capnp::MallocMessageBuilder> message;
  rpc::LocalCluster::Reader cluster;
  kj::Own<HostNetwork> host;
  kj::Own<ClusterNodes> nodes;
  kj::Own<Uplink> uplink;
  kj::TaskSet tasks;

  void startNodes(kj::FunctionParam<void(kj::StringPtr step)>& begins) {
    begins("creating master nodes");
    nodes->startControlPlane();
    bool workers = false;
    for (auto node : cluster.getNodes()) workers = workers || node.getType() == "join";
    if (workers) begins("creating worker nodes");
    nodes->startWorkers();
  }

  void serveConfigFiles() {
    kj::HashMap<kj::String, ServedFile> files;
    for (auto node : cluster.getNodes()) {
      auto name = kj::str(node.getName(), ".yaml");
      files.insert(kj::str(node.getAddress()), ServedFile{kj::str("/", name), state.file(name)});
    }
    tasks.add(serveConfigs(*io.lowLevelProvider, timer,
                           listenTcp(cluster.getGateway(), kConfigPort), kj::mv(files)));
  }

  // Starts the uplink while the nodes boot.
  void startUplink() {
    uplink = kj::heap<Uplink>(
        io, *host,
        Uplink::Settings{.root = kj::str(cluster.getQemuRoot()), .gateways = gatewaysOf(cluster)});
    uplink->start().wait(io.waitScope);
    tasks.add(uplink->run());
  }

  // Follows the Services at a control-plane node; successive attempts use different nodes.
  kj::Promise<void> followServices(NodePorts& nodePorts, kj::StringPtr kubeconfig, size_t attempt) {
    kj::Vector<kj::StringPtr> servers;
    for (auto node : cluster.getNodes()) {
      if (node.getType() != "join") servers.add(node.getAddress());
    }
    auto access = kube::readReceivedKubeconfig(kubeconfig, state.file("kubeconfig")).access();
    access.host = kj::str(servers[attempt % servers.size()]);
    access.port = kKubernetesPort;
    auto dial = kube::dialerOf({*io.lowLevelProvider, io.unixEventPort, timer}, access);
    auto random = [engine = std::minstd_rand(std::random_device{}())]() mutable {
      return std::uniform_real_distribution<double>(0, 1)(engine);
    };
    kube::KubeClient client(timer, kj::mv(random), kj::mv(dial), kj::mv(access));
    co_await nodePorts.follow(client);
  }

  // Begins when `cluster create` has stored a kubeconfig: before, there is no Kubernetes to call.
  kj::Promise<void> forwardNodePorts() {
    NodePorts nodePorts(cluster.getNodes().size(), [this](size_t index, uint16_t port) {
      auto node = cluster.getNodes()[index];
      auto endpoint = kj::str(node.getEndpoint());
      kj::AutoCloseFd listening;
      host->inside([&] { listening = listenTcp(endpoint, port); });
      return forward(*io.lowLevelProvider, timer, kj::mv(listening), kj::str(node.getAddress()),
                     port);
    });
    kj::String logged;
    for (size_t attempt = 0;; ++attempt) {
      kj::String error;
      try {
        auto kubeconfig = tryReadFile(state.file("kubeconfig"));
        KJ_IF_MAYBE (text, kubeconfig) {
          KJ_DEFER(zeroize(text->asArray()));
          co_await followServices(nodePorts, *text, attempt);
        }
      } catch (const kj::Exception& e) {
        error = kj::str(messageOf(e));
      }
      if (error.size() > 0 && error != logged) {
        log::warn("cannot read the Services, whose NodePorts are forwarded; retrying",
                  {{"error", error}});
      }
      logged = kj::mv(error);
      co_await timer.afterDelay(kServicesPause);
    }
  }

  void taskFailed(kj::Exception&& e) override {
    log::error("a listener of the cluster failed", {{"error", e.getDescription()}});
  }
};

void report(int fd, kj::StringPtr line) {
  auto text = kj::str(line, "\n");
  auto ignored = ::write(fd, text.begin(), text.size());
  (void)ignored;  // fails when the creator has exited; the cluster continues
}

}  // namespace

int runSupervisor(kj::StringPtr stateDirectory, int readyFd) {
  fcntl(readyFd, F_SETFD, FD_CLOEXEC);  // otherwise nodes would keep the pipe to the creator open
  kj::AutoCloseFd ready(readyFd);
  kj::UnixEventPort::captureSignal(SIGTERM);
  kj::UnixEventPort::captureSignal(SIGINT);
  auto io = kj::setupAsyncIo();
  kj::AutoCloseFd lock;
  kj::Maybe<StateDirectory> state;
  kj::Maybe<kj::Own<Supervisor>> supervisor;
  KJ_IF_MAYBE (slash, stateDirectory.findLast('/')) {
    state.emplace(kj::heapString(stateDirectory.slice(0, *slash)),
                  stateDirectory.slice(*slash + 1));
  }
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                 auto& folder =
                     KJ_REQUIRE_NONNULL(state, "the state folder is not an absolute path");
                 lock = folder.lock();
                 auto made = kj::heap<Supervisor>(io, folder);
                 made->start([&](kj::StringPtr step) { report(ready, kj::str(kStartStep, step)); });
                 supervisor = kj::mv(made);
               })) {
    log::error("cannot start the cluster", {{"error", messageOf(*e)}});
    report(ready, kj::str("error: ", messageOf(*e)));
    return 1;
  }
  report(ready, "ready");
  ready = nullptr;
  KJ_ASSERT_NONNULL(supervisor)->runUntilSignal();
  return 0;
}

}  // namespace talos::cluster
