#include "machined/disk/volumes/mount-volume.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace talos::machined {
namespace {

struct MountWait : public testing::Test {
  ~MountWait() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  std::vector<std::string> said;

  // Returns the result of a mount of this duration: "mounted", or the error.
  std::string wait(kj::Duration takes) {
    kj::Function<void(kj::StringPtr)> say = [this](kj::StringPtr line) {
      said.push_back(line.cStr());
    };
    auto opening = timer.afterDelay(takes).then([] { return kj::str("mounted"); });
    auto waiting = untilMounted(timer, kj::str("/dev/sdb1"), kj::mv(opening), say);
    while (!waiting.poll(scope)) timer.advanceTo(timer.now() + 1 * kj::SECONDS);
    std::string result;
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { result = waiting.wait(scope).cStr(); })) {
      result = messageOf(*e).cStr();
    }
    return result;
  }
};

}  // namespace

// Catches: a journal that is replayed for minutes and ends this boot and each next one; a boot that
// waits without a message.
TEST_F(MountWait, ALongJournalIsWaitedFor) {
  EXPECT_EQ(wait(5 * kj::MINUTES + 30 * kj::SECONDS), "mounted");
  ASSERT_EQ(said.size(), 5u);
  EXPECT_EQ(said[1],
            "waiting for /dev/sdb1 to be mounted for 2 min, of at most 15; its journal may have to "
            "be replayed");
  // No line follows.
  timer.advanceTo(timer.now() + 1 * kj::HOURS);
  scope.poll();
  EXPECT_EQ(said.size(), 5u);
}

// Catches: a line on the console of each boot.
TEST_F(MountWait, AMountIsUsuallyShort) {
  EXPECT_EQ(wait(50 * kj::SECONDS), "mounted");
  EXPECT_TRUE(said.empty());
}

// Catches: a boot that waits for ever.
TEST_F(MountWait, HangingMountIsGivenUp) {
  EXPECT_EQ(wait(2 * kj::HOURS), "mounting /dev/sdb1 timed out after 15 minutes");
  EXPECT_EQ((timer.now() - kj::origin<kj::TimePoint>()) / kj::MINUTES, 15);
}

}  // namespace talos::machined
