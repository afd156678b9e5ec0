// Three control-plane nodes that share 10.5.0.50, and a client at their segment with an address of
// its own. For tests; needs root.
//
// Common to nodes in containers (vip-nodes.h) and in virtual machines (vip-machines-test.cc): the
// ports of the segment's bridge, what the nodes say by their API, and
// who answers the client (tests/vip/arp-prober.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/harness/cluster.h"
#include "tests/harness/host-state.h"
#include "tests/vip/arp-prober.h"
#include "tests/vip/places.h"

namespace talos {

// Undoes what was done.
using Heal = std::function<void()>;

Heal both(Heal a, Heal b);

class VipSegment {
 public:
  static constexpr unsigned kCount = 3;
  static constexpr const char* kVip = "10.5.0.50";
  static constexpr const char* kClient = "10.5.0.60";

  // `port`: what the ports of the bridge are called, before their number.
  VipSegment(const std::string& name, const std::string& port, std::vector<std::string> flags);
  virtual ~VipSegment();
  KJ_DISALLOW_COPY_AND_MOVE(VipSegment);

  HostUnchanged host;  // outlives the cluster
  harness::Cluster cluster;
  std::unique_ptr<ArpProber> client;
  kj::AutoCloseFd clientPlace;

  const std::string& nodeName(unsigned node) const { return nodes[node].name; }
  const std::string& address(unsigned node) const { return nodes[node].address; }

  // A node's own endpoint and no other.
  harness::Result at(unsigned node, std::vector<std::string> arguments,
                     unsigned timeoutSeconds = 5) const;
  // The node that has the address while the two others are ready to take it and the client is
  // answered, by the status of the nodes requested through `node`; -1: it is not so.
  int settledBy(unsigned node) const;
  // The node whose etcd leads; -1: none is known.
  int leader() const;
  // The status of the address on the nodes, and their logs.
  std::string said() const;

  // --- faults. `program`: "vipd" or "etcd"
  virtual void kill(unsigned node, const std::string& program) = 0;
  virtual Heal stop(unsigned node, const std::string& program) = 0;
  // "kill", "start", "pause", "resume" (talosctl cluster node)
  void power(const char* action, unsigned node) const;
  virtual Heal lose(unsigned node);
  Heal freeze(unsigned node) const;
  // The cable; the link of a node in a container has no carrier then.
  Heal unplug(unsigned node);
  // Frames are dropped in this direction while the link stays up.
  enum class Way { kBoth, kFromNode, kToNode };
  Heal cutOff(unsigned node, Way way);

 private:
  struct Node {
    std::string name, address, port;
  };
  kj::AutoCloseFd segment;
  kj::Own<netlink::Kernel> kernel;  // of the segment
  std::vector<Node> nodes;

  void addClient();
  void filter(const std::string& commands) const;
  void setPort(unsigned node, bool up);
};

}  // namespace talos
