// A schedule of events at a cluster: its nodes, how each image behaves on each node, and
// the events that people, machines and the network cause. A value that follows from a number; the
// model (tier.h) plays it.
#pragma once

#include <kj/common.h>

#include <set>
#include <string>
#include <vector>

namespace talos::tier {

// Behaviour of a system on a node.
enum class Sickness : uint8_t {
  kHealthy,
  kNoKernel,     // the kernel panics, and the machine reboots
  kHangs,        // process 1 runs, and machined never does
  kBootFails,    // STATE cannot be mounted
  kUnhealthy,    // it never becomes healthy
  kCrashLoops,   // machined crashes again and again
  kNoEtcd,       // its etcd does not start
  kUnfetchable,  // the node cannot get the image
  kUnwritable,   // the image does not fit the slot
};
const char* nameOf(Sickness sickness);

enum class What : uint8_t {
  kPowerCut,         // for `amount` ms
  kCutAtWrite,       // power cut in the next durable write of the node
  kCrashMachined,    // machined crashes
  kCrashSupervisor,  // etcd-supervisor crashes
  kKillEtcd,
  kPartition,        // between the nodes, for `amount` ms
  kCutOffOperators,  // from the node, for `amount` ms
  kSlowNode,         // for `amount` ms
  kWriteError,       // the next write of the node fails; made all the same if `amount` is odd
  kRun,              // an operator upgrades the cluster to image `amount`
  kInterruptRuns,    // every operator's command ends
  kUpgrade,          // an operator upgrades the node to image `amount`
  kUpgradeAndEmpty,  // the same without --preserve
  kStage,            // an operator stages image `amount`
  kReboot,           // an operator reboots the node
  kRollback,         // an operator rolls the node back
  kLoseAndRemove,    // the machine fails for long, and an operator removes its member
  kMoveLeadership,   // etcd's leadership moves to the node
};
const char* nameOf(What what);

struct Event {
  unsigned at;  // ms since all nodes run
  What what;
  unsigned node, other;
  unsigned amount;

  std::string text() const;
};

// Number of an image: kInstalled runs at the beginning; the others are newer.
constexpr unsigned kInstalled = 1, kFirstTarget = 2, kOtherTarget = 3, kLastTarget = 4;

struct Schedule {
  uint64_t seed = 0;
  unsigned controlPlanes = 3, workers = 0;
  // Sickness of kFirstTarget and kOtherTarget on each node; the other images are healthy.
  std::vector<Sickness> sick[2];
  double losses = 0, supervisorCrashes = 0, supervisorFailures = 0;  // probabilities
  unsigned drainMs = 0;                                              // longest time of a drain
  bool healsPartly = false;  // before everything heals, a random majority does
  unsigned endMs = 0;        // end of the trouble
  std::vector<Event> events;

  // Returns the schedule of this number.
  static Schedule of(uint64_t seed);
  // Returns the schedule with only these of its events, by their numbers.
  Schedule withOnly(const std::set<unsigned>& numbers) const;
  unsigned nodes() const { return controlPlanes + workers; }
  Sickness sicknessOf(unsigned image, unsigned node) const {
    if (image != kFirstTarget && image != kOtherTarget) return Sickness::kHealthy;
    return sick[image - kFirstTarget][node];
  }
  // Returns the cluster, the images and each event with its number, a line each.
  std::string text() const;
};

}  // namespace talos::tier
