#include "backupd/backup-server.h"

#include <gtest/gtest.h>
#include <kj/async-io.h>

#include <string>

#include "backupd/test-s3-server.h"
#include "common/base/error.h"

namespace talos::backupd {
namespace {

// The snapshot of a caller.
class Content final : public rpc::ByteSource::Server {
 public:
  explicit Content(std::string text, size_t more = 0) : text(kj::mv(text)), more(more) {}

  kj::Promise<void> read(ReadContext context) override {
    auto at = context.getParams().getOffset();
    auto part =
        text.substr(std::min<size_t>(at, text.size()), context.getParams().getSize() + more);
    context.getResults().setBytes(kj::arrayPtr(part.data(), part.size()).asBytes());
    return kj::READY_NOW;
  }

 private:
  std::string text;
  size_t more;
};

struct BackupServerTest : public testing::Test {
  ~BackupServerTest() noexcept override {}

  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  DiskThread disk;
  S3Server s3{io};
  Signal changed;
  bool configured = true;
  S3Dependencies s3Deps{{*io.lowLevelProvider, io.unixEventPort, io.provider->getTimer()},
                        kj::systemPreciseCalendarClock(),
                        disk};
  BackupServer::Dependencies deps{
      .timer = timer,
      .settings = [this]() -> kj::Maybe<S3Settings> {
        if (configured) return settings();
        return nullptr;
      },
      .changed = changed,
      .open = [this](S3Settings given) { return s3Store(s3Deps, kj::mv(given)); }};
  rpc::Backupd::Client client = kj::heap<BackupServer>(deps);

  S3Settings settings() const {
    return {.endpoint = kj::str("http://127.0.0.1:", s3.server.port),
            .bucket = kj::str(s3.bucket.c_str()),
            .region = kj::str(s3.region.c_str()),
            .accessKey = kj::str(s3.accessKey.c_str()),
            .secretKey = kj::str(s3.secretKey.c_str()),
            .authorities = {}};
  }
  auto put(const std::string& content, size_t more = 0) {
    Sha256 hash;
    hash.add(kj::arrayPtr(content.data(), content.size()).asBytes());
    auto request = client.putRequest();
    request.setStore(nameOf(settings()));
    request.setName("a/1");
    request.setSize(content.size());
    request.setSha256(hash.hex());
    request.setContent(kj::heap<Content>(content, more));
    return request.send();
  }
  auto list(kj::StringPtr store) {
    auto request = client.listRequest();
    request.setStore(store);
    request.setPrefix("a/");
    return request.send();
  }
  kj::String names() {
    auto answer = list(nameOf(settings())).wait(io.waitScope);
    return kj::strArray(answer.getNames(), " ");
  }
};

// Catches: content that is changed on its way through two processes, or that exceeds its size.
TEST_F(BackupServerTest, StoresListsAndRemoves) {
  std::string large(300'000, 'x');
  for (size_t i = 0; i < large.size(); i += 7) large[i] = static_cast<char>(i);
  put(large).wait(io.waitScope);
  EXPECT_EQ(large, s3.objects["a/1"]);
  s3.objects["a/2"] = s3.objects["b/1"] = "x";
  EXPECT_EQ("a/1 a/2"_kj, names());
  auto request = client.removeRequest();
  request.setStore(nameOf(settings()));
  request.setName("a/1");
  request.send().wait(io.waitScope);
  EXPECT_EQ("a/2"_kj, names());
  auto failed = kj::runCatchingExceptions([&] { put(large, 1).wait(io.waitScope); });
  EXPECT_TRUE(messageOf(KJ_ASSERT_NONNULL(failed)).endsWith("more bytes than were asked for"))
      << messageOf(KJ_ASSERT_NONNULL(failed)).cStr();
  EXPECT_EQ("a/2"_kj, names());
}

// Catches: a snapshot that is sent to the store of an older config; a call that waits for ever for
// a config that never arrives.
TEST_F(BackupServerTest, WaitsForTheConfigOfItsCaller) {
  s3.objects["a/1"] = "x";
  configured = false;
  auto early = list(nameOf(settings()));
  EXPECT_FALSE(early.poll(io.waitScope));
  configured = true;
  changed.raise();
  EXPECT_EQ(1u, early.wait(io.waitScope).getNames().size());
  auto other = list("http://127.0.0.1:1/others");
  EXPECT_FALSE(other.poll(io.waitScope));
  timer.advanceTo(timer.now() + 10 * kj::SECONDS);
  auto failed = kj::runCatchingExceptions([&] { other.wait(io.waitScope); });
  EXPECT_EQ(ErrorKind::kUnavailable, kindOf(KJ_ASSERT_NONNULL(failed)));
  EXPECT_EQ("backupd does not know the store http://127.0.0.1:1/others yet"_kj,
            messageOf(KJ_ASSERT_NONNULL(failed)));
}

// Catches: a list that exceeds every message, and ends the connection.
TEST_F(BackupServerTest, RefusesNamesThatNoMessageHolds) {
  struct Endless final : public S3Store {
    kj::Promise<kj::Vector<kj::String>> list(kj::StringPtr prefix) override {
      kj::Vector<kj::String> names;
      for (auto i : kj::zeroTo(10'000)) names.add(kj::str(prefix, i, kj::repeat('x', 1000)));
      return kj::mv(names);
    }
    kj::Promise<void> put(kj::StringPtr, S3Upload&) override { return kj::READY_NOW; }
    kj::Promise<void> remove(kj::StringPtr) override { return kj::READY_NOW; }
  };
  deps.open = [](S3Settings) { return kj::heap<Endless>(); };
  auto failed = kj::runCatchingExceptions([&] { names(); });
  EXPECT_TRUE(messageOf(KJ_ASSERT_NONNULL(failed)).endsWith("use a prefix of its own"));
}

}  // namespace
}  // namespace talos::backupd
