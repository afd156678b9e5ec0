#include "talosctl/cluster/report-commands.h"

#include <capnp/message.h>

#include "common/base/error.h"
#include "common/talosconfig/talosconfig.h"
#include "talosctl/client/cluster-client.h"
#include "talosctl/cluster/cluster-command.h"
#include "talosctl/cluster/local-cluster.h"
#include "talosctl/cluster/nodes/cluster-state.h"
#include "talosctl/report/crash-dump.h"
#include "talosctl/report/support-bundle.h"

namespace talos::talosctl {
namespace {

using cluster::StateDirectory;

// Returns a folder name of the archive, because users choose the names of nodes.
kj::String folderOf(kj::StringPtr node) {
  return node.startsWith(".") ? kj::str("node", node) : kj::str(node);
}

void addLocalFiles(FoundCluster& local, Bundle& bundle) {
  auto add = [&](kj::String name, kj::StringPtr file, bool config = false) {
    bundle.files.add(
        BundledFile{.name = kj::mv(name), .path = local.state.file(file), .config = config});
  };
  for (auto node : local.get().getNodes()) {
    auto name = node.getName();
    add(kj::str(name, "/console.log"), kj::str(name, ".log"));
    add(kj::str(name, "/local-config.yaml"), kj::str(name, ".yaml"), true);
  }
  add(kj::str("cluster/state.yaml"), "state.yaml");
  add(kj::str("cluster/supervisor.log"), "supervisor.log");
}

// Chooses the nodes of --nodes, otherwise those of the local cluster, otherwise those of the
// context.
void chooseNodes(Invocation& call, const Context& context, kj::Maybe<FoundCluster>& local,
                 Bundle& bundle) {
  kj::ArrayPtr<const kj::String> named = call.list("nodes");
  KJ_IF_MAYBE (cluster, local) {
    for (auto node : cluster->get().getNodes()) {
      bool wanted = named.size() == 0;
      for (auto& name : named)
        wanted = wanted || name == node.getAddress() || name == node.getName();
      if (wanted)
        bundle.nodes.add(BundledNode{kj::str(node.getAddress()), kj::str(node.getName())});
    }
    if (named.size() == 0 || bundle.nodes.size() == named.size()) return;
    bundle.nodes.clear();  // a name is unknown in this cluster: use the given names
  }
  if (named.size() == 0) named = context.nodes;
  for (auto& name : named) {
    talosctl::checkHost(name, "node");
    bundle.nodes.add(BundledNode{kj::str(name), folderOf(name)});
  }
  if (bundle.nodes.size() == 0) {
    fail(ErrorKind::kInvalidArgument, "no nodes are set; use --nodes, or `talosctl config node`");
  }
}

kj::Promise<int> runSupport(Invocation& call) {
  if (call.number("num-workers") < 0) failUsage("--num-workers must not be negative");
  auto access = Access::of(call);
  auto config = talosctl::readTalosconfig(call);
  auto& context = config.resolve(access.context);
  auto local = clusterOf(call, context);
  Bundle bundle;
  bundle.atOnce = static_cast<size_t>(call.number("num-workers"));
  chooseNodes(call, context, local, bundle);
  KJ_IF_MAYBE (cluster, local) addLocalFiles(*cluster, bundle);
  auto answered = co_await writeSupportBundle(call, access, bundle, call.text("output"));
  if (answered > 0) co_return 0;
  call.err("error: no node answered; errors.txt in the archive has the reasons\n");
  co_return 1;
}

kj::Promise<int> runCrashdump(Invocation& call) {
  auto access = Access::of(call);
  kj::Vector<DumpedNode> nodes;
  auto add = [&](kj::StringPtr name) {
    talosctl::checkHost(name, "node");
    nodes.add(DumpedNode{kj::str(name), kj::str()});
  };
  if (call.given("init-node")) add(call.text("init-node"));
  for (auto& name : call.list("control-plane-nodes")) add(name);
  for (auto& name : call.list("worker-nodes")) add(name);
  for (auto& name : call.list("nodes")) add(name);
  if (nodes.size() == 0) {
    failUsage("no nodes are named; use --control-plane-nodes and --worker-nodes");
  }
  talosctl::readTalosconfig(call);  // throws if the named file does not exist
  auto good =
      co_await writeCrashDump(call, access, nodes, [&](kj::StringPtr text) { call.out(text); });
  co_return good > 0 ? 0 : 1;
}

}  // namespace

kj::Promise<void> dumpLocalCluster(Invocation& call, kj::StringPtr stateFolder) {
  try {
    auto slash = KJ_ASSERT_NONNULL(stateFolder.findLast('/'));
    StateDirectory state(kj::heapString(stateFolder.slice(0, slash)), stateFolder.slice(slash + 1));
    auto message = state.load();
    Access access{.talosconfig = state.file("talosconfig"), .context = {}, .endpoints = {}};
    kj::Vector<DumpedNode> nodes;
    for (auto node : message->getRoot<rpc::LocalCluster>().asReader().getNodes()) {
      nodes.add(
          DumpedNode{kj::str(node.getAddress()), state.file(kj::str(node.getName(), ".log"))});
    }
    co_await writeCrashDump(call, access, nodes, [&](kj::StringPtr text) { call.err(text); });
  } catch (const kj::Exception& e) {
    call.err(kj::str("cannot write the crash dump: ", messageOf(e), "\n"));
  }
}

void addReportCommands(Command& root) {
  auto& support = root.add("support", "Collect logs, resources, events and configs in one archive");
  support.details =
      "Secrets are left out or hidden. Without --nodes: all nodes of the context, or of the local "
      "cluster that it leads to, whose consoles are in the archive even if a node is down.";
  support.flag({.name = "output",
                .letter = "O",
                .kind = FlagKind::kText,
                .fallback = "support.zip",
                .help = "the archive"});
  support.flag({.name = "num-workers",
                .letter = "w",
                .kind = FlagKind::kNumber,
                .fallback = "0",
                .help = "nodes to ask at once; 0: all"});
  support.flag({.name = "state",
                .kind = FlagKind::kText,
                .help = "folder of the local clusters (default ~/.talos/clusters)"});
  support.run = runSupport;

  auto& dump = root.add("crashdump", "Print the last lines of every log of the nodes");
  dump.flag({.name = "init-node", .kind = FlagKind::kText, .help = "node of type init"});
  dump.flag(
      {.name = "control-plane-nodes", .kind = FlagKind::kList, .help = "control-plane nodes"});
  dump.flag({.name = "worker-nodes", .kind = FlagKind::kList, .help = "workers"});
  dump.run = runCrashdump;
}

}  // namespace talos::talosctl
