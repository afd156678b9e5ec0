// The NodePorts of a local cluster at the loopback endpoints of its nodes: a TCP port that a
// Service of Kubernetes opens on every node is opened there too.
//
// The ports are those of the Services that Kubernetes has at the moment; nothing is kept. One that
// the host refuses, or whose listener fails, is logged, and tried again when a Service changes. UDP
// is not forwarded.
#pragma once

#include <map>
#include <set>
#include <string>

#include "common/kube/kube-client.h"

namespace talos::cluster {

// Those of a Service. Pure.
std::set<uint16_t> nodePortsOf(const kube::Json& service);

class NodePorts {
 public:
  // Forwards this port of the node with this index until the promise is dropped; throws when the
  // host refuses it.
  using Open = kj::Function<kj::Promise<void>(size_t node, uint16_t port)>;
  NodePorts(size_t nodes, Open open) : nodes(nodes), open(kj::mv(open)) {}
  KJ_DISALLOW_COPY_AND_MOVE(NodePorts);

  // Follows the Services until the server ends the watch; rejects when it cannot be asked. The
  // ports stay open, for the next call.
  kj::Promise<void> follow(kube::KubeClient& kubernetes);

 private:
  using Place = std::pair<size_t, uint16_t>;
  size_t nodes;
  Open open;
  std::map<std::string, std::set<uint16_t>> services;  // by namespace and name
  std::set<Place> failed;                              // of `forwarded`
  std::map<Place, kj::Promise<void>> forwarded;

  kj::Promise<void> keepOpen(Place place);
  void reconcile();
};

}  // namespace talos::cluster
