#include "machined/config/controllers/watchdog-controller.h"

#include "machined/config/controllers/test-machine-config.h"
#include "machined/process1/init/held-watchdog.h"
#include "rpc/feature-resources.capnp.h"

namespace talos::machined {
namespace {

struct WatchdogControllerTest : public ConfigTest {
  ~WatchdogControllerTest() noexcept override {}

  void configure(kj::StringPtr watchdog) {
    publish(kj::str("machine: {type: worker, ", watchdog,
                    "}\ncluster: {controlPlane: {endpoint: 'https://10.0.0.1:6443'}}\n"));
  }
  bool follow(Controller& controller) {
    return kj::runCatchingExceptions([&] { controller.reconcile(store).wait(io.waitScope); }) ==
           nullptr;
  }
  std::string config() {
    KJ_IF_MAYBE (spec, store.tryGet<rpc::WatchdogTimerConfigSpec>("timer")) {
      return kj::str(spec->getDevice(), " ", spec->getTimeout()).cStr();
    }
    return "none";
  }
  std::string status() {
    KJ_IF_MAYBE (spec, store.tryGet<rpc::WatchdogTimerStatusSpec>("timer")) {
      return kj::str(spec->getDevice(), " ", spec->getTimeout(), " ", spec->getFeedInterval())
          .cStr();
    }
    return "none";
  }
};

// Catches: a status that shows the config and not the device; a device that is stopped because a
// restarted brain does not know its config yet.
TEST_F(WatchdogControllerTest, WritesTheConfigAndTheDevice) {
  watchdogs.devices["/dev/watchdog0"].most = 5400;
  // The predecessor's device.
  watchdog.apply(WantedWatchdog{kj::str("/dev/watchdog0"), 60}).wait(io.waitScope);
  auto controller = watchdogTimerController(deps);
  EXPECT_TRUE(follow(*controller));
  EXPECT_EQ("none", config());
  EXPECT_TRUE(machine.holds(process1::kWatchdog));
  configure("watchdog: {device: /dev/watchdog0}");
  EXPECT_TRUE(follow(*controller));
  EXPECT_EQ("/dev/watchdog0 1m0s", config());
  EXPECT_EQ("/dev/watchdog0 1m0s 1s", status());
  configure("watchdog: {device: /dev/watchdog0, timeout: 90m}");
  EXPECT_TRUE(follow(*controller));
  EXPECT_EQ("/dev/watchdog0 1h30m0s", config());
  configure("watchdog: {device: /dev/watchdog0, timeout: 2h}");
  EXPECT_FALSE(follow(*controller));
  EXPECT_FALSE(follow(*controller));
  EXPECT_EQ("/dev/watchdog0 2h0m0s", config());
  EXPECT_EQ("/dev/watchdog0 1h30m0s 1s", status());
  ASSERT_EQ(1u, warnings.size());
  EXPECT_EQ("machine.watchdog: /dev/watchdog0: refused; it has 5400s now", warnings[0]);
  configure("watchdog: {device: /dev/watchdog3}");
  EXPECT_FALSE(follow(*controller));
  EXPECT_EQ("none", status());
  configure("token: x");
  EXPECT_TRUE(follow(*controller));
  EXPECT_EQ("none", config());
  EXPECT_EQ("none", status());
}

}  // namespace
}  // namespace talos::machined
