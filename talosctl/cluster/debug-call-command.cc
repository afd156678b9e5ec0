// talosctl debug call: calls any method of any socket of our programs, with JSON, by its schema.
#include <signal.h>

#include "common/base/error.h"
#include "common/wire/rpc-server.h"
#include "rpc/local.capnp.h"
#include "talosctl/cluster/cluster-command.h"
#include "talosctl/cluster/local-cluster.h"
#include "talosctl/debug/dynamic-call.h"

namespace talos::talosctl {
namespace {

struct Socket {
  kj::StringPtr program;
  capnp::InterfaceSchema schema;
};

kj::Array<Socket> sockets() {
  return kj::arr(Socket{"machined"_kj, capnp::Schema::from<rpc::Machined>()},
                 Socket{"networkd"_kj, capnp::Schema::from<rpc::Networkd>()},
                 Socket{"etcd-supervisor"_kj, capnp::Schema::from<rpc::EtcdSupervisor>()},
                 Socket{"kubed"_kj, capnp::Schema::from<rpc::Kubed>()});
}

constexpr kj::StringPtr kSuffix = ".sock"_kj;

// Finds the socket of "networkd", or of the path of a file networkd.sock.
Socket socketNamed(kj::StringPtr text) {
  kj::ArrayPtr<const char> name = text;
  KJ_IF_MAYBE (slash, text.findLast('/')) {
    name = text.slice(*slash + 1);
    bool isSocket = text.endsWith(kSuffix) && name.size() > kSuffix.size();
    if (isSocket) name = name.slice(0, name.size() - kSuffix.size());
  }
  auto all = sockets();
  for (auto& socket : all) {
    if (socket.program.asArray() == name) return socket;
  }
  auto names = kj::strArray(KJ_MAP(socket, all) { return socket.program; }, ", ");
  fail(ErrorKind::kInvalidArgument, kj::str("\"", text, "\" is not a socket of ours; use one of ",
                                            names, ", or the path of <one of them>", kSuffix));
}

kj::Promise<kj::String> pathOf(Invocation& call, kj::StringPtr text, const Socket& socket) {
  if (text.findFirst('/') != nullptr) co_return kj::str(text);
  auto cluster = requireLocalCluster(call);
  auto nodes = co_await localContainers(call, cluster);
  if (nodes.size() != 1) {
    failUsage("a call goes to one node: name it with --nodes, or give the path of the socket");
  }
  co_return nodes[0].socket(socket.program);
}

kj::Promise<int> runCall(Invocation& call) {
  auto socket = socketNamed(call.arguments[0]);
  auto steps = callSteps(call.arguments.slice(1, call.arguments.size()));
  if (steps.empty()) {
    for (auto& line : methodLines(socket.schema)) call.out(kj::str(line, "\n"));
    co_return 0;
  }
  auto path = co_await pathOf(call, call.arguments[0], socket);
  auto deadline = call.deadline();
  auto connection =
      co_await connectUnix(call.deps.lowLevel, call.deps.timer, path, kj::min(deadline, kDeadline));
  Registry registry;
  kj::Function<void(kj::StringPtr)> show = [&](kj::StringPtr line) {
    call.out(kj::str(line, "\n"));
  };
  DynamicCall dynamic(registry, show);
  auto running = dynamic.run(
      connection->bootstrap().castAs<capnp::DynamicCapability>(socket.schema), kj::mv(steps));
  // The user ends a stream.
  auto result = call.given("timeout") ? co_await within(call.deps.timer, deadline, kj::mv(running))
                                      : co_await running;
  call.out(kj::str(result, "\n"));
  co_return 0;
}

}  // namespace

void addCallCommand(Command& debug) {
  auto& added = debug.add("call", "Call any method of a program's socket, with JSON");
  added.arguments = "<socket> [<method> [<json>]]...";
  added.least = 1;
  added.most = 64;
  added.argumentChoices = {{"machined", "networkd", "etcd-supervisor", "kubed"}};
  added.details =
      "The socket is that of a node in a container of a local cluster (--nodes), or a path. Each\n"
      "method but the last returns a capability, on which the next is called; without one the\n"
      "methods are listed. What the program calls back is printed as it comes, a line each; then\n"
      "the results.";
  added.flag({.name = "state",
              .kind = FlagKind::kText,
              .help = "folder of the clusters (default ~/.talos/clusters)"});
  added.run = runCall;
}

}  // namespace talos::talosctl
