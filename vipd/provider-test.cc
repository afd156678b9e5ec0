#include "vipd/provider.h"

#include <gtest/gtest.h>

#include "common/testing/virtual-time.h"
#include "vipd/test-provider.h"

namespace talos::vipd {
namespace {

using Calls = std::vector<std::string>;

struct Assigned : testing::Test {
  ~Assigned() noexcept override {}

  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  kj::Function<double()> chance = [] { return 0.5; };  // pauses of exactly 1, 2, 4, 8, 15 s
  TestCloud cloud;
  unsigned changes = 0;
  Assignment assignment{Ip::require("10.0.0.9"), timer, chance, kj::heap<TestProvider>(cloud, "a"),
                        [this] { ++changes; }};

  void pass(kj::Duration time) { advance(timer, scope, time); }
  void look() { assignment.look({.instance = kj::str("42"), .addresses = {}}); }
  std::string obstacle() {
    KJ_IF_MAYBE (text, assignment.obstacle()) return text->cStr();
    return "";
  }
};

// Catches: a node that stands for election although it could not move the address; a look without
// pauses, or one that never succeeds; a second look beside the first.
TEST_F(Assigned, TheMachineAndTheAddressAreFoundFirst) {
  EXPECT_EQ(obstacle(), "looking for this server and the address at the cloud");
  cloud.problem = "401";
  look();
  look();
  pass(0 * kj::SECONDS);
  EXPECT_EQ(obstacle(), "cannot find this server and the shared address at the cloud: 401");
  pass(7 * kj::SECONDS - kj::NANOSECONDS);  // after 0, 1 and 3 s
  look();
  EXPECT_EQ(3u, cloud.calls.size());
  cloud.problem = "";
  auto before = changes;
  pass(kj::NANOSECONDS);
  EXPECT_EQ(cloud.calls, (Calls{"find a", "find a", "find a", "find a"}));
  EXPECT_EQ(obstacle(), "");
  EXPECT_LT(before, changes);
  look();
  pass(100 * kj::SECONDS);
  EXPECT_EQ(4u, cloud.calls.size());
}

// Catches: an address that another server has, because a late call of the former holder moved it
// away after this one's.
TEST_F(Assigned, AHolderLooksAgainOnceAMinute) {
  look();
  pass(1 * kj::SECONDS);
  assignment.hold();
  pass(0 * kj::SECONDS);
  assignment.hold();
  EXPECT_EQ(cloud.calls, (Calls{"find a", "assign a"}));
  cloud.at = "b";
  pass(60 * kj::SECONDS);
  EXPECT_EQ(cloud.calls, (Calls{"find a", "assign a", "assign a"}));
  EXPECT_EQ(cloud.at, "a");
}

// Catches: a failure that is final, or that no status shows; ids that are kept although the address
// was made again; a problem that is shown after its end.
TEST_F(Assigned, AFailureIsRetriedWithALook) {
  look();
  pass(0 * kj::SECONDS);
  cloud.problem = "503";
  assignment.hold();
  pass(0 * kj::SECONDS);
  EXPECT_EQ("cannot assign the shared address to this server at the cloud: 503"_kj,
            assignment.problem());
  EXPECT_EQ(obstacle(), "");
  pass(1 * kj::SECONDS);
  EXPECT_EQ(cloud.calls, (Calls{"find a", "assign a", "find a"}));
  cloud.problem = "";
  pass(2 * kj::SECONDS);
  EXPECT_EQ(cloud.calls, (Calls{"find a", "assign a", "find a", "find a", "assign a"}));
  EXPECT_EQ(""_kj, assignment.problem());
  EXPECT_EQ(cloud.at, "a");
}

// Catches: a node that uses up the calls of the whole project.
TEST_F(Assigned, ARateLimitMeansALongerPause) {
  look();
  pass(0 * kj::SECONDS);
  cloud.problem = "429";
  cloud.kind = ErrorKind::kResourceExhausted;
  assignment.hold();
  pass(10 * kj::SECONDS - kj::NANOSECONDS);
  EXPECT_EQ(2u, cloud.calls.size());
  pass(kj::NANOSECONDS);
  EXPECT_EQ(3u, cloud.calls.size());
}

// Catches: a call that continues after the lease was lost, and takes the address from the next
// holder; a node that does not assign the address when it holds it again.
TEST_F(Assigned, ALostLeaseEndsItsCalls) {
  look();
  pass(0 * kj::SECONDS);
  cloud.hangs = true;
  assignment.hold();
  pass(0 * kj::SECONDS);
  EXPECT_EQ(1u, cloud.pending);
  assignment.leave();
  EXPECT_EQ(0u, cloud.pending);
  pass(100 * kj::SECONDS);
  EXPECT_EQ(2u, cloud.calls.size());
  EXPECT_EQ(obstacle(), "");
  cloud.hangs = false;
  assignment.hold();
  pass(0 * kj::SECONDS);
  EXPECT_EQ(cloud.at, "a");
}

}  // namespace
}  // namespace talos::vipd
