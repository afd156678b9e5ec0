#include "talosctl/cluster/nodes/cluster-control.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/within.h"
#include "common/wire/rpc-server.h"

namespace talos::cluster {
namespace {

// Deadline of answers from the supervisor's memory, which come at once unless the host is
// overloaded.
constexpr kj::Duration kQuick = 10 * kj::SECONDS;
// Deadline of actions that last as long as a node's shutdown: at most a minute, plus a margin.
constexpr kj::Duration kSlow = 75 * kj::SECONDS;

// Names the socket through a descriptor of its folder: the address of a Unix socket has at most 107
// characters, and the path of a state folder may be longer.
class SocketPath {
 public:
  explicit SocketPath(kj::StringPtr folder) {
    int fd;
    KJ_SYSCALL(fd = open(folder.cStr(), O_PATH | O_DIRECTORY | O_CLOEXEC), folder);
    held = kj::AutoCloseFd(fd);
    text = kj::str("/proc/self/fd/", fd, "/control.sock");
  }
  kj::StringPtr path() const { return text; }

 private:
  kj::AutoCloseFd held;
  kj::String text;
};

class Control final : public rpc::LocalClusterControl::Server {
 public:
  explicit Control(ClusterNodes& nodes) : nodes(nodes) {}

  kj::Promise<void> status(StatusContext context) override {
    auto list = context.getResults().initNodes(nodes.all().size());
    for (size_t i = 0; i < list.size(); ++i) {
      auto& power = *nodes.all()[i];
      list[i].setName(power.name());
      list[i].setState(power.stateName());
      list[i].setError(power.error());
      list[i].setPid(power.pid());
    }
    return kj::READY_NOW;
  }

  kj::Promise<void> power(PowerContext context) override {
    auto params = context.getParams();
    return nodes.find(params.getNode()).act(params.getAction());
  }

  kj::Promise<void> stopAll(StopAllContext) override { return nodes.stopAll(); }

 private:
  ClusterNodes& nodes;
};

kj::String unanswered(kj::StringPtr what, kj::Duration deadline) {
  return kj::str("the cluster's supervisor did not answer ", what, " within ",
                 deadline / kj::SECONDS, " s; see supervisor.log");
}

}  // namespace

kj::Promise<void> serveControl(kj::AsyncIoContext& io, kj::StringPtr stateFolder,
                               ClusterNodes& nodes) {
  SocketPath socket(stateFolder);
  co_await serveUnix(
      *io.lowLevelProvider, io.provider->getTimer(), listenUnix(socket.path(), 0600),
      [&](const UnixPeer&) -> capnp::Capability::Client { return kj::heap<Control>(nodes); });
}

ControlClient::ControlClient(kj::Timer& timer, kj::Own<Connection> connection)
    : timer(timer),
      connection(kj::mv(connection)),
      control(this->connection->bootstrap().castAs<rpc::LocalClusterControl>()) {}

kj::Promise<capnp::Response<rpc::LocalClusterControl::StatusResults>> ControlClient::states() {
  kj::Promise<capnp::Response<rpc::LocalClusterControl::StatusResults>> answer =
      control.statusRequest().send();
  return within(timer, kQuick, kj::mv(answer), unanswered("the state of the nodes", kQuick));
}

kj::Promise<void> ControlClient::power(kj::StringPtr node, rpc::PowerAction action) {
  auto request = control.powerRequest();
  request.setNode(node);
  request.setAction(action);
  co_await within(timer, kSlow, request.send().ignoreResult(),
                  unanswered(kj::str("the request for ", node), kSlow));
}

kj::Promise<void> ControlClient::stopAll() {
  co_await within(timer, kSlow, control.stopAllRequest().send().ignoreResult(),
                  unanswered("the stop", kSlow));
}

kj::Promise<kj::Own<ControlClient>> ControlClient::connect(kj::LowLevelAsyncIoProvider& lowLevel,
                                                           kj::Timer& timer,
                                                           kj::StringPtr stateFolder) {
  SocketPath socket(stateFolder);
  auto connection = co_await connectUnix(lowLevel, timer, socket.path(), kQuick);
  co_return kj::heap<ControlClient>(timer, kj::mv(connection));
}

}  // namespace talos::cluster
