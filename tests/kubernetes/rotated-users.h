// Users of what rotations replace: an aggregated API, a client of etcd, a client with a token; and
// calls that are repeated all the time, with what they find.
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
  // A new server, which reads the published CAs once, takes the place of the present one, which
  // serves until then. Returns when every API server reaches the new one.
  void serve();
  void stop();
  // By way of an API server.
  harness::Result call(const KubeNode& apiServer) const;
  // Until Kubernetes reports that it is available, or is not.
  void expectAvailable(bool available) const;
  // Of the CAs, as an aggregated API server reads them.
  std::string published() const;

 private:
  struct Server;
  const KubeCluster& cluster;
  kj::String certificate;  // of each server, PEM
  pki::Pem key;
  unsigned generation = 0;
  std::unique_ptr<Server> server;
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
