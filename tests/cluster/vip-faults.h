// Faults of three nodes that share an address, and a run of them: in random order at random
// victims, with the time without an answer after each. For tests.
//
//   VIP_FAULTS   how many; each kind comes first once (default: each kind once)
//   VIP_SEED     seed of their order, victims and times
//   VIP_BOUND    seconds after which an address that is not back is a failure (default: 60, which
//                no busy machine needs; docs/vip.md says what to expect of an idle one)
#pragma once

#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/cluster/vip-segment.h"

namespace talos {

struct VipFault {
  const char* name;
  std::function<Heal(VipSegment&, unsigned victim)> strike;
  enum class Whom { kAny, kEtcdLeader } whom = Whom::kAny;
  bool quorum = true;   // etcd keeps its quorum
  bool frozen = false;  // the victim stops with all its processes, in a virtual machine also with
                        // its clocks
};

// Returns the faults that all kinds of nodes allow.
std::vector<VipFault> vipFaults();

class VipFaultRun {
 public:
  VipFaultRun(VipSegment& nodes, std::vector<VipFault> faults);
  virtual ~VipFaultRun() {}

  // Runs the faults as the environment variables say; ends with the first fault that fails the
  // test, and prints the observations.
  void run();

 protected:
  VipSegment& nodes;

  // Waits until one node has the address and the others may take it. Returns this node's index; -1
  // if it takes too long.
  virtual int settled() = 0;
  virtual void before() {}
  // Is called when all is as before the fault; fails the test when two nodes had the address.
  virtual void check(const VipFault& fault) = 0;
  // Summarizes the whole run, in a line or two.
  virtual std::string verdict() const = 0;

 private:
  std::vector<VipFault> faults;
  unsigned seed;
  std::mt19937 random;
  double bound;  // seconds
  unsigned done = 0;
  std::map<std::string, std::vector<int64_t>> away;  // by kind, in ms; only with a quorum

  unsigned below(unsigned n) { return random() % n; }
  unsigned victimOf(const VipFault& fault, int holder);
  std::chrono::milliseconds duration();
  void strike(const VipFault& fault);
  void report() const;
};

}  // namespace talos
