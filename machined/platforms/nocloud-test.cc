#include "machined/platforms/nocloud.h"

#include <gtest/gtest.h>

namespace talos::platforms {
namespace {

std::string seedOf(kj::StringPtr serial) {
  auto seed = nocloudSeed(serial);
  return kj::str(seed.server, "|", seed.hostname, "|", seed.instanceId).cStr();
}

// Catches: '=' in a value, serial numbers of other machines, a server of another scheme dropped.
TEST(Nocloud, SerialNumbers) {
  EXPECT_EQ(seedOf("ds=nocloud-net;s=http://x/a;h=n1"), "http://x/a/|n1|");
  EXPECT_EQ(seedOf("ds=nocloud;s=http://x/?a=b/"), "http://x/?a=b/||");
  EXPECT_EQ(seedOf("ds=nocloud;local-hostname=n1;instance-id=i-1"), "|n1|i-1");
  EXPECT_EQ(seedOf("ds=nocloud;s=ftp://x/"), "ftp://x/||");
  EXPECT_EQ(seedOf("ds=nocloud;s="), "||");
  EXPECT_EQ(seedOf("s=http://x/"), "||");
  EXPECT_EQ(seedOf("ds=other;s=http://x/"), "||");
  EXPECT_EQ(seedOf("SN0001"), "||");
  EXPECT_EQ(seedOf(""), "||");
}

// Catches: a server that no machine can use, taken for a missing one, or used nevertheless.
TEST(Nocloud, ServerProblem) {
  struct Row {
    kj::StringPtr serial, problem;
  };
  for (auto& row : std::initializer_list<Row>{
           {"ds=nocloud;s=http://x/", ""},
           {"ds=nocloud;s=https://x", ""},
           {"ds=nocloud;h=n1", ""},
           {"ds=nocloud;s=ftp://x/",
            "serial number: \"ftp://x/\" is not a server; use http:// or https://"},
           {"ds=nocloud;s=/seed",
            "serial number: \"/seed\" is not a server; use http:// or https://"}}) {
    auto problem = serverProblem(nocloudSeed(row.serial));
    EXPECT_EQ(problem.orDefault(kj::str()), row.problem) << row.serial.cStr();
  }
}

}  // namespace
}  // namespace talos::platforms
