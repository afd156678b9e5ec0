// Files of a local cluster that follow what other commands change in it.
//
//   kubeconfig   names the address of this host that leads to the API server, if the cluster is one
//                of --state, or of the default folder
//   reset        stores the present config of each node in <node>.yaml, from which the node boots
//                when its own is erased
//   rotate-ca    gives the cluster's own talosconfig the new client, and stores the configs of all
//                nodes, the kubeconfig, and the entries of the user's kubeconfig
//
// From the first change of a rotate-ca until all files are stored, <state>/outdated exists: the
// next of these commands stores what a run that was cut off has left.
//
// If the user cannot read the state folder of the cluster, nothing is stored: the commands treat it
// as they treat any other cluster.
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/folder.h"
#include "common/memory/zeroize.h"
#include "talosctl/client/cluster-client.h"
#include "talosctl/client/node-config.h"
#include "talosctl/cluster/cluster-command.h"
#include "talosctl/cluster/local-cluster.h"
#include "talosctl/cluster/nodes/cluster-kubernetes.h"
#include "talosctl/commands/all-commands.h"
#include "talosctl/kube/kube-commands.h"
#include "talosctl/rotate-ca/rotate-ca-command.h"

namespace talos::talosctl {
namespace {

constexpr kj::StringPtr kOutdated = "outdated"_kj;

bool isOutdated(const cluster::StateDirectory& state) {
  return access(state.file(kOutdated).cStr(), F_OK) == 0;
}

// Returns the cluster that `cluster create` has given the name of the context, if a rotate-ca was
// cut off between the talosconfig of the state folder and that of the user: they have different
// CAs.
kj::Maybe<FoundCluster> halfRenewedCluster(Invocation& call) {
  auto config = Talosconfig::load(configPath(call));
  auto name = kj::str(call.given("context") ? call.text("context") : config.currentName());
  auto endpoints = kj::strArray(config.resolve(name).endpoints, " ");
  for (auto& each : knownClusters(call)) {
    auto& state = each.state;
    if (!isOutdated(state)) continue;
    if (tryReadFile(state.file("context")).orDefault(kj::String()) != name) continue;
    auto own = Talosconfig::load(state.file("talosconfig"));
    if (kj::strArray(own.resolve().endpoints, " ") != endpoints) continue;
    auto message = state.load();
    return FoundCluster{kj::mv(each.name), kj::mv(state), kj::mv(message)};
  }
  return nullptr;
}

// Returns the local cluster with the CA of the context; nullptr also if it cannot be determined,
// because the command itself reports that.
kj::Maybe<FoundCluster> clusterWithTheCa(Invocation& call) {
  kj::Maybe<FoundCluster> found;
  kj::runCatchingExceptions([&] { found = clusterOfContext(call); });
  return found;
}

// Returns the local cluster of the context.
kj::Maybe<FoundCluster> localCluster(Invocation& call) {
  auto found = clusterWithTheCa(call);
  if (found == nullptr) kj::runCatchingExceptions([&] { found = halfRenewedCluster(call); });
  return found;
}

bool isAmong(kj::ArrayPtr<const kj::String> names, rpc::LocalNode::Reader node) {
  for (auto& name : names) {
    if (name == node.getAddress() || name == node.getName()) return true;
  }
  return false;
}

// Returns the address of this host for the named control-plane node, else for the first one.
kj::String hostOf(kj::ArrayPtr<const kj::String> names, rpc::LocalCluster::Reader cluster) {
  auto nodes = cluster.getNodes();
  for (auto node : nodes) {
    if (node.getType() != "join" && isAmong(names, node)) return kj::str(node.getEndpoint());
  }
  return kj::str(nodes[0].getEndpoint());
}

// Sets a flag that the user has not given.
void preset(Invocation& call, kj::StringPtr flag, kj::String text) {
  auto& value = KJ_ASSERT_NONNULL(call.values.find(flag));
  value.texts.clear();
  value.texts.add(kj::mv(text));
}

void warn(Invocation& call, kj::StringPtr file, const kj::Exception& e) {
  call.err(printableText(
      kj::str("WARNING: ", file, " of the local cluster is not up to date: ", messageOf(e), "\n")));
}

kj::Promise<void> storeConfig(Invocation& call, Client& client, kj::String address,
                              kj::String path) {
  auto reading = runningConfig(client.node(address));
  auto running = co_await within(call.deps.timer, kDeadline, kj::mv(reading));
  KJ_DEFER(zeroize(running.document));
  writeFileAtomically(path, running.document, 0600);
}

// Stores the present configs of all nodes, or of those that the command calls, and warns of those
// that cannot be read: they keep the stored one. Resolves to false if there is such a node.
kj::Promise<bool> storeConfigs(Invocation& call, FoundCluster& found, bool all) {
  Client client(call.deps, resolveTarget(call));
  bool stored = true;
  for (auto node : found.get().getNodes()) {
    if (!all && !isAmong(client.nodes(), node)) continue;
    auto file = kj::str(node.getName(), ".yaml");
    kj::Maybe<kj::Exception> failure;
    try {
      co_await client.connect(kDeadline);
      co_await storeConfig(call, client, kj::str(node.getAddress()), found.state.file(file));
    } catch (const kj::Exception& e) {
      failure = kj::cp(e);
    }
    KJ_IF_MAYBE (e, failure) warn(call, file, *e);
    stored = stored && failure == nullptr;
  }
  co_return stored;
}

kj::Promise<bool> storeKubeconfigs(Invocation& call, FoundCluster& found) {
  kj::Maybe<kj::Exception> failure;
  try {
    auto cluster = found.get();
    auto fresh = co_await cluster::keepKubeconfig(call, cluster, found.state.path());
    fresh = throughHost(kj::mv(fresh), cluster.getNodes()[0].getEndpoint());
    auto path = cluster::userKubeconfig(call);
    if (co_await renewUserKubeconfig(call.deps.timer, path, fresh)) {
      call.err(kj::str("> kubeconfig renewed: ", path, "\n"));
    }
  } catch (const kj::Exception& e) {
    failure = kj::cp(e);
  }
  KJ_IF_MAYBE (e, failure) warn(call, "kubeconfig", *e);
  co_return failure == nullptr;
}

// Stores all files. The mark stays if one of them could not be stored, or if the context has
// another CA: then it is the only sign that the cluster is that of the context.
kj::Promise<void> storeAll(Invocation& call, FoundCluster& found) {
  bool stored = co_await storeConfigs(call, found, true);
  if (tryReadFile(found.state.file("kubeconfig")) != nullptr) {
    bool renewed = co_await storeKubeconfigs(call, found);
    stored = stored && renewed;
  }
  if (stored && isOutdated(found.state) && clusterWithTheCa(call) != nullptr) {
    removeDurably(found.state.file(kOutdated));
  }
}

kj::Promise<void> storeWhatIsLeft(Invocation& call, FoundCluster& found) {
  call.err("> storing the files of the local cluster, which an interrupted rotate-ca has left\n");
  return storeAll(call, found);
}

kj::Promise<int> runLocalKubeconfig(Invocation& call) {
  auto cluster = localCluster(call);
  KJ_IF_MAYBE (found, cluster) {
    // Programs in the network of a cluster that another folder has call its own endpoint.
    bool usual = found->state.path().startsWith(kj::str(clustersFolder(call), "/"));
    if (usual && !call.given("endpoint")) {
      preset(call, "endpoint", hostOf(call.list("nodes"), found->get()));
    }
    if (isOutdated(found->state)) co_await storeWhatIsLeft(call, *found);
  }
  co_return co_await runKubeconfig(call);
}

kj::Promise<int> runLocalReset(Invocation& call) {
  auto cluster = localCluster(call);
  KJ_IF_MAYBE (found, cluster) {
    if (isOutdated(found->state)) {
      co_await storeWhatIsLeft(call, *found);
    } else {
      co_await storeConfigs(call, *found, false);
    }
  }
  co_return co_await runReset(call);
}

kj::Promise<int> runLocalRotateCa(Invocation& call) {
  auto cluster = call.on("dry-run") ? kj::Maybe<FoundCluster>() : localCluster(call);
  KJ_IF_MAYBE (found, cluster) {
    preset(call, kRenewedConfigs, found->state.file("talosconfig"));
    if (access(found->state.path().cStr(), W_OK) == 0) {
      preset(call, kChangeMark, found->state.file(kOutdated));
    }
  }
  auto status = co_await runRotateCa(call);
  KJ_IF_MAYBE (found, cluster) {
    if (status == 0) {
      co_await storeAll(call, *found);
    } else if (isOutdated(found->state)) {
      call.err(
          "the files of the local cluster are not up to date: the end of the rotation, or "
          "`talosctl kubeconfig`, stores them\n");
    }
  }
  co_return status;
}

}  // namespace

void adaptToLocalClusters(Command& root) {
  struct Adapted {
    kj::StringPtr name;
    Run run;
  };
  for (auto& one :
       {Adapted{"kubeconfig"_kj, runLocalKubeconfig}, Adapted{"reset"_kj, runLocalReset},
        Adapted{"rotate-ca"_kj, runLocalRotateCa}}) {
    KJ_IF_MAYBE (command, root.child(one.name)) command->run = one.run;
  }
}

}  // namespace talos::talosctl
