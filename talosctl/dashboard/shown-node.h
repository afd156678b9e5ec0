// Statements about one node, as cells of tables and lines have them. Pure.
#pragma once

#include "rpc/dashboard.capnp.h"
#include "talosctl/dashboard/sheet.h"

namespace talos::talosctl::dashboard {

using ShownNode = rpc::DashboardNode::Reader;
using ShownCluster = rpc::Dashboard::Reader;

kj::String nameOf(ShownNode node);  // its host name, or its address
kj::StringPtr stageName(rpc::Status::Stage stage);
SheetCell stageOf(ShownNode node);   // with the sequence that runs
SheetCell healthOf(ShownNode node);  // healthy, starting, 2 problems, silent
// Everything that is wrong, the cause of the others first as far as that is known.
kj::Vector<kj::String> problemsOf(ShownNode node);
kj::String problemOf(ShownNode node);  // the first of them; empty: nothing is

SheetCell cpuOf(ShownNode node);
SheetCell memoryOf(ShownNode node);
// Of the fullest file system on a disk.
SheetCell diskOf(ShownNode node);
kj::String networkOf(ShownNode node);  // "1.2 MB/s in, 30 KB/s out"
SheetCell servicesOf(ShownNode node);  // "8/8"
SheetCell podsOf(ShownNode node);
SheetCell etcdOf(ShownCluster cluster, ShownNode node);
// True of two nodes that both say so, unless the lease of one ended before the other one's began:
// that node was lost, and has not been silent for long enough to be known to be.
using SharedAddress = rpc::Observations::Vip;
bool holds(ShownCluster cluster, ShownNode node, SharedAddress::Reader vip);
kj::String vipsOf(ShownCluster cluster, ShownNode node);  // addresses that it holds
SheetCell timeSyncOf(ShownNode node);
SheetCell upgradeOf(ShownNode node);  // empty while none is under way
kj::String uptimeOf(ShownNode node);

bool isDiskFileSystem(rpc::Mount::Reader mount);
SheetCell fillOf(rpc::Mount::Reader mount);
SheetCell serviceHealth(rpc::Service::Reader service);
// Entries of the log of raft that the member has not applied, of those that the others have; none:
// not known.
kj::Maybe<uint64_t> etcdLag(ShownCluster cluster, ShownNode node);

kj::String percent(unsigned tenths);       // "12 %"
kj::String rate(uint64_t bytesPerSecond);  // "1.2 MB/s"
Look toneOfShare(double share);            // of something that may be full
// "in 89d", "5d ago", all in RFC 3339. Certificates are renewed long before the last tenth of their
// time.
SheetCell untilText(kj::StringPtr taken, kj::StringPtr from, kj::StringPtr until);

}  // namespace talos::talosctl::dashboard
