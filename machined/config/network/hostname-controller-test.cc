#include "machined/config/network/hostname-controller.h"

#include "machined/resources/test-store.h"

namespace talos::machined {
namespace {

struct HostnameTest : public StoreTest {
  ~HostnameTest() noexcept override {}
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  ControllerRuntime runtime{store, [](kj::StringPtr) {}, timer, clock, [] { return 0.5; }};
};

// Catches: a name that is not set, or is set again after every other change.
TEST_F(HostnameTest, AppliesWhatIsNew) {
  kj::Vector<kj::String> applied;
  bool refuse = false;
  runtime.add(kj::heap<HostnameController>([&](kj::StringPtr host, kj::StringPtr domain) {
    if (refuse) KJ_FAIL_REQUIRE("not permitted");
    applied.add(kj::str(host, "|", domain));
  }));
  scope.poll();
  EXPECT_EQ(applied.size(), 0u);
  put("hostname", "m1");
  scope.poll();
  runtime.poke("network.HostnameController");
  scope.poll();
  ASSERT_EQ(applied.size(), 1u);
  EXPECT_EQ(applied[0], "m1|");
  // A refused name is retried.
  refuse = true;
  put("hostname", "m2", 1);
  scope.poll();
  refuse = false;
  timer.advanceTo(timer.now() + 1 * kj::SECONDS);
  scope.poll();
  ASSERT_EQ(applied.size(), 2u);
  EXPECT_EQ(applied[1], "m2|");
}

}  // namespace
}  // namespace talos::machined
