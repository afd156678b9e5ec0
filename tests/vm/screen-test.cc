// The screen of a machine with a graphics card: its text as the card has it, without a config and
// with one, while the log goes to another page.
#include <gtest/gtest.h>

#include <regex>
#include <string>

#include "tests/vm/lone-machine.h"
#include "tests/vm/qemu-control.h"

namespace talos::vm {
namespace {

using harness::contains;
using harness::eventually;
using harness::slurp;

constexpr double kUp = 480;  // emulated, beside whatever else runs

// A line of QEMU's monitor for people; its answer ends with the value of a port.
unsigned monitorLine(QemuControl& control, const std::string& line) {
  auto answer = control.command("human-monitor-command", R"({"command-line": ")" + line + R"("})");
  auto value = answer.rfind("= 0x");
  return value == std::string::npos ? 0 : std::stoul(answer.substr(value + 2), nullptr, 16);
}

// Where the page that is shown begins in the memory of a VGA card, in characters: registers 12 and
// 13 of its CRT controller. The guest may be between the two halves of an access to one.
size_t beginOfPage(QemuControl& control) {
  control.command("stop");
  auto chosen = monitorLine(control, "i /b 0x3d4");
  monitorLine(control, "o /b 0x3d4 12");
  auto high = monitorLine(control, "i /b 0x3d5");
  monitorLine(control, "o /b 0x3d4 13");
  auto low = monitorLine(control, "i /b 0x3d5");
  monitorLine(control, "o /b 0x3d4 " + std::to_string(chosen));
  control.command("cont");
  return high << 8 | low;
}

// The text on the screen of a VGA card, in rows: a byte for each character of code page 437, and
// one for its colours (IBM VGA, text mode 3).
std::string textOfCard(QemuControl& control, const LoneMachine& machine) {
  constexpr size_t kMemory = 32768, kColumns = 80, kPage = 25 * kColumns;
  auto file = machine.path("card");
  control.command("pmemsave",
                  R"({"val": 753664, "size": 32768, "filename": ")" + file + R"("})");  // 0xb8000
  auto memory = slurp(file);
  if (memory.size() != kMemory) return "";
  auto begin = beginOfPage(control);
  std::string text;
  for (size_t i = 0; i < kPage; ++i) {
    if (i > 0 && i % kColumns == 0) text += '\n';
    auto character = memory[(begin + i) * 2 % kMemory];
    text += character == 0 ? ' ' : character;
  }
  return text;
}

// Lines of the kernel's log on the screen: "[   12.345678] …".
unsigned kernelLinesIn(const std::string& page) {
  unsigned count = 0;
  for (auto& line : harness::lines(page)) count += line.starts_with("[") && contains(line, "] ");
  return count;
}

}  // namespace

// Catches: a screen that stays on the log, is drawn on an invisible page, or is written over by the
// kernel's messages; a screen that is gone after a crash of the brain; a log that lacks the lines
// written while the page was shown; a kernel that stops, and says so on an invisible terminal.
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
  EXPECT_TRUE(shows("Alt+F1 log  F3 network"));
  EXPECT_TRUE(shows("\xdb\xdb\xdb\xdb"));  // of the QR code
  ASSERT_NO_FATAL_FAILURE(machine.configure(std::regex_replace(
      machine.generate(), std::regex("\nmachine:\n"),
      "$&    sysctls: {kernel.unknown_nmi_panic: \"1\", kernel.panic: \"0\"}\n")));
  ASSERT_TRUE(shows(" stage        running"));
  EXPECT_TRUE(shows("addresses    10.0.2.15"));
  EXPECT_FALSE(contains(textOfCard(control, machine), "apply-config"));
  // A line for consoles without pages.
  EXPECT_TRUE(eventually([&] { return contains(machine.console(), " is running: "); }, kUp, 1))
      << machine.console();

  EXPECT_EQ(machine.at({"service", "machined", "kill", "--signal", "SIGKILL"}).status, 0);
  ASSERT_TRUE(eventually(
      [&] { return contains(machine.at({"get", "machinestatus"}).out, "running"); }, kUp, 1));
  // The page on the card may still be that of the previous brain.
  auto renamed = machine.at(
      {"patch", "mc", "--immediate", "-p",
       R"([{"op": "add", "path": "/machine/network/hostname", "value": "after-the-crash"}])"});
  EXPECT_EQ(renamed.status, 0) << renamed.err;
  EXPECT_TRUE(shows(" after-the-crash "));

  auto type = [&](const std::string& key) {
    control.command("send-key", R"({"keys": [{"type": "qcode", "data": "alt"}, )"
                                R"({"type": "qcode", "data": ")" +
                                    key + R"("}]})");
  };
  auto page = textOfCard(control, machine);
  EXPECT_GE(kernelLinesIn(page), 1u) << page;
  EXPECT_LE(kernelLinesIn(page), 5u) << page;
  type("f1");
  std::string log;
  EXPECT_TRUE(eventually(
      [&] {
        log = textOfCard(control, machine);
        return kernelLinesIn(log) > 6;  // long ones take two rows
      },
      60, 1))
      << log;
  EXPECT_FALSE(contains(log, " stage ")) << log;
  type("f3");
  EXPECT_TRUE(shows(" eth0         up  "));
  EXPECT_TRUE(shows("gateways     10.0.2.2 on eth0"));
  type("f4");
  EXPECT_TRUE(shows(" after-the-crash: problems "));
  type("f2");
  ASSERT_TRUE(shows(" stage        running"));

  control.command("inject-nmi");
  ASSERT_TRUE(shows("end Kernel panic - not syncing: NMI: Not continuing"));
  auto last = textOfCard(control, machine);
  EXPECT_TRUE(contains(last, " after-the-crash ")) << last;  // the page is still there
}

}  // namespace talos::vm
