// cordon, uncordon, drain
#include "talosctl/drain/drain-commands.h"

#include "talosctl/client/cluster-client.h"
#include "talosctl/drain/drain-run.h"
#include "talosctl/rollout/rollout-flags.h"

namespace talos::talosctl {
namespace {

constexpr int64_t kOwnGrace = -1, kMostGrace = 24 * 3600;
constexpr auto kDrainLimit = 20 * kj::MINUTES;

constexpr kj::StringPtr kWhichNodes =
    "Nodes are named by arguments, each the name of a node in Kubernetes or one of its addresses, "
    "or else by --nodes. Kubernetes is called with the credentials of an administrator, which the "
    "endpoint gives (role os:admin)."_kj;

// All objects that a call needs; `named` has the nodes as the user named them.
struct DrainSession {
  kj::Own<Session> session;
  kj::Own<kube::KubeClient> kubernetes;
  kj::Vector<kj::String> named;
};

kj::Promise<DrainSession> openDrain(Invocation& call) {
  DrainSession result;
  if (call.arguments.empty()) {
    result.session = co_await openSession(call, kDeadline);
    for (auto& node : result.session->client.nodes()) result.named.add(kj::str(node));
  } else {
    if (call.given("nodes")) failUsage("name the nodes by arguments or by --nodes, not by both");
    for (auto& node : call.arguments) {
      checkHost(node, "node");
      result.named.add(kj::str(node));
    }
    auto deadline = kj::min(call.deadline(), kDeadline);
    result.session = kj::heap<Session>(call.deps, resolveTarget(call), deadline);
    co_await result.session->client.connect(deadline);
  }
  result.kubernetes = co_await connectKubernetes(result.session->client, "", kubernetesRoute(""),
                                                 result.session->deadline);
  co_return kj::mv(result);
}

kj::Promise<int> runCordon(Invocation& call, bool cordons) {
  auto opened = co_await openDrain(call);
  bool dryRun = call.on("dry-run");
  DrainLines lines(call.deps.console, eventFormat(call), dryRun);
  DrainRun run(call.deps.timer, call.deps.clock, *opened.kubernetes, lines, dryRun);
  auto nodes = co_await run.resolve(opened.named);
  for (auto& node : nodes) {
    co_await (cordons ? run.cordon(node) : run.uncordon(node));
  }
  co_return 0;
}

kj::Promise<int> runCordonCommand(Invocation& call) {
  return runCordon(call, true);
}
kj::Promise<int> runUncordonCommand(Invocation& call) {
  return runCordon(call, false);
}

kj::Promise<int> runDrainCommand(Invocation& call) {
  auto grace = call.number("grace-period");
  if (grace < kOwnGrace || grace > kMostGrace) {
    failUsage(kj::str("--grace-period must be -1, for that of each pod, or 0 to ", kMostGrace,
                      " seconds"));
  }
  DrainOptions options{.force = call.on("force"),
                       .deleteEmptyDirData = call.on("delete-emptydir-data"),
                       .ignoreDaemonSets = call.on("ignore-daemonsets"),
                       .disableEviction = call.on("disable-eviction"),
                       .podSelector = call.text("pod-selector"),
                       .timeout = call.deadline()};
  if (grace != kOwnGrace) options.grace = grace * kj::SECONDS;
  auto opened = co_await openDrain(call);
  bool dryRun = call.on("dry-run"), allDrained = true;
  DrainLines lines(call.deps.console, eventFormat(call), dryRun);
  DrainRun run(call.deps.timer, call.deps.clock, *opened.kubernetes, lines, dryRun);
  auto nodes = co_await run.resolve(opened.named);
  for (auto& node : nodes) co_await run.cordon(node);
  for (auto& node : nodes) {
    bool drained = co_await run.drain(node, options);
    allDrained = allDrained && drained;
  }
  co_return allDrained ? 0 : 1;
}

void addCommonFlags(Command& command) {
  command.arguments = "[<node>...]";
  command.most = kj::maxValue;
  command.flag({.name = "dry-run", .help = "change nothing; show what would be done"});
  addRolloutOutput(command);
}

}  // namespace

void addDrainCommands(Command& root) {
  auto& cordon = root.add("cordon", "Mark nodes of Kubernetes as unschedulable");
  cordon.details = kWhichNodes;
  addCommonFlags(cordon);
  cordon.run = runCordonCommand;
  auto& uncordon = root.add("uncordon", "Mark nodes of Kubernetes as schedulable");
  uncordon.details = kWhichNodes;
  addCommonFlags(uncordon);
  uncordon.run = runUncordonCommand;

  auto& drain = root.add("drain", "Move the pods of nodes elsewhere, for maintenance");
  drain.details =
      "All nodes are cordoned; then one after the other is drained: its pods are evicted, which "
      "PodDisruptionBudgets may delay, and waited for. --timeout is the limit for each node. "
      "Static pods stay. A node that cannot be drained stays cordoned. Nodes are named as with "
      "\"talosctl cordon\".";
  addCommonFlags(drain);
  drain.timeout = kDrainLimit;
  drain.flag({.name = "delete-emptydir-data",
              .help = "also pods with a volume of the kind emptyDir, whose data is lost"});
  drain.flag(
      {.name = "disable-eviction", .help = "delete pods, which asks no PodDisruptionBudget"});
  drain.flag(
      {.name = "force", .help = "also pods without a controller, which nothing creates elsewhere"});
  drain.flag({.name = "grace-period",
              .kind = FlagKind::kNumber,
              .fallback = "-1",
              .help = "seconds that pods have to terminate; -1: those of each pod"});
  drain.flag({.name = "ignore-daemonsets", .help = "leave pods of DaemonSets running"});
  drain.flag({.name = "pod-selector",
              .kind = FlagKind::kText,
              .help = "only pods with these labels: app=web"});
  drain.run = runDrainCommand;
}

}  // namespace talos::talosctl
