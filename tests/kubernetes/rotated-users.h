// Users of what rotations replace: an aggregated API, a client of etcd, a client with a token; and
// calls that are repeated all the time, with what they find.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "tests/kubernetes/kube-cluster.h"

namespace talos {

// An API server of others, which Kubernetes' API servers call: openssl(1) at the nodes' segment. It
// accepts clients of the CAs that Kubernetes publishes.
class AggregatedApi {
 public:
  static constexpr const char* kService = "v1.aggregated.example.org";

  explicit AggregatedApi(const KubeCluster& cluster);
  // Another server takes the place of the present one, which serves until then: the CAs are read
  // once. Returns when every API server reaches it.
  void serve();
  void stop() { server = nullptr; }
  // By way of an API server.
  harness::Result call(const KubeNode& apiServer) const;
  // Until Kubernetes reports that it is available, or is not.
  void expectAvailable(bool available) const;
  // Of the CAs, as an aggregated API server reads them.
  std::string published() const;

 private:
  const KubeCluster& cluster;
  std::string folder;
  unsigned generation = 0;
  std::unique_ptr<harness::Background> server;
};

// etcd of a node, as a client with the files of a folder sees it.
harness::Result etcdHealth(const KubeCluster& cluster, const KubeNode& node,
                           const std::string& folder);

// A kubeconfig with a token of the service account `default`. It trusts the CA of the cluster's
// kubeconfig, as a program in a pod does that has read it once.
void writeTokenKubeconfig(const KubeCluster& cluster, const std::string& path);

// Calls the control-plane nodes in turn; a call that one does not answer is made at the next one.
class RepeatedCalls {
 public:
  using Call = std::function<harness::Result(const KubeNode&)>;
  RepeatedCalls(const KubeCluster& cluster, const std::string& name, Call call);
  ~RepeatedCalls();
  void stop();
  // Prints and checks what it has found: no call that all left unanswered, none that a node refused
  // because of a certificate, and at least so many.
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
