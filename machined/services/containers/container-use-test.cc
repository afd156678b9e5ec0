#include "machined/services/containers/container-use.h"

#include <gtest/gtest.h>

#include "common/testing/test-tree.h"

namespace talos::machined {
namespace {

struct UseOfAGroup : public testing::Test {
  TestTree tree;
  UseOfAGroup() {
    tree.directory("proc/7");
    for (auto folder : {"cgroup/memory/pods/a", "cgroup/cpu,cpuacct/pods/a",
                        "cgroup/unified/pods/a", "cgroup/pods/a"}) {
      tree.directory(folder);
    }
  }
  std::string read() {
    auto use = groupUseOf(7, tree.at("proc"), tree.at("cgroup"));
    return kj::str(use.memoryBytes, " ", use.cpuNanoseconds).cStr();
  }
};

// Catches: the group of another hierarchy, memory that the kernel can reclaim at once, a vanished
// group that fails the command.
TEST_F(UseOfAGroup, OfVersion1) {
  EXPECT_EQ(read(), "0 0");
  tree.file("proc/7/cgroup", "9:memory:/pods/a\n4:cpu,cpuacct:/pods/a\n3:cpuset:/x\n0::/pods/a\n");
  EXPECT_EQ(read(), "0 0");
  tree.file("cgroup/memory/pods/a/memory.usage_in_bytes", "5000\n");
  tree.file("cgroup/memory/pods/a/memory.stat", "inactive_file 1\ntotal_inactive_file 1000\n");
  tree.file("cgroup/cpu,cpuacct/pods/a/cpuacct.usage", "77\n");
  tree.file("cgroup/unified/pods/a/cpu.stat", "usage_usec 3\n");
  EXPECT_EQ(read(), "4000 77");
}

TEST_F(UseOfAGroup, OfVersion2) {
  tree.file("proc/7/cgroup", "0::/pods/a\n");
  tree.file("cgroup/pods/a/memory.current", "5000\n");
  tree.file("cgroup/pods/a/memory.stat", "file 2000\ninactive_file 500\n");
  tree.file("cgroup/pods/a/cpu.stat", "usage_usec 3\nuser_usec 2\n");
  EXPECT_EQ(read(), "4500 3000");
}

}  // namespace
}  // namespace talos::machined
