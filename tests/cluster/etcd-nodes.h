// Control-plane nodes in containers and their etcd, for tests. Its status is read through the API,
// its content by etcdctl with the certificates of a node. Needs root.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/harness/cluster.h"
#include "tests/harness/host-state.h"

namespace talos {

struct EtcdNode {
  std::string name, address;
};

// Returns the number of voting members that answer, by the output of `etcd members`.
size_t votersIn(const std::string& members);

class EtcdNodes {
 public:
  static constexpr double kTimeout = 240;  // s; beside other tests

  // Creates the nodes "<name>-master-1" at 10.5.0.2 and so on.
  EtcdNodes(const std::string& name, unsigned masters, std::vector<std::string> flags,
            double comesUpSeconds = 600);

  const EtcdNode& operator[](size_t i) const { return nodes[i]; }
  const std::vector<EtcdNode>& all() const { return nodes; }

  // Runs talosctl through the node's own endpoint, so that no other node has to be up.
  harness::Result at(const EtcdNode& node, std::vector<std::string> arguments,
                     double deadline = 200) const;
  std::string members(const EtcdNode& node) const;
  // Returns the number of voting members that answer, by the status of this node.
  size_t voters(const EtcdNode& node) const;
  bool haveVoters(const EtcdNode& node, size_t count, double deadline = kTimeout) const;
  std::string statusOf(const EtcdNode& node) const;  // etcdstatus in YAML
  bool says(const EtcdNode& node, const std::string& text, double deadline = kTimeout) const;
  // Returns the id of the cluster to which the node reports to belong.
  std::string clusterId(const EtcdNode& node) const;
  std::string bootId(const EtcdNode& node) const;

  void kill(const EtcdNode& node) const;
  void start(const EtcdNode& node) const;
  // Erases everything of the node except its config, without notice to the others, and starts it.
  void reinstall(const EtcdNode& node) const;
  // Erases a node that is off in the same way, and leaves it off.
  void erase(const EtcdNode& node) const;

  // Runs etcdctl at the node's etcd.
  harness::Result etcdctl(const EtcdNode& node, std::vector<std::string> arguments) const;
  bool put(const EtcdNode& node, const std::string& key, const std::string& value) const;
  std::string get(const EtcdNode& node, const std::string& key) const;

  const harness::Cluster& cluster() const { return cluster_; }

 private:
  HostUnchanged host;  // outlives the cluster
  harness::Cluster cluster_;
  std::vector<EtcdNode> nodes;
};

}  // namespace talos
