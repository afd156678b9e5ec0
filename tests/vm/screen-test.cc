// The screen of a machine with a graphics card: its text as the card has it, without a config and
// with one, while the log goes to another page.
#include <gtest/gtest.h>

#include <string>

#include "tests/vm/lone-machine.h"
#include "tests/vm/qemu-control.h"

namespace talos::vm {
namespace {

using harness::contains;
using harness::eventually;
using harness::slurp;

constexpr double kUp = 480;  // emulated, beside whatever else runs

// The text of a VGA card: a byte for each character of code page 437, and one for its colours, in
// rows of 80 (IBM VGA, text mode 3). The page that is shown may begin anywhere in the memory.
std::string textOfCard(QemuControl& control, const LoneMachine& machine) {
  auto file = machine.path("card");
  control.command("pmemsave",
                  R"({"val": 753664, "size": 32768, "filename": ")" + file + R"("})");  // 0xb8000
  auto memory = slurp(file);
  std::string text;
  for (size_t at = 0; at + 1 < memory.size(); at += 2) text += memory[at] == 0 ? ' ' : memory[at];
  return text;
}

}  // namespace

// Catches: a screen that stays on the log, is drawn on a page that nobody sees, or is written over
// by the kernel's messages; one that is gone after a crash of the brain.
TEST(MachineScreen, IsThatOfTheMachine) {
  std::string monitor;
  LoneMachine::Hardware hardware{.disk = LoneMachine::writtenDisk("../image"),
                                 .more = {"-device", "VGA"}};
  hardware.beforeItStarts = [&](LoneMachine& self, LoneMachine::Hardware& started) {
    monitor = self.path("monitor");
    started.more.insert(started.more.end(), {"-qmp", "unix:" + monitor + ",server=on,wait=off"});
  };
  LoneMachine machine(hardware);
  ASSERT_TRUE(eventually([&] { return access(monitor.c_str(), F_OK) == 0; }, 30));
  QemuControl control(monitor);
  auto shows = [&](const std::string& text) {
    std::string seen;
    bool is = eventually(
        [&] {
          seen = textOfCard(control, machine);
          return contains(seen, text);
        },
        kUp, 1);
    EXPECT_TRUE(is) << text << " is not on\n" << seen << machine.console();
    return is;
  };
  ASSERT_TRUE(shows("talosctl apply-config --insecure --nodes 10.0.2.15"));
  EXPECT_TRUE(shows("Alt+F1 log of the machine"));
  EXPECT_TRUE(shows("\xdb\xdb\xdb\xdb"));  // of the QR code
  ASSERT_NO_FATAL_FAILURE(machine.configure(machine.generate()));
  ASSERT_TRUE(shows(" stage        running"));
  EXPECT_TRUE(shows("addresses    10.0.2.15"));
  EXPECT_FALSE(contains(textOfCard(control, machine), "apply-config"));
  // A line for consoles without pages.
  EXPECT_TRUE(eventually([&] { return contains(machine.console(), " is running: "); }, kUp, 1))
      << machine.console();

  EXPECT_EQ(machine.at({"service", "machined", "kill", "--signal", "SIGKILL"}).status, 0);
  ASSERT_TRUE(eventually(
      [&] { return contains(machine.at({"get", "machinestatus"}).out, "running"); }, kUp, 1));
  // The page on the card may still be the one of the brain before.
  auto renamed = machine.at(
      {"patch", "mc", "--immediate", "-p",
       R"([{"op": "add", "path": "/machine/network/hostname", "value": "after-the-crash"}])"});
  EXPECT_EQ(renamed.status, 0) << renamed.err;
  EXPECT_TRUE(shows(" after-the-crash "));
}

}  // namespace talos::vm
