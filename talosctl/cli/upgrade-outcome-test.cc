#include "talosctl/cli/upgrade-outcome.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

#include <string>

namespace talos::talosctl {
namespace {

std::string judged(kj::StringPtr stage, kj::StringPtr bootId, kj::StringPtr reason = "") {
  capnp::MallocMessageBuilder message;
  auto status = message.initRoot<rpc::UpgradeStatusSpec>();
  status.setStage(stage);
  status.setSlot("B");
  status.setVersion("v2");
  status.setImage("x/installer:v2");
  status.setReason(reason);
  auto judgement = judgeUpgrade("old", bootId, status);
  const char* verdicts[] = {"wait: ", "done: ", "failed: "};
  return verdicts[static_cast<int>(judgement.verdict)] + std::string(judgement.text.cStr());
}

}  // namespace

// Catches: an upgrade that counts as done because the previous upgrade was; an upgrade that fell
// back and counts as done, or is still waited for.
TEST(UpgradeOutcome, ItIsOverWhenAnotherBootSaysSo) {
  EXPECT_EQ(judged("done", "new"), "done: running slot B (v2), healthy and confirmed");
  EXPECT_EQ(judged("done", "old"), "wait: rebooting");
  EXPECT_EQ(judged("rebooting", "old"), "wait: rebooting");
  EXPECT_EQ(judged("rebooting", "new"), "wait: booting slot B (v2)");
  EXPECT_EQ(judged("trying", "new", "service apid is not up"),
            "wait: trying slot B (v2): service apid is not up");
  EXPECT_EQ(judged("failed", "new", "no API"), "failed: no API; back on slot B (v2)");
  EXPECT_EQ(judged("failed", "old", "damaged"), "failed: damaged; still running slot B (v2)");
  EXPECT_EQ(judged("fetching", "old"), "wait: fetching x/installer:v2");
  EXPECT_EQ(judged("staged", "old", "v3, tried at the next reboot"),
            "done: staged: v3, tried at the next reboot; running slot B (v2)");
  EXPECT_EQ(judged("withdrawn", "old", "v3 was withdrawn"), "failed: v3 was withdrawn");
  EXPECT_EQ(judged("done", "new", "confirmed by an operator"),
            "done: running slot B (v2), confirmed by an operator");
}

}  // namespace talos::talosctl
