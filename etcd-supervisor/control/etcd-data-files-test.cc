#include "etcd-supervisor/control/etcd-data-files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/testing/test-tree.h"

namespace talos::supervisor {
namespace {

class RealFilesTest : public testing::Test {
 protected:
  machined::TestTree tree;
  kj::String data = tree.at("etcd"), state = tree.at("state");

  RealFilesTest() {
    tree.directory("etcd", 0700);
    tree.directory("state", 0700);
  }
  DiskFiles files() { return DiskFiles(data, state); }
};

TEST_F(RealFilesTest, OnlyALogOfEtcdIsData) {
  EXPECT_EQ(DiskFiles(tree.at("absent"), state).data(), Data::kNone);
  EXPECT_EQ(files().data(), Data::kNone);
  // etcd makes this before it makes any promise: with this alone it would start from nothing.
  tree.directory("etcd/member/snap", 0700);
  EXPECT_EQ(files().data(), Data::kPartial);
  tree.directory("etcd/member/wal", 0700);
  tree.file("etcd/member/wal/0.tmp", "x");
  EXPECT_EQ(files().data(), Data::kPartial);
  tree.file("etcd/member/wal/0000000000000000-0000000000000000.wal", "x");
  EXPECT_EQ(files().data(), Data::kWhole);
}

TEST_F(RealFilesTest, IntentIsThereAfterARestartUntilItIsOver) {
  EXPECT_EQ(files().load().state, Intent::State::kNone);
  Intent joins{.state = Intent::State::kJoins,
               .member = 0x8e05,
               .cluster = kj::str("a=https://10.0.0.1:2380")};
  files().store(joins);
  auto read = files().load();
  EXPECT_EQ(format(read), format(joins));
  struct stat status;
  ASSERT_EQ(stat(tree.at("state/intent").cStr(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  Intent heard;
  heard.learnedPeers.add(kj::str("10.0.0.2"));
  files().store(heard);
  EXPECT_EQ(files().load().learnedPeers.size(), 1u);
  files().store({});
  EXPECT_EQ(files().load().state, Intent::State::kNone);
  EXPECT_TRUE(files().load().learnedPeers.empty());
  files().store({});  // twice is once
}

TEST_F(RealFilesTest, NamesTheFileOfADamagedIntent) {
  tree.file("state/intent", "state flies\n");
  auto failure = kj::runCatchingExceptions([&] { files().load(); });
  KJ_IF_MAYBE (e, failure) {
    EXPECT_EQ(messageOf(*e), "unknown line \"state flies\"");
    EXPECT_NE(std::string(kj::str(*e).cStr()).find("state/intent"), std::string::npos);
  } else {
    ADD_FAILURE();
  }
}

TEST_F(RealFilesTest, RemovesTheDataAndKeepsTheDirectory) {
  tree.file("state/snapshot", "x");
  tree.directory("etcd/member/wal", 0700);
  tree.file("etcd/member/wal/0.wal", "x");
  tree.link("etcd/elsewhere", state);
  files().removeData();
  EXPECT_EQ(files().data(), Data::kNone);
  EXPECT_EQ(access(data.cStr(), F_OK), 0);
  EXPECT_EQ(access(tree.at("state/snapshot").cStr(), F_OK), 0);
  files().removeSnapshot();
  EXPECT_NE(access(tree.at("state/snapshot").cStr(), F_OK), 0);
  files().removeSnapshot();
}

}  // namespace
}  // namespace talos::supervisor
