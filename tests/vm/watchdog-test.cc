// A machine whose kernel stands still, and its watchdog.
#include <gtest/gtest.h>

#include <regex>

#include "tests/vm/lone-machine.h"
#include "tests/vm/qemu-control.h"

namespace talos::vm {
namespace {

using harness::contains;
using harness::eventually;

constexpr double kUp = 480;  // emulated, beside whatever else runs

size_t boots(const LoneMachine& machine) {
  size_t count = 0;
  auto text = machine.console();
  for (size_t at = 0; (at = text.find("Linux version", at)) != text.npos; ++at) ++count;
  return count;
}
// Returns the machine's uptime; 0 while it does not answer.
double uptime(const LoneMachine& machine) {
  auto answer = machine.at({"read", "/proc/uptime"});
  return answer.status == 0 ? strtod(answer.out.c_str(), nullptr) : 0;
}
bool says(const LoneMachine& machine, const std::vector<std::string>& what, const char* words) {
  return eventually([&] { return contains(machine.at(what).out, words); }, kUp, 1);
}

// Catches: a device that is not opened, not fed, or fed by a program that outlives the kernel's
// end; a watchdog that resets a machine which merely restarts its brain, or whose config no longer
// has it; a reset that loses the node.
TEST(Watchdog, ResetsAMachineWhoseKernelStandsStill) {
  std::string monitor;
  LoneMachine machine({.disk = LoneMachine::writtenDisk("../image"),
                       .beforeItStarts = [&](LoneMachine& self, LoneMachine::Hardware& hardware) {
                         monitor = self.path("monitor");
                         hardware.more = {"-device", "i6300esb",
                                          "-action", "watchdog=reset",
                                          "-qmp",    "unix:" + monitor + ",server=on,wait=off"};
                       }});
  auto config =
      std::regex_replace(machine.generate(), std::regex("\nmachine:\n"),
                         "$&    watchdog: {device: /dev/watchdog0, timeout: 10s}\n"
                         "    sysctls: {kernel.unknown_nmi_panic: \"1\", kernel.panic: \"0\"}\n");
  ASSERT_NO_FATAL_FAILURE(machine.configure(config));
  ASSERT_TRUE(says(machine, {"get", "watchdogtimerstatus"}, "/dev/watchdog0   10s"))
      << machine.at({"get", "watchdogtimerstatus"}).out << machine.console();
  auto killed = uptime(machine);
  ASSERT_GT(killed, 0);
  EXPECT_EQ(machine.at({"service", "machined", "kill", "--signal", "SIGKILL"}).status, 0);
  ASSERT_TRUE(says(machine, {"get", "watchdogtimerstatus"}, "/dev/watchdog0   10s"));
  // Longer than the watchdog's timeout, even if it is not fed since.
  ASSERT_TRUE(eventually([&] { return uptime(machine) > killed + 25; }, kUp, 1));
  ASSERT_EQ(1u, boots(machine)) << machine.console();

  QemuControl(monitor).command("inject-nmi");
  EXPECT_TRUE(eventually([&] { return contains(machine.console(), "Kernel panic"); }, kUp, 1));
  ASSERT_TRUE(eventually([&] { return boots(machine) == 2; }, kUp, 1)) << machine.console();
  ASSERT_TRUE(says(machine, {"get", "watchdogtimerstatus"}, "/dev/watchdog0   10s"))
      << machine.console();

  auto patch = R"([{"op": "remove", "path": "/machine/watchdog"}])";
  harness::Result patched;
  auto isPatched = [&] {  // not before the boot has ended
    patched = machine.at({"patch", "machineconfig", "--mode=no-reboot", "-p", patch});
    return patched.status == 0;
  };
  EXPECT_TRUE(eventually(isPatched, kUp, 1)) << patched.out << patched.err;
  EXPECT_TRUE(eventually(
      [&] {
        auto state = machine.at({"read", "/sys/class/watchdog/watchdog0/state"});
        return contains(state.out, "inactive");
      },
      kUp, 1));
  EXPECT_FALSE(contains(machine.console(), "watchdog did not stop")) << machine.console();
}

}  // namespace
}  // namespace talos::vm
