// The cluster of a random day: three control-plane nodes in containers with etcd and a shared
// address, and a worker; without Kubernetes.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/bad-images/system-images.h"
#include "tests/cluster/vip-nodes.h"
#include "tests/day/plan/day.h"
#include "tests/day/registers/register-clients.h"

namespace talos::day {

class DayCluster : public VipNodes {
 public:
  // Certificates of the nodes live for so long, so that they are renewed during the day.
  static constexpr unsigned kCertificates = 600;  // s

  // Throws if the cluster does not come up.
  DayCluster();
  ~DayCluster() noexcept;

  // Runs talosctl for a node: a control-plane node through its own endpoint, the worker through all
  // control-plane nodes.
  harness::Result call(unsigned node, std::vector<std::string> arguments,
                       double deadlineSeconds = 60) const;
  // Returns stdout and stderr.
  std::string shown(unsigned node, const std::vector<std::string>& arguments) const;
  // Returns the config on the node's disk.
  std::string config(unsigned node) const;
  // Returns the member of etcd that the node is, in hexadecimal; empty if it is not known.
  std::string member(unsigned node) const;
  // Returns etcd of the control-plane nodes for clients on the segment, with the credentials that
  // members have for each other.
  std::vector<Member> members() const;
  pid_t program(unsigned node, const std::string& name) const { return pidOf(node, name); }

  // Operations that cannot be done on this host, with the reason of each.
  std::set<Kind> lacking;
  std::vector<std::string> reasons;

  // Archives for upgrades: a good system, and one that is given up. Empty if `lacking` has
  // upgrades.
  std::string goodImage, badImage;
  // Makes the archives; `salt` chooses the fault of the bad one.
  void makeImages(unsigned salt);

 private:
  std::unique_ptr<SystemImages> good, bad;
  std::jthread follower;

  std::string allEndpoints() const;
};

}  // namespace talos::day
