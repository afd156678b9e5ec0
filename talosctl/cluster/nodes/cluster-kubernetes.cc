#include "talosctl/cluster/nodes/cluster-kubernetes.h"

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/talosconfig/talosconfig.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/cluster/nodes/cluster-supervisor.h"
#include "talosctl/health/health-command.h"
#include "talosctl/kube/connect-kubernetes.h"

namespace talos::cluster {
namespace {

// Returns the first control-plane node as the target.
talosctl::Target firstNode(rpc::LocalCluster::Reader cluster, kj::StringPtr stateFolder) {
  auto config = Talosconfig::load(kj::str(stateFolder, "/talosconfig"));
  talosctl::Target target{.endpoints = {},
                          .nodes = {},
                          .credentials = config.resolve().credentials(),
                          .fingerprints = {}};
  target.endpoints.add(kj::str(cluster.getNodes()[0].getEndpoint()));
  return target;
}

}  // namespace

kj::Promise<void> waitForKubernetes(talosctl::Invocation& call, rpc::LocalCluster::Reader cluster,
                                    kj::StringPtr stateFolder, kj::Duration deadline) {
  talos::ClusterNodes nodes;
  for (auto node : cluster.getNodes()) {
    auto& list = node.getType() == "join" ? nodes.workers : nodes.controlPlane;
    list.add(kj::str(node.getAddress()));
  }
  talosctl::Client client(call.deps, firstNode(cluster, stateFolder));
  co_await talosctl::waitForHealth(client, nodes, deadline);
}

kj::Promise<talosctl::StoredKubeconfig> warnWhenLocked(
    kj::Promise<talosctl::StoredKubeconfig> storing, kj::Function<void(kj::StringPtr)> warn) {
  return storing.catch_([warn = kj::mv(warn)](kj::Exception&& e) mutable {
    if (kindOf(e) != ErrorKind::kConflict) kj::throwFatalException(kj::mv(e));
    warn(kj::str("WARNING: the cluster is up, but its kubeconfig was not merged: ",
                 talosctl::messageText(e), "\nmerge it with `talosctl kubeconfig`\n"));
    return talosctl::StoredKubeconfig();
  });
}

kj::String userKubeconfig(talosctl::Invocation& call) {
  auto home = call.deps.environment("HOME");
  auto list = call.deps.environment("KUBECONFIG").orDefault(kj::str());
  return talosctl::kubeconfigPath(
      "", true, home.map([](kj::String& text) { return kj::StringPtr(text); }), list);
}

kj::Promise<kube::ReceivedKubeconfig> keepKubeconfig(talosctl::Invocation& call,
                                                     rpc::LocalCluster::Reader cluster,
                                                     kj::StringPtr stateFolder) {
  talosctl::Client client(call.deps, firstNode(cluster, stateFolder));
  co_await client.connect(talosctl::kDeadline);
  auto given = co_await talosctl::fetchKubeconfig(client, "", talosctl::kDeadline);
  writeFileAtomically(kj::str(stateFolder, "/kubeconfig"), kj::StringPtr(given.text()), 0600);
  co_return kj::mv(given);
}

kj::Promise<void> mergeUserKubeconfig(talosctl::Invocation& call, rpc::LocalCluster::Reader cluster,
                                      kube::ReceivedKubeconfig given, kj::String path) {
  given = talosctl::throughHost(kj::mv(given), cluster.getNodes()[0].getEndpoint());
  call.err(kj::str("merging kubeconfig into \"", path, "\"\n"));
  talosctl::KubeconfigTarget target{.path = kj::mv(path), .contextName = {}};
  auto rename = [](const kube::MergeKind&, kj::StringPtr) -> kj::Promise<kube::MergeChoice> {
    return kube::MergeChoice::kRename;
  };
  auto storing =
      talosctl::storeKubeconfig(call.deps.timer, kj::mv(target), kj::mv(given), kj::mv(rename));
  auto stored =
      co_await warnWhenLocked(kj::mv(storing), [&call](kj::StringPtr text) { call.err(text); });
  for (auto& line : stored.renames) call.err(kj::str(line, "\n"));
}

}  // namespace talos::cluster
