#include "talosctl/cluster/context-cluster.h"

#include <kj/filesystem.h>

#include <algorithm>

#include "talosctl/client/cluster-client.h"
#include "talosctl/cluster/cluster-command.h"
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

}  // namespace talos::talosctl
