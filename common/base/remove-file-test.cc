#include "common/base/remove-file.h"

#include <gtest/gtest.h>
#include <kj/exception.h>
#include <string.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/test-failing-fsync.h"
#include "common/testing/test-tree.h"

namespace talos {

// Catches: a file that stays; a file that cannot be removed but is reported as removed.
TEST(RemoveDurably, RemovesAFile) {
  machined::TestTree tree;
  tree.directory("a");
  tree.file("a/b", "x");
  removeDurably(tree.at("a/b"));
  EXPECT_NE(0, access(tree.at("a/b").cStr(), F_OK));
  EXPECT_EQ(0, access(tree.at("a").cStr(), F_OK));
  removeDurably(tree.at("a/b"));  // absent
  removeDurably(tree.at("c/b"));
  auto e = kj::runCatchingExceptions([&] { removeDurably(tree.at("a")); });
  EXPECT_NE(nullptr, strstr(KJ_ASSERT_NONNULL(e).getDescription().cStr(), "/a"));
}

// Catches: a file that is back after a power cut, because its folder was not flushed; and a write
// where there was nothing to remove.
TEST(RemoveDurably, FlushesTheFolder) {
  machined::TestTree tree;
  tree.file("b", "x");
  auto failure = failureWithoutFsync([&] { removeDurably(tree.at("b")); });
  EXPECT_NE(nullptr, strstr(failure.cStr(), tree.root.cStr())) << failure.cStr();
  EXPECT_STREQ("", failureWithoutFsync([&] { removeDurably(tree.at("b")); }).cStr());
}

}  // namespace talos
