// health
#include "talosctl/health/health-command.h"

#include "talosctl/health/cluster-observer.h"
#include "talosctl/health/health-lines.h"

namespace talos::talosctl {
namespace {

// --init-node is one of the control plane.
ClusterNodes givenNodes(Invocation& call) {
  ClusterNodes nodes;
  auto add = [](kj::Vector<kj::String>& list, kj::StringPtr node) {
    checkHost(node, "node");
    for (auto& there : list) {
      if (there == node) return;
    }
    list.add(kj::str(node));
  };
  if (call.text("init-node").size() > 0) add(nodes.controlPlane, call.text("init-node"));
  for (auto& node : call.list("control-plane-nodes")) add(nodes.controlPlane, node);
  for (auto& node : call.list("worker-nodes")) add(nodes.workers, node);
  if (nodes.controlPlane.empty() && !nodes.workers.empty()) {
    failUsage("--worker-nodes needs --control-plane-nodes; without both, Kubernetes is asked");
  }
  return nodes;
}

kj::Promise<void> runChecks(Client& client, HealthObserver& observer, ClusterNodes expected,
                            bool json, kj::Duration patience) {
  auto& deps = client.deps;
  HealthLines lines(deps.console, deps.timer, json);
  HealthRun run(deps.timer, observer, lines, patience);
  auto all = [&]() -> kj::Promise<void> {
    if (expected.controlPlane.empty()) expected = co_await run.discover();
    co_await run.check(expected);
  };
  co_await all().exclusiveJoin(lines.turn());
}

kj::Promise<int> runHealthCommand(Invocation& call) {
  if (call.on("run-e2e")) {
    fail(ErrorKind::kUnimplemented,
         "--run-e2e: talosctl runs no conformance tests; run them with Hydrophone or Sonobuoy and "
         "the kubeconfig of `talosctl kubeconfig`");
  }
  auto nodes = givenNodes(call);
  auto server = call.text("k8s-endpoint");
  if (server.size() > 0) {
    checkHost(server, "endpoint");
    if (call.on("server")) failUsage("--k8s-endpoint needs --server=false: the node asks its own");
  }
  bool json = call.text("output") == "json";
  auto patience = call.duration("wait-timeout");
  if (call.on("server")) {
    auto session = co_await openSingle(call);
    NodeObserver observer(session->client, session->client.nodes()[0]);
    co_await runChecks(session->client, observer, kj::mv(nodes), json, patience);
    co_return 0;
  }
  Client client(call.deps, resolveTarget(call));
  kj::StringPtr asked = "";
  if (!nodes.controlPlane.empty()) {
    asked = nodes.controlPlane[0];
  } else if (client.nodes().size() == 1) {
    asked = client.nodes()[0];
  }
  ApiObserver observer(client, asked, server);
  co_await runChecks(client, observer, kj::mv(nodes), json, patience);
  co_return 0;
}

}  // namespace

kj::Promise<void> waitForHealth(Client& client, const ClusterNodes& expected,
                                kj::Duration patience) {
  NodeObserver observer(client, "");
  ClusterNodes nodes;
  for (auto& node : expected.controlPlane) nodes.controlPlane.add(kj::str(node));
  for (auto& node : expected.workers) nodes.workers.add(kj::str(node));
  co_await runChecks(client, observer, kj::mv(nodes), false, patience);
}

void addHealthCommand(Command& root) {
  auto& command = root.add("health", "Wait until a cluster works, and show what it lacks");
  command.details =
      "Checks etcd, the services of the nodes and Kubernetes, one after the other, and waits for "
      "each. Kubernetes is asked by the control-plane node of --nodes, or with --server=false from "
      "here, with an admin kubeconfig (role os:admin). Without a list the nodes are those that "
      "Kubernetes knows. Exit status 1 when something does not become healthy in time.";
  command.flag({.name = "control-plane-nodes",
                .kind = FlagKind::kList,
                .help = "the control-plane nodes that there should be"});
  command.flag({.name = "init-node",
                .kind = FlagKind::kText,
                .help = "another control-plane node, of type init"});
  command.flag({.name = "k8s-endpoint",
                .kind = FlagKind::kText,
                .help = "with --server=false: host of the Kubernetes API, port 6443 (default: that "
                        "of the kubeconfig)"});
  command.flag({.name = "output",
                .letter = "o",
                .kind = FlagKind::kText,
                .fallback = "text",
                .help = "json: a line for each check on stdout as well",
                .choices = {"text", "json"}});
  command.flag({.name = "run-e2e", .help = "not available: names what runs conformance tests"});
  command.flag({.name = "server",
                .fallback = "true",
                .help = "let the node ask Kubernetes; false: ask it from here"});
  command.flag({.name = "wait-timeout",
                .kind = FlagKind::kDuration,
                .fallback = "20m",
                .help = "how long to wait for everything together"});
  command.flag({.name = "worker-nodes",
                .kind = FlagKind::kList,
                .help = "the workers that there should be"});
  command.run = runHealthCommand;
}

}  // namespace talos::talosctl
