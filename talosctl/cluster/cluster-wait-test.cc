#include "talosctl/cluster/cluster-wait.h"

#include <gtest/gtest.h>

namespace talos::cluster {
namespace {

constexpr const char* kOne = "ANFlhVPP3bUjdbYTO2Ea9JOTjXMQNCYDW3vAkuRkEKc=";
constexpr const char* kTwo = "BNFlhVPP3bUjdbYTO2Ea9JOTjXMQNCYDW3vAkuRkEK+=";

kj::String on(kj::StringPtr console) {
  return fingerprintOn(console).orDefault(kj::str("none"));
}

// Catches: the fingerprint of the boot before, a word that is too long or too short to be one, one
// that is cut off because it is being written.
TEST(ConsoleFingerprint, TheLastWholeOneCounts) {
  EXPECT_EQ(on(""), "none");
  EXPECT_EQ(on(kj::str("the fingerprint of its certificate is ", kOne, "\r\n")), kOne);
  EXPECT_EQ(on(kj::str("fingerprint '", kOne, "' x\nfingerprint=", kTwo, "\n")), kTwo);
  EXPECT_EQ(on(kj::str("fingerprint ", kOne, "\nfingerprint ", kj::str(kTwo).slice(0, 43))), kOne);
  EXPECT_EQ(on(kj::str("fingerprint x", kOne)), "none");
  EXPECT_EQ(on(kj::str("fingerprint\n", kOne)), "none");
}

}  // namespace
}  // namespace talos::cluster
