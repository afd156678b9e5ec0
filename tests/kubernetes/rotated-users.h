// Users of secrets that rotations replace: an aggregated API, a client of etcd, a client with a
// token; and calls that are repeated all the time, with their results.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "common/tls/pki.h"
#include "tests/kubernetes/kube-cluster.h"

namespace talos {

// An aggregated API server, which Kubernetes' API servers call at the nodes' segment. It accepts
// clients with a certificate of the CAs that Kubernetes publishes.
class AggregatedApi {
 public:
  static constexpr const char* kService = "v1.aggregated.example.org";

  explicit AggregatedApi(const KubeCluster& cluster);
  ~AggregatedApi();
  // Replaces the present server by a new one, which reads the published CAs once; the present
  // server continues until then. Returns when every API server reaches the new server.
  void serve();
  void stop();
  // Calls the aggregated API through an API server.
  harness::Result call(const KubeNode& apiServer) const;
  // Waits until Kubernetes reports that the API is available, or unavailable.
  void expectAvailable(bool available) const;
  // Returns the CAs, as an aggregated API server reads them.
  std::string published() const;

 private:
  struct Server;
  const KubeCluster& cluster;
  kj::String certificate;  // of each server, PEM
  pki::Pem key;
  unsigned generation = 0;
  std::unique_ptr<Server> server;
};

// Checks a node's etcd with the client's files of a folder.
harness::Result etcdHealth(const KubeCluster& cluster, const KubeNode& node,
                           const std::string& folder);

// Writes a kubeconfig with a token of the service account `default`. It trusts the CA of the
// cluster's kubeconfig, like a program in a pod that has read its CA once.
void writeTokenKubeconfig(const KubeCluster& cluster, const std::string& path);

// Repeated calls to the control-plane nodes in turn; a call that a node does not answer is made at
// the next node.
class RepeatedCalls {
 public:
  using Call = std::function<harness::Result(const KubeNode&)>;
  RepeatedCalls(const KubeCluster& cluster, const std::string& name, Call call);
  ~RepeatedCalls();
  void stop();
  // Prints and checks the results: no call that all nodes left unanswered, no call that a node
  // refused because of a certificate, and at least `calls` calls.
  void checkStopped(unsigned calls);

  std::atomic<unsigned> done{0};

 private:
  std::vector<KubeNode> servers;
  std::string name;
  Call call;
  std::string lostError, wrong;
  unsigned refused = 0, lost = 0;
  std::atomic<bool> over{false};
  std::thread thread;

  void run();
  bool anywhere(size_t first);
};

}  // namespace talos
