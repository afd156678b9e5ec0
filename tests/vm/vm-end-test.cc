// Reboot and shutdown. Linked last: tests run in the order of their files.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/vm/shared.h"

namespace talos::vm {
namespace {

using harness::contains;
using harness::eventually;
using harness::lines;

}  // namespace

TEST(End, RebootWaitsForTheNextBoot) {
  auto boot = [] { return lines(machine().ok({"read", "/proc/sys/kernel/random/boot_id"})).at(0); };
  auto first = boot();
  auto reboot = machine().talosctl({"reboot"}, harness::kBoots);
  EXPECT_EQ(reboot.status, 0) << reboot.out << reboot.err;
  EXPECT_NE(boot(), first);
  EXPECT_TRUE(allUp(harness::kBoots));
}

TEST(End, ShutdownEndsTheMachine) {
  auto shutdown = machine().talosctl({"shutdown"}, harness::kBoots);
  EXPECT_EQ(shutdown.status, 0) << shutdown.out << shutdown.err;
  EXPECT_TRUE(eventually(
      [] {
        std::ifstream in(machine().stateFolder() + "/supervisor.log");
        std::stringstream all;
        all << in.rdbuf();
        return contains(all.str(), "message=\"node ended\"");
      },
      harness::kBoots));
  auto after = machine().talosctl({"--timeout", "5s", "version"}, 30);
  EXPECT_EQ(after.status, 1);
  EXPECT_TRUE(contains(after.err, "10.5.0.2") || contains(after.err, "127.")) << after.err;
}

}  // namespace talos::vm
