#include "machined/api/cgroup-facts.h"

#include <gtest/gtest.h>
#include <kj/debug.h>

#include "common/testing/test-tree.h"

namespace talos::machined {
namespace {

constexpr int64_t kUncounted = rpc::Cgroup::UNCOUNTED;

// Catches: a group before its parent, values of another file, "no limit" as a number, a missing
// file as 0.
TEST(CgroupFacts, ATreeOfVersion2) {
  TestTree tree;
  tree.file("cgroup.controllers", "cpu memory pids io\n");
  tree.directory("b/c");
  tree.directory("a");
  tree.file("b/cgroup.procs", "1\n2\n33\n");
  tree.file("b/memory.current", "4096\n");
  tree.file("b/memory.max", "max\n");
  tree.file("b/memory.low", "1024\n");
  tree.file("b/memory.events", "low 0\nhigh 3\noom 1\noom_kill 2\n");
  tree.file("b/cpu.stat", "usage_usec 30\nuser_usec 20\nsystem_usec 10\nnr_throttled 4\n");
  tree.file("b/cpu.weight", "59\n");
  tree.file("b/cpu.max", "50000 100000\n");
  tree.file("b/pids.current", "3\n");
  tree.file("b/pids.max", "9223372036854775808\n");
  tree.file("b/io.stat",
            "8:0 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=0 dios=0\n8:16 rbytes=1 wbytes=2\n");
  tree.file("b/cpuset.cpus", "\n");
  tree.file("b/cpuset.cpus.effective", "0-2,5\n");
  tree.file("b/cpuset.mems", "1\n");
  tree.file("b/cpuset.mems.effective", "1\n");
  tree.file("b/memory.pressure",
            "some avg10=1.50 avg60=0.25 avg300=0.00 total=77\nfull avg10=0.00 avg60=0.00 "
            "avg300=0.00 total=5\n");
  auto message = readCgroups(tree.root, 100);
  auto groups = message->getRoot<rpc::Machine::CgroupsResults>().asReader().getGroups();
  ASSERT_EQ(groups.size(), 4u);
  EXPECT_EQ(groups[0].getPath(), "");
  EXPECT_EQ(groups[1].getPath(), "a");
  EXPECT_EQ(groups[2].getPath(), "b");
  EXPECT_EQ(groups[3].getPath(), "b/c");
  EXPECT_FALSE(groups[1].hasMemory());
  EXPECT_FALSE(groups[1].hasCpu());
  EXPECT_FALSE(groups[1].hasCpuset());
  auto b = groups[2];
  for (auto absent : {b.getMemory().getPeak(), b.getMemory().getMin(), b.getMemory().getHigh(),
                      b.getMemory().getSwapCurrent(), b.getMemory().getSwapMax(),
                      b.getCpu().getThrottledUs(), b.getPids().getPeak()}) {
    EXPECT_EQ(absent, kUncounted);
  }
  EXPECT_EQ(b.getProcesses(), 3u);
  EXPECT_EQ(b.getMemory().getCurrent(), 4096);
  EXPECT_EQ(b.getMemory().getMax(), -1);
  EXPECT_EQ(b.getMemory().getLow(), 1024);
  EXPECT_EQ(b.getMemory().getOomKills(), 2);
  EXPECT_EQ(b.getCpu().getUsageUs(), 30);
  EXPECT_EQ(b.getCpu().getUserUs(), 20);
  EXPECT_EQ(b.getCpu().getSystemUs(), 10);
  EXPECT_EQ(b.getCpu().getThrottledPeriods(), 4);
  EXPECT_EQ(b.getCpu().getWeight(), 59);
  EXPECT_EQ(b.getCpu().getQuotaUs(), 50'000);
  EXPECT_EQ(b.getCpu().getPeriodUs(), 100'000);
  EXPECT_EQ(b.getPids().getCurrent(), 3);
  EXPECT_EQ(b.getPids().getMax(), int64_t(kj::maxValue));
  EXPECT_EQ(b.getIo().getReadBytes(), 11);
  EXPECT_EQ(b.getIo().getWrittenBytes(), 22);
  EXPECT_EQ(b.getIo().getReads(), 1);
  EXPECT_EQ(b.getIo().getWrites(), 2);
  EXPECT_EQ(b.getCpuset().getCpus(), "");
  EXPECT_EQ(b.getCpuset().getEffectiveCpus(), "0-2,5");
  EXPECT_EQ(b.getCpuset().getMemoryNodes(), "1");
  EXPECT_EQ(b.getCpuset().getEffectiveMemoryNodes(), "1");
  ASSERT_EQ(b.getPressure().size(), 1u);
  EXPECT_EQ(b.getPressure()[0].getResource(), "memory");
  EXPECT_EQ(b.getPressure()[0].getSomeAvg10(), 1.5);
  EXPECT_EQ(b.getPressure()[0].getSomeAvg60(), 0.25);
  EXPECT_EQ(b.getPressure()[0].getSomeTotalUs(), 77);
  EXPECT_EQ(b.getPressure()[0].getFullTotalUs(), 5);
}

// Catches: a host that also has version 1 and that shows no memory, or its "unlimited" as a limit.
TEST(CgroupFacts, HostWithVersion1ShowsMemoryOfVersion2) {
  TestTree tree;
  tree.directory("unified/system");
  tree.directory("memory/system");
  tree.file("unified/system/cpu.stat", "usage_usec 5\n");
  tree.file("memory/system/memory.usage_in_bytes", "7\n");
  tree.file("memory/system/memory.limit_in_bytes", "9223372036854771712\n");
  tree.directory("cpuset/system");
  tree.file("cpuset/system/cpuset.cpus", "1\n");
  tree.file("cpuset/system/cpuset.effective_cpus", "1\n");
  tree.file("cpuset/system/cpuset.mems", "0\n");
  tree.file("cpuset/system/cpuset.effective_mems", "0\n");
  auto message = readCgroups(tree.root, 100);
  auto groups = message->getRoot<rpc::Machine::CgroupsResults>().asReader().getGroups();
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[1].getCpuset().getCpus(), "1");
  EXPECT_EQ(groups[1].getCpuset().getEffectiveCpus(), "1");
  EXPECT_EQ(groups[1].getCpuset().getEffectiveMemoryNodes(), "0");
  EXPECT_EQ(groups[1].getPath(), "system");
  EXPECT_EQ(groups[1].getMemory().getCurrent(), 7);
  EXPECT_EQ(groups[1].getMemory().getMax(), -1);
  EXPECT_EQ(groups[1].getCpu().getUsageUs(), 5);
  EXPECT_EQ(groups[1].getCpu().getQuotaUs(), kUncounted);
  auto memory = groups[1].getMemory();
  for (auto absent : {memory.getMin(), memory.getLow(), memory.getHigh(), memory.getPeak(),
                      memory.getSwapCurrent(), memory.getSwapMax(), memory.getOomKills()}) {
    EXPECT_EQ(absent, kUncounted);
  }
}

TEST(CgroupFacts, NotMoreThanAnAnswerHolds) {
  TestTree tree;
  tree.file("cgroup.controllers", "");
  for (auto name : {"a"_kj, "b"_kj, "c"_kj}) tree.directory(name);
  auto message = readCgroups(tree.root, 2);
  auto results = message->getRoot<rpc::Machine::CgroupsResults>().asReader();
  EXPECT_EQ(results.getGroups().size(), 2u);
  EXPECT_EQ(results.getLeftOut(), 2u);
}

}  // namespace
}  // namespace talos::machined
