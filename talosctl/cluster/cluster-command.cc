#include "talosctl/cluster/cluster-command.h"

#include <kj/debug.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/yaml/yaml-codec.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/client/answer-output.h"
#include "talosctl/client/cluster-client.h"
#include "talosctl/cluster/containers/node-cgroups.h"
#include "talosctl/cluster/local-cluster.h"
#include "talosctl/cluster/nodes/cluster-context.h"
#include "talosctl/cluster/nodes/cluster-control.h"
#include "talosctl/cluster/nodes/cluster-plan.h"
#include "talosctl/cluster/nodes/cluster-state.h"
#include "talosctl/cluster/nodes/cluster-tables.h"
#include "talosctl/cluster/processes/file-writers.h"
#include "talosctl/cluster/report-commands.h"
#include "talosctl/recover/recovery-command.h"

namespace talos::talosctl {

using cluster::StateDirectory;

// Time from the end of a supervisor to the end of its processes, which get SIGKILL then.
constexpr kj::Duration kProcessesEnd = 10 * kj::SECONDS;

kj::String absolute(kj::StringPtr path) {
  if (path.startsWith("/") || path.size() == 0) return kj::str(path);
  char current[4096];
  KJ_REQUIRE(getcwd(current, sizeof current) != nullptr);
  return kj::str(current, "/", path);
}

// Most commands that are not only for local clusters have no --state.
bool namesFolder(Invocation& call) {
  return call.declared("state") && call.given("state");
}

namespace {

// Returns the flags with which another command names the same cluster.
kj::String flagsOf(Invocation& call, kj::StringPtr name) {
  bool usual = name == kUsualName;
  return kj::str(usual ? kj::str() : kj::str(" --name ", name),
                 namesFolder(call) ? kj::str(" --state ", shellQuoted(absolute(call.text("state"))))
                                   : kj::str());
}

}  // namespace

StateDirectory stateOf(Invocation& call) {
  return stateOf(call, call.text("name"));
}

kj::String clustersFolder(Invocation& call) {
  if (namesFolder(call)) return absolute(call.text("state"));
  return usualFolder(homeOf(call));
}

kj::String homeOf(Invocation& call) {
  KJ_IF_MAYBE (home, call.deps.environment("HOME")) return kj::str(*home);
  fail(ErrorKind::kInvalidArgument,
       "HOME is not set; use --state to name the folder of the clusters");
}

kj::String usualFolder(kj::StringPtr home) {
  return absolute(kj::str(home, "/.talos/clusters"));
}

StateDirectory stateOf(Invocation& call, kj::StringPtr name) {
  cluster::checkName(name);  // the name becomes part of a path that may be removed
  return StateDirectory(clustersFolder(call), name, flagsOf(call, name));
}

kj::Promise<void> discard(Invocation& call, const StateDirectory& state) {
  state.stopSupervisor();
  // A supervisor that was killed has left its cgroups.
  container::ClusterCgroups(container::readCgroups(),
                            cluster::cgroupName(call.text("name"), state.path()))
      .remove();
  // Nothing is removed while a process of the cluster may use it.
  cluster::requireNoFileWriters(state.path(), kProcessesEnd);
  // An unreadable talosconfig, of the cluster or of the user, must not stop the rest.
  try {
    co_await cluster::removeContext(call.deps.timer, state, configPath(call));
  } catch (const kj::Exception& e) {
    call.err(kj::str(
        "WARNING: cannot remove the cluster's context from the talosconfig: ", messageOf(e), "\n"));
  }
  removeTree(state.path());
}

kj::Promise<void> readStates(Invocation& call, const StateDirectory& state,
                             rpc::LocalCluster::Builder cluster) {
  bool running = state.supervisor() != nullptr;
  for (auto node : cluster.getNodes()) node.setState(running ? "unknown" : "off");
  if (!running) {
    call.err(kj::str("this cluster is not running; start it with ", state.command("start"), "\n"));
    co_return;
  }
  try {
    auto control =
        co_await cluster::ControlClient::connect(call.deps.lowLevel, call.deps.timer, state.path());
    auto answer = co_await control->states();
    auto states = answer.getNodes();
    for (auto i : kj::range(0u, kj::min(states.size(), cluster.getNodes().size()))) {
      cluster.getNodes()[i].setState(states[i].getState());
      cluster.getNodes()[i].setPid(kj::max(states[i].getPid(), 0));
      cluster.getNodes()[i].setError(states[i].getError());
    }
  } catch (const kj::Exception& e) {
    call.err(kj::str("WARNING: cannot ask the cluster's supervisor: ", messageOf(e), "\n"));
  }
}

namespace {

// Rejects the wrong flag: it chooses nothing for an existing cluster, so the user meant another
// cluster.
void checkProvisioner(Invocation& call, rpc::LocalCluster::Reader cluster) {
  kj::StringPtr wanted = call.text("provisioner");
  if (wanted == "auto") return;
  if (wanted == "docker") wanted = "container";
  if (wanted == cluster.getProvisioner()) return;
  fail(ErrorKind::kInvalidArgument,
       kj::str("--provisioner: the provisioner of this cluster is ", cluster.getProvisioner()));
}

// Returns the cluster of --name, otherwise the cluster of the context, otherwise the default
// cluster of `cluster create`.
StateDirectory shownCluster(Invocation& call) {
  if (call.given("name")) return stateOf(call);
  KJ_IF_MAYBE (found, clusterOfContext(call)) return kj::mv(found->state);
  return stateOf(call, kUsualName);
}

kj::Promise<int> runShow(Invocation& call) {
  auto state = shownCluster(call);
  auto message = state.load();
  auto cluster = message->getRoot<rpc::LocalCluster>();
  checkProvisioner(call, cluster);
  co_await readStates(call, state, cluster);
  if (call.text("output") == "json") {
    call.out(kj::str(codec::writeJson(cluster.asReader()), "\n"));
  } else if (call.text("output") == "yaml") {
    call.out(codec::writeYaml(cluster.asReader()));
  } else {
    call.out(cluster::renderShow(cluster));
  }
  co_return 0;
}

cluster::ListedCluster listed(Invocation& call, kj::StringPtr name) {
  auto state = stateOf(call, name);
  cluster::ListedCluster row{.name = kj::str(name)};
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                 row.running = state.supervisor() != nullptr;
                 row.message = state.load();
               })) {
    row.error = kj::str(messageOf(*e));
    call.err(kj::str("WARNING: cannot read the cluster ", name, ": ", row.error, "\n"));
  }
  return row;
}

kj::Promise<int> runList(Invocation& call) {
  kj::String current;
  KJ_IF_MAYBE (found, clusterOfContext(call)) current = kj::str(found->state.path());
  kj::Vector<cluster::ListedCluster> rows;
  for (auto& name : clusterNames(call)) {
    rows.add(listed(call, name));
    rows.back().current = stateOf(call, name).path() == current;
  }
  if (formatOf(call) == Format::kJson) {
    call.out(cluster::listJson(rows));
  } else if (formatOf(call) == Format::kYaml) {
    call.out(cluster::listYaml(rows));
  } else if (rows.size() > 0) {
    call.out(cluster::renderList(rows));
  } else {
    call.err(kj::str("no clusters in ", clustersFolder(call), "\n"));
  }
  co_return 0;
}

kj::Promise<int> runDestroy(Invocation& call) {
  auto state = stateOf(call);
  if (!state.exists()) {
    fail(ErrorKind::kNotFound, kj::str("no cluster in ", state.path()));
  }
  if (call.given("provisioner")) {
    checkProvisioner(call, state.load()->getRoot<rpc::LocalCluster>());
  }
  call.err("destroying nodes and network\n");
  co_await discard(call, state);
  call.err("removed the state directory\n");
  co_return 0;
}

void addFolderFlag(Command& command) {
  command.flag({.name = "state",
                .kind = FlagKind::kText,
                .help = "folder of the clusters (default ~/.talos/clusters)"});
}

void addProvisionerFlag(Command& command) {
  command.flag({.name = "provisioner",
                .kind = FlagKind::kText,
                .fallback = "auto",
                .help =
                    "backend that runs the nodes; auto is qemu where KVM works, else container; "
                    "docker means container, and no Docker is needed",
                .choices = {"auto", "qemu", "container", "docker"}});
}

}  // namespace

void addStateFlags(Command& command) {
  command.flag({.name = "name",
                .kind = FlagKind::kText,
                .fallback = kUsualName,
                .help = "name of the cluster"});
  addFolderFlag(command);
}

void addWaitFlags(Command& command) {
  command.flag(
      {.name = "wait", .fallback = "true", .help = "wait until every node's services are up"});
  command.flag({.name = "wait-timeout",
                .kind = FlagKind::kDuration,
                .fallback = "20m",
                .help = "how long to wait"});
}

void addCommonFlags(Command& command) {
  addStateFlags(command);
  addProvisionerFlag(command);
}

void addLocalDebugCommands(Command& root) {
  auto& debug = KJ_ASSERT_NONNULL(commandAt(root, "debug"));
  addReplaceCommand(debug);
  addCallCommand(debug);
}

void addClusterCommands(Command& root) {
  auto& group = root.add(
      "cluster", "Manage local clusters of virtual machines and containers; recover a cluster");
  addCreateCommand(group);
  auto& show = group.add("show", "Show a local cluster");
  show.flag({.name = "name",
             .kind = FlagKind::kText,
             .help = "name of the cluster (default: that of the context, else talos-default)"});
  addFolderFlag(show);
  addProvisionerFlag(show);
  addOutputFlag(show);
  show.run = runShow;
  auto& list = group.add("list", "List the local clusters");
  list.aliases = {"ls"};
  addFolderFlag(list);
  addOutputFlag(list);
  list.run = runList;
  auto& destroy = group.add("destroy", "Destroy a local cluster and remove its files");
  addCommonFlags(destroy);
  destroy.run = runDestroy;
  addPowerCommands(group);
  addRecoverCommand(group);
  addReportCommands(root);
  adaptToLocalClusters(root);
}

}  // namespace talos::talosctl
