// reboot, shutdown, reset
#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/text/size.h"
#include "common/text/texts.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/standard-input.h"
#include "talosctl/cli/table.h"
#include "talosctl/client/answer-output.h"
#include "talosctl/client/follow-node.h"
#include "talosctl/commands/all-commands.h"
#include "talosctl/drain/drain-run.h"
#include "talosctl/etcd/etcd-quorum.h"
#include "talosctl/kube/connect-kubernetes.h"

namespace talos::talosctl {

namespace {

// Runs calls that stop nodes, each node in its turn, and then follows the nodes unless --wait=false
// is given, and prints the outcome as --output requests. The command has both flags. If the nodes
// stay off and are followed, the endpoint goes down after the others, because they are observed
// through it.

// Work to do for each node with a good outcome, by its index; an error counts as the node's.
using AfterTakeDown = kj::Function<kj::Promise<void>(size_t index)>;

struct TakeDown {
  Invocation& call;
  Outcome::Kind kind;
  kj::ArrayPtr<const kj::String> names;
  kj::Maybe<AfterTakeDown&> after;
  Progress progress;
  kj::Maybe<size_t> endpoint;  // set if nodes stay off and are followed
  kj::Own<Turns> turns;
  kj::Vector<Failure> failures;
  size_t good = 0;
};

// Returns true if the node is followed until it is silent.
bool staysOff(Invocation& call, Outcome::Kind kind) {
  return call.on("wait") && (kind == Outcome::Kind::kShutdown || kind == Outcome::Kind::kReset);
}

// Runs one node from the request to its outcome; stores failures and does not throw.
template <typename Results, typename F>
kj::Promise<void> takeDown(TakeDown& task, Session& session, size_t index, F& request) {
  kj::Maybe<kj::Exception> failure;
  try {
    auto turn = kj::heap(kj::defer([&task, index]() { task.turns->answered(index); }));
    bool isEndpoint = task.endpoint.orDefault(kj::maxValue) == index;
    bool waits = isEndpoint && task.names.size() > 1;
    if (waits) task.progress.set(index, "waiting for its turn"_kj);
    co_await task.turns->start(index);
    if (waits) co_await session.client.connect(kDeadline);  // minutes may have passed
    auto machine = session.client.node(task.names[index]).machineRequest().send().getMachine();
    kj::Promise<capnp::Response<Results>> answer = request(kj::mv(machine));
    auto response = co_await within(task.call.deps.timer, session.deadline, kj::mv(answer));
    if (!staysOff(task.call, task.kind)) turn = nullptr;
    if (task.call.on("wait")) {
      co_await follow(task.call, task.kind, task.names[index], kj::str(response.getBootId()),
                      task.progress, index, isEndpoint);
    }
    KJ_IF_MAYBE (after, task.after) co_await (*after)(index);
  } catch (const kj::Exception& e) {
    failure = kj::cp(e);
  }
  KJ_IF_MAYBE (e, failure) {
    if (task.call.on("wait")) task.progress.set(index, kj::str("failed: ", messageOf(*e)));
    task.failures.add(kj::str(task.names[index]), kj::mv(*e));
  } else {
    ++task.good;
    printDone(task.call, task.names[index]);
  }
}

// `request` makes the call on the rpc::Machine::Client passed to it; the answer has the boot id.
// `deadline` applies to the request; --timeout applies to the outcome if the command waits for it,
// otherwise to the request.
template <typename Results, typename F>
kj::Promise<int> takeDownAll(Invocation& call, Outcome::Kind kind, F request,
                             kj::Duration deadline = kDeadline,
                             kj::Maybe<AfterTakeDown&> after = nullptr) {
  auto session = co_await openSession(call, kDeadline);
  session->deadline = call.on("wait") ? deadline : call.deadline(deadline);
  auto names = session->client.nodes();
  kj::Maybe<size_t> endpoint;
  kj::Own<Turns> turns;
  if (staysOff(call, kind)) {
    endpoint = co_await findEndpoint(*session, names);
    turns = kj::heap<Turns>(names.size(), endpoint);
  } else {
    turns = co_await takeTurns(*session, names);
  }
  TakeDown task{.call = call,
                .kind = kind,
                .names = names,
                .after = after,
                .progress = Progress(call.deps.console, names),
                .endpoint = endpoint,
                .turns = kj::mv(turns),
                .failures = {}};
  auto waits = kj::heapArrayBuilder<kj::Promise<void>>(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    waits.add(takeDown<Results>(task, *session, i, request));
  }
  co_await kj::joinPromises(waits.finish());
  for (auto& f : task.failures) printFailure(call, f);
  co_return conclude(call, task.failures, task.good, Partial::kIsFailure);
}

using RebootResults = rpc::Machine::RebootResults;
using ShutdownResults = rpc::Machine::ShutdownResults;

kj::Promise<int> runReboot(Invocation& call) {
  return takeDownAll<RebootResults>(call, Outcome::Kind::kReboot, [](rpc::Machine::Client machine) {
    return machine.rebootRequest().send();
  });
}

kj::Promise<int> runShutdown(Invocation& call) {
  return takeDownAll<ShutdownResults>(
      call, Outcome::Kind::kShutdown,
      [](rpc::Machine::Client machine) { return machine.shutdownRequest().send(); });
}

void declare(Command& command, Run run, kj::StringPtr details) {
  addWaitFlag(command, true);
  addOutputFlag(command);
  command.timeout = kOutcome;
  command.details = details;
  command.run = run;
}

}  // namespace

void addLifecycleCommands(Command& root) {
  auto& reboot = root.add("reboot", "Reboot nodes");
  declare(reboot, runReboot,
          "Waits until each node and its services are up again, at most --timeout, unless "
          "--wait=false is given.");
  addRebootMode(reboot, "mode");
  auto& shutdown = root.add("shutdown", "Shut nodes down");
  declare(shutdown, runShutdown,
          "Waits until each node is off, at most --timeout, unless --wait=false is given.");
  shutdown.flag(
      {.name = "force", .help = "do not drain the node first, which a shutdown here never does"});
}

namespace {

using PreviewResults = rpc::Machine::PreviewResetResults;
using ResetResults = rpc::Machine::ResetResults;

// Before a node accepts the reset, it is drained and leaves etcd.
constexpr auto kAccepted = 9 * kj::MINUTES;

struct ResetOptions {
  bool graceful, reboot;
  kj::ArrayPtr<const kj::String> labels;
};

template <typename Request>
void setLabels(Request& request, kj::ArrayPtr<const kj::String> labels) {
  fillTexts(request.initLabels(labels.size()), labels);
}

kj::String sizeOf(uint64_t bytes) {
  return bytes == 0 ? kj::String() : kj::str(", ", decimalSize(bytes));
}

// Returns "10.5.0.2: erases all of /dev/vda: STATE (/dev/vda5, 105 MB), …; then reboots".
kj::String described(kj::StringPtr node, PreviewResults::Reader plan, const ResetOptions& options) {
  auto targets = KJ_MAP(t, plan.getTargets()) {
    return kj::str(printableText(t.getLabel()), " (", printableText(t.getDevice()),
                   sizeOf(t.getSize()), ")");
  };
  bool all = options.labels.size() == 0 && plan.getDisk().size() > 0;
  return kj::str(printableText(node), ": erases ",
                 all ? kj::str("all of ", printableText(plan.getDisk()), ": ") : kj::String(),
                 kj::strArray(targets, ", "), "; then ", options.reboot ? "reboots" : "shuts down",
                 "\n");
}

// Returns the effect on etcd; empty for a node without etcd.
kj::String etcdDescribed(kj::StringPtr node, PreviewResults::Reader plan,
                         const ResetOptions& options) {
  if (plan.getEtcdProblem().size() > 0) {
    return kj::str(printableText(node),
                   ": the members of etcd are not known: ", printableText(plan.getEtcdProblem()),
                   "\n");
  }
  if (plan.getEtcd().size() == 0) return kj::String();
  auto departure = options.graceful ? EtcdDeparture::kLeaves : EtcdDeparture::kErased;
  return kj::str(printableText(node), ": ", printableText(departureText(plan.getEtcd(), departure)),
                 "\n");
}

// Prints what each node would erase, and asks the user. Returns false if a node did not answer.
kj::Promise<bool> announce(Invocation& call, const ResetOptions& options) {
  auto session = co_await openSession(call, kDeadline);
  auto answers = co_await askAll<PreviewResults>(*session, [&](rpc::Node::Client node) {
    auto request = node.machineRequest().send().getMachine().previewResetRequest();
    setLabels(request, options.labels);
    request.setGraceful(options.graceful);
    return request.send();
  });
  if (conclude(call, answers.failures, answers.good.size(), Partial::kIsFailure) != 0) {
    co_return false;
  }
  for (auto& a : answers.good) {
    call.err(described(a.node, a.value, options));
    call.err(etcdDescribed(a.node, a.value, options));
  }
  if (call.on("yes") || !canAsk(call, "whether to reset")) co_return true;
  auto nodes = answers.good.size();
  auto question =
      nodes == 1 ? kj::str("reset this node?") : kj::str("reset these ", nodes, " nodes?");
  if (co_await confirmed(call.deps, question)) co_return true;
  fail(ErrorKind::kFailedPrecondition, "not confirmed; nothing was reset");
}

bool keepsItsConfig(const ResetOptions& options) {
  return options.labels.size() > 0 && !contains(options.labels, "STATE");
}

// The Kubernetes objects to remove, and the connections to do it. They are opened before the reset,
// because the nodes may be endpoints themselves.
struct RemovedNodes {
  kj::Own<Session> session;
  kj::Own<kube::KubeClient> kubernetes;
  kj::Own<NodeRemoval> removal;
};

kj::Promise<RemovedNodes> findNodes(Invocation& call, const ResetOptions& options) {
  if (keepsItsConfig(options)) {
    failUsage(
        "--remove-node is for nodes that lose their config: one that keeps STATE joins again, and "
        "its kubelet makes the object anew");
  }
  if (!call.on("wait")) {
    failUsage("--remove-node needs --wait: a kubelet that still runs makes the object anew");
  }
  RemovedNodes nodes;
  nodes.session = co_await openSession(call, kDeadline);
  auto& session = *nodes.session;
  nodes.kubernetes =
      co_await connectKubernetes(session.client, "", {.orEndpoint = true}, session.deadline);
  nodes.removal = co_await NodeRemoval::find(*nodes.kubernetes, session.client.nodes());
  for (auto i : kj::indices(session.client.nodes())) {
    call.err(kj::str(session.client.nodes()[i], ": is removed from Kubernetes, where it is ",
                     printableText(nodes.removal->name(i)), "\n"));
  }
  co_return kj::mv(nodes);
}

}  // namespace

kj::Promise<int> runReset(Invocation& call) {
  ResetOptions options{call.on("graceful"), call.on("reboot"), call.list("system-labels-to-wipe")};
  kj::Maybe<RemovedNodes> removed;
  if (call.on("remove-node")) removed = co_await findNodes(call, options);
  if (!co_await announce(call, options)) co_return 1;
  auto kind = !options.reboot           ? Outcome::Kind::kShutdown
              : keepsItsConfig(options) ? Outcome::Kind::kReboot
                                        : Outcome::Kind::kReset;
  auto request = [&](rpc::Machine::Client machine) {
    auto reset = machine.resetRequest();
    reset.setGraceful(options.graceful);
    reset.setReboot(options.reboot);
    setLabels(reset, options.labels);
    return reset.send();
  };
  AfterTakeDown remove = [&](size_t index) {
    return KJ_ASSERT_NONNULL(removed).removal->remove(index);
  };
  kj::Maybe<AfterTakeDown&> after;
  if (removed != nullptr) after = remove;
  co_return co_await takeDownAll<ResetResults>(call, kind, request, kAccepted, after);
}

void addResetCommand(Command& root) {
  auto& reset = root.add("reset", "Erase the system disk of nodes, or partitions of it");
  reset.details =
      "Prints what will be erased and the consequence for etcd, and asks for confirmation on a "
      "terminal. The node is cordoned and drained first, for at most 6 minutes; a control-plane "
      "node then leaves etcd. The reset is refused, and nothing is changed, if the cluster would "
      "lose its quorum or another voter is not healthy: repair that, or use --graceful=false. An "
      "accepted reset is completed in any case, after a power cut by the next boot. Waits until "
      "each node is off, or up again, or down without its config, at most --timeout, unless "
      "--wait=false is given.";
  reset.timeout = kOutcome;
  reset.flag({.name = "graceful",
              .fallback = "true",
              .help = "if true, attempt to cordon/drain node and leave etcd (if applicable)"});
  reset.flag({.name = "remove-node",
              .help = "remove the node from Kubernetes as well, when it is down or without its "
                      "config"});
  reset.flag({.name = "reboot",
              .help = "if true, reboot the node after resetting instead of shutting down"});
  reset.flag({.name = "system-labels-to-wipe",
              .kind = FlagKind::kList,
              .help = "if set, erase only these partitions of the system disk and keep the others: "
                      "EFI, BIOS, BOOT, META, STATE, EPHEMERAL"});
  reset.flag({.name = "wipe-mode",
              .kind = FlagKind::kText,
              .fallback = "all",
              .help = "both erase the system disk, or the partitions of --system-labels-to-wipe",
              .choices = {"all", "system-disk"}});
  reset.flag({.name = "yes", .letter = "y", .help = "do not ask"});
  addWaitFlag(reset, true);
  addOutputFlag(reset);
  reset.run = runReset;
}

}  // namespace talos::talosctl
