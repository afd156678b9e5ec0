// talosctl debug replace: replaces the program of a daemon on nodes of a local cluster. This host's
// root writes the program into a container, or into the window of a virtual machine; no API has
// such a call. machined runs the program at the next start of the service.
#include <kj/debug.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/wire/rpc-server.h"
#include "rpc/local.capnp.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/client/cluster-client.h"
#include "talosctl/cluster/cluster-command.h"
#include "talosctl/cluster/local-cluster.h"
#include "talosctl/cluster/machines/program-window-file.h"
#include "talosctl/cluster/program-check.h"
#include "talosctl/cluster/replaced-folder.h"
#include "talosctl/diagnose/observed.h"

namespace talos::talosctl {
namespace {

constexpr kj::StringPtr kServices[] = {
    "apid"_kj, "trustd"_kj,    "networkd"_kj, "etcd-supervisor"_kj, "vipd"_kj,     "kubed"_kj,
    "logd"_kj, "manifestd"_kj, "backupd"_kj,  "probed"_kj,          "registryd"_kj};
constexpr auto kComesUp = 30 * kj::SECONDS, kLook = 100 * kj::MILLISECONDS,
               kAnswer = 5 * kj::SECONDS, kStays = 400 * kj::MILLISECONDS;
constexpr size_t kMostBytes = program_window::kMostProgram;

void checkService(kj::StringPtr service) {
  for (auto& one : kServices) {
    if (one == service) return;
  }
  if (service == "machined") {
    fail(ErrorKind::kInvalidArgument,
         "machined is the image's own: make another image, and upgrade to it");
  }
  fail(ErrorKind::kInvalidArgument,
       kj::str("\"", service, "\" cannot be replaced; use one of ",
               kj::strArray(kj::arrayPtr(kServices, kj::size(kServices)), ", ")));
}

// Access to the services of a node. In a container it uses machined's own socket, so that apid can
// also be replaced, even before it runs. On a machine it goes through the machine's apid, and
// reconnects after a restart of apid.
class Reached {
 public:
  Reached(Invocation& call, const LocalTarget& target) : call(call), target(target) {}

  kj::Promise<rpc::Services::Client> services() {
    if (target.container) {
      if (socket == nullptr) {
        socket = co_await connectUnix(call.deps.lowLevel, call.deps.timer,
                                      target.socket("machined"), kAnswer);
      }
      auto node = KJ_ASSERT_NONNULL(socket)->bootstrap().castAs<rpc::Machined>().nodeRequest();
      co_return node.send().getNode().servicesRequest().send().getServices();
    }
    if (api == nullptr) {
      auto wanted = resolveTarget(call);
      wanted.endpoints.clear();
      wanted.endpoints.add(kj::str(target.endpoint));
      api = kj::heap<Client>(call.deps, kj::mv(wanted));
    }
    auto& client = *KJ_ASSERT_NONNULL(api);
    co_await client.connect(kAnswer);
    co_return client.node(target.address).servicesRequest().send().getServices();
  }

 private:
  Invocation& call;
  const LocalTarget& target;
  kj::Maybe<kj::Own<Connection>> socket;
  kj::Maybe<kj::Own<Client>> api;
};

struct ServiceNow {
  int pid;
  bool up, checked;
  bool other;  // the service was started from the folder of replaced programs
  kj::String statement;
};

// Judges by the last start of the service. Returns true if no event of a start is kept, because the
// program is unknown then.
bool startedOther(rpc::Service::Reader service) {
  bool other = true;
  auto began = kj::str("Started "), otherBegan = kj::str("Started ", kReplacedFolder, "/");
  for (auto event : service.getEvents()) {
    kj::StringPtr message = event.getMessage();
    if (message.startsWith(began)) other = message.startsWith(otherBegan);
  }
  return other;
}

kj::Promise<ServiceNow> serviceNow(Invocation& call, Reached& reached, const LocalTarget& target,
                                   kj::StringPtr service) {
  auto services = co_await reached.services();
  kj::Promise<capnp::Response<rpc::Services::ListResults>> answer = services.listRequest().send();
  auto list = co_await within(call.deps.timer, kAnswer, kj::mv(answer));
  for (auto one : list.getServices()) {
    if (one.getId() == service) {
      co_return ServiceNow{one.getPid(), isUp(one), one.getChecked(), startedOther(one),
                           statementOf(one).text};
    }
  }
  fail(ErrorKind::kNotFound, kj::str(target.name, " has no service ", service));
}

// Restarts the service and waits until it is up as another process. `hint`: advice for the error
// message if it is not.
kj::Promise<ServiceNow> restart(Invocation& call, Reached& reached, const LocalTarget& target,
                                kj::StringPtr service, kj::StringPtr hint) {
  auto& timer = call.deps.timer;
  auto before = co_await serviceNow(call, reached, target, service);
  auto services = co_await reached.services();
  auto request = services.restartRequest();
  request.setId(service);
  kj::Promise<capnp::Response<rpc::Services::RestartResults>> answer = request.send();
  bool carriesAnswers = service == "apid" && !target.container;
  try {
    co_await within(timer, kAnswer, kj::mv(answer)).ignoreResult();
  } catch (const kj::Exception&) {
    if (!carriesAnswers) throw;  // else apid was restarted before it forwarded the answer
  }
  auto until = timer.now() + kComesUp;
  auto last = kj::str("it did not answer");
  int seen = before.pid;
  auto seenSince = timer.now();
  while (timer.now() < until) {
    co_await timer.afterDelay(kLook);
    try {
      auto now = co_await serviceNow(call, reached, target, service);
      if (now.pid != seen) {
        seen = now.pid;
        seenSince = timer.now();
      }
      // A service without a health check must stay up for a while.
      bool stays = now.checked || timer.now() - seenSince >= kStays;
      if (now.up && now.pid != before.pid && stays) co_return now;
      last = kj::mv(now.statement);
    } catch (const kj::Exception& e) {
      if (!carriesAnswers) throw;
      last = kj::str(messageOf(e));
    }
  }
  fail(ErrorKind::kDeadlineExceeded, kj::str(target.name, ": ", service, " is not up after ",
                                             durationText(kComesUp), ": ", last, hint));
}

// Prepares a container. Returns false if there is nothing to undo.
bool prepareContainer(const LocalTarget& target, kj::StringPtr service,
                      kj::Maybe<kj::ArrayPtr<const char>> program) {
  auto folder = openReplacedFolder(target.root());
  KJ_IF_MAYBE (bytes, program) {
    putProgram(folder, service, *bytes);
    return true;
  }
  return takeProgram(folder, service);
}

// Resolves to false if there was nothing to undo. `program` is nullptr for --undo.
kj::Promise<kj::Maybe<int>> exchange(Invocation& call, kj::StringPtr stateFolder,
                                     const LocalTarget& target, kj::StringPtr service,
                                     kj::Maybe<kj::ArrayPtr<const char>> program,
                                     kj::StringPtr hint) {
  using program_window::Order;
  Reached reached(call, target);
  bool undo = program == nullptr;
  if (target.container) {
    if (!prepareContainer(target, service, program)) co_return nullptr;
    auto now = co_await restart(call, reached, target, service, hint);
    co_return now.pid;
  }
  auto before = co_await serviceNow(call, reached, target, service);
  if (undo && !before.other) co_return nullptr;
  auto window = program_window::fileOf(stateFolder, target.name);
  KJ_DEFER(cluster::clearOrder(window));
  cluster::giveOrder(window, undo ? Order::kUndo : Order::kReplace, service,
                     program.orDefault(kj::ArrayPtr<const char>()));
  auto now = co_await restart(call, reached, target, service, hint);
  if (now.other == undo) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str(target.name, ": ", service, " was restarted, but not as wanted: its machined has ",
                 "not taken the order; see `talosctl cluster console ", target.name, "`"));
  }
  co_return now.pid;
}

kj::Promise<int> runReplace(Invocation& call) {
  kj::StringPtr service = call.arguments[0];
  bool undo = call.on("undo");
  checkService(service);
  if (undo != (call.arguments.size() == 1)) {
    failUsage(undo ? "--undo takes no file" : "name the program, or use --undo");
  }
  auto cluster = requireLocalCluster(call);
  auto program = undo ? kj::String() : readFile(call.arguments[1], kMostBytes + 1);
  if (!undo) checkProgram(call.arguments[1], service, program);
  auto targets = co_await localTargets(call, cluster);
  auto hint =
      undo ? kj::String()
           : kj::str("; `talosctl debug replace --undo ", service, "` brings the node's own back");
  kj::Maybe<kj::ArrayPtr<const char>> bytes;
  if (!undo) bytes = program.asArray();
  for (auto& target : targets) {
    auto began = call.deps.timer.now();
    auto done = co_await exchange(call, cluster.state.path(), target, service, bytes, hint);
    if (done == nullptr) {
      call.err(kj::str(target.name, ": ", service, " was not replaced\n"));
      continue;
    }
    auto pid = KJ_ASSERT_NONNULL(done);
    auto took = durationText((call.deps.timer.now() - began) / kj::MILLISECONDS * kj::MILLISECONDS);
    call.out(kj::str(target.name, ": ", service, " runs ",
                     undo ? "the node's own program"_kj : kj::StringPtr(call.arguments[1]),
                     " (PID ", pid, ") after ", took, "\n"));
  }
  co_return 0;
}

}  // namespace

void addReplaceCommand(Command& debug) {
  auto& replace =
      debug.add("replace", "Run another program in place of a daemon's, on a local cluster");
  replace.arguments = "<service> [<file>]";
  replace.least = 1;
  replace.most = 2;
  replace.argumentChoices = {
      std::vector<kj::StringPtr>(std::begin(kServices), std::end(kServices))};
  replace.details =
      "On the nodes of --nodes, else on all of the cluster, which must be a local one: "
      "this host's root puts the program into the node and restarts that one service. "
      "It lasts until --undo or until the node is rebooted.";
  replace.flag({.name = "undo", .help = "bring the node's own program back"});
  replace.flag({.name = "state",
                .kind = FlagKind::kText,
                .help = "folder of the clusters (default ~/.talos/clusters)"});
  replace.run = runReplace;
}

}  // namespace talos::talosctl
