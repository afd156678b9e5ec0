// Runs of `cluster` that need no machine.
#include "talosctl/cluster/cluster-command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

#include "common/base/file.h"
#include "talosctl/cli/run-command.h"
#include "talosctl/cli/test-console-world.h"

namespace talos::talosctl {
namespace {

using ::testing::HasSubstr;

// Catches: an empty variable of a script, or "..", that removes the folders of all clusters.
TEST(ClusterCommand, OnlyAClustersOwnFolderIsRemoved) {
  char path[] = "/tmp/talosctl-cluster-XXXXXX";
  kj::String folder = kj::str(mkdtemp(path));
  KJ_DEFER(removeTree(folder));
  auto clusters = kj::str(folder, "/clusters");
  makeDirectories(kj::str(clusters, "/a"), 0700);
  TestWorld test;
  auto root = newRoot();
  addClusterCommands(*root);
  for (kj::StringPtr name : {""_kj, "."_kj, ".."_kj, "a/.."_kj, "../clusters"_kj, "A"_kj}) {
    kj::StringPtr words[] = {"cluster", "destroy", "--state", clusters, "--name", name};
    EXPECT_EQ(run(test.deps, *root, words, kj::NEVER_DONE).wait(test.io.waitScope), 1);
    EXPECT_THAT(test.console.takeErr().cStr(), HasSubstr("is not a valid cluster name"));
  }
  EXPECT_EQ(access(kj::str(clusters, "/a").cStr(), F_OK), 0);
}

}  // namespace
}  // namespace talos::talosctl
