#include "common/base/remove-file.h"

#include <gtest/gtest.h>
#include <kj/exception.h>
#include <string.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/testing/test-tree.h"

namespace talos {

// Catches: a file that stays, and what cannot be removed that is taken for removed.
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

}  // namespace talos
