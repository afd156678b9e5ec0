#include "machined/api/files-server.h"

#include <gtest/gtest.h>
#include <kj/debug.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/testing/test-tree.h"

namespace talos::machined {
namespace {

struct Got {
  kj::Vector<kj::String> items;
  kj::Vector<kj::byte> bytes;
  unsigned calls = 0;
  size_t largest = 0;
  bool stuck = false;         // the sink never answers
  uint32_t uid = 0, gid = 0;  // values of the last file
  kj::Promise<void> answer() { return stuck ? kj::Promise<void>(kj::NEVER_DONE) : kj::READY_NOW; }
};

class Names final : public rpc::FileSink::Server {
 public:
  explicit Names(Got& got) : got(got) {}
  kj::Promise<void> files(FilesContext context) override {
    ++got.calls;
    for (auto file : context.getParams().getFiles()) {
      got.uid = file.getUid(), got.gid = file.getGid();
      got.items.add(kj::str(file.getRelativeName(), file.getLink().size() > 0 ? "->" : "",
                            file.getLink(), file.getError().size() > 0 ? " !" : "",
                            file.getError()));
    }
    return got.answer();
  }

 private:
  Got& got;
};

class Usages final : public rpc::UsageSink::Server {
 public:
  explicit Usages(Got& got) : got(got) {}
  kj::Promise<void> usages(UsagesContext context) override {
    for (auto usage : context.getParams().getUsages()) {
      auto error = usage.getError();
      got.items.add(error.size() > 0 ? kj::str(usage.getName(), "! ", error)
                                     : kj::str(usage.getName()));
    }
    return got.answer();
  }

 private:
  Got& got;
};

class Bytes final : public rpc::ByteSink::Server {
 public:
  explicit Bytes(Got& got) : got(got) {}
  kj::Promise<void> write(WriteContext context) override {
    ++got.calls;
    auto bytes = context.getParams().getBytes();
    got.largest = kj::max(got.largest, bytes.size());
    got.bytes.addAll(bytes);
    return got.answer();
  }

 private:
  Got& got;
};

class Files : public testing::Test {
 public:
  ~Files() noexcept override {}

 protected:
  kj::AsyncIoContext io = kj::setupAsyncIo();
  ReadPool pool{io.provider->getTimer(), {}, [](kj::StringPtr) {}};
  rpc::Files::Client client =
      kj::heap<FilesServer>(pool, io.provider->getTimer(), ClientCalls::alone());
  TestTree tree;
  Got got;

  kj::Promise<void> list(kj::StringPtr root, bool recurse,
                         kj::ArrayPtr<const rpc::FileType> types = {}) {
    auto request = client.listRequest();
    request.setRoot(root);
    request.setRecurse(recurse);
    auto wanted = request.initTypes(types.size());
    for (size_t i = 0; i < types.size(); ++i) wanted.set(i, types[i]);
    request.setSink(kj::heap<Names>(got));
    return request.send().ignoreResult();
  }
  kj::Promise<void> read(kj::StringPtr path) {
    auto request = client.readRequest();
    request.setPath(path);
    request.setSink(kj::heap<Bytes>(got));
    return request.send().ignoreResult();
  }
  ErrorKind kindOfFailure(kj::Promise<void> call) {
    auto failure = kj::runCatchingExceptions([&] { call.wait(io.waitScope); });
    return kindOf(KJ_ASSERT_NONNULL(failure));
  }
};

// Catches: a root that is not first, links without targets, types that are not left out.
TEST_F(Files, ListIsOneLevelUnlessAskedForMore) {
  tree.directory("d");
  tree.file("d/f", "");
  tree.link("l", "d/f");
  list(tree.root, false).wait(io.waitScope);
  EXPECT_EQ(kj::strArray(got.items, " "), ". d l->d/f");
  KJ_SYSCALL(lchown(tree.at("l").cStr(), 12, 34));
  list(tree.root, false).wait(io.waitScope);
  EXPECT_EQ(got.uid, 12u);
  EXPECT_EQ(got.gid, 34u);
  got.items.clear();
  list(tree.root, true).wait(io.waitScope);
  EXPECT_EQ(kj::strArray(got.items, " "), ". d d/f l->d/f");
  got.items.clear();
  auto types = {rpc::FileType::REGULAR, rpc::FileType::SYMLINK};
  list(tree.root, true, kj::arrayPtr(types.begin(), types.size())).wait(io.waitScope);
  EXPECT_EQ(kj::strArray(got.items, " "), "d/f l->d/f");
}

// Catches: an empty root that is not "/", a missing one that looks like an empty directory.
TEST_F(Files, ListOfNothingAndOfNowhere) {
  list("", false).wait(io.waitScope);
  ASSERT_GT(got.items.size(), 1u);
  EXPECT_EQ(got.items[0], ".");
  EXPECT_EQ(kindOfFailure(list(tree.at("nowhere"), false)), ErrorKind::kNotFound);
}

// Catches: a server that continues walking (and keeping entries) for a reader that takes nothing; a
// server that crashes when the reader disconnects in the middle.
TEST_F(Files, SlowReaderStopsTheWalk) {
  for (int i = 0; i < 1000; ++i) tree.file(kj::str("f", i), "");
  got.stuck = true;
  auto call = list(tree.root, false);
  while (got.calls == 0) pool.run("reading", [] {}).wait(io.waitScope);
  // Waits until all earlier work on the pool has ended.
  for (int i = 0; i < 8; ++i) pool.run("reading", [] {}).wait(io.waitScope);
  EXPECT_FALSE(call.poll(io.waitScope));
  EXPECT_EQ(got.calls, 1u);
  EXPECT_EQ(got.items.size(), 256u);
  call = nullptr;
  pool.run("reading", [] {}).wait(io.waitScope);
  got.stuck = false;
  got.items.clear();
  list(tree.root, false).wait(io.waitScope);
  EXPECT_EQ(got.items.size(), 1001u);
}

// Catches: files whose size is 0 until they are read and that count as empty; files larger than a
// message.
TEST_F(Files, ReadGivesTheWholeFile) {
  read("/proc/self/status").wait(io.waitScope);
  EXPECT_TRUE(kj::heapString(got.bytes.asPtr().asChars()).startsWith("Name:"));
  got = {};
  auto large = kj::heapString(200'000);
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 7 / 3);
  tree.file("large", large);
  read(tree.at("large")).wait(io.waitScope);
  EXPECT_TRUE(got.bytes.asPtr().asChars() == large.asArray());
  EXPECT_LE(got.largest, 64u << 10);
}

// Catches: a read that hangs on a FIFO, or gives a directory's bytes.
TEST_F(Files, ReadRefusesWhatIsNoFile) {
  KJ_SYSCALL(mkfifo(tree.at("fifo").cStr(), 0600));
  EXPECT_EQ(kindOfFailure(read(tree.at("fifo"))), ErrorKind::kInvalidArgument);
  EXPECT_EQ(kindOfFailure(read(tree.root)), ErrorKind::kInvalidArgument);
  EXPECT_EQ(kindOfFailure(read(tree.at("nowhere"))), ErrorKind::kNotFound);
}

// Catches: only the first of several paths processed; a missing path that ends the others, or whose
// error has its name twice.
TEST_F(Files, UsageDoesEveryPath) {
  tree.directory("a");
  tree.directory("b");
  auto request = client.diskUsageRequest();
  auto paths = request.initPaths(3);
  paths.set(0, tree.at("a"));
  paths.set(1, tree.at("nowhere"));
  paths.set(2, tree.at("b"));
  request.setSink(kj::heap<Usages>(got));
  request.send().wait(io.waitScope);
  EXPECT_EQ(kj::strArray(got.items, " "), kj::str(tree.at("a"), " ", tree.at("nowhere"),
                                                  "! No such file or directory ", tree.at("b")));
}

// Catches: half a million paths in one call, and a client that occupies the pool with a hundred
// walks.
TEST_F(Files, WhatAClientMayAskForIsBounded) {
  auto usage = [&](unsigned count) {
    auto request = client.diskUsageRequest();
    auto paths = request.initPaths(count);
    for (unsigned i = 0; i < count; ++i) paths.set(i, tree.at("nowhere"));
    request.setSink(kj::heap<Usages>(got));
    return request.send().ignoreResult();
  };
  usage(kMostUsagePaths).wait(io.waitScope);
  EXPECT_EQ(kindOfFailure(usage(kMostUsagePaths + 1)), ErrorKind::kResourceExhausted);
  got.stuck = true;
  kj::Vector<kj::Promise<void>> walks;
  for (unsigned i = 0; i < limitOf(CallKind::kRead).perClient; ++i) {
    walks.add(list(tree.root, false));
  }
  for (auto& walk : walks) EXPECT_FALSE(walk.poll(io.waitScope));
  EXPECT_EQ(kindOfFailure(list(tree.root, false)), ErrorKind::kResourceExhausted);
  EXPECT_EQ(kindOfFailure(read("/proc/self/status")), ErrorKind::kResourceExhausted);
  walks.clear();
  got.stuck = false;
  list(tree.root, false).wait(io.waitScope);
}

// Catches: an archive that is cut, and unreadable files that are not named.
TEST_F(Files, CopySendsAnArchiveAndNamesWhatIsMissing) {
  tree.directory("t");
  tree.file("t/f", "content");
  KJ_SYSCALL(mkfifo(tree.at("t/fifo").cStr(), 0600));
  auto request = client.copyRequest();
  request.setPath(tree.at("t"));
  request.setSink(kj::heap<Bytes>(got));
  auto answer = request.send().wait(io.waitScope);
  ASSERT_EQ(answer.getUnreadable().size(), 1u);
  EXPECT_TRUE(kj::StringPtr(answer.getUnreadable()[0]).startsWith(tree.at("t/fifo")));
  ASSERT_GT(got.bytes.size(), 2u);
  EXPECT_EQ(got.bytes[0], 0x1f);
  EXPECT_EQ(got.bytes[1], 0x8b);
  auto relative = client.copyRequest();
  relative.setPath("t");
  relative.setSink(kj::heap<Bytes>(got));
  EXPECT_EQ(kindOfFailure(relative.send().ignoreResult()), ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace talos::machined
