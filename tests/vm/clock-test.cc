// The hardware clock of a machine that has a time server.
#include <gtest/gtest.h>
#include <time.h>

#include <regex>

#include "tests/harness/time-server.h"
#include "tests/vm/lone-machine.h"
#include "tests/vm/qemu-control.h"

namespace talos::vm {
namespace {

using harness::contains;
using harness::eventually;

constexpr double kUp = 480;  // emulated, beside whatever else runs
// The kernel writes the chip of a synchronised clock each 11 minutes (kernel/time/ntp.c).
constexpr double kKernelWrites = 660;

std::string today() {
  auto now = time(nullptr);
  struct tm utc;
  char text[16];
  strftime(text, sizeof(text), "%Y-%m-%d", gmtime_r(&now, &utc));
  return text;
}

// Catches: a synchronised clock that the kernel regards as not synchronised, so that the hardware
// clock drifts from the first correction on.
TEST(HardwareClock, TheKernelKeepsItRight) {
  harness::TimeServer server(0, INADDR_LOOPBACK);  // which QEMU's network has at 10.0.2.2
  std::string monitor;
  LoneMachine machine({.disk = LoneMachine::writtenDisk("../image"),
                       .beforeItStarts = [&](LoneMachine& self, LoneMachine::Hardware& hardware) {
                         monitor = self.path("monitor");
                         hardware.more = {"-rtc", "base=2020-06-01T00:00:00", "-qmp",
                                          "unix:" + monitor + ",server=on,wait=off"};
                       }});
  ASSERT_NO_FATAL_FAILURE(machine.configure(std::regex_replace(
      machine.generate(), std::regex("\nmachine:\n"), "$&    time: {servers: [10.0.2.2]}\n")));
  auto status = [&] { return machine.at({"get", "timestatus", "node", "-o", "yaml"}).out; };
  ASSERT_TRUE(eventually([&] { return contains(status(), "synced: true"); }, kUp, 1))
      << status() << machine.console();
  auto epoch = [&] {
    std::smatch found;
    auto text = status();
    return std::regex_search(text, found, std::regex("epoch: (\\d+)")) ? found[1].str() : text;
  };
  auto before = epoch();
  QemuControl control(monitor);
  // The events of setting the clock are over when none has come for a minute.
  while (control.event("RTC_CHANGE", 60)) continue;
  EXPECT_TRUE(control.event("RTC_CHANGE", kKernelWrites + 60)) << status();
  EXPECT_EQ(epoch(), before) << "the chip was written because the clock was set";
  auto first = today();
  auto chip = machine.at({"read", "/proc/driver/rtc"}).out;
  EXPECT_TRUE(contains(chip, first) || contains(chip, today())) << chip;
}

}  // namespace
}  // namespace talos::vm
