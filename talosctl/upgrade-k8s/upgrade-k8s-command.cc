// upgrade-k8s
#include "talosctl/upgrade-k8s/upgrade-k8s-command.h"

#include "talosctl/rollout/continuation.h"
#include "talosctl/rollout/rollout-flags.h"
#include "talosctl/upgrade-k8s/remote-cluster.h"

namespace talos::talosctl {
namespace {

kj::Promise<int> upgradeKubernetes(Invocation& call) {
  UpgradeIntent intent{.from = nullptr,
                       .to = readRelease(call.text("to"), "to"),
                       .kubelets = call.on("upgrade-kubelet"),
                       .force = call.on("force")};
  if (call.given("from")) intent.from = readRelease(call.text("from"), "from");
  auto server = kubernetesEndpoint(call);
  auto session = co_await openSession(call);
  auto& client = session->client;
  RemoteCluster cluster(client, firstNode(call, client), server, session->deadline);
  UpgradeLines lines(call.deps.console, eventFormat(call));
  UpgradeRun run(call.deps.timer, call.deps.clock, cluster, lines);
  co_await run.run(kj::mv(intent), call.on("dry-run"));
  co_return 0;
}

kj::Promise<int> runUpgradeK8s(Invocation& call) {
  return untilInterrupted(call, upgradeKubernetes(call));
}

}  // namespace

void addUpgradeK8sCommand(Command& root) {
  auto& command = root.add("upgrade-k8s", "Upgrade Kubernetes to another release");
  command.details =
      "The first of --nodes is a control-plane node; the others are found in Kubernetes. The "
      "release may be one minor release newer than that of the cluster, not older. API versions in "
      "use that it removes, and admission webhooks without a server, are refused. Every image is "
      "pulled before anything is changed. Then kube-apiserver, kube-controller-manager and "
      "kube-scheduler of each control-plane node, kube-proxy, and the kubelet of each node are "
      "updated one after the other, without a reboot; only the tags of their images change. A run "
      "that was interrupted continues when it is started again. Each wait has a limit of its own.";
  command.flag({.name = "dry-run", .help = "change nothing; show what would be upgraded"});
  addKubernetesEndpoint(command);
  command.flag({.name = "force",
                .help = "continue although API versions that the release removes are in use, or an "
                        "admission webhook cannot answer"});
  command.flag({.name = "from",
                .kind = FlagKind::kText,
                .help = "the release that the cluster must have (default: any)"});
  addRolloutOutput(command);
  command.flag({.name = "to",
                .kind = FlagKind::kText,
                .help = "the release to upgrade to, as 1.34.4",
                .required = true});
  command.flag(
      {.name = "upgrade-kubelet", .fallback = "true", .help = "upgrade the kubelets as well"});
  declareRollout(command);
  command.run = runUpgradeK8s;
}

}  // namespace talos::talosctl
