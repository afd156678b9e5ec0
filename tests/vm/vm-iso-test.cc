// A machine that has only our CD: it waits for a config, installs itself with it, and starts from
// its disk then, though the CD is still in its drive.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "tests/vm/lone-machine.h"

namespace talos::vm {
namespace {

using harness::contains;
using harness::eventually;
namespace fs = std::filesystem;

constexpr double kUp = 480;  // emulated, beside whatever else runs

bool waits(const LoneMachine& machine) {
  return eventually([&] { return contains(machine.unproven({"disks"}).out, "vda"); }, kUp, 1);
}

// Catches: a CD that UEFI does not start, or that starts something that does not wait for a config;
// an entry for the installed system that the firmware does not start, or starts after others.
TEST(Iso, UefiStartsItAndThenWhatItInstalled) {
  auto iso = LoneMachine::image("talos.iso");
  ASSERT_TRUE(fs::exists(iso)) << "make iso first";
  LoneMachine machine({.uefi = true, .cd = iso});
  EXPECT_TRUE(waits(machine)) << machine.console();
  EXPECT_TRUE(contains(machine.console(), "talosctl apply-config --insecure"));
  ASSERT_NO_FATAL_FAILURE(machine.configure(machine.generate()));
  auto cmdline = [&] { return machine.at({"read", "/proc/cmdline"}); };
  ASSERT_TRUE(eventually([&] { return contains(cmdline().out, "talos.slot=A"); }, kUp, 1))
      << machine.console();
  EXPECT_TRUE(contains(machine.console(), "by its boot entry Talos")) << machine.console();
  EXPECT_TRUE(std::regex_search(machine.console(),
                                std::regex("BdsDxe: starting Boot[0-9A-F]+ \"Talos\" from HD")))
      << machine.console();
}

// Catches: a system from a CD that cannot install itself, or that starts from the CD forever.
TEST(Iso, ABiosStartsItAndItInstallsItself) {
  auto iso = LoneMachine::image("talos.iso");
  ASSERT_TRUE(fs::exists(iso)) << "make iso first";
  LoneMachine machine({.cd = iso});
  ASSERT_TRUE(waits(machine)) << machine.console();
  // Leaves out the console of a screen, which the test does not read.
  auto text = std::regex_replace(machine.generate(), std::regex("( *)disk: /dev/vda.*\n"),
                                 "$&$1extraKernelArgs: [console=ttyS0]\n");
  ASSERT_TRUE(contains(text, "extraKernelArgs: [console=ttyS0]")) << text;
  auto config = machine.path("config.yaml");
  std::ofstream(config) << text;
  auto applied = machine.unproven({"apply-config", "--file", config});
  ASSERT_EQ(applied.status, 0) << applied.out << applied.err << machine.console();
  auto cmdline = [&] { return machine.at({"read", "/proc/cmdline"}); };
  EXPECT_TRUE(eventually([&] { return contains(cmdline().out, "talos.slot=A"); }, kUp, 1))
      << cmdline().out << cmdline().err << machine.console();
}

}  // namespace
}  // namespace talos::vm
