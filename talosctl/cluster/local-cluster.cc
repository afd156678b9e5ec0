#include "talosctl/cluster/local-cluster.h"

#include <kj/filesystem.h>

#include <algorithm>

#include "common/base/error.h"
#include "common/base/node-layout.h"
#include "talosctl/client/cluster-client.h"
#include "talosctl/cluster/cluster-command.h"
#include "talosctl/cluster/nodes/cluster-control.h"
#include "talosctl/cluster/nodes/cluster-plan.h"

namespace talos::talosctl {

kj::Array<kj::String> clusterNames(Invocation& call) {
  kj::Vector<kj::String> names;
  auto disk = kj::newDiskFilesystem();
  auto folder = disk->getCurrentPath().eval(clustersFolder(call));
  KJ_IF_MAYBE (clusters, disk->getRoot().tryOpenSubdir(folder)) {
    for (auto& name : (*clusters)->listNames()) {
      if (cluster::isValidName(name)) names.add(kj::mv(name));
    }
  }
  std::sort(names.begin(), names.end());
  return names.releaseAsArray();
}

kj::Maybe<FoundCluster> clusterOf(Invocation& call, const Context& context) {
  for (auto& name : clusterNames(call)) {
    kj::Maybe<FoundCluster> found;
    auto failed = kj::runCatchingExceptions([&] {
      auto state = stateOf(call, name);
      auto config = Talosconfig::load(state.file("talosconfig"));
      if (config.resolve().ca != context.ca) return;
      auto message = state.load();
      found = FoundCluster{kj::str(name), kj::mv(state), kj::mv(message)};
    });
    if (failed == nullptr && found != nullptr) return found;
  }
  return nullptr;
}

kj::Maybe<FoundCluster> clusterOfContext(Invocation& call) {
  auto config = Talosconfig::load(configPath(call));
  auto name = call.text("context");
  if (name.size() == 0) name = config.currentName();
  if (!call.given("context") && config.contexts().find(name) == nullptr) return nullptr;
  return clusterOf(call, config.resolve(name));
}

kj::String LocalTarget::socket(kj::StringPtr program) const {
  return kj::str(root(), kRunFolder, "/", program, ".sock");
}

FoundCluster requireLocalCluster(Invocation& call) {
  auto cluster = clusterOfContext(call);
  KJ_IF_MAYBE (found, cluster) return kj::mv(*found);
  fail(ErrorKind::kFailedPrecondition,
       "the context is not that of a local cluster of this host: its root reaches into no others");
}

kj::Promise<kj::Vector<LocalTarget>> localTargets(Invocation& call, FoundCluster& found) {
  auto control = co_await cluster::ControlClient::connect(call.deps.lowLevel, call.deps.timer,
                                                          found.state.path());
  auto states = co_await control->states();
  kj::Vector<LocalTarget> targets;
  auto wanted = [&](rpc::LocalNode::Reader node) {
    if (!call.given("nodes")) return true;
    for (auto& name : call.list("nodes")) {
      if (name == node.getAddress() || name == node.getName()) return true;
    }
    return false;
  };
  auto nodes = found.get().getNodes();
  for (auto i : kj::range(0u, kj::min(nodes.size(), states.getNodes().size()))) {
    auto node = nodes[i];
    if (!wanted(node)) continue;
    auto pid = states.getNodes()[i].getPid();
    if (pid <= 0) fail(ErrorKind::kFailedPrecondition, kj::str(node.getName(), " is off"));
    targets.add(LocalTarget{.address = kj::str(node.getAddress()),
                            .name = kj::str(node.getName()),
                            .endpoint = kj::str(node.getEndpoint()),
                            .pid = pid,
                            .container = node.getProvisioner() == "container"});
  }
  if (targets.empty()) {
    fail(ErrorKind::kNotFound, kj::str("no node of the local cluster ", found.name,
                                       " has the name "
                                       "or address ",
                                       kj::strArray(call.list("nodes"), ", ")));
  }
  co_return kj::mv(targets);
}

kj::Promise<kj::Vector<LocalTarget>> localContainers(Invocation& call, FoundCluster& found) {
  auto targets = co_await localTargets(call, found);
  for (auto& target : targets) {
    if (target.container) continue;
    fail(ErrorKind::kFailedPrecondition,
         kj::str(target.name,
                 " is a virtual machine: this host's root reaches into nodes in containers only"));
  }
  co_return kj::mv(targets);
}

}  // namespace talos::talosctl
