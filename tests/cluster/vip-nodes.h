// Three control-plane nodes in containers that share an address, and their faults. For tests; needs
// root.
//
// The owner of the address is read from the kernels of the nodes (tests/vip/holder-watch.h) and
// from the answers to the client; the nodes' own statuses only decide when to continue. A container
// has the clock of its host, so no fault of a container steps it.
#pragma once

#include <signal.h>

#include <string>
#include <vector>

#include "tests/cluster/vip-segment.h"
#include "tests/vip/holder-watch.h"

namespace talos {

class VipNodes : public VipSegment {
 public:
  VipNodes();
  ~VipNodes();
  KJ_DISALLOW_COPY_AND_MOVE(VipNodes);

  HolderWatch watch;

  // Waits until one node has the address and answers, and the two others are ready to take it.
  bool settled(double deadlineSeconds);
  // Returns the node whose link has this hardware address; -1 if it is none of them.
  int ownerOf(const std::string& mac) const;

  void kill(unsigned node, const std::string& program) override;
  Heal stop(unsigned node, const std::string& program) override;
  // Lets a program run only a tenth of the time, in pieces: as with a disk that is slow to flush.
  Heal slow(unsigned node, const std::string& program);
  Heal lose(unsigned node) override;

 private:
  struct Node {
    std::string mac;
    kj::AutoCloseFd place;
  };
  std::vector<Node> places;

  void look(unsigned node);
  pid_t pidOf(unsigned node, const std::string& program) const;
  void send(unsigned node, const std::string& program, pid_t pid, int signal) const;
};

}  // namespace talos
