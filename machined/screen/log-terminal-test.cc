#include "machined/screen/log-terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <kj/debug.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace talos::machined {
namespace {

using testing::EndsWith;
using testing::Not;

struct ModelShown final : ShownTerminal {
  kj::String current = kj::str("tty2");
  kj::Own<kj::PromiseFulfiller<void>> changed;
  kj::String name() override { return kj::str(current); }
  kj::Promise<void> whenChanged() override {
    auto paf = kj::newPromiseAndFulfiller<void>();
    changed = kj::mv(paf.fulfiller);
    return kj::mv(paf.promise);
  }
};

struct ModelLog final : KmsgSource {
  explicit ModelLog(const std::vector<std::string>& records) : records(records) {}
  Read read(kj::ArrayPtr<char> buffer) override {
    if (next == records.size()) return {.error = EAGAIN};
    auto& record = records[next++];
    memcpy(buffer.begin(), record.data(), record.size());
    return {.size = record.size()};
  }
  kj::Promise<void> whenReadable() override { return kj::NEVER_DONE; }
  void rewind() override { next = 0; }
  void skipToEnd() override { next = records.size(); }
  const std::vector<std::string>& records;
  size_t next = 0;
};

struct LogTerminalTest : public testing::Test {
  ~LogTerminalTest() noexcept override {}
  kj::UnixEventPort port;
  kj::EventLoop loop{port};
  kj::WaitScope scope{loop};
  std::vector<std::string> records;
  kj::AutoCloseFd reading;
  kj::Own<LogTerminal> log;
  kj::Promise<void> running = nullptr;
  ModelShown* shown = nullptr;

  LogTerminalTest() {
    int ends[2];
    KJ_SYSCALL(pipe2(ends, O_NONBLOCK | O_CLOEXEC));
    reading = kj::AutoCloseFd(ends[0]);
    auto model = kj::heap<ModelShown>();
    shown = model.get();
    log = kj::heap<LogTerminal>(kj::heap<VirtualTerminal>(kj::AutoCloseFd(ends[1])), kj::mv(model),
                                [this]() { return kj::heap<ModelLog>(records); });
    running = log->run().eagerlyEvaluate(nullptr);
  }
  // Switches terminals as Alt and a key do.
  std::string go(kj::StringPtr terminal) {
    shown->current = kj::str(terminal);
    shown->changed->fulfill();
    scope.poll();
    std::string all;
    char bytes[65536];
    for (ssize_t n; (n = read(reading, bytes, sizeof bytes)) > 0;) all.append(bytes, size_t(n));
    return all;
  }
};

// Catches: a first terminal that ends where the machine's screen was shown; a terminal that is
// cleared while the kernel writes to it.
TEST_F(LogTerminalTest, HasTheEndOfTheLogWhenItIsShown) {
  records = {"6,1,1000000,-;Linux version 6\n", "7,2,1000001,-;not for consoles\n",
             "4,3,12345678,-;link is down\n SUBSYSTEM=net\n"};
  EXPECT_EQ(
      go("tty1"),
      "\x1b[0m\x1b[H\x1b[2J[    1.000000] Linux version 6\r\n[   12.345678] link is down\r\n");
  EXPECT_EQ(go("tty1"), "");
  EXPECT_EQ(go("tty2"), "");
  EXPECT_EQ(go("tty3"), "");
  records.push_back("6,4,123456000001,-;URL talos.config=http://h/?token=t\n");
  EXPECT_THAT(go("tty1"), EndsWith("[123456.000001] URL talos.config=http://h/?***\r\n"));
}

// Catches: a first line that is not shown because a whole ring of lines follows it.
TEST_F(LogTerminalTest, HasAsManyLinesAsAreSeen) {
  for (int i = 1; i <= 1000; ++i)
    records.push_back(kj::str("6,", i, ",1,-;line ", i, ".\n").cStr());
  auto text = go("tty1");
  EXPECT_THAT(text, EndsWith("line 1000.\r\n"));
  EXPECT_THAT(text, testing::HasSubstr("line 977."));
  EXPECT_THAT(text, Not(testing::HasSubstr("line 976.")));
}

}  // namespace
}  // namespace talos::machined
