// Statements about one node, as cells of tables and lines have them. Pure.
#pragma once

#include "rpc/dashboard.capnp.h"
#include "talosctl/dashboard/sheet.h"

namespace talos::talosctl::dashboard {

using ShownNode = rpc::DashboardNode::Reader;
using ShownCluster = rpc::Dashboard::Reader;

kj::String nameOf(ShownNode node);  // host name, or the address
kj::StringPtr stageName(rpc::Status::Stage stage);
SheetCell stageOf(ShownNode node);   // stage, with the running sequence
SheetCell healthOf(ShownNode node);  // such as healthy, starting, 2 problems, silent
// Returns all problems, the cause of the others first, if it is known.
kj::Vector<kj::String> problemsOf(ShownNode node);
kj::String problemOf(ShownNode node);  // first of the problems; empty: no problem

SheetCell cpuOf(ShownNode node);
SheetCell memoryOf(ShownNode node);
// Returns the usage of the fullest file system on a disk.
SheetCell diskOf(ShownNode node);
kj::String networkOf(ShownNode node);  // such as "1.2 MB/s in, 30 KB/s out"
// Returns how many services run of all but those that were skipped: "8/9" if one is stopped.
SheetCell servicesOf(ShownNode node);
SheetCell podsOf(ShownNode node);
SheetCell etcdOf(ShownCluster cluster, ShownNode node);
// Returns true if the node holds the address. If two nodes report it, both do, unless the lease of
// one ended before the other's began: this node was lost, but has not been silent for long enough
// to count as lost.
using SharedAddress = rpc::Observations::Vip;
bool holds(ShownCluster cluster, ShownNode node, SharedAddress::Reader vip);
kj::String vipsOf(ShownCluster cluster, ShownNode node);  // addresses that the node holds
SheetCell timeSyncOf(ShownNode node);
SheetCell upgradeOf(ShownNode node);  // empty if no upgrade is under way
kj::String uptimeOf(ShownNode node);

bool isDiskFileSystem(rpc::Mount::Reader mount);
SheetCell fillOf(rpc::Mount::Reader mount);
SheetCell serviceHealth(rpc::Service::Reader service);
// Returns the number of raft log entries that the members have and this member has not applied;
// nullptr if unknown.
kj::Maybe<uint64_t> etcdLag(ShownCluster cluster, ShownNode node);

kj::String percent(unsigned tenths);       // such as "12 %"
kj::String rate(uint64_t bytesPerSecond);  // such as "1.2 MB/s"
// Returns the same, or "-" before the counters were read a second time.
kj::String rate(bool known, uint64_t bytesPerSecond);
Look toneOfShare(double share);  // look of a share of limited space
// Returns "in 89d" or "5d ago"; the arguments are in RFC 3339. The last tenth of a certificate's
// validity is marked, because certificates are renewed long before.
SheetCell untilText(kj::StringPtr taken, kj::StringPtr from, kj::StringPtr until);

}  // namespace talos::talosctl::dashboard
