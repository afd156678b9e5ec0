// Flags and arguments that rollouts share: the cluster, as one control-plane node and the host of
// Kubernetes' API, the form of the output, and the question before the first change.
#pragma once

#include "common/base/error.h"
#include "talosctl/cli/standard-input.h"
#include "talosctl/kube/connect-kubernetes.h"
#include "talosctl/rollout/rollout-lines.h"

namespace talos::talosctl {

// Declares --output: text, json or yaml.
inline void addRolloutOutput(Command& command) {
  command.flag({.name = "output",
                .letter = "o",
                .kind = FlagKind::kText,
                .fallback = "text",
                .help = "json, yaml: each event on stdout, as one line or one document; all else "
                        "on stderr",
                .choices = {"text", "json", "yaml"}});
}
inline EventFormat eventFormat(const Invocation& call) {
  return eventFormatNamed(call.text("output"));
}

// Asks the question; resolves to false if the user answers no.
using Confirm = kj::Function<kj::Promise<bool>(kj::StringPtr question)>;
// Returns a function that asks, or that agrees with --yes and --dry-run. FailedPrecondition if
// there is no terminal. `action`: "recover".
inline Confirm confirmation(Invocation& call, kj::StringPtr action) {
  if (call.on("yes") || call.on("dry-run")) {
    return [](kj::StringPtr) -> kj::Promise<bool> { return true; };
  }
  if (!canAsk(call, kj::str("whether to ", action))) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("cannot ask whether to ", action,
                 ": there is no terminal; use --yes, or --dry-run to see what would be done"));
  }
  return [&call](kj::StringPtr question) { return confirmed(call.deps, question); };
}

// Declares --endpoint.
inline void addKubernetesEndpoint(Command& command) {
  command.flag({.name = "endpoint",
                .kind = FlagKind::kText,
                .help = "host of the Kubernetes API, port 6443 (default: that of the kubeconfig, "
                        "else the endpoint that talosctl uses)"});
}

// Returns the value of --endpoint; empty if it is not given. InvalidArgument if it is not a host.
inline kj::StringPtr kubernetesEndpoint(Invocation& call) {
  auto host = call.text("endpoint");
  if (host.size() > 0) checkHost(host, "endpoint");
  return host;
}

// Returns the route to this host; to that of the kubeconfig, or else through an endpoint of
// talosctl, if it is empty.
inline KubeRoute kubernetesRoute(kj::StringPtr host) {
  return {.server = host, .orEndpoint = host.size() == 0};
}

// Returns the first node of the call. A note names the other nodes, with the reason to ignore them.
inline kj::StringPtr firstNode(Invocation& call, const Client& client,
                               kj::StringPtr reason = "Kubernetes lists the other nodes") {
  auto nodes = client.nodes();
  if (nodes.size() > 1) {
    call.err(kj::str("using ", nodes[0], "; ignoring ",
                     kj::strArray(nodes.slice(1, nodes.size()), ", "), ": ", reason, "\n"));
  }
  return nodes[0];
}

}  // namespace talos::talosctl
