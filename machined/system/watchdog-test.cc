#include "machined/system/watchdog.h"

#include <gtest/gtest.h>

#include "common/base/error.h"
#include "machined/process1/init/held-watchdog.h"
#include "machined/process1/test-process1.h"
#include "machined/system/test-watchdog-devices.h"

namespace talos::machined {
namespace {

class WatchdogTest : public testing::Test {
 public:
  ~WatchdogTest() noexcept override {}

 protected:
  kj::AsyncIoContext io = kj::setupAsyncIo();
  UvLoop uv{io.unixEventPort, io.provider->getTimer()};
  TestWatchdogs devices;
  FakeMachine machine;
  kj::Own<FakeProcess1> process1;
  kj::Own<Watchdog> watchdog;

  WatchdogTest() {
    devices.devices["/dev/watchdog0"];
    devices.devices["/dev/watchdog1"];
    start();
  }
  void start(KernelScope scope = KernelScope::kAll) {  // starts a brain, and ends an earlier one
    watchdog = nullptr;
    process1 = nullptr;
    process1 = kj::heap<FakeProcess1>(machine);
    watchdog = kj::heap<Watchdog>(uv, *process1, devices, scope);
  }
  static kj::Maybe<WantedWatchdog> wants(kj::StringPtr device, unsigned seconds) {
    return WantedWatchdog{kj::str(device), seconds};
  }
  // Returns the problem, or "".
  std::string apply(kj::Maybe<WantedWatchdog> wanted) {
    auto failed =
        kj::runCatchingExceptions([&] { watchdog->apply(kj::mv(wanted)).wait(io.waitScope); });
    KJ_IF_MAYBE (e, failed) return messageOf(*e).cStr();
    return "";
  }
  std::string running() {
    KJ_IF_MAYBE (r, watchdog->running()) return kj::str(r->device, " ", r->seconds, "s").cStr();
    return "none";
  }
  bool held() { return machine.holds(process1::kWatchdog); }
};

// Catches: a running device that is not fed, or has its driver's timeout.
TEST_F(WatchdogTest, IsHandedOverAndFollowsTheConfig) {
  EXPECT_EQ("", apply(nullptr));
  EXPECT_FALSE(held());
  EXPECT_EQ("", apply(wants("/dev/watchdog0", 60)));
  EXPECT_EQ("/dev/watchdog0 60s", running());
  EXPECT_TRUE(held());
  EXPECT_EQ("", apply(wants("/dev/watchdog0", 120)));
  EXPECT_EQ("/dev/watchdog0 120s", running());
  EXPECT_EQ(1u, devices.devices["/dev/watchdog0"].opened);
  EXPECT_EQ("", apply(wants("/dev/watchdog1", 20)));
  EXPECT_EQ("/dev/watchdog1 20s", running());
  EXPECT_EQ("", apply(nullptr));
  EXPECT_EQ("none", running());
  EXPECT_FALSE(held());
}

// Catches: a brain that again opens a device which its predecessor has left to process 1, and is
// refused; a brain that stops the device because it has no config yet.
TEST_F(WatchdogTest, TheNextBrainGoesOn) {
  apply(wants("/dev/watchdog0", 60));
  start();
  EXPECT_TRUE(held());
  EXPECT_EQ("", apply(wants("/dev/watchdog0", 60)));
  EXPECT_EQ("/dev/watchdog0 60s", running());
  EXPECT_EQ(1u, devices.devices["/dev/watchdog0"].opened);
  start();
  EXPECT_EQ("", apply(nullptr));
  EXPECT_FALSE(held());
}

// Catches: a refusal that is not reported; a started device that is closed because of it and fires.
TEST_F(WatchdogTest, ARefusedTimeoutIsAProblemAndTheDeviceIsFed) {
  EXPECT_EQ("/dev/watchdog0: refused; it has 30s now", apply(wants("/dev/watchdog0", 700)));
  EXPECT_EQ("/dev/watchdog0 30s", running());
  EXPECT_TRUE(held());
  EXPECT_EQ("", apply(wants("/dev/watchdog0", 90)));
}

// Catches: a problem that is forgotten; a device that is not used any more after a problem.
TEST_F(WatchdogTest, ADeviceMayComeLater) {
  EXPECT_EQ("there is no /dev/watchdog7", apply(wants("/dev/watchdog7", 60)));
  EXPECT_EQ("none", running());
  devices.devices["/dev/watchdog7"];
  EXPECT_EQ("", apply(wants("/dev/watchdog7", 60)));
  EXPECT_EQ("/dev/watchdog7 60s", running());
}

// Catches: a device that cannot be stopped and is not fed any more, so that it resets the machine.
TEST_F(WatchdogTest, AnEndlessOneIsFedUntilTheRestart) {
  devices.devices["/dev/watchdog0"].endless = true;
  apply(wants("/dev/watchdog0", 60));
  EXPECT_NE(apply(nullptr).find("does not let it be stopped (nowayout)"), std::string::npos);
  EXPECT_TRUE(held());
  EXPECT_EQ("/dev/watchdog0 60s", running());
  EXPECT_NE(apply(wants("/dev/watchdog1", 60)).find("nowayout"), std::string::npos);
  EXPECT_EQ(0u, devices.devices["/dev/watchdog1"].opened);
}

// Catches: a container that makes a device reset its host.
TEST_F(WatchdogTest, AContainerHasNone) {
  start(KernelScope::kNetwork);
  EXPECT_EQ("", apply(nullptr));
  EXPECT_EQ("not used, because this node is a container and the kernel is its host's",
            apply(wants("/dev/watchdog0", 60)));
  EXPECT_EQ(0u, devices.devices["/dev/watchdog0"].opened);
}

}  // namespace
}  // namespace talos::machined
