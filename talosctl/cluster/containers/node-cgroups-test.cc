#include "talosctl/cluster/containers/node-cgroups.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"

namespace talos::container {
namespace {

std::string describe(const CgroupLayout& layout) {
  std::string text = layout.unified.cStr();
  for (auto& each : layout.v1) text += kj::str(" ", each.mountPoint, "=", each.controllers).cStr();
  return text;
}

// Catches: systemd's named hierarchy taken for a controller, options that are not controllers, a
// hierarchy mounted at two places, a host without hierarchies.
TEST(NodeCgroups, LayoutsOfHosts) {
  EXPECT_EQ(describe(parseCgroups("proc /proc proc rw 0 0\n")), "");
  EXPECT_EQ(describe(parseCgroups("cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n")),
            "/sys/fs/cgroup");
  auto hybrid = parseCgroups(
      "tmpfs /sys/fs/cgroup tmpfs rw,mode=755 0 0\n"
      "cgroup /sys/fs/cgroup/systemd cgroup rw,xattr,name=systemd 0 0\n"
      "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,nosuid,cpu,cpuacct 0 0\n"
      "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n"
      "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"
      "cgroup /other cgroup rw,memory 0 0\n"
      "cgroup2 /twice cgroup2 rw 0 0\n"
      "short line\n");
  EXPECT_EQ(describe(hybrid),
            "/sys/fs/cgroup/unified /sys/fs/cgroup/cpu,cpuacct=cpu,cpuacct "
            "/sys/fs/cgroup/memory=memory");
  auto mounts = hybrid.mounts();
  ASSERT_EQ(mounts.size(), 3);
  EXPECT_STREQ(mounts[0].folder.cStr(), "cpu,cpuacct");
  EXPECT_STREQ(mounts[2].folder.cStr(), "unified");
  EXPECT_STREQ(parseCgroups("x /c cgroup2 rw 0 0").mounts()[0].folder.cStr(), "");
}

// Folders and files that replace the kernel's.
struct Hierarchies : public ::testing::Test {
  kj::String folder;
  Hierarchies() {
    char path[] = "/tmp/cgroups-test-XXXXXX";
    folder = kj::str(mkdtemp(path));
    for (auto name : {"memory", "unified", "cpuset"}) makeDirectories(kj::str(folder, "/", name));
    write("cpuset/cgroup.clone_children", "0\n");
    write("cpuset/cpuset.cpus", "0-1\n");
    write("cpuset/cpuset.mems", "0\n");
  }
  ~Hierarchies() noexcept override { removeTree(folder); }

  void write(kj::StringPtr name, kj::StringPtr text) {
    writeFileAtomically(kj::str(folder, "/", name), text, 0600);
  }
  CgroupLayout layout() {
    return parseCgroups(kj::str("a ", folder, "/memory cgroup memory\nb ", folder,
                                "/cpuset cgroup cpuset\nc ", folder, "/unified cgroup2 rw\n"));
  }
};

// Catches: a limit on a cgroup that the node sees as its root, where it could lift the limit, and a
// node's cgroup that also has its limits.
TEST_F(Hierarchies, LimitsAreAboveWhatTheNodeSees) {
  ClusterCgroups cgroups(layout(), "c");
  for (auto path : {"memory/talos/c/n", "memory/talos/c/n/node", "unified/talos/c/n/node",
                    "cpuset/talos/c/n/node"}) {
    makeDirectories(kj::str(folder, "/", path));
    write(kj::str(path, "/cgroup.procs"), "");
  }
  write("memory/talos/c/n/memory.limit_in_bytes", "0");
  write("memory/talos/c/n/node/memory.limit_in_bytes", "0");
  auto procsFiles = cgroups.createNode("n", {.memory = 4096, .milliCpus = 1500});
  EXPECT_EQ(procsFiles.size(), 3);
  EXPECT_STREQ(readFile(kj::str(folder, "/memory/talos/c/n/memory.limit_in_bytes")).cStr(), "4096");
  EXPECT_STREQ(readFile(kj::str(folder, "/memory/talos/c/n/node/memory.limit_in_bytes")).cStr(),
               "0");
}

// Catches: a host with only cgroup v2 whose nodes have no limits, or limits that they can lift.
TEST_F(Hierarchies, LimitsOfVersion2) {
  ClusterCgroups cgroups(parseCgroups(kj::str("c ", folder, "/unified cgroup2 rw\n")), "c");
  auto node = kj::str("unified/talos/c/n");
  makeDirectories(kj::str(folder, "/", node, "/node"));
  write(kj::str(node, "/node/cgroup.procs"), "");
  for (auto file : {"memory.max", "cpu.max", "node/memory.max", "node/cpu.max"}) {
    write(kj::str(node, "/", file), "max");
  }
  EXPECT_EQ(cgroups.createNode("n", {.memory = 4096, .milliCpus = 1500}).size(), 1);
  auto text = [&](kj::StringPtr file) { return readFile(kj::str(folder, "/", node, "/", file)); };
  EXPECT_STREQ(text("memory.max").cStr(), "4096");
  EXPECT_STREQ(text("cpu.max").cStr(), "150000 100000");
  EXPECT_STREQ(text("node/memory.max").cStr(), "max");
  EXPECT_STREQ(text("node/cpu.max").cStr(), "max");
  // The smallest value of `cluster create --cpus`: the kernel refuses values below 1000.
  write(kj::str(node, "/cpu.max"), "");
  cgroups.createNode("n", {.memory = 4096, .milliCpus = 10});
  EXPECT_STREQ(text("cpu.max").cStr(), "1000 100000");
}

// Catches: another cluster's cgroups that are removed with this cluster's, or the common folder
// that is removed while another cluster is in it.
TEST_F(Hierarchies, OnlyTheClustersOwnAreRemoved) {
  for (auto path : {"memory/talos/c/n/node", "memory/talos/d/n", "unified/talos/c/n/node"}) {
    makeDirectories(kj::str(folder, "/", path));
  }
  ClusterCgroups(layout(), "c").remove();
  auto exists = [&](kj::StringPtr path) {
    return access(kj::str(folder, "/", path).cStr(), F_OK) == 0;
  };
  EXPECT_FALSE(exists("memory/talos/c"));
  EXPECT_TRUE(exists("memory/talos/d/n"));
  EXPECT_FALSE(exists("unified/talos"));
}

// Catches: the disks of a node that are removed while one of its processes still writes to them.
TEST_F(Hierarchies, AProcessThatLivesIsAnError) {
  for (auto path : {"memory/talos/c/n/node", "unified/talos/c/n/node"}) {
    makeDirectories(kj::str(folder, "/", path));
    write(kj::str(path, "/cgroup.procs"), "4711\n12\n");
  }
  write("unified/talos/c/cgroup.events", "populated 1\nfrozen 0\n");
  auto failed = kj::runCatchingExceptions([&] { ClusterCgroups(layout(), "c").remove(); });
  EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(failed)),
            "processes of this cluster still run: 12, 4711; end them, then repeat");
}

// Catches: a controller that is found only as the first or the last of a list.
TEST_F(Hierarchies, WhatCannotBeLimitedIsSaid) {
  auto missing = [&] {
    return std::string(kj::strArray(ClusterCgroups(layout(), "c").unlimited(), " ").cStr());
  };
  EXPECT_EQ(missing(), "cpu");
  write("unified/cgroup.controllers", "io cpu\n");
  EXPECT_EQ(missing(), "");
  write("unified/cgroup.controllers", "cpuset io\n");
  EXPECT_EQ(missing(), "cpu");
}

}  // namespace
}  // namespace talos::container
