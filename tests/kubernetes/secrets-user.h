// A client that writes and reads Secrets at every API server and records the results; a call that
// an API server does not answer is made at the next one.
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/kubernetes/kube-cluster.h"

namespace talos {

class SecretsUser {
 public:
  // Writes a Secret through one API server, and reads it through each, until it is stopped. Names
  // begin with `prefix`. `kubeconfig`: the client's; empty: the cluster's.
  explicit SecretsUser(const KubeCluster& cluster, const std::string& prefix = "probe",
                       const std::string& kubeconfig = "");
  ~SecretsUser();
  void stop();
  // Prints and checks the results: no call that all API servers left unanswered, no wrong answer,
  // and at least `rounds` rounds.
  void checkStopped(unsigned rounds);

  std::atomic<unsigned> done{0};  // rounds

 private:
  const KubeCluster& cluster;
  std::string prefix, kubeconfig;
  std::vector<std::string> servers;
  std::vector<std::string> wrong;
  unsigned lost = 0, refused = 0;
  std::atomic<bool> over{false};
  std::thread thread;

  harness::Result at(size_t server, std::vector<std::string> arguments) const;
  void judge(const harness::Result& result);
  bool anywhere(size_t first, const std::vector<std::string>& arguments);
  void run();
};

}  // namespace talos
