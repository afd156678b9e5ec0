#include "talosctl/cluster/local-cluster.h"

#include <kj/filesystem.h>

#include <algorithm>

#include "common/base/error.h"
#include "common/base/lines.h"
#include "common/base/node-layout.h"
#include "common/user/user-file.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/client/cluster-client.h"
#include "talosctl/client/file-lock.h"
#include "talosctl/cluster/cluster-command.h"
#include "talosctl/cluster/nodes/cluster-control.h"
#include "talosctl/cluster/nodes/cluster-plan.h"

namespace talos::talosctl {
namespace {

constexpr size_t kFoldersSize = 1 << 20;  // bytes of the file of the remembered folders

// Returns the names of the clusters in a folder, sorted; empty if it cannot be read.
kj::Array<kj::String> clusterNamesIn(kj::StringPtr path) {
  kj::Vector<kj::String> names;
  auto disk = kj::newDiskFilesystem();
  auto folder = disk->getCurrentPath().eval(path);
  KJ_IF_MAYBE (clusters, disk->getRoot().tryOpenSubdir(folder)) {
    for (auto& name : (*clusters)->listNames()) {
      if (cluster::isValidName(name)) names.add(kj::mv(name));
    }
  }
  std::sort(names.begin(), names.end());
  return names.releaseAsArray();
}

kj::String foldersFile(kj::StringPtr home) {
  return kj::str(home, "/.talos/cluster-folders");
}

// Returns the remembered folders.
kj::Vector<kj::String> rememberedFolders(kj::StringPtr home) {
  kj::Vector<kj::String> folders;
  KJ_IF_MAYBE (text, tryReadUserFile(foldersFile(home), kFoldersSize)) {
    for (auto& line : linesOf(*text)) {
      if (line.startsWith("/")) folders.add(kj::mv(line));
    }
  }
  return folders;
}

void addKnown(kj::Vector<KnownCluster>& to, kj::StringPtr folder, bool usual) {
  auto flags = usual ? kj::str() : kj::str(" --state ", shellQuoted(folder));
  for (auto& name : clusterNamesIn(folder)) {
    auto own = name == kUsualName ? kj::str() : kj::str(" --name ", name);
    to.add(KnownCluster{kj::str(name), cluster::StateDirectory(folder, name, kj::str(own, flags))});
  }
}

kj::Promise<void> addFolder(Invocation& call) {
  auto folder = clustersFolder(call), home = homeOf(call);
  if (folder == usualFolder(home)) co_return;
  auto file = foldersFile(home);
  makeUserFolders(file, 0700);
  auto lock = co_await lockUserFile(call.deps.timer, file);
  kj::Vector<kj::String> kept;
  for (auto& each : rememberedFolders(home)) {
    if (each != folder && clusterNamesIn(each).size() > 0) kept.add(kj::mv(each));
  }
  kept.add(kj::mv(folder));
  writeUserFile(file, kj::str(kj::strArray(kept, "\n"), "\n"));
}

}  // namespace

kj::Array<kj::String> clusterNames(Invocation& call) {
  return clusterNamesIn(clustersFolder(call));
}

kj::Vector<KnownCluster> knownClusters(Invocation& call) {
  kj::Vector<KnownCluster> known;
  addKnown(known, clustersFolder(call), !namesFolder(call));
  if (namesFolder(call)) return known;
  for (auto& folder : rememberedFolders(homeOf(call))) {
    // A folder that cannot be read must not hide the other ones.
    kj::runCatchingExceptions([&] { addKnown(known, folder, false); });
  }
  return known;
}

kj::Promise<void> rememberFolder(Invocation& call) {
  kj::Maybe<kj::String> failure;
  co_await addFolder(call).catch_([&](kj::Exception&& e) { failure = messageOf(e); });
  KJ_IF_MAYBE (error, failure) {
    call.err(kj::str(
        "NOTE: kubeconfig, reset and rotate-ca do not keep the files of this cluster up to date: ",
        *error, "\n"));
  }
}

kj::Maybe<FoundCluster> clusterOf(Invocation& call, const Context& context) {
  for (auto& each : knownClusters(call)) {
    kj::Maybe<FoundCluster> found;
    auto failed = kj::runCatchingExceptions([&] {
      auto config = Talosconfig::load(each.state.file("talosconfig"));
      if (config.resolve().ca != context.ca) return;
      auto message = each.state.load();
      found = FoundCluster{kj::mv(each.name), kj::mv(each.state), kj::mv(message)};
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
