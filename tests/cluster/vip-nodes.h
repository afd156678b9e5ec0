// Three control-plane nodes in containers that share an address, a client at their segment, and
// what can happen to them. For tests; needs root.
//
// Who has the address is told by the kernels of the nodes (tests/vip/holder-watch.h) and by who
// answers the client (tests/vip/arp-prober.h); the nodes' own statuses only tell when to go on.
// A container has the clock of its host: no fault here steps it.
#pragma once

#include <signal.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/harness/cluster.h"
#include "tests/vip/arp-prober.h"
#include "tests/vip/holder-watch.h"

namespace talos {

// Undoes what was done.
using Heal = std::function<void()>;

class VipNodes {
 public:
  static constexpr unsigned kCount = 3;

  VipNodes();
  ~VipNodes();
  KJ_DISALLOW_COPY_AND_MOVE(VipNodes);

  HolderWatch watch;
  std::unique_ptr<ArpProber> client;

  // One has the address and answers, and the two others are ready to take it.
  bool settled(double deadlineSeconds);
  // The node whose etcd leads; -1: none is known.
  int leader() const;
  // Which node's link has this hardware address; -1: none of them.
  int ownerOf(const std::string& mac) const;
  // What the nodes say of the address, and their logs.
  std::string said() const;

  // --- faults. `program`: "vipd" or "etcd"
  void kill(unsigned node, const std::string& program);
  Heal stop(unsigned node, const std::string& program);
  // Runs for a tenth of the time only, in pieces: as with a disk that is slow to flush.
  Heal slow(unsigned node, const std::string& program);
  Heal lose(unsigned node);
  Heal freeze(unsigned node);
  // The cable; the node's link has no carrier.
  Heal unplug(unsigned node);
  // What is sent goes nowhere, and the link looks as it should.
  enum class Way { kBoth, kFromNode, kToNode };
  Heal cutOff(unsigned node, Way way);

 private:
  struct Node {
    std::string name, address, port, mac;
    kj::AutoCloseFd place;
  };
  harness::Cluster cluster;
  kj::AutoCloseFd segment;
  kj::Own<netlink::Kernel> kernel;  // of the segment
  std::vector<Node> nodes;
  kj::AutoCloseFd clientPlace;

  void addClient();
  void look(unsigned node);
  pid_t pidOf(unsigned node, const std::string& program) const;
  void send(unsigned node, const std::string& program, pid_t pid, int signal) const;
  void power(const char* action, unsigned node) const;
  void filter(const std::string& commands) const;
  void setPort(unsigned node, bool up);
};

}  // namespace talos
