// Three control-plane nodes in containers that share an address, and what can happen to them. For
// tests; needs root.
//
// The owner of the address is read from the kernels of the nodes (tests/vip/holder-watch.h) and
// from who answers the client; the nodes' own statuses only decide when to continue. A container
// has the clock of its host: no fault here steps it.
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

  // One has the address and answers, and the two others are ready to take it.
  bool settled(double deadlineSeconds);
  // The node whose link has this hardware address; -1: none of them.
  int ownerOf(const std::string& mac) const;

  void kill(unsigned node, const std::string& program) override;
  Heal stop(unsigned node, const std::string& program) override;
  // Runs for a tenth of the time only, in pieces: as with a disk that is slow to flush.
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
