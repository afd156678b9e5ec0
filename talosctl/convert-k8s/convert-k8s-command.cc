// convert-k8s
#include "talosctl/convert-k8s/convert-k8s-command.h"

#include "talosctl/cli/standard-input.h"
#include "talosctl/convert-k8s/remote-conversion.h"
#include "talosctl/rollout/continuation.h"
#include "talosctl/rollout/rollout-flags.h"

namespace talos::talosctl {
namespace {

constexpr size_t kMostAnswer = 64;

// Removes the key by hand. Without static pods to follow, the nodes would have no control plane
// once the DaemonSets are deleted.
kj::Promise<void> removeKeyAlone(RemoteConversion& nodes, kj::StringPtr node, bool force,
                                 RolloutLines& lines) {
  auto there = force ? kj::size(kConvertedParts) : co_await nodes.staticPods(node);
  if (there != kj::size(kConvertedParts)) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str(node, " has ", there, " of ", kj::size(kConvertedParts),
                 " static pod definitions: cluster.serviceAccount and cluster.aggregatorCA are "
                 "missing in its config, or it is no control-plane node; --force removes the key "
                 "nevertheless"));
  }
  lines.line("removing self-hosted initialized key");
  if (!co_await nodes.removeInitializedKey(node)) {
    lines.note("it was not there: the control plane is not self-hosted");
  }
}

kj::Promise<int> convertKubernetes(Invocation& call) {
  auto server = kubernetesEndpoint(call);
  auto session = co_await openSession(call);
  auto& client = session->client;
  bool keyAlone = call.on("remove-initialized-key");
  auto first = keyAlone ? firstNode(call, client, "the key is that of the whole cluster")
                        : firstNode(call, client);
  RemoteConversion nodes(client, session->deadline);
  RolloutLines lines(call.deps.console, EventFormat::kText);
  if (keyAlone) {
    co_await removeKeyAlone(nodes, first, call.on("force"), lines);
    co_return 0;
  }
  auto kubernetes =
      co_await connectKubernetes(client, first, kubernetesRoute(server), session->deadline);
  ConvertRun run(call.deps.timer, call.deps.clock, *kubernetes, nodes, lines,
                 [&call]() { return readLine(call.deps, kMostAnswer); });
  co_await run.run(call.on("force") || call.on("yes"));
  co_return 0;
}

kj::Promise<int> runConvertK8s(Invocation& call) {
  return untilInterrupted(call, convertKubernetes(call));
}

}  // namespace

void addConvertK8sCommand(Command& root) {
  auto& command =
      root.add("convert-k8s", "Hand a control plane that bootkube made over to the nodes");
  command.details =
      "Of a cluster that Talos 0.8 or earlier made: its control plane runs in DaemonSets, and "
      "becomes static pods of the control-plane nodes. The first of --nodes is one of these; the "
      "others are found in Kubernetes. The key of service accounts and the images are taken from "
      "the cluster into the configs of these nodes, beside a new CA of the aggregation layer; "
      "then, "
      "after a question each, pod-checkpointer is removed, and the static pods take over from the "
      "DaemonSets one after the other. No node may reboot in between. A run that was interrupted "
      "continues when it is started again. Each wait has a limit of its own.";
  addKubernetesEndpoint(command);
  command.flag({.name = "force", .help = "ask nothing (Talos' name of --yes)"});
  command.flag({.name = "yes", .letter = "y", .help = "ask nothing"});
  command.flag({.name = "remove-initialized-key",
                .help = "only remove the sign of a self-hosted control plane from etcd, by the "
                        "first of --nodes: a step of a conversion by hand",
                .hidden = true});
  declareRollout(command);
  command.run = runConvertK8s;
}

}  // namespace talos::talosctl
