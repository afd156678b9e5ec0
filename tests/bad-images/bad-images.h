// A control-plane node that is upgraded to images which are no good, each with a fault of its own,
// in a cluster of three with etcd and a shared address, without Kubernetes. After each the node is
// on the system from before by itself and says why, the members of etcd are the same, and a key
// whose write was answered before is there.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "tests/bad-images/system-images.h"
#include "tests/cluster/etcd-nodes.h"

namespace talos {

enum class Outcome {
  kConfirmed,   // it is the system of the node now
  kGivenUp,     // it was tried, and the node has returned to the system from before
  kNotWritten,  // the node found the fault when it wrote it to the other slot
  kRefused,     // before anything was written
};
enum class Signature { kNotRequired, kNone, kOfAnother, kRight };
using Damage = std::string (SystemImages::*)(const std::string& version);

struct Row {
  const char* name;
  const char* mistake;  // of the system, that the row would catch
  std::vector<Fault> faults = {};
  Damage damage = nullptr;
  Outcome outcome = Outcome::kGivenUp;
  const char* reason = "";  // a regular expression
  bool preserve = true;
  Signature signature = Signature::kNotRequired;
};
void PrintTo(const Row& row, std::ostream* out);

const std::string kBrain = "usr/bin/machined", kEtcd = "usr/bin/etcd", kVipd = "usr/bin/vipd",
                  kNetworkd = "usr/bin/networkd", kApid = "usr/bin/apid",
                  kParser = "usr/libexec/talos/parse", kInit = "usr/sbin/init";
// The header by which members recognise each other has another name.
const std::string kWithoutPeers = "patch X-Etcd-Cluster-ID X-Etcd-Altered-ID";
// Entries of the log go to a path that no member serves; members still find each other.
const std::string kWithoutLog = "patch /raft /rafz";

// The cluster, and the one of its nodes that is upgraded.
struct Site {
  const char* name;
  std::vector<std::string> flags;
  size_t upgraded;
  bool machine;                        // that node is a virtual machine
  unsigned healthTimeout;              // s, for an image that is no good
  double comesUp, isUpgraded, isWell;  // s
};

class BadImages : public testing::TestWithParam<Row> {
 protected:
  static void begin(Site site);
  static void end();
  static void returnsToTheSystemFromBefore(const Row& row);
};

}  // namespace talos
