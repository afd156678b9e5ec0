#include "common/base/folder.h"

#include <gtest/gtest.h>
#include <kj/exception.h>
#include <string.h>
#include <unistd.h>

#include "common/base/test-failing-fsync.h"
#include "common/testing/test-tree.h"

namespace talos {
namespace {

kj::String list(kj::StringPtr folder, size_t most = SIZE_MAX) {
  return kj::strArray(namesIn(folder, most), " ");
}

// Returns the error of an operation on a folder that cannot be read.
kj::String complaint(kj::Function<void()> operation) {
  KJ_IF_MAYBE (e, kj::runCatchingExceptions(operation)) return kj::str(e->getDescription());
  return kj::str("nothing");
}

// Catches: the order of the disk, which differs from run to run; a hidden file that is left out of
// a folder that is emptied; the folder itself and the one above among its names.
TEST(Folder, ListsWhatIsDirectlyInIt) {
  machined::TestTree tree;
  for (auto name : {"b"_kj, ".hidden"_kj, "a"_kj, "B"_kj, "..."_kj}) tree.file(name, "");
  tree.directory("c");
  tree.file("c/below", "");
  EXPECT_STREQ("... .hidden B a b c", list(tree.root).cStr());
  EXPECT_STREQ("below", list(tree.at("c")).cStr());
  EXPECT_STREQ("", list(tree.at("absent")).cStr());
  EXPECT_EQ(2u, namesIn(tree.root, 2).size());
  EXPECT_EQ(0u, namesIn(tree.root, 0).size());
}

// Catches: an unreadable folder that is taken for empty, so that its data is lost.
TEST(Folder, SaysWhichOneItCannotRead) {
  machined::TestTree tree;
  tree.file("a", "");
  auto path = tree.at("a");
  EXPECT_NE(nullptr, strstr(complaint([&] { namesIn(path); }).cStr(), path.cStr()));
  EXPECT_NE(nullptr, strstr(complaint([&] { syncFolder(path); }).cStr(), path.cStr()));
  auto absent = tree.at("absent");
  EXPECT_NE(nullptr, strstr(complaint([&] { syncFolder(absent); }).cStr(), absent.cStr()));
  EXPECT_STREQ("nothing", complaint([&] { syncFolder(tree.root); }).cStr());
}

// Catches: a folder that is opened and not flushed.
TEST(Folder, IsFlushed) {
  machined::TestTree tree;
  auto failure = failureWithoutFsync([&] { syncFolder(tree.root); });
  EXPECT_NE(nullptr, strstr(failure.cStr(), tree.root.cStr())) << failure.cStr();
}

// Catches: a folder that is removed with its content, or keeps some of it; a link that is followed;
// a removal of the one entry that must stay.
TEST(Folder, FolderIsEmptiedButForTheKeptEntry) {
  machined::TestTree tree;
  tree.directory("elsewhere");
  tree.file("elsewhere/a", "");
  for (auto name : {"full"_kj, "full/c"_kj}) tree.directory(name);
  for (auto name : {"full/a"_kj, "full/b"_kj, "full/c/below"_kj, "full/.hidden"_kj}) {
    tree.file(name, "");
  }
  tree.link("full/link", tree.at("elsewhere"));
  emptyFolder(tree.at("full"), tree.at("full/b"));
  EXPECT_STREQ("b", list(tree.at("full")).cStr());
  emptyFolder(tree.at("full"));
  EXPECT_STREQ("", list(tree.at("full")).cStr());
  EXPECT_EQ(0, access(tree.at("full").cStr(), F_OK));
  EXPECT_STREQ("a", list(tree.at("elsewhere")).cStr());
}

TEST(Folder, OfAPath) {
  EXPECT_STREQ("/a/b", folderOf("/a/b/c").cStr());
  EXPECT_STREQ("/", folderOf("/a").cStr());
  EXPECT_STREQ(".", folderOf("a").cStr());
  EXPECT_STREQ("a", folderOf("a/b").cStr());
}

}  // namespace
}  // namespace talos
