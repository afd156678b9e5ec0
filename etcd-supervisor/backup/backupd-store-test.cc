#include "etcd-supervisor/backup/backupd-store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/async-io.h>

#include <functional>
#include <string>
#include <vector>

#include "common/base/error.h"

namespace talos::supervisor {
namespace {

// A backupd that gives the test's answers.
class TestBackupd final : public rpc::Backupd::Server {
 public:
  struct Shared {
    std::vector<std::string> names;
    std::string problem, stored, removed, store;
    bool hangs = false;
    unsigned notReady = 0;
  };
  explicit TestBackupd(Shared& shared) : shared(shared) {}

  kj::Promise<void> ready(ReadyContext) override {
    if (shared.notReady == 0) return kj::READY_NOW;
    --shared.notReady;
    return error(ErrorKind::kUnavailable, "connection refused");
  }
  kj::Promise<void> list(ListContext context) override {
    refuse();
    if (shared.hangs) co_await kj::Promise<void>(kj::NEVER_DONE);
    shared.store = context.getParams().getStore().cStr();
    auto out = context.getResults().initNames(static_cast<unsigned>(shared.names.size()));
    for (auto i : kj::indices(shared.names)) out.set(unsigned(i), shared.names[i].c_str());
  }
  kj::Promise<void> put(PutContext context) override {
    refuse();
    auto params = context.getParams();
    auto content = params.getContent();
    std::string found;
    while (found.size() < params.getSize()) {
      auto request = content.readRequest();
      request.setOffset(found.size());
      request.setSize(3);
      auto answer = co_await request.send();
      auto bytes = answer.getBytes().asChars();
      found.append(bytes.begin(), bytes.size());
      if (shared.hangs) co_await kj::Promise<void>(kj::NEVER_DONE);
    }
    shared.stored = std::string(params.getName().cStr()) + ": " + found;
  }
  kj::Promise<void> remove(RemoveContext context) override {
    refuse();
    shared.removed = context.getParams().getName().cStr();
    return kj::READY_NOW;
  }

 private:
  Shared& shared;
  void refuse() const {
    if (!shared.problem.empty()) fail(ErrorKind::kInternal, shared.problem.c_str());
  }
};

struct BackupdStoreTest : public testing::Test {
  ~BackupdStoreTest() noexcept override {}

  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  DiskThread disk;
  TestBackupd::Shared backupd;
  kj::Own<ObjectStore> store =
      backupdStore(timer, kj::heap<TestBackupd>(backupd), kj::str("https://s3.example.org/b"));

  UploadFile file(const std::string& content) {
    return {QueuedFile(disk,
                       [content]() {
                         int fd;
                         KJ_SYSCALL(fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
                         kj::AutoCloseFd owned(fd);
                         kj::FdOutputStream(fd).write(content.data(), content.size());
                         return owned;
                       }),
            content.size(), kj::str("00")};
  }
  std::string list() {
    std::string result;
    auto failed = kj::runCatchingExceptions(
        [&] { result = kj::strArray(store->list("a/").wait(io.waitScope), " ").cStr(); });
    KJ_IF_MAYBE (e, failed) {
      EXPECT_EQ(ErrorKind::kUnavailable, kindOf(*e));
      return messageOf(*e).cStr();
    }
    return result;
  }
};

// Catches: a call that names another store, or does not arrive as it was meant.
TEST_F(BackupdStoreTest, AsksBackupd) {
  backupd.names = {"a/1", "a/2"};
  EXPECT_EQ("a/1 a/2", list());
  EXPECT_EQ("https://s3.example.org/b", backupd.store);
  store->put("a/3", file("the snapshot")).wait(io.waitScope);
  EXPECT_EQ("a/3: the snapshot", backupd.stored);
  store->remove("a/1").wait(io.waitScope);
  EXPECT_EQ("a/1", backupd.removed);
}

// Catches: a hijacked backupd that makes etcd-supervisor accept foreign text unchecked as the name
// of a snapshot, or as a message.
TEST_F(BackupdStoreTest, BelievesNoAnswer) {
  for (auto names : {std::vector<std::string>{"b/1"}, {"a/2", "a/1"}, {"a/1", "a/1"}}) {
    backupd.names = names;
    EXPECT_EQ("the list of backupd is not sorted by names", list());
  }
  backupd.problem = "no\x1b[2J\nsecond line " + std::string(5000, 'x');
  auto message = list();
  EXPECT_LE(message.size(), 500u);
  EXPECT_EQ(message.find_first_of("\x1b\n"), message.npos) << message;
}

// Catches: backups that end permanently when backupd is silent; an upload that is cancelled while
// it makes progress.
TEST_F(BackupdStoreTest, ACallEndsWithoutAnAnswer) {
  backupd.hangs = true;
  auto listing = store->list("a/");
  EXPECT_FALSE(listing.poll(io.waitScope));
  timer.advanceTo(timer.now() + kBackupdSilence);
  auto failed = kj::runCatchingExceptions([&] { listing.wait(io.waitScope); });
  EXPECT_EQ("no answer of backupd within 10 min"_kj, messageOf(KJ_ASSERT_NONNULL(failed)));
  auto uploading = store->put("a/3", file("the snapshot"));
  EXPECT_FALSE(uploading.poll(io.waitScope));
  timer.advanceTo(timer.now() + kBackupdSilence);
  failed = kj::runCatchingExceptions([&] { uploading.wait(io.waitScope); });
  EXPECT_EQ("backupd says nothing for 10 min"_kj, messageOf(KJ_ASSERT_NONNULL(failed)));
}

// Catches: a minute without a backup because backupd was started with the same config.
TEST_F(BackupdStoreTest, WaitsForBackupdToStart) {
  backupd.names = {"a/1"};
  backupd.notReady = 2;
  auto listing = store->list("a/");
  for (auto pauses = 0; pauses < 2; ++pauses) {
    EXPECT_FALSE(listing.poll(io.waitScope));
    timer.advanceTo(timer.now() + 200 * kj::MILLISECONDS);
  }
  EXPECT_EQ(1u, listing.wait(io.waitScope).size());
}

}  // namespace
}  // namespace talos::supervisor
