// Three control-plane nodes in containers that share an address, workers beside them, and their
// faults. For tests; needs root.
//
// The owner of the address is read from the kernels of the nodes (tests/vip/holder-watch.h) and
// from the answers to the client; the nodes' own statuses only decide when to continue. A container
// has the clock of its host, so no fault of a container steps it.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "tests/cluster/vip-segment.h"
#include "tests/vip/holder-watch.h"

namespace talos {

class VipNodes : public VipSegment {
 public:
  explicit VipNodes(const std::string& name = "vipfaults", std::vector<std::string> flags = {},
                    unsigned workers = 0);
  ~VipNodes();
  KJ_DISALLOW_COPY_AND_MOVE(VipNodes);

  HolderWatch watch;

  // Waits until one node has the address and answers, and the two others are ready to take it.
  bool settled(double deadlineSeconds);
  // Returns the node whose link has this hardware address; -1 if it is none of them.
  int ownerOf(const std::string& mac) const;
  // Returns true if the host that announced the address had it then.
  bool isRight(const ArpProber::Claim& claim);

  void kill(unsigned node, const std::string& program) override;
  Heal stop(unsigned node, const std::string& program) override;
  // Lets a program run only a tenth of the time, in pieces: as with a disk that is slow to flush.
  Heal slow(unsigned node, const std::string& program);
  Heal lose(unsigned node) override;

  // Looks again at each node that was started since the last look, such as by its own reboot. May
  // run on another thread.
  void followStarts();

 protected:
  std::string hardwareAddress(unsigned node) const override;
  pid_t pidOf(unsigned node, const std::string& program) const;

 private:
  struct Node {
    pid_t process1 = 0;
    std::string mac;
    kj::AutoCloseFd place;
  };
  mutable std::mutex mutex;
  std::vector<Node> places;

  void look(unsigned node);
  void send(unsigned node, const std::string& program, pid_t pid, int signal) const;
};

}  // namespace talos
