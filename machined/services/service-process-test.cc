#include "machined/services/service-process.h"

#include <gtest/gtest.h>

#include "common/testing/test-tree.h"

namespace talos::machined {
namespace {

// Catches: a service that ran out of memory on a host with version 1, without a message.
TEST(ServiceChild, FindsMemoryKillsOfEitherVersion) {
  TestTree tree;
  EXPECT_EQ(0u, memoryKillsIn(tree.root, "system/a"));
  tree.directory("memory/system/a");
  tree.file("memory/system/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  EXPECT_EQ(2u, memoryKillsIn(tree.root, "system/a"));
  tree.directory("system/a");
  tree.file("system/a/memory.events", "oom 4\noom_kill 3\n");
  EXPECT_EQ(3u, memoryKillsIn(tree.root, "system/a"));
}

// Catches: a number from another line.
TEST(ServiceChild, CountsMemoryKills) {
  EXPECT_EQ(3u, memoryKillsOf("low 0\nhigh 0\nmax 77\noom 4\noom_kill 3\noom_group_kill 0\n"));
  EXPECT_EQ(0u, memoryKillsOf(""));
  EXPECT_EQ(0u, memoryKillsOf("oom_kill x\n"));
}

}  // namespace
}  // namespace talos::machined
