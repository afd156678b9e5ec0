#include "machined/confined/login1/locks/shutdown-delay.h"

#include <gmock/gmock.h>

#include "common/base/error.h"
#include "common/testing/virtual-time.h"

namespace talos::login1 {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct ShutdownDelayTest : public testing::Test {
  ~ShutdownDelayTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  std::vector<bool> announced;
  ShutdownDelay delay{timer, [this](bool begins) { announced.push_back(begins); }, [] {}};

  static Inhibitor lock(kj::StringPtr who = "kubelet", kj::StringPtr what = "shutdown",
                        kj::StringPtr mode = "delay") {
    Inhibitor result{.what = kj::str(what),
                     .who = kj::str(who),
                     .why = kj::str("it ends pods"),
                     .mode = kj::str(mode)};
    result.pid = 7;
    return result;
  }
  std::string refusal(Inhibitor wanted) {
    auto failed = kj::runCatchingExceptions([&] { delay.take(kj::mv(wanted)); });
    return messageOf(KJ_ASSERT_NONNULL(failed)).cStr();
  }
};

// Catches: a node that shuts down before all locks are released; a node that waits for a holder
// that has released its lock.
TEST_F(ShutdownDelayTest, AllWhoHoldALockAreWaitedFor) {
  auto one = delay.take(lock("kubelet"));
  auto two = delay.take(lock("other\n"));
  EXPECT_EQ(delay.stateName(), "idle"_kj);
  EXPECT_THAT(announced, IsEmpty());
  delay.request(3);
  EXPECT_THAT(announced, ElementsAre(true));
  EXPECT_EQ(delay.stateName(), "waiting"_kj);
  EXPECT_EQ(kj::strArray(delay.inhibitors().holders(), ", "), "kubelet (pid 7), other  (pid 7)");
  delay.release(one);
  delay.release(one);
  EXPECT_EQ(delay.stateName(), "waiting"_kj);
  delay.release(two);
  EXPECT_EQ(delay.stateName(), "over"_kj);
  EXPECT_EQ(delay.requested(), 3u);
  advance(timer, scope, 2 * kInhibitDelayMax);
  EXPECT_EQ(delay.message(), "all locks were released"_kj)
      << "the end of the delay was not meant any more";
}

// Catches: a node that never shuts down because one holder does not release its lock.
TEST_F(ShutdownDelayTest, TheDelayHasAnEnd) {
  auto inContainer = lock();
  inContainer.pid = 0;
  delay.take(kj::mv(inContainer));
  delay.request(1);
  advance(timer, scope, kUsualShutdownLimit - 1 * kj::SECONDS);
  delay.request(1);  // the store repeats the request
  EXPECT_EQ(delay.stateName(), "waiting"_kj);
  advance(timer, scope, 1 * kj::SECONDS);
  EXPECT_EQ(delay.stateName(), "over"_kj);
  EXPECT_EQ(delay.message(), "locks not released within 45 s: kubelet"_kj);
  EXPECT_THAT(announced, ElementsAre(true));
}

// Catches: a kubelet whose config has a longer period and that is cut off, or a shorter one and for
// which the node waits the usual time; a request without a limit.
TEST_F(ShutdownDelayTest, TheRequestHasTheLimit) {
  delay.take(lock());
  struct Row {
    kj::Duration limit;
    int64_t seconds;
  };
  uint64_t number = 0;
  for (auto [limit, seconds] :
       {Row{75 * kj::SECONDS, 75}, Row{20 * kj::SECONDS, 20}, Row{1 * kj::HOURS, 315}}) {
    delay.request(0);
    delay.request(++number, limit);
    advance(timer, scope, (seconds - 1) * kj::SECONDS);
    EXPECT_EQ(delay.stateName(), "waiting"_kj) << seconds;
    advance(timer, scope, 1 * kj::SECONDS);
    EXPECT_EQ(delay.message(),
              kj::str("locks not released within ", seconds, " s: kubelet (pid 7)"));
  }
}

// Catches: a node without a kubelet that waits for a kubelet; a node that stays up without
// announcing that the request was withdrawn.
TEST_F(ShutdownDelayTest, NobodyToWaitForAndARequestThatIsTakenBack) {
  delay.request(1);
  EXPECT_EQ(delay.stateName(), "over"_kj);
  delay.request(0);
  EXPECT_EQ(delay.stateName(), "idle"_kj);
  delay.take(lock());
  delay.request(2);
  delay.request(0);
  EXPECT_THAT(announced, ElementsAre(true, false, true, false));
  advance(timer, scope, 2 * kInhibitDelayMax);
  EXPECT_EQ(delay.stateName(), "idle"_kj);
}

// Catches: a lock that is granted although login1 does not support it; any number of locks for a
// client.
TEST_F(ShutdownDelayTest, OnlyWhatIsDoneIsGiven) {
  EXPECT_EQ(refusal(lock("x", "shutdown", "block")),
            "locks of mode \"block\" are not given; use \"delay\"");
  EXPECT_EQ(refusal(lock("x", "shutdown:sleep")),
            "locks of \"shutdown:sleep\" are not given; use \"shutdown\"");
  for (size_t i = 0; i < kMostInhibitors; ++i) delay.take(lock());
  EXPECT_EQ(refusal(lock()), "there are 64 locks already");
}

}  // namespace
}  // namespace talos::login1
