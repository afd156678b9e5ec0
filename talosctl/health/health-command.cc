// health
#include "talosctl/health/health-command.h"

#include "common/text/texts.h"
#include "talosctl/health/cluster-observer.h"
#include "talosctl/health/health-lines.h"

namespace talos::talosctl {
namespace {

// --init-node is a control-plane node.
ClusterNodes givenNodes(Invocation& call) {
  ClusterNodes nodes;
  auto add = [](kj::Vector<kj::String>& list, kj::StringPtr node) {
    checkHost(node, "node");
    addOnce(list, kj::str(node));
  };
  if (call.text("init-node").size() > 0) add(nodes.controlPlane, call.text("init-node"));
  for (auto& node : call.list("control-plane-nodes")) add(nodes.controlPlane, node);
  for (auto& node : call.list("worker-nodes")) add(nodes.workers, node);
  if (nodes.controlPlane.empty() && !nodes.workers.empty()) {
    failUsage(
        "--worker-nodes needs --control-plane-nodes; without both, Kubernetes lists the nodes");
  }
  return nodes;
}

kj::Promise<void> runChecks(kj::Timer& timer, HealthObserver& observer, HealthLines& lines,
                            ClusterNodes expected, kj::StringPtr node, kj::Duration timeout) {
  HealthRun run(timer, observer, lines, timeout);
  auto all = [&]() -> kj::Promise<void> {
    if (expected.controlPlane.empty()) {
      co_await run.checkListed(node);
    } else {
      co_await run.check(expected);
    }
  };
  co_await all().exclusiveJoin(lines.turn());
}

HealthLines::Results resultsOf(const Invocation& call) {
  auto form = call.text("output");
  return form == "json"   ? HealthLines::Results::kJson
         : form == "yaml" ? HealthLines::Results::kYaml
                          : HealthLines::Results::kNone;
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
  auto timeout = call.duration("wait-timeout");
  HealthLines lines(call.deps.console, call.deps.timer, resultsOf(call));
  if (call.on("server")) {
    auto session = co_await openSingle(call);
    NodeObserver observer(session->client, session->client.nodes()[0]);
    co_await runChecks(call.deps.timer, observer, lines, kj::mv(nodes), session->client.nodes()[0],
                       timeout);
    co_return 0;
  }
  Client client(call.deps, resolveTarget(call));
  kj::StringPtr node = "";
  if (!nodes.controlPlane.empty()) {
    node = nodes.controlPlane[0];
  } else if (client.nodes().size() == 1) {
    node = client.nodes()[0];
  }
  ApiObserver observer(client, node, server, [&lines](kj::StringPtr address) {
    lines.note(kj::str("asking Kubernetes at ", address));
  });
  co_await runChecks(call.deps.timer, observer, lines, kj::mv(nodes), node, timeout);
  co_return 0;
}

}  // namespace

kj::Promise<void> waitForHealth(Client& client, const ClusterNodes& expected,
                                kj::Duration timeout) {
  NodeObserver observer(client, "");
  ClusterNodes nodes;
  for (auto& node : expected.controlPlane) nodes.controlPlane.add(kj::str(node));
  for (auto& node : expected.workers) nodes.workers.add(kj::str(node));
  HealthLines lines(client.deps.console, client.deps.timer, HealthLines::Results::kNone);
  co_await runChecks(client.deps.timer, observer, lines, kj::mv(nodes), "", timeout);
}

void addHealthCommand(Command& root) {
  auto& command = root.add("health", "Wait until a cluster is healthy, and show what is missing");
  command.details =
      "Checks etcd, the services of the nodes and Kubernetes, one after the other, and waits for "
      "each. The control-plane node of --nodes asks Kubernetes, or with --server=false this host "
      "does, with an admin kubeconfig (role os:admin), at its server or through an endpoint, and "
      "says which. Without a list, Kubernetes lists the nodes. "
      "Exit status 1 if a check does not pass in time.";
  command.flag({.name = "control-plane-nodes",
                .kind = FlagKind::kList,
                .help = "the expected control-plane nodes"});
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
                .help = "yaml, json: a document or a line for each check on stdout as well",
                .choices = {"text", "yaml", "json"}});
  command.flag({.name = "run-e2e",
                .help = "not available; its message names programs that run conformance tests"});
  command.flag({.name = "server",
                .fallback = "true",
                .help = "let the node ask Kubernetes; false: ask from this host"});
  command.flag({.name = "wait-timeout",
                .kind = FlagKind::kDuration,
                .fallback = "20m",
                .help = "how long to wait for all checks together"});
  command.flag({.name = "worker-nodes", .kind = FlagKind::kList, .help = "the expected workers"});
  command.run = runHealthCommand;
}

}  // namespace talos::talosctl
