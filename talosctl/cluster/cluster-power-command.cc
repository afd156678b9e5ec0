// talosctl cluster start | stop | node | console: control the power of a local cluster and of its
// nodes.
#include <fcntl.h>
#include <kj/async-unix.h>
#include <kj/debug.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "talosctl/cli/table.h"
#include "talosctl/cluster/cluster-command.h"
#include "talosctl/cluster/nodes/cluster-control.h"
#include "talosctl/cluster/nodes/cluster-state.h"
#include "talosctl/cluster/nodes/cluster-wait.h"
#include "talosctl/cluster/nodes/launch-supervisor.h"

namespace talos::talosctl {
namespace {

using cluster::ControlClient;
using cluster::StateDirectory;

kj::Promise<kj::Own<ControlClient>> controlOf(Invocation& call, const StateDirectory& state) {
  if (!state.exists()) {
    fail(ErrorKind::kNotFound,
         kj::str("no cluster in ", state.path(), "; create one with ", state.command("create")));
  }
  if (state.supervisor() == nullptr) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("this cluster is not running; start it with ", state.command("start")));
  }
  return ControlClient::connect(call.deps.lowLevel, call.deps.timer, state.path());
}

// Parses "[<cluster>] <node>"; without the first argument the cluster is that of --name.
StateDirectory stateOfNode(Invocation& call) {
  if (call.arguments.size() < 2) return stateOf(call);
  if (call.given("name")) failUsage("name the cluster either as an argument or with --name");
  return stateOf(call, call.arguments[0]);
}

kj::StringPtr nodeOf(Invocation& call) {
  return call.arguments.back();
}

kj::Promise<void> act(Invocation& call, rpc::PowerAction action) {
  auto state = stateOfNode(call);
  auto control = co_await controlOf(call, state);
  co_await control->power(nodeOf(call), action);
}

template <rpc::PowerAction action>
kj::Promise<int> runAction(Invocation& call) {
  co_await act(call, action);
  co_return 0;
}

kj::Promise<int> runStart(Invocation& call) {
  auto state = stateOf(call);
  auto message = state.load();
  auto cluster = message->getRoot<rpc::LocalCluster>().asReader();
  if (state.supervisor() != nullptr) {
    fail(ErrorKind::kFailedPrecondition, "this cluster is already running");
  }
  co_await cluster::launchSupervisor(call.deps.lowLevel, call.deps.timer, state.path(),
                                     [](kj::StringPtr) {});
  if (!call.on("wait")) co_return 0;
  if (cluster.getWithoutConfig() && !cluster.getConfigsApplied()) {
    call.err("not waiting for the nodes: they were created without a config\n");
    co_return 0;
  }
  call.err("waiting for API\n");
  co_await cluster::waitUntilUp(call, cluster, state.path(), call.duration("wait-timeout"));
  co_return 0;
}

kj::Promise<int> runStop(Invocation& call) {
  auto state = stateOf(call);
  auto control = co_await controlOf(call, state);
  call.err("shutting down the nodes\n");
  co_await control->stopAll();
  state.stopSupervisor();
  call.err(kj::str("the cluster is off; start it with ", state.command("start"), "\n"));
  co_return 0;
}

void printRest(Invocation& call, int fd) {
  char chunk[16384];
  for (;;) {
    ssize_t n;
    KJ_SYSCALL(n = read(fd, chunk, sizeof chunk));
    if (n == 0) return;
    call.outBytes(kj::arrayPtr(chunk, n));
  }
}

kj::Promise<int> runConsole(Invocation& call) {
  auto state = stateOfNode(call);
  auto message = state.load();
  auto node = nodeOf(call);
  kj::Vector<kj::String> names;
  bool known = false;
  for (auto each : message->getRoot<rpc::LocalCluster>().asReader().getNodes()) {
    known = known || each.getName() == node;
    names.add(kj::str(each.getName()));
  }
  if (!known) {
    fail(ErrorKind::kNotFound,
         kj::str("unknown node \"", node, "\"; use one of ", kj::strArray(names, ", ")));
  }
  auto path = state.file(kj::str(node, ".log"));
  int raw;
  KJ_SYSCALL(raw = open(path.cStr(), O_RDONLY | O_CLOEXEC), path);
  kj::AutoCloseFd log(raw);
  if (!call.on("follow")) {
    printRest(call, log);
    co_return 0;
  }
  KJ_SYSCALL(raw = inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  kj::AutoCloseFd changes(raw);
  // The removal of a file that is still open here changes its attributes.
  KJ_SYSCALL(inotify_add_watch(changes, path.cStr(), IN_MODIFY | IN_ATTRIB), path);
  kj::UnixEventPort::FdObserver observer(call.deps.port, changes,
                                         kj::UnixEventPort::FdObserver::OBSERVE_READ);
  for (;;) {
    auto more =
        observer.whenBecomesReadable();  // before the rest is read, so that nothing is missed
    struct stat about;
    KJ_SYSCALL(fstat(log, &about), path);
    printRest(call, log);
    if (about.st_nlink == 0) break;
    char events[4096];
    while (read(changes, events, sizeof events) > 0) {
    }
    co_await more;
  }
  call.err("the cluster was destroyed\n");
  co_return 0;
}

Command& addAction(Command& group, kj::StringPtr name, kj::StringPtr summary, Run run) {
  auto& command = group.add(name, summary);
  command.arguments = "[<cluster>] <node>", command.least = 1, command.most = 2;
  addStateFlags(command);
  command.run = run;
  return command;
}

}  // namespace

void addPowerCommands(Command& cluster) {
  auto& start = cluster.add("start", "Start a local cluster that was stopped");
  addStateFlags(start);
  addWaitFlags(start);
  start.run = runStart;
  auto& stop = cluster.add("stop", "Shut down all nodes of a local cluster; its files stay");
  addStateFlags(stop);
  stop.run = runStop;
  auto& node = cluster.add("node", "Switch the power of one node of a local cluster");
  using rpc::PowerAction;
  addAction(node, "start", "Start a node that is off", runAction<PowerAction::START>);
  addAction(node, "stop", "Shut down a node in order", runAction<PowerAction::STOP>);
  addAction(node, "kill", "Cut the power of a node", runAction<PowerAction::KILL>);
  addAction(node, "pause", "Stop everything in a node where it is", runAction<PowerAction::PAUSE>);
  addAction(node, "resume", "Let a paused node continue", runAction<PowerAction::RESUME>);
  addAction(node, "reset", "Cut the power of a node and start it", runAction<PowerAction::RESET>);
  auto& console = cluster.add("console", "Print the console of a node");
  console.arguments = "[<cluster>] <node>", console.least = 1, console.most = 2;
  addStateFlags(console);
  console.flag({.name = "follow", .letter = "f", .help = "follow the console"});
  console.interrupt = Interrupt::kIsSuccess;
  console.run = runConsole;
}

}  // namespace talos::talosctl
