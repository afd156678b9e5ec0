// The NodePorts of a local cluster at the loopback endpoints of its nodes: a TCP port that a
// Service of Kubernetes opens on every node is also opened there.
//
// The ports are those of the Services that Kubernetes has at the moment; no state is kept. A port
// that the host refuses, or whose listener fails, is logged and retried when a Service changes. UDP
// is not forwarded.
#pragma once

#include <map>
#include <set>
#include <string>

#include "common/kube/kube-client.h"

namespace talos::cluster {

// Returns the TCP NodePorts of a Service. Pure.
std::set<uint16_t> nodePortsOf(const kube::Json& service);

class NodePorts {
 public:
  // Forwards this port of the node with this index until the promise is dropped; throws if the host
  // refuses the port.
  using Open = kj::Function<kj::Promise<void>(size_t node, uint16_t port)>;
  NodePorts(size_t nodes, Open open) : nodes(nodes), open(kj::mv(open)) {}
  KJ_DISALLOW_COPY_AND_MOVE(NodePorts);

  // Follows the Services until the server ends the watch; rejects if the server does not answer.
  // The ports stay open for the next call.
  kj::Promise<void> follow(kube::KubeClient& kubernetes);

 private:
  using Place = std::pair<size_t, uint16_t>;
  size_t nodes;
  Open open;
  std::map<std::string, std::set<uint16_t>> services;  // ports by namespace and name
  std::set<Place> failed;                              // subset of `forwarded`
  std::map<Place, kj::Promise<void>> forwarded;

  kj::Promise<void> keepOpen(Place place);
  void reconcile();
};

}  // namespace talos::cluster
