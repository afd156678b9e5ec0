// A control-plane node that is upgraded to bad images, each with another fault, in a cluster of
// three with etcd and a shared address, without Kubernetes. After each image the node returns to
// the previous system by itself and says why, the members of etcd are the same, and a key whose
// write was answered before exists.
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
  kConfirmed,   // the node runs it as its system
  kGivenUp,     // it was tried, and the node has returned to the previous system
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
// Renames the header by which members recognise each other.
const std::string kWithoutPeers = "patch X-Etcd-Cluster-ID X-Etcd-Altered-ID";
// Sends entries of the log to a path that no member serves; members still find each other.
const std::string kWithoutLog = "patch /raft /rafz";

// The cluster, and the node of it that is upgraded.
struct Site {
  const char* name;
  std::vector<std::string> flags;
  size_t upgraded;
  bool machine;                        // true: the node is a virtual machine
  unsigned healthTimeout;              // s, for a bad image
  double comesUp, isUpgraded, isWell;  // s
};

class BadImages : public testing::TestWithParam<Row> {
 protected:
  static void begin(Site site);
  static void end();
  static void returnsToTheSystemFromBefore(const Row& row);
};

}  // namespace talos
