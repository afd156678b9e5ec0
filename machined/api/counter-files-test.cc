#include "machined/api/counter-files.h"

#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/testing/test-tree.h"

namespace talos::machined {
namespace {

// Returns "path=text" of each.
std::string read(const TestTree& tree, rpc::Counter which) {
  std::string all;
  auto e = kj::runCatchingExceptions([&] {
    for (auto& file : readCounters(tree.root, tree.root, which)) {
      all += kj::str(file.path, "=", file.text).cStr();
    }
  });
  KJ_IF_MAYBE (x, e) return kj::str(nameOf(kindOf(*x)), ": ", messageOf(*x)).cStr();
  return all;
}

void processor(TestTree& tree, unsigned number, bool whole = true) {
  auto folder = kj::str("devices/system/cpu/cpu", number, "/cpufreq");
  tree.directory(folder);
  auto put = [&](kj::StringPtr name, kj::StringPtr text) {
    tree.file(kj::str(folder, "/", name), text);
  };
  put("scaling_cur_freq", kj::str(number, "000\n"));
  put("scaling_min_freq", "1\n");
  put("scaling_max_freq", "9\n");
  if (whole) put("scaling_governor", "performance\n");
  put("cpuinfo_max_freq", "10\n");
}

// Catches: a counter that is read from another counter's file; a file outside the list that a
// reader could get.
TEST(CounterFiles, EachIsItsOwnFileAndNoOther) {
  TestTree tree;
  for (auto folder : {"net", "pressure", "sys/fs"}) tree.directory(folder);
  for (auto name : {"loadavg", "stat", "cpuinfo", "net/dev", "diskstats", "kmsg", "pressure/io",
                    "vmstat", "sys/fs/file-nr", "sys/fs/file-max"}) {
    tree.file(name, kj::str("text of ", name, "\n"));
  }
  EXPECT_EQ("/proc/loadavg=text of loadavg\n", read(tree, rpc::Counter::LOAD));
  EXPECT_EQ("/proc/stat=text of stat\n", read(tree, rpc::Counter::SYSTEM));
  EXPECT_EQ("/proc/cpuinfo=text of cpuinfo\n", read(tree, rpc::Counter::PROCESSORS));
  EXPECT_EQ("/proc/net/dev=text of net/dev\n", read(tree, rpc::Counter::NETWORK));
  EXPECT_EQ("/proc/diskstats=text of diskstats\n", read(tree, rpc::Counter::DISKS));
  EXPECT_EQ(
      "/proc/pressure/io=text of pressure/io\n/proc/vmstat=text of vmstat\n"
      "/proc/sys/fs/file-nr=text of sys/fs/file-nr\n",
      read(tree, rpc::Counter::KERNEL));
  EXPECT_EQ("InvalidArgument: 7 is not a counter that this node knows",
            read(tree, rpc::Counter(7)));
}

// Catches: zeros, or nothing at all, for a file that cannot be read.
TEST(CounterFiles, MissingCounterFileIsReported) {
  TestTree tree;
  EXPECT_EQ(kj::str("NotFound: ", tree.root, "/stat: no such file").cStr(),
            read(tree, rpc::Counter::SYSTEM));
}

// Catches: processors in the order of their names, a processor with missing values, folders of
// other things, an error on a machine without frequency control.
TEST(CounterFiles, FrequenciesAreThoseOfGovernedProcessors) {
  TestTree tree;
  EXPECT_EQ("", read(tree, rpc::Counter::FREQUENCIES));
  tree.directory("devices/system/cpu/cpufreq");
  tree.directory("devices/system/cpu/cpu0");
  EXPECT_EQ("", read(tree, rpc::Counter::FREQUENCIES));
  processor(tree, 10);
  processor(tree, 2);
  processor(tree, 3, false);
  auto of = [](kj::StringPtr number) {
    auto folder = kj::str("/sys/devices/system/cpu/cpu", number, "/cpufreq/scaling_");
    return kj::str(folder, "cur_freq=", number, "000\n", folder, "min_freq=1\n", folder,
                   "max_freq=9\n", folder, "governor=performance\n");
  };
  EXPECT_EQ(kj::str(of("2"), of("10")).cStr(), read(tree, rpc::Counter::FREQUENCIES));
}

}  // namespace
}  // namespace talos::machined
