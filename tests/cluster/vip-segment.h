// Three control-plane nodes that share 10.5.0.50, workers beside them, and a client on their
// segment with its own address. For tests; needs root.
//
// Common to nodes in containers (vip-faults-test.cc) and in virtual machines
// (vip-machines-test.cc): the ports of the segment's bridge, the nodes' statuses by their API, and
// the hosts that answer the client (tests/vip/arp-prober.h).
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

// Undoes a fault.
using Heal = std::function<void()>;

Heal both(Heal a, Heal b);

class VipSegment {
 public:
  static constexpr unsigned kCount = 3;  // control-plane nodes; workers have the numbers after them
  static constexpr const char* kVip = "10.5.0.50";
  static constexpr const char* kClient = "10.5.0.60";

  // `port`: name of the bridge's ports, without their number.
  VipSegment(const std::string& name, const std::string& port, std::vector<std::string> flags,
             unsigned workers = 0);
  virtual ~VipSegment();
  KJ_DISALLOW_COPY_AND_MOVE(VipSegment);

  HostUnchanged host;  // outlives the cluster
  harness::Cluster cluster;
  std::unique_ptr<ArpProber> client;
  kj::AutoCloseFd clientPlace;

  const std::string& nodeName(unsigned node) const { return nodes[node].name; }
  const std::string& address(unsigned node) const { return nodes[node].address; }

  // Runs talosctl through the node's own endpoint only.
  harness::Result at(unsigned node, std::vector<std::string> arguments,
                     unsigned timeoutSeconds = 5) const;
  // Returns the node that has the address while the two others are ready to take it and the client
  // is answered, by the status of the nodes requested through `node`; otherwise -1.
  int settledBy(unsigned node) const;
  // Returns the node whose etcd leads; -1 if none is known.
  int leader() const;
  // Returns the status of the address on the nodes, and their logs.
  std::string said() const;

  // --- faults. `program`: "vipd" or "etcd"
  virtual void kill(unsigned node, const std::string& program) = 0;
  virtual Heal stop(unsigned node, const std::string& program) = 0;
  // Calls talosctl cluster node with "kill", "start", "pause" or "resume".
  void power(const char* action, unsigned node) const;
  virtual Heal lose(unsigned node);
  Heal freeze(unsigned node) const;
  // Unplugs the node's cable; the link of a node in a container has no carrier then.
  Heal unplug(unsigned node);
  // Direction in which frames are dropped while the link stays up.
  enum class Way { kBoth, kFromNode, kToNode };
  Heal cutOff(unsigned node, Way way);
  // Drops the frames from each of the two nodes to the other one.
  Heal cutLink(unsigned a, unsigned b);
  // Delays frames to the node, and loses some of them.
  Heal slowLink(unsigned node);
  // Returns false if the host's kernel cannot delay frames.
  bool canSlowLinks();

 protected:
  // Returns the hardware address of the node's link, six bytes; empty if it is not known.
  virtual std::string hardwareAddress(unsigned) const { return {}; }

 private:
  struct Node {
    std::string name, address, port;
  };
  kj::AutoCloseFd segment;
  kj::Own<netlink::Kernel> kernel;  // of the segment
  std::vector<Node> nodes;

  void addClient();
  void filter(const std::string& commands) const;
  Heal drop(unsigned node, const std::string& hook, const std::string& frames);
  void setPort(unsigned node, bool up);
};

}  // namespace talos
